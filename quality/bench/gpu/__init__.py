"""The acceptance test beside a program written for the GPU, on one machine in one run."""
