"""A GPU node pool on GKE Standard that the cluster's autoscaler scales up from zero."""

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_gcp as gcp
from pulumi_gcp.container import (
    NodePoolAutoscalingArgsDict,
    NodePoolNetworkConfigArgsDict,
    NodePoolNodeConfigArgsDict,
    NodePoolNodeConfigGuestAcceleratorArgsDict,
    NodePoolNodeConfigReservationAffinityArgsDict,
)

from ..catalog import kubernetes as names
from ..cluster import GpuPool, ResolvedPool
from .node_args import GkeUpgradeArgs
from .node_identity import node_config, patience, recycling_check
from .pool_args import GkeGpuNodePoolArgs

_SHARING_STRATEGIES = {"time-slicing": "TIME_SHARING", "mps": "MPS"}
_IN_TURN = GkeUpgradeArgs()
_IMAGES = {"cos": "COS_CONTAINERD", "ubuntu": "UBUNTU_CONTAINERD"}


class GkeGpuNodePool(pulumi.ComponentResource):
    """A GPU node pool. Its physical name is auto-named, so that it can be replaced."""

    node_pool: gcp.container.NodePool
    pool: GpuPool

    def __init__(
        self,
        name: str,
        resolved: ResolvedPool[GkeGpuNodePoolArgs],
        *,
        cluster: pulumi.Input[str],
        service_account: pulumi.Input[str],
        network: NodePoolNetworkConfigArgsDict | None,
        depends_on: Sequence[pulumi.Resource],
        deleted_with: pulumi.Resource | None = None,
        machine_labels: Mapping[str, str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`cluster`: its full name, `projects/...`. `deleted_with`: the cluster, if the stack
        creates it. `machine_labels`: the labels of the virtual machines, if it does not.
        `network`: the networks of the nodes besides the cluster's, for gpuDirect."""
        super().__init__("gpu-cluster:gke:GpuNodePool", name, None, opts)
        args, self.pool, zones = resolved.args, resolved.pool, resolved.places
        upgrade = args.upgrade or _IN_TURN
        self.node_pool = gcp.container.NodePool(
            name,
            cluster=cluster,
            node_locations=list(zones),
            # Per zone; afterwards, the autoscaler controls the number.
            initial_node_count=args.initial_nodes_per_zone(len(zones)),
            autoscaling=_autoscaling(args),
            ignore_node_count_changes=True,
            # GKE neither repairs nor upgrades flex-start nodes: they end automatically.
            management={"auto_repair": args.capacity_type != "flex-start", "auto_upgrade": True},
            # An upgrade needs no spare GPU: a node is deleted before its successor is created. On
            # flex-start, GKE sets its own strategy, and any other shows as a difference in every
            # update: https://github.com/crossplane-contrib/provider-upjet-gcp/pull/1029
            upgrade_settings=None if args.capacity_type == "flex-start" else upgrade.declared,
            placement_policy={"type": "COMPACT"} if args.compact_placement else None,
            network_config=network,
            queued_provisioning={"enabled": True} if args.queued else None,
            node_config={
                **_gpu_node_config(args, self.pool, service_account),
                "resource_labels": machine_labels,
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(depends_on),
                deleted_with=deleted_with,
                delete_before_replace=args.delete_before_replace,
                ignore_changes=_owned_by_gke(args),
                custom_timeouts=patience(most := self.pool.bounds[1], upgrade.soak(most)),
                hooks=recycling_check(name, f"gpuPools.{name}", self.pool.bounds),
            ),
        )
        self.register_outputs({})


def _autoscaling(args: GkeGpuNodePoolArgs) -> NodePoolAutoscalingArgsDict:
    # GPUs are scarce: by default, any zone that has one is used.
    policy = args.location_policy.upper()
    if args.limits_per == "zone":
        return {
            "min_node_count": args.min_nodes,
            "max_node_count": args.max_nodes,
            "location_policy": policy,
        }
    return {
        "total_min_node_count": args.min_nodes,
        "total_max_node_count": args.max_nodes,
        "location_policy": policy,
    }


def _owned_by_gke(args: GkeGpuNodePoolArgs) -> list[str]:
    """Fields that GKE sets or changes itself, which would plan a replacement of the pool."""
    owned = ["initialNodeCount"]
    if args.machine.local_ssd_gib and args.pool_ssd_count is None:
        # A2 ultra, A3 and later include local SSDs, which GKE reports as the disk of pods:
        # https://github.com/mozilla/terraform-modules/pull/464
        owned.append("nodeConfig.ephemeralStorageLocalSsdConfig")
    if args.gpu_direct == "rdma":
        owned.append(f'nodeConfig.labels["{names.GKE_NETWORK_PROFILE}"]')
    return owned


def _gpu_node_config(
    args: GkeGpuNodePoolArgs, pool: GpuPool, service_account: pulumi.Input[str]
) -> NodePoolNodeConfigArgsDict:
    duration = args.pool_run_duration_seconds
    return {
        **node_config(
            args.service_account or service_account, secure_boot=args.effective_secure_boot
        ),
        "kubelet_config": args.kubelet.declared if args.kubelet else None,
        "linux_node_config": args.linux.declared if args.linux else None,
        "tags": list(args.network_tags) or None,
        "machine_type": args.machine_type,
        "disk_size_gb": args.disk_size_gb,
        "disk_type": args.boot_disk,
        "ephemeral_storage_local_ssd_config": {
            "local_ssd_count": args.pod_ssds,
            "data_cache_count": args.data_cache_count,
        }
        if args.local_storage == "ephemeral" or args.data_cache_count
        else None,
        "local_nvme_ssd_block_config": {"local_ssd_count": args.ssds}
        if args.local_storage == "block"
        else None,
        "image_type": _IMAGES[args.os_image],
        "labels": dict(pool.labels),
        # Declared although GKE adds the GPU taint itself: it does not if all pools are GPU pools,
        # and an undeclared taint shows as a difference.
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.cloud_effect}
            for taint in pool.taints
        ],
        "guest_accelerators": [_accelerator(args, pool)],
        # Explicit, because if it is omitted, the provider keeps the pool's value, which may be on.
        "gcfs_config": {"enabled": args.image_streaming}
        if args.image_streaming is not None
        else None,
        "secondary_boot_disks": [
            {"disk_image": args.secondary_boot_disk, "mode": "CONTAINER_IMAGE_CACHE"}
        ]
        if args.secondary_boot_disk
        else None,
        "gvnic": {"enabled": True} if args.machine.accelerator is not None else None,
        "spot": args.capacity_type == "spot",
        "flex_start": True if args.capacity_type == "flex-start" else None,
        "max_run_duration": f"{duration}s" if duration is not None else None,
        "reservation_affinity": _reservation(args),
    }


