"""Queues and work on several nodes: Kueue, JobSet, and the training jobs that use them."""
