"""A GPU pool as a ComputeClass, for which GKE creates and deletes node pools itself."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from ..cluster import Cluster, ResolvedPool
from .classes import class_spec
from .pool_args import GkeGpuNodePoolArgs


class GkeComputeClass(pulumi.ComponentResource):
    """A compute class with the pool's name. GKE calls its node pools `nap-...`."""

    compute_class: kubernetes.apiextensions.CustomResource

    def __init__(
        self,
        name: str,
        resolved: ResolvedPool[GkeGpuNodePoolArgs],
        *,
        cluster: Cluster,
        service_account: pulumi.Input[str],
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:gke:ComputeClass", name, None, opts)
        self.compute_class = kubernetes.apiextensions.CustomResource(
            name,
            api_version="cloud.google.com/v1",
            kind="ComputeClass",
            metadata={"name": name},
            spec=class_spec(resolved, resolved.args.service_account or service_account),
            opts=cluster.options(self, depends_on=depends_on),
        )
        self.register_outputs({})
