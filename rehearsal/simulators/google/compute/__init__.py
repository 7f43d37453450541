"""Compute Engine, as far as somebody of a cluster asks for it."""
