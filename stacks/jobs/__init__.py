"""Training jobs that are submitted to a stack's cluster by those who use it."""
