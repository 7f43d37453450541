"""The offline plugin in place of the official Pulumi Kubernetes provider, against a real API
server."""

from rehearsal.plugins.kubernetes.server import KubernetesProviderServer

__all__ = ["KubernetesProviderServer"]
