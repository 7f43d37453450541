"""Rows of resource types: how a type is created, read, changed and deleted over its cloud's API."""
