"""Queries to a live cluster about its GPUs."""
