"""The stand-in for the official Pulumi Kubernetes provider, against a real API server."""

from rehearsal.kubernetes.plugin import official_plugin
from rehearsal.kubernetes.server import KubernetesProviderServer

__all__ = ["KubernetesProviderServer", "official_plugin"]
