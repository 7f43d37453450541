"""The settings of Cluster Autoscaler, for the cluster and for a pool."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Interval

from ..catalog import images
from ..schema.decode import camel
from ..schema.effect import Sent
from ..schema.limits import IMAGE, Limit, matching, pattern
from ..schema.refusal import Refusal, collected, refuse
from ..schema.rules import Checked

Duration = Annotated[
    str,
    matching(
        "a duration; write it as 90s, 10m or 1h30m", re.compile(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+")
    ),
]
"""A duration as Go writes it."""
Share = Annotated[float, Interval(ge=0, le=1)]
_FLAG = re.compile(r"[a-z][a-z0-9-]*")
_FLAGS = {
    key: key.replace("_", "-")
    for key in (
        "expander",
        "scan_interval",
        "scale_down_enabled",
        "scale_down_unneeded_time",
        "scale_down_unready_time",
        "scale_down_delay_after_add",
        "scale_down_utilization_threshold",
        "scale_down_gpu_utilization_threshold",
        "max_node_provision_time",
        "max_nodes_total",
        "balance_similar_node_groups",
        "skip_nodes_with_local_storage",
        "skip_nodes_with_system_pods",
        "ignore_daemonsets_utilization",
    )
} | {"verbosity": "v"}
"""Field -> its command-line flag."""


def _fixed_flags(cluster: str) -> dict[str, str]:
    """Flags that no setting changes, for the cluster of this name."""
    return {
        "cloud-provider": "aws",
        "namespace": "kube-system",
        # EKS sets both tags on the groups of its managed node groups.
        "node-group-auto-discovery": "asg:tag=k8s.io/cluster-autoscaler/enabled,"
        f"k8s.io/cluster-autoscaler/{cluster}",
        # By default, a group's template is its last node for ten years, also at zero nodes, so that
        # a label, taint or share that an update changed is not seen (its
        # mixed_nodeinfos_processor.go). The tags are complete, and are read after this time.
        "node-info-cache-expire-time": "1m",
    }


def _not_an_extra_flag(flag: str) -> str | None:
    if not _FLAG.fullmatch(flag):
        return "is not a flag; write it as max-node-provision-time, without leading dashes"
    if key := next((key for key, name in _FLAGS.items() if name == flag), None):
        return f"has its own key; set {camel(key)}"
    return "is set by the stack; drop it" if flag in _fixed_flags("") else None


_EXTRA_FLAG = Limit(
    _not_an_extra_flag, pattern(_FLAG) | {"not": {"enum": [*_fixed_flags(""), *_FLAGS.values()]}}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EksAutoscalerArgs(Checked):
    """Cluster Autoscaler's options. Durations are written as in Go: `10m`, `1h30m`."""

    expander: Literal["least-waste", "random", "most-pods", "least-nodes", "priority"] = (
        "least-waste"
    )
    """Which of several suitable pools grows. `priority` reads the ConfigMap
    cluster-autoscaler-priority-expander in kube-system, which you have to write; for pools with
    `fallback` the stack writes it, and this expander decides among groups of the same priority."""
    scan_interval: Duration = "10s"
    """How often the autoscaler looks for pods that need a node."""
    scale_down_enabled: bool = True
    """Whether nodes are deleted at all."""
    scale_down_unneeded_time: Duration = "10m"
    """How long a node must be unneeded before it is deleted."""
    scale_down_unready_time: Duration = "20m"
    """How long a node must be unready before it is deleted."""
    scale_down_delay_after_add: Duration = "10m"
    """How long no node is deleted after a node was added."""
    scale_down_utilization_threshold: Share = 0.5
    """Requested share of cpu or memory below which a node without GPUs is not needed."""
    scale_down_gpu_utilization_threshold: Share = 0.5
    """The same for GPU nodes; only their GPUs count."""
    max_node_provision_time: Duration = "20m"
    """How long a node may take to start; it can take 15 minutes until its GPUs are allocatable."""
    max_nodes_total: Annotated[int, Ge(0)] = 0
    """The maximum number of nodes in the whole cluster; 0 means only the pools' own limits."""
    balance_similar_node_groups: bool = False
    """Whether nodes are spread over pools of the same shape, for instance one per zone."""
    skip_nodes_with_local_storage: bool = False
    """Whether nodes are kept if their pods have an emptyDir."""
    skip_nodes_with_system_pods: bool = True
    """Whether nodes are kept if they run kube-system pods other than mirror pods and those of
    DaemonSets. From Cluster Autoscaler 1.34 on, they are kept for only an hour (its
    --blocking-system-pod-distruption-timeout); then such pods are evicted, except its own."""
    ignore_daemonsets_utilization: bool = False
    """Whether the requests of DaemonSets' pods are ignored in a node's utilization."""
    verbosity: Annotated[int, Interval(ge=0, le=10)] = 4
    """The level of the autoscaler's log."""
    image: Annotated[Annotated[str, IMAGE] | None, Sent("PodSpec containers[].image")] = None
    """Your own image instead of the pinned one, for instance from your own registry."""
    extra_flags: Mapping[Annotated[str, _EXTRA_FLAG], str] = field(default_factory=dict)
    """Any other flag of Cluster Autoscaler: its name without dashes, and its value."""

    def image_for(self, version: str) -> str:
        """The autoscaler's image for a Kubernetes minor."""
        if self.image is not None:
            return self.image
        image = images.cluster_autoscaler(version)
        assert image is not None, "the settings refuse other minors"
        return image.reference

    def flags(self, cluster: str) -> dict[str, str]:
        """Every flag except the extra ones, for the cluster of this name."""
        return {
            **_fixed_flags(cluster),
            **{flag: _text(getattr(self, key)) for key, flag in _FLAGS.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EksPoolAutoscalerArgs(Checked):
    """Cluster Autoscaler's options for one pool; by default, those of the cluster."""

    scale_down_unneeded_time: Duration | None = None
    """How long a node of this pool must be unneeded before it is deleted."""
    scale_down_unready_time: Duration | None = None
    """How long a node of this pool must be unready before it is deleted."""
    scale_down_utilization_threshold: Share | None = None
    """The requested share of cpu or memory below which a node of this pool is not needed."""
    scale_down_gpu_utilization_threshold: Share | None = None
    """The requested share of GPUs below which a node of this pool is not needed."""

    def options(self) -> dict[str, str]:
        """The options that are set, with the keys of the Auto Scaling group's tags."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            name.replace("_", ""): _text(value)
            for name, value in values.items()
            if value is not None
        }


@collected
def check_priorities(options: EksAutoscalerArgs | None) -> Iterator[Refusal]:
    """Raises `Refusal` if Cluster Autoscaler would not follow an order of choices.

    Groups that differ only in how they are bought count as similar, so balancing would spread new
    nodes over all choices (processors/nodegroupset/aws_nodegroups.go, read 2026-11-24).
    """
    if options is None:
        yield refuse("fallback")(
            "needs flags of Cluster Autoscaler, and that of the cluster is its owner's",
            remedy="set cluster.scaler to karpenter or auto-mode, drop the key, or, if the "
            "cluster has no autoscaler, set cluster.autoscaler to {} to install one here",
        )
        return
    if options.expander == "priority":
        yield refuse("fallback")(
            "the stack writes the order into the ConfigMap of the priority expander, and "
            "cluster.autoscaler.expander priority leaves that to you; take another expander"
        )
    if options.balance_similar_node_groups:
        yield refuse("fallback")(
            "cluster.autoscaler.balanceSimilarNodeGroups spreads new nodes over all choices",
            remedy="drop one of the two",
        )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
