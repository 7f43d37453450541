"""GPU pools on an existing EKS cluster."""
