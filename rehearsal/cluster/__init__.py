"""The rehearsal's Kubernetes cluster: a real control plane, its nodes and who starts them."""
