"""Writes the pages of docs/ that follow from code: reference, and sections with results."""
