"""The rehearsal's real Kubernetes control plane, and plain access to it."""
