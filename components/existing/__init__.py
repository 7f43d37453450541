"""A cluster that is already there."""
