"""A GPU pool as a ComputeClass, for which GKE creates and deletes node pools itself."""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from ..cluster import Cluster


class GkeComputeClass(pulumi.ComponentResource):
    """A compute class with the pool's name. GKE calls its node pools `nap-...`."""

    compute_class: kubernetes.apiextensions.CustomResource

    def __init__(
        self,
        name: str,
        spec: Any,
        *,
        cluster: Cluster,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`spec`: that of the ComputeClass."""
        super().__init__("gpu-cluster:gke:ComputeClass", name, None, opts)
        self.compute_class = kubernetes.apiextensions.CustomResource(
            name,
            api_version="cloud.google.com/v1",
            kind="ComputeClass",
            metadata={"name": name},
            spec=spec,
            opts=cluster.options(self, depends_on=depends_on),
        )
        self.register_outputs({})
