"""GPU pools on an existing GKE cluster."""
