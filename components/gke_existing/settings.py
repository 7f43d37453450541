"""The settings of an environment on a GKE cluster that somebody else created."""

from ..gke.existing_args import GkeExistingClusterArgs
from ..gke.pool_args import GkeGpuNodePoolArgs
from ..gke.settings import resolve

CLUSTER, POOL = GkeExistingClusterArgs, GkeGpuNodePoolArgs
__all__ = ["CLUSTER", "POOL", "resolve"]
