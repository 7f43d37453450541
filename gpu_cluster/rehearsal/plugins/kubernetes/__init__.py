"""The offline plugin that replaces the official Kubernetes provider, with a real API server."""

from gpu_cluster.rehearsal.plugins.kubernetes.server import KubernetesProviderServer

__all__ = ["KubernetesProviderServer"]
