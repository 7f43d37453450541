"""The acceptance test compared with a program tuned for the GPU, on one machine in one run."""
