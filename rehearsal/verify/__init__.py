"""Checks of a rehearsed cluster, and explanations of what is wrong."""
