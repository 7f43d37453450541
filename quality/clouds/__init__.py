"""Writes `clouds/generated` from data that others maintain."""
