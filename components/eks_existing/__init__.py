"""GPU pools on an EKS cluster that somebody else created."""
