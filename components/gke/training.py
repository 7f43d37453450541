"""What a training job on GKE should know of its pool before it runs for days."""

from collections.abc import Mapping

from components.catalog import gke as catalog
from components.cluster import nvlink_warnings
from components.gke.cluster_args import GkeControlPlaneArgs

_FABRIC = ("a3", "a4", "a4x", "a4x-max")
"""Families whose nodes have a network between their GPUs, which takes more than one interface:
GPUDirect-TCPX(O) or RDMA (cluster-toolkit 1.95.0, gpu_direct.tf; read on 2026-11-21)."""


def training_warnings(
    cluster: GkeControlPlaneArgs,
    nodes: Mapping[str, tuple[catalog.Accelerator, int]],
    workers: Mapping[str, int],
) -> list[str]:
    """A line for each pool that training jobs name and whose nodes GKE may upgrade at any time, for
    each whose nodes would talk over one interface only, and for each of an NVLink domain.

    `nodes`: pool -> the GPUs of one node; `workers`: pool -> nodes of its largest training job.
    """
    found = nvlink_warnings({name: gpu_model.model for name, (gpu_model, _) in nodes.items()})
    for name, count in workers.items():
        if cluster.maintenance is None:
            found.append(
                f"gpuPools.{name}: trainingJobs run there, and GKE may upgrade its nodes at any "
                "time, which starts them again; set cluster.maintenance, with an exclusion for a "
                "long run"
            )
        gpu_model, gpus = nodes[name]
        # The smaller machines of these families have one interface.
        if count > 1 and gpu_model.machine_family in _FABRIC and gpus == max(gpu_model.counts):
            found.append(
                f"gpuPools.{name}: a training job takes {count} nodes of {gpus} {gpu_model.name}, "
                "which talk over one gVNIC, a fraction of the machine's network: this stack sets "
                "up neither GPUDirect nor RDMA; take one node, or machines without that network"
            )
    return found
