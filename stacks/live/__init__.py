"""What a live cluster answers about its GPUs."""
