"""The GPU acceptance test, measured beside a CUDA program on the same GPU."""
