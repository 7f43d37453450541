"""Writes `gpu_cluster/clouds/generated` from data that others maintain."""
