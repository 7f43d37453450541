"""Declares GPU pools on an existing GKE cluster from their settings."""

from ..gke.platform import declare

__all__ = ["declare"]
