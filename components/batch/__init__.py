"""Queues and multi-node jobs: Kueue, JobSet, and the training jobs that use them."""
