"""A rehearsal on this machine with its own GPUs: steps, samples, and a training job."""
