"""The autoscaling profile of a GKE Standard cluster, and what node auto-provisioning may create."""

from collections.abc import Mapping

import pulumi
from pulumi_gcp.container import ClusterClusterAutoscalingArgsDict

from ..cluster import ResolvedPool
from ..scalers import SCALERS
from .class_spec import resource_limits
from .cluster_args import GkeClusterArgs
from .node_identity import NODE_SCOPES
from .pool_args import GkeGpuNodePoolArgs


def cluster_autoscaling(
    args: GkeClusterArgs,
    pools: Mapping[str, ResolvedPool[GkeGpuNodePoolArgs]],
    service_account: pulumi.Input[str],
) -> ClusterClusterAutoscalingArgsDict:
    """How the cluster's autoscaler removes nodes, and what it may create.

    From GKE 1.33.3-gke.1136000 on, a compute class creates node pools without node
    auto-provisioning. It is on nevertheless, because nothing else limits the number of their GPUs.
    """
    profile = args.autoscaling_profile.upper().replace("-", "_")
    if not SCALERS[args.scaler].in_cluster:
        # Explicit, because if it is omitted, the provider keeps the cluster's value, which may be
        # on.
        return {"enabled": False, "autoscaling_profile": profile}
    return {
        "enabled": True,
        "autoscaling_profile": profile,
        "resource_limits": [
            {"resource_type": resource, "maximum": most}
            for resource, most in sorted(resource_limits(args, pools).items())
        ],
        "auto_provisioning_locations": sorted(
            {zone for pool in pools.values() for zone in pool.places}
        ),
        "auto_provisioning_defaults": {
            "service_account": service_account,
            "oauth_scopes": NODE_SCOPES,
            "image_type": "COS_CONTAINERD",
            "shielded_instance_config": {
                "enable_integrity_monitoring": True,
                "enable_secure_boot": True,
            },
            "management": {"auto_repair": True, "auto_upgrade": True},
            # An upgrade needs no spare GPU: a node is deleted before its successor is created.
            "upgrade_settings": {"strategy": "SURGE", "max_surge": 0, "max_unavailable": 1},
        },
    }