def _accelerator(
    args: GkeGpuNodePoolArgs, pool: GpuPool
) -> NodePoolNodeConfigGuestAcceleratorArgsDict:
    # Always explicit: if it is omitted, newer GKE versions install a driver and report it as a
    # difference.
    managed = args.driver == "managed"
    version = args.driver_version.upper() if managed else "INSTALLATION_DISABLED"
    sharing = pool.sharing
    return {
        "type": pool.accelerator,
        "count": pool.gpus_per_node,
        "gpu_driver_installation_config": {"gpu_driver_version": version},
        "gpu_partition_size": sharing.partition if sharing else None,
        "gpu_sharing_config": {
            "gpu_sharing_strategy": _SHARING_STRATEGIES[sharing.strategy],
            "max_shared_clients_per_gpu": sharing.replicas,
        }
        if sharing and sharing.strategy in _SHARING_STRATEGIES
        else None,
    }


def _reservation(args: GkeGpuNodePoolArgs) -> NodePoolNodeConfigReservationAffinityArgsDict | None:
    if args.reservation is not None:
        return {
            "consume_reservation_type": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [args.reservation],
        }
    if args.any_reservation:
        return {"consume_reservation_type": "ANY_RESERVATION"}
    if args.capacity_type in ("spot", "flex-start"):
        return {"consume_reservation_type": "NO_RESERVATION"}
    return None
