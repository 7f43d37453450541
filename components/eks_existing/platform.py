"""Declares GPU pools on an existing EKS cluster from their settings."""

from ..eks.platform import declare

__all__ = ["declare"]
