"""Writes the reference that commands print into the README and docs/."""
