"""The settings of an environment on an existing EKS cluster."""

from ..eks.existing_args import EksExistingClusterArgs
from ..eks.pool_args import EksGpuNodeGroupArgs
from ..eks.settings import account, resolve

CLUSTER, POOL = EksExistingClusterArgs, EksGpuNodeGroupArgs
__all__ = ["CLUSTER", "POOL", "account", "resolve"]
