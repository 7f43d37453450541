"""A GPU pool as a ComputeClass, for which GKE creates and deletes node pools itself."""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from ..cluster import Cluster
from ..lifecycle import recycling
from ..scalers import SCALERS


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
        scaler = SCALERS["compute-classes"]
        super().__init__(scaler.declared_by, name, None, opts)
        self.compute_class = kubernetes.apiextensions.CustomResource(
            name,
            api_version="cloud.google.com/v1",
            kind="ComputeClass",
            metadata={"name": name},
            spec=spec,
            opts=pulumi.ResourceOptions.merge(
                cluster.options(self, depends_on=depends_on),
                pulumi.ResourceOptions(
                    hooks=recycling.warning_hook(
                        name, f"gpuPools.{name}", scaler, scaler.pools[0], (0, 0)
                    )
                ),
            ),
        )
        self.register_outputs({})
