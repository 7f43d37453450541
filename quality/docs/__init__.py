"""Writes the pages of docs/ that are generated from code: reference, and sections with results."""
