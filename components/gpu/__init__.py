"""What runs on GPU nodes, the same on every platform: driver, device plugin, workloads."""
