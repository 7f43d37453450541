"""What a stack declares: its cluster, its GPU layer, its workloads."""
