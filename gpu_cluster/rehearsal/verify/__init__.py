"""Checks of a rehearsed cluster, and explanations of failures."""
