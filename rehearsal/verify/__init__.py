"""What must be so in a rehearsed cluster, and why it is not."""
