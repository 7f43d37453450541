"""Writes `clouds/generated` from what others maintain."""
