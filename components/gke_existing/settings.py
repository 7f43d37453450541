"""The settings of an environment on an existing GKE cluster."""

from ..gke.existing_args import GkeExistingClusterArgs
from ..gke.pool_args import GkeGpuNodePoolArgs
from ..gke.settings import resolve

CLUSTER, POOL = GkeExistingClusterArgs, GkeGpuNodePoolArgs
__all__ = ["CLUSTER", "POOL", "resolve"]
