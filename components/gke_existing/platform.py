"""GPU pools on a GKE cluster that somebody else created, from settings to the waist."""

from ..gke.platform import declare

__all__ = ["declare"]
