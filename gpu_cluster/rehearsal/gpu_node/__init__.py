"""A real node with this machine's GPUs, in addition to those that KWOK simulates."""
