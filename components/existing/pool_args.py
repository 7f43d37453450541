"""The settings of the GPU nodes of an existing cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Interval, MinLen

from ..catalog import kubernetes as names
from ..cluster import (
    GPU_TAINT,
    NOT_SHARED,
    GpuPool,
    ResolvedPool,
    Sharing,
    Taint,
    Toleration,
    check_claims,
)
from ..scalers import SCALERS
from ..schema.effect import Sent
from ..schema.limits import LABEL_VALUE, ExtendedResources, Hint, Labels
from ..schema.refusal import Range
from ..schema.rules import Checked, Fits, never
from .cluster_args import ExistingClusterArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTaint(Taint):
    """A taint that nodes already have, as `kubectl describe node` shows it."""

    value: Annotated[str, LABEL_VALUE] = ""
    """The taint's value; by default none, as in `gpu:NoSchedule`."""


_MAX_MPS_CLIENTS = 48
"""Limit per GPU; NVIDIA's device plugin does not start with more replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingSharingArgs(Checked):
    """How several pods share a GPU, through NVIDIA's device plugin."""

    strategy: Annotated[Literal["time-slicing", "mps"], Sent("ConfigMap data.config.yaml.sharing")]
    """How a GPU is shared: by time-slicing, or by NVIDIA's MPS."""
    replicas: Annotated[
        int,
        Ge(2),
        Fits("{!r} is too many for MPS"),
        Sent("ConfigMap data.config.yaml.sharing.timeSlicing.resources[].replicas"),
    ]
    """How many pods share a GPU, at least 2; with MPS at most 48."""

    def possible(self, key: str) -> Range | None:
        return Range(2, _MAX_MPS_CLIENTS) if (key, self.strategy) == ("replicas", "mps") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingGpuPoolArgs(Checked):
    """GPU nodes of an existing cluster, with the driver installed on the host."""

    node_selector: Annotated[
        Labels,
        MinLen(1),
        Hint(
            "without it every node would count as a GPU node; name a label that only GPU nodes have"
        ),
        Sent("Pod spec.nodeSelector", "DaemonSet spec.template.spec.affinity"),
    ]
    """Labels that only these nodes have."""
    gpus_per_node: Annotated[
        int,
        Interval(ge=1, le=16),
        Sent("ConfigMap data.settings.pools"),
    ]
    """The number of GPUs per node."""
    extended_resources: Annotated[ExtendedResources, Sent("ConfigMap data.settings.pools")] = field(
        default_factory=dict
    )
    """Extended resources besides GPUs that your own device plugins offer on each of these nodes,
    and how many: `{ vpc.amazonaws.com/efa: 4 }`. Pods may request these."""
    accelerator: Annotated[str, Sent("ConfigMap data.settings.pools")] = "nvidia"
    """Your own name for the GPU."""
    taints: Annotated[Sequence[ExistingTaint], Sent("Pod spec.tolerations[]")] = (
        ExistingTaint(key=GPU_TAINT.key, value=GPU_TAINT.value, effect=GPU_TAINT.effect),
    )
    """Taints of the nodes; a toleration for a taint that they do not have does no harm."""
    tolerations: Annotated[Sequence[Toleration], Sent("Pod spec.tolerations[]")] = ()
    """Additional tolerations of pods on these nodes."""
    device_plugin: Annotated[
        Literal["nvidia", "dra", "none"], Sent("DaemonSet spec.template.spec.affinity")
    ] = "nvidia"
    """What offers the GPUs to pods: NVIDIA's device plugin in a DaemonSet of this stack (`nvidia`),
    NVIDIA's DRA driver in one (`dra`), from which pods get them by ResourceClaims, or your own
    device plugin (`none`). `dra` needs Kubernetes 1.34 or newer, NVIDIA's driver 565 or newer in
    `/` of the nodes, and containerd 2, or 1.7 with `enable_cdi`."""
    cdi: Annotated[
        bool,
        never(device_plugin="none")(
            "applies to this stack's device plugin; set devicePlugin: nvidia, or drop the key"
        ),
        never(device_plugin="dra")("is how the DRA driver passes GPUs anyway; drop the key"),
        Sent("DaemonSet spec.template.spec.containers[].env[]"),
    ] = False
    """Whether this stack's device plugin passes GPUs to containerd by the Container Device
    Interface. Pods then get them even if NVIDIA's runtime has
    `accept-nvidia-visible-devices-envvar-when-unprivileged = false`. It needs containerd 2, or 1.7
    with `enable_cdi`, and `/usr/bin/nvidia-ctk` 1.18 or later; the plugin gets `SYS_ADMIN` and
    reads the host's files."""
    runtime_class: Annotated[
        str | None,
        Sent("Pod spec.runtimeClassName", "DaemonSet spec.template.spec.runtimeClassName"),
    ] = None
    """The RuntimeClass of GPU pods, if the NVIDIA runtime is not the default of the nodes."""
    sharing: Annotated[
        ExistingSharingArgs | None,
        never(device_plugin="none")(
            "is done by the device plugin; set devicePlugin: nvidia, or drop the key"
        ),
        NOT_SHARED,
    ] = None
    """How pods share a GPU; by default, each GPU belongs to one pod."""

    def resolve(
        self, name: str, cluster: ExistingClusterArgs
    ) -> "ResolvedPool[ExistingGpuPoolArgs]":
        """The pool, whose nodes exist already in the cluster."""
        check_claims(self.device_plugin, cluster.version)
        return ResolvedPool(args=self, pool=self.gpu_pool(name))

    def gpu_pool(self, name: str) -> GpuPool:
        """The nodes as pods and the GPU layer see them."""
        sharing = self.sharing
        return GpuPool(
            name=name,
            accelerator=self.accelerator,
            gpus_per_node=self.gpus_per_node,
            min_nodes=None,
            max_nodes=None,
            labels=dict(self.node_selector),
            taints=[
                Taint(key=taint.key, value=taint.value, effect=taint.effect)
                for taint in self.taints
            ],
            node_selector=dict(self.node_selector),
            extra_tolerations=list(self.tolerations),
            sharing=Sharing(strategy=sharing.strategy, replicas=sharing.replicas)
            if sharing
            else None,
            device_plugin=self.device_plugin == "nvidia",
            cdi=self.cdi or None,
            device_class=names.GPU_CLASS if self.device_plugin == "dra" else None,
            left_to_others=("device plugin",) if self.device_plugin == "none" else None,
            runtime_class=self.runtime_class,
            extended_resources=dict(self.extended_resources) or None,
            stay_annotations=SCALERS["owner"].stay,
        )
