"""A node pool without GPUs on GKE Standard that the cluster's autoscaler scales up from zero."""

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_gcp as gcp

from ..cluster import POOL_LABEL
from .cpu_pool_args import GkeCpuPoolArgs
from .node_identity import node_config, patience, recycling_check


class GkeCpuPool(pulumi.ComponentResource):
    """A node pool of CPU nodes. Its physical name is auto-named, so that it can be replaced."""

    node_pool: gcp.container.NodePool

    def __init__(
        self,
        name: str,
        args: GkeCpuPoolArgs,
        *,
        zones: int,
        cluster: pulumi.Input[str],
        service_account: pulumi.Input[str],
        depends_on: Sequence[pulumi.Resource],
        deleted_with: pulumi.Resource | None = None,
        machine_labels: Mapping[str, str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`zones`: the number of zones of the cluster's nodes, if the pool names none; the other
        arguments are those of a GPU pool."""
        super().__init__("gpu-cluster:gke:CpuPool", name, None, opts)
        self.node_pool = gcp.container.NodePool(
            name,
            cluster=cluster,
            node_locations=list(args.zones) or None,
            # Per zone; afterwards, the autoscaler controls the number.
            initial_node_count=-(-args.min_nodes // (len(args.zones) or zones)),
            autoscaling={
                "total_min_node_count": args.min_nodes,
                "total_max_node_count": args.max_nodes,
                "location_policy": "BALANCED",
            },
            ignore_node_count_changes=True,
            management={"auto_repair": True, "auto_upgrade": True},
            upgrade_settings={"max_surge": 1, "max_unavailable": 0},
            node_config={
                **node_config(service_account, secure_boot=True),
                "machine_type": args.machine_type,
                "disk_size_gb": args.disk_size_gb,
                "disk_type": args.boot_disk,
                "image_type": "COS_CONTAINERD",
                "labels": {POOL_LABEL: name, **args.labels},
                "taints": [
                    {"key": taint.key, "value": taint.value, "effect": taint.cloud_effect}
                    for taint in args.taints
                ],
                "spot": args.spot,
                "resource_labels": machine_labels,
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(depends_on),
                deleted_with=deleted_with,
                # The autoscaler controls the number of nodes.
                ignore_changes=["initialNodeCount"],
                custom_timeouts=patience(args.max_nodes),
                hooks=recycling_check(
                    name, f"cluster.cpuPools.{name}", (args.min_nodes, args.max_nodes)
                ),
            ),
        )
        self.register_outputs({})
