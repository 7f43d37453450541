"""GPU pools on an EKS cluster that somebody else created, from settings to the waist."""

from ..eks.platform import declare

__all__ = ["declare"]
