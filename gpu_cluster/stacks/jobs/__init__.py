"""Training jobs that users of a stack's cluster submit."""
