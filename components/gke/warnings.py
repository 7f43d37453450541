"""The warnings of every preview of a stack on GKE, each with its key's path. No SDK."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ..access.service_accounts import ServiceAccountArgs
from ..catalog import gke as catalog
from ..catalog.gke_volumes import DEFAULT_CLASS, IMMEDIATE_CLASS
from ..cluster import Runs, nvlink_warnings
from .cluster_args import GkeControlPlaneArgs
from .existing_args import GkeExistingClusterArgs

SAMPLE_PROJECT = "my-project"
"""The placeholder for the project in the sample environments."""

_FABRIC = ("a3", "a4", "a4x", "a4x-max")
"""Families whose nodes connect their GPUs through a network that needs more than one interface:
GPUDirect-TCPX(O) or RDMA (cluster-toolkit 1.95.0, gpu_direct.tf; read on 2026-11-21)."""


def warnings(
    args: GkeControlPlaneArgs | GkeExistingClusterArgs,
    project: str,
    nodes: Mapping[str, tuple[catalog.Accelerator, int]],
    runs: Runs,
    kept: Collection[str] = (),
    places: Mapping[str, Sequence[str]] | None = None,
    connected: Collection[str] = (),
) -> list[str]:
    """Warnings about a cluster, its project and what runs there; see `training_warnings` and
    `disk_zones`."""
    return [
        *control_plane_warnings(args, project),
        *training_warnings(args, nodes, runs.training_nodes, kept, connected),
        *shared_rights(runs.accounts, project),
        *disk_zones(args, places or {}, runs.storage_classes),
    ]


def disk_zones(
    cluster: GkeControlPlaneArgs | GkeExistingClusterArgs,
    places: Mapping[str, Sequence[str]],
    storage_classes: Collection[str],
) -> Iterator[str]:
    """A warning about claims whose disk is created before a pod of theirs is placed: kubernetes/
    kubernetes issue 91299. `places`: GPU pool -> zones of its nodes."""
    far = [name for name, zones in places.items() if list(zones) != [cluster.location]]
    if IMMEDIATE_CLASS in storage_classes and (far or not places):
        where = f"pools {', '.join(far)} may have" if far else "Autopilot may start"
        yield (
            f"volumeClaims: storageClass {IMMEDIATE_CLASS} creates a disk at once, in any zone "
            f"that has nodes, and {where} nodes in other zones, where no pod can mount it; use "
            f"{DEFAULT_CLASS}, whose disk waits for the pod"
        )


def control_plane_warnings(
    args: GkeControlPlaneArgs | GkeExistingClusterArgs, project: str
) -> list[str]:
    """Warnings about the control plane's settings and the project."""
    warnings = args.warnings() if isinstance(args, GkeControlPlaneArgs) else []
    lines = [f"cluster.{line}" for line in warnings]
    if project == SAMPLE_PROJECT:
        lines.append(
            f"gcp:project: {project} is the sample's placeholder, and Google Cloud will refuse the "
            "first resource; give the ID of your own project (gcloud projects list)"
        )
    return lines


def training_warnings(
    cluster: GkeControlPlaneArgs | GkeExistingClusterArgs,
    nodes: Mapping[str, tuple[catalog.Accelerator, int]],
    workers: Mapping[str, int],
    kept: Collection[str] = (),
    connected: Collection[str] = (),
) -> list[str]:
    """A warning for each pool that training jobs name and whose nodes GKE may upgrade at any time,
    or communicate over one interface only, and for each of an NVLink domain.

    `nodes`: pool -> the GPUs of one node; `workers`: pool -> number of nodes of its largest
    training job. `kept`: pools whose nodes GKE never upgrades; `connected`: those with gpuDirect.
    """
    lines = nvlink_warnings({name: gpu_model.model for name, (gpu_model, _) in nodes.items()})
    for name, count in workers.items():
        at_any_time = isinstance(cluster, GkeControlPlaneArgs) and cluster.maintenance is None
        if at_any_time and name not in kept:
            lines.append(
                f"gpuPools.{name}: trainingJobs run there, and GKE may upgrade its nodes at any "
                "time, which restarts the jobs; set cluster.maintenance, with an exclusion for a "
                "long run"
            )
        gpu_model, gpus = nodes[name]
        # The smaller machines of these families have one interface.
        single = name not in connected and gpus == max(gpu_model.counts)
        if count > 1 and gpu_model.machine_family in _FABRIC and single:
            rows = catalog.MACHINE_TYPES.values()
            able = {row.gpu_direct for row in rows if row.accelerator == gpu_model.name} - {None}
            connectable = " or ".join(catalog.GPU_DIRECT)
            lines.append(
                f"gpuPools.{name}: a training job uses {count} nodes of {gpus} {gpu_model.name}, "
                "which talk over one gVNIC, a fraction of the machine's bandwidth; "
                + (
                    f"set gpuDirect: {able.pop()}"
                    if able
                    else f"use one node, or {connectable} with gpuDirect"
                )
            )
    return lines


def shared_rights(accounts: Mapping[str, ServiceAccountArgs], project: str) -> list[str]:
    """A warning for each account with permissions that pods of other clusters likely have too.

    https://cloud.google.com/kubernetes-engine/docs/concepts/workload-identity, "identity sameness".
    """
    return [
        f"serviceAccounts.{name}.namespace: default/{name} is one identity in every cluster of "
        f"project {project}, so pods in namespace default of any of these clusters have its "
        "permissions; give the account a namespace that no other cluster of the project has"
        for name, account in accounts.items()
        if account.namespace == "default"
        and (account.buckets or account.roles)
        and not account.this_cluster_only
    ] + [
        # A public report of 2026-09-01 has a condition on the same attribute that never held.
        f"serviceAccounts.{name}.thisClusterOnly: it is not known whether Google Cloud ever takes "
        "this condition for true, and pods are denied access if it does not (error 403); check "
        "that a pod can read its bucket before you rely on it"
        for name, account in accounts.items()
        if account.this_cluster_only
    ]
