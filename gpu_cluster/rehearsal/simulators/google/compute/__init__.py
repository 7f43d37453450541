"""Compute Engine, as far as GKE clusters need it."""
