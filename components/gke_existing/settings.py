"""The settings of an environment on an existing GKE cluster."""

from ..gke.existing_args import GkeExistingClusterArgs
from ..gke.pool_args import GkeGpuNodePoolArgs
from ..gke.settings import account, resolve

CLUSTER, POOL = GkeExistingClusterArgs, GkeGpuNodePoolArgs
__all__ = ["CLUSTER", "POOL", "account", "resolve"]
