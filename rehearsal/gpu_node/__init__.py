"""A node that is real, with this machine's GPUs, beside those that KWOK simulates."""
