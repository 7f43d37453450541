"""GPU pools on a GKE cluster that somebody else created."""
