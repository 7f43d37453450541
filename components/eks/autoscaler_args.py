"""What a user can change of Cluster Autoscaler, for the cluster and for a pool."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from components.catalog import kubernetes as names
from components.decode import camel

DURATION = re.compile(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+")
FLAG = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class EksAutoscalerArgs:
    """Cluster Autoscaler's options. Durations are written as in Go: `10m`, `1h30m`."""

    expander: Literal["least-waste", "random", "most-pods", "least-nodes", "priority"] = (
        "least-waste"
    )
    """Which of several pools that fit grows. `priority` reads the ConfigMap
    cluster-autoscaler-priority-expander in kube-system, which is yours to write."""
    scan_interval: str = "10s"
    """How often the autoscaler looks for pods that need a node."""
    scale_down_enabled: bool = True
    """Whether nodes are deleted at all."""
    scale_down_unneeded_time: str = "10m"
    """How long a node must be unneeded before it is deleted."""
    scale_down_unready_time: str = "20m"
    """How long a node must be unready before it is deleted."""
    scale_down_delay_after_add: str = "10m"
    """How long no node is deleted after one was added."""
    scale_down_utilization_threshold: float = 0.5
    """Requested share of cpu or memory below which a node without GPUs is not needed."""
    scale_down_gpu_utilization_threshold: float = 0.5
    """The same for GPU nodes, of their GPUs alone."""
    max_node_provision_time: str = "20m"
    """How long a node may take; a GPU can take 15 minutes to be allocatable."""
    max_nodes_total: int = 0
    """The largest number of nodes in the whole cluster; 0 means no bound but the pools' own."""
    balance_similar_node_groups: bool = False
    """Whether nodes are spread over pools of the same shape, as with one pool per zone."""
    skip_nodes_with_local_storage: bool = False
    """Whether nodes stay whose pods have an emptyDir."""
    skip_nodes_with_system_pods: bool = True
    """Whether nodes stay that have kube-system pods other than DaemonSets' and mirrors. From
    Cluster Autoscaler 1.34 on they stay for an hour alone (its
    --blocking-system-pod-distruption-timeout); then such pods are evicted, except its own."""
    ignore_daemonsets_utilization: bool = False
    """Whether the requests of DaemonSets' pods count as no use of a node."""
    verbosity: int = 4
    """The level of the autoscaler's log."""
    image: str | None = None
    """Your own image instead of the pinned one, for instance from a registry of yours."""
    extra_flags: Mapping[str, str] = field(default_factory=dict)
    """Any other flag of Cluster Autoscaler: its name without dashes, and its value."""

    def __post_init__(self) -> None:
        for name in (
            "scan_interval",
            "scale_down_unneeded_time",
            "scale_down_unready_time",
            "scale_down_delay_after_add",
            "max_node_provision_time",
        ):
            check_duration(camel(name), getattr(self, name))
        for name in ("scale_down_utilization_threshold", "scale_down_gpu_utilization_threshold"):
            check_share(camel(name), getattr(self, name))
        if self.max_nodes_total < 0:
            raise ValueError(
                f"maxNodesTotal: {self.max_nodes_total} is negative; allowed: 0 or more"
            )
        if not 0 <= self.verbosity <= 10:
            raise ValueError(f"verbosity: {self.verbosity} is out of range; allowed: 0 to 10")
        if self.image is not None and (reason := names.invalid_image(self.image)):
            raise ValueError(f"image: {reason}, or drop the key")
        mine = self.flags("a-cluster")
        for flag in self.extra_flags:
            if not FLAG.fullmatch(flag):
                raise ValueError(
                    f"extraFlags.{flag}: is not a flag; write its name in lowercase without "
                    "leading dashes"
                )
            if flag in mine:
                key = next((key for key, name in _FLAGS.items() if name == flag), None)
                raise ValueError(
                    f"extraFlags.{flag}: "
                    + (
                        f"has a key of its own; set {camel(key)}"
                        if key
                        else "is the stack's to set"
                    )
                )

    def flags(self, cluster: str) -> dict[str, str]:
        """Every flag but the extra ones, for the cluster of this name."""
        return {
            "cloud-provider": "aws",
            "namespace": "kube-system",
            # EKS puts both tags on the groups of its managed node groups.
            "node-group-auto-discovery": "asg:tag=k8s.io/cluster-autoscaler/enabled,"
            f"k8s.io/cluster-autoscaler/{cluster}",
            # By default the template of a group is its last node for ten years, also at zero nodes,
            # and a label, taint or share that an update changed is not seen (its
            # mixed_nodeinfos_processor.go). The tags are complete, and are read after this time.
            "node-info-cache-expire-time": "1m",
            **{flag: _text(getattr(self, key)) for key, flag in _FLAGS.items()},
        }


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EksPoolAutoscalerArgs:
    """Cluster Autoscaler's options for one pool; left out, those of the cluster."""

    scale_down_unneeded_time: str | None = None
    """How long a node of this pool must be unneeded before it is deleted."""
    scale_down_unready_time: str | None = None
    """How long a node of this pool must be unready before it is deleted."""
    scale_down_utilization_threshold: float | None = None
    """The requested share of cpu or memory below which a node of this pool is not needed."""
    scale_down_gpu_utilization_threshold: float | None = None
    """The requested share of GPUs below which a node of this pool is not needed."""

    def __post_init__(self) -> None:
        for name in ("scale_down_unneeded_time", "scale_down_unready_time"):
            if (text := getattr(self, name)) is not None:
                check_duration(camel(name), text)
        for name in ("scale_down_utilization_threshold", "scale_down_gpu_utilization_threshold"):
            if (share := getattr(self, name)) is not None:
                check_share(camel(name), share)

    def options(self) -> dict[str, str]:
        """The options that are set, as the Auto Scaling group's tags spell them."""
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            name.replace("_", ""): _text(value)
            for name, value in given.items()
            if value is not None
        }


def check_duration(key: str, text: str) -> None:
    """Raises ValueError, with the key in front, for what Go does not read as a duration."""
    if not DURATION.fullmatch(text):
        raise ValueError(f"{key}: {text!r} is not a duration; write it as 90s, 10m or 1h30m")


def check_share(key: str, share: float) -> None:
    """Raises ValueError, with the key in front, for what is no share between 0 and 1."""
    if not 0 <= share <= 1:
        raise ValueError(f"{key}: {share:g} is out of range; allowed: 0 to 1")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
