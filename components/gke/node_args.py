"""The settings of the kubelet, the kernel and the upgrades of a pool's nodes on GKE Standard.

Limits are those of the API's own reference: container.googleapis.com/$discovery/rest?version=v1,
NodeKubeletConfig, LinuxNodeConfig and UpgradeSettings (read 2026-11-24); those that depend on other
settings or on the machine, of GKE's autoscaler: GoogleCloudPlatform/cluster-autoscaler 7d250507,
pkg/computeclass/status/validator/conditions/node_system_misconfigured.go (read 2026-11-28).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal

from annotated_types import Ge, Interval

from ..catalog.gke import MachineType
from ..kube import quantity
from ..schema.decode import camel
from ..schema.effect import Sent
from ..schema.limits import (
    DURATION,
    UNIQUE,
    Limit,
    between,
    matching,
    one_of,
    seconds,
    sysctl_for_pods,
)
from ..schema.on_change import Kept, OnChange, Verdict
from ..schema.outputs import MaybeOutput
from ..schema.refusal import Range, Refusal, collected, refuse
from ..schema.rules import Checked, Fits, only, rule

_PERCENT = Interval(ge=10, le=85)
_LOG_SIZE = matching("a size in Ki, Mi or Gi such as 50Mi", re.compile(r"[1-9][0-9]*[KMG]i"))
_MOST_SHARED = 18_446_744_073_692_774_399
_UNSAFE_SYSCTL = Limit(sysctl_for_pods)
SYSCTLS = re.findall(
    r"\S+",
    """
    net.core.busy_poll net.core.busy_read net.core.netdev_max_backlog net.core.rmem_max
    net.core.rmem_default net.core.wmem_default net.core.wmem_max net.core.optmem_max
    net.core.somaxconn net.ipv4.neigh.default.gc_thresh1 net.ipv4.neigh.default.gc_thresh2
    net.ipv4.neigh.default.gc_thresh3 net.ipv4.tcp_rmem net.ipv4.tcp_wmem
    net.ipv4.tcp_tw_reuse net.ipv4.tcp_mtu_probing net.ipv4.tcp_max_orphans
    net.ipv4.tcp_max_tw_buckets net.ipv4.tcp_syn_retries net.ipv4.tcp_ecn
    net.ipv4.tcp_congestion_control net.netfilter.nf_conntrack_max
    net.netfilter.nf_conntrack_buckets net.netfilter.nf_conntrack_tcp_timeout_close_wait
    net.netfilter.nf_conntrack_tcp_timeout_time_wait
    net.netfilter.nf_conntrack_tcp_timeout_established net.netfilter.nf_conntrack_acct
    kernel.keys.maxkeys kernel.keys.maxbytes kernel.shmmni kernel.shmmax kernel.shmall
    kernel.core_pattern kernel.perf_event_paranoid kernel.sched_rt_runtime_us
    kernel.softlockup_panic kernel.yama.ptrace_scope kernel.kptr_restrict
    kernel.dmesg_restrict kernel.sysrq fs.aio-max-nr fs.file-max fs.inotify.max_user_instances
    fs.inotify.max_user_watches fs.nr_open vm.dirty_background_ratio vm.dirty_background_bytes
    vm.dirty_expire_centisecs vm.dirty_ratio vm.dirty_bytes vm.dirty_writeback_centisecs
    vm.max_map_count vm.overcommit_memory vm.overcommit_ratio vm.vfs_cache_pressure
    vm.swappiness vm.watermark_scale_factor vm.min_free_kbytes
    """,
)
"""LinuxNodeConfig.sysctls in the discovery document, revision 20261027: all that GKE supports."""
_SYSCTL = one_of(*SYSCTLS, what="a kernel parameter that GKE sets")
LOCATION_POLICY = Annotated[Literal["any", "balanced"], Sent("NodePool autoscaling.locationPolicy")]
NETWORK_TAGS = Annotated[
    Sequence[
        Annotated[
            str,
            matching(
                "a network tag; allowed: lowercase letters, digits and '-', a letter first, no '-' "
                "at the end",
                re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?"),
                longest=63,
            ),
        ]
    ],
    UNIQUE,
    Sent("NodePool nodeConfig.tags[]"),
]
SERVICE_ACCOUNT = Annotated[
    Annotated[
        MaybeOutput,
        matching(
            "the email of a service account such as nodes@my-project.iam.gserviceaccount.com",
            re.compile(
                "[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?@(?:[a-z0-9.-]+[.]iam|developer|appspot)"
                "[.]gserviceaccount[.]com"
            ),
        ),
    ]
    | None,
    OnChange("GPU pool"),
    Sent("NodePool nodeConfig.serviceAccount"),
]
_MOST_SURGE = 20
"""Maximum of maxSurge and maxUnavailable together:
https://cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies, "GKE limits"
(read 2026-11-24)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeKubeletArgs(Checked):
    """Settings of the kubelet; GKE's defaults apply to those that are omitted."""

    cpu_manager_policy: Literal["none", "static"] | None = None
    """Whether pods that request whole CPUs get exclusive cores (`static`)."""
    cpu_cfs_quota: bool | None = None
    """Whether CPU limits are enforced."""
    cpu_cfs_quota_period: Annotated[str | None, between(DURATION, seconds, "1ms", "1s")] = None
    """The period in which CPU limits are enforced, 1ms to 1s."""
    memory_manager_policy: Literal["None", "Static"] | None = None
    """Whether pods that request whole CPUs get memory of their NUMA nodes (`Static`)."""
    topology_manager_policy: (
        Literal["none", "best-effort", "restricted", "single-numa-node"] | None
    ) = None
    """How strictly the CPUs, memory and GPUs of a pod must belong to the same NUMA node."""
    topology_manager_scope: Literal["container", "pod"] | None = None
    """The unit that is aligned: a container, or the whole pod."""
    pod_pids_limit: Annotated[int | None, Interval(ge=1024, le=4194303)] = None
    """The maximum number of processes in a pod, 1024 to 4194303."""
    max_parallel_image_pulls: Annotated[int | None, Interval(ge=2, le=5)] = None
    """How many images are pulled at a time, 2 to 5."""
    container_log_max_size: Annotated[
        str | None, between(_LOG_SIZE, quantity.parse, "10Mi", "500Mi")
    ] = None
    """The maximum size of a container's log file, 10Mi to 500Mi; all files of a container together
    at most 1 % of the node's disk."""
    container_log_max_files: Annotated[int | None, Interval(ge=2, le=10)] = None
    """How many log files are kept per container, 2 to 10."""
    image_gc_low_threshold_percent: Annotated[int | None, _PERCENT] = None
    """Unused images are removed until the disk usage falls to this percentage, 10 to 85."""
    image_gc_high_threshold_percent: Annotated[int | None, _PERCENT] = None
    """The percentage of disk usage at which unused images are removed, 10 to 85."""
    image_minimum_gc_age: Annotated[str | None, between(DURATION, seconds, "1ns", "2m")] = None
    """How long an unused image is kept at least; up to 2m, the default."""
    image_maximum_gc_age: Annotated[str | None, DURATION] = None
    """How long an unused image is kept at most: above imageMinimumGcAge, or `0s` for any time."""
    allowed_unsafe_sysctls: Sequence[Annotated[str, _UNSAFE_SYSCTL]] = ()
    """Kernel parameters that pods may set although Kubernetes classifies them as unsafe."""
    single_process_oom_kill: bool | None = None
    """Whether only the process that runs out of memory is killed, not its whole container."""

    @rule
    def _check_images(self) -> None:
        low, high = self.image_gc_low_threshold_percent, self.image_gc_high_threshold_percent
        if (80 if low is None else low) >= (85 if high is None else high):
            raise refuse("imageGcLowThresholdPercent")(
                f"{low or 80} is not below imageGcHighThresholdPercent {high or 85}; lower it"
            )

    @rule
    def _check_age(self) -> None:
        oldest, youngest = self.image_maximum_gc_age, self.image_minimum_gc_age or "2m"
        if oldest is not None and 0 < seconds(oldest) <= seconds(youngest):
            raise refuse("imageMaximumGcAge")(
                f"{oldest} is not longer than imageMinimumGcAge {youngest}; raise it, or set 0s"
            )

    def possible(self, key: str) -> Range | None:
        high = self.image_gc_high_threshold_percent or 85
        return Range(None, high - 1) if key == "imageGcLowThresholdPercent" else None

    @collected
    def check_node(self, machine: MachineType, storage: int) -> Iterator[Refusal]:
        """Raises `Refusal` for what this machine type does not support. `storage`: GB of boot disk
        and local SSDs."""
        for key in _ALIGNMENT:
            if getattr(self, key) is not None:
                check_machine(camel(key), machine)
        size, files = self.container_log_max_size, self.container_log_max_files
        logs = quantity.parse(size or "10Mi") * (files or 5)
        if (size or files) and logs > Decimal(storage * 2**30) / 100:
            key = "containerLogMaxSize" if size else "containerLogMaxFiles"
            yield refuse(key)(
                f"{files or 5} files of {size or '10Mi'} are more than 1 % of the node's "
                f"{storage} GB; lower it, or raise diskSizeGb"
            )

    @property
    def declared(self) -> Any:
        """The settings as `kubeletConfig`."""
        config = {
            key: value for key, value in asdict(self).items() if value is not None and value != ()
        }
        for manager in ("memory_manager", "topology_manager"):
            policy = {
                part: config.pop(f"{manager}_{part}")
                for part in ("policy", "scope")
                if f"{manager}_{part}" in config
            }
            config |= {manager: policy} if policy else {}
        return config


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeLinuxArgs(Checked):
    """Kernel settings of the nodes; GKE's defaults apply to those that are omitted."""

    sysctls: Mapping[Annotated[str, _SYSCTL], str] = field(default_factory=dict)
    """Kernel parameters of the nodes and of every pod on them, as strings; `net.ipv4.tcp_rmem` and
    `tcp_wmem` are three rising numbers."""
    cgroup_mode: Literal["v1", "v2"] | None = None
    """The cgroup version. GKE migrates nodes with `v1` to `v2` from 1.33 on."""
    hugepages_2m: Annotated[int | None, Ge(1)] = None
    """How many pages of 2 MiB the nodes reserve for pods."""
    hugepages_1g: Annotated[int | None, Ge(1)] = None
    """How many pages of 1 GiB the nodes reserve for pods; not on N1, G2 and A2. All pages together
    take at most 60 % of the memory, 80 % on machines with 30 GiB or more."""
    transparent_hugepages: Literal["always", "madvise", "never"] | None = None
    """When the kernel uses large pages automatically."""

    @rule
    def _check_sysctls(self) -> Iterator[Refusal]:
        for key in ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"):
            parts = self.sysctls.get(key, "1 1 1").split(" ")
            numbers = [int(part) for part in parts if re.fullmatch("[1-9][0-9]*", part)]
            if len(parts) != 3 or len(numbers) != 3 or numbers != sorted(numbers):
                yield refuse(("sysctls", key), self.sysctls[key])(
                    "is not minimum, default and maximum",
                    remedy="give three rising numbers such as 4096 87380 6291456",
                )
        for key in ("kernel.shmall", "kernel.shmmax"):
            value = self.sysctls.get(key, "0")
            if not re.fullmatch("[0-9]+", value) or int(value) > _MOST_SHARED:
                reason = f"is out of range; allowed: 0 to {_MOST_SHARED}"
                yield refuse(("sysctls", key), value)(reason)

    @collected
    def check_node(self, machine: MachineType) -> Iterator[Refusal]:
        """Raises `Refusal` for what this machine type does not support."""
        if self.hugepages_1g:
            check_machine("hugepages1g", machine)
        share = 80 if machine.memory_gib >= 30 else 60
        if (most := int(machine.memory_gib * 1024 * share / 100)) < self.hugepages_mib:
            yield refuse("hugepages1g" if self.hugepages_1g else "hugepages2m")(
                f"the pages take {self.hugepages_mib} MiB",
                remedy=f"allowed: {share} % of the memory of {machine.name}, {most} MiB",
            )
        if self.sysctls.get("vm.overcommit_memory") == "2" and machine.memory_gib < 15:
            yield refuse(("sysctls", "vm", "overcommit_memory"))(
                f"2 needs a machine with 15 GiB, and {machine.name} has {machine.memory_gib:g}",
                remedy="drop it, or use a larger one",
            )

    @property
    def hugepages_mib(self) -> int:
        """The memory that the kubelet subtracts from the memory for pods.

        kubernetes/kubernetes pkg/kubelet/nodestatus/setters.go, MachineInfo, 2026-11-24.
        """
        return 2 * (self.hugepages_2m or 0) + 1024 * (self.hugepages_1g or 0)

    @property
    def declared(self) -> Any:
        """The settings as `linuxNodeConfig`."""
        huge = {"hugepage_size2m": self.hugepages_2m, "hugepage_size1g": self.hugepages_1g}
        config = {
            "sysctls": dict(self.sysctls) or None,
            "cgroup_mode": self.cgroup_mode and f"CGROUP_MODE_{self.cgroup_mode.upper()}",
            "hugepages_config": huge if any(huge.values()) else None,
            "transparent_hugepage_enabled": self.transparent_hugepages
            and f"TRANSPARENT_HUGEPAGE_ENABLED_{self.transparent_hugepages.upper()}",
        }
        return {key: value for key, value in config.items() if value is not None}


def check_machine(key: str, machine: MachineType) -> None:
    """Raises the refusal of a setting that the machine type does not support with any value."""
    if key == "hugepages1g" and not machine.features.gigantic_pages:
        raise refuse(key)(f"{machine.name} does not support pages of 1 GiB; use hugepages2m")
    if key in map(camel, _ALIGNMENT) and not machine.features.numa:
        raise refuse(key)(f"{machine.name} does not support NUMA alignment; drop the key")


_COMPUTED = (
    "cpu_cfs_quota",
    "max_parallel_image_pulls",
    "topology_manager_scope",
    "cgroup_mode",
    "transparent_hugepages",
)
"""Optional and computed in the provider: if they are removed, they keep their value.
hashicorp/terraform-provider-google-beta .../services/container/node_config.go, 2026-11-24."""


def _kept_whole(old: str, new: str) -> Verdict:
    """The provider keeps a removed block, and some of its keys; and it sends no false."""
    if new == "null":
        return Kept("write the key with GKE's default")
    before, after = json.loads(old) or {}, json.loads(new)
    if after.get("cpu_cfs_quota") is False and before.get("cpu_cfs_quota") is not False:
        # Its update omits false; its create does not.
        return Kept("cpuCfsQuota: false is accepted only for pools with another name")
    gone = [key for key in _COMPUTED if before.get(key) is not None and after.get(key) is None]
    return Kept(f"write {camel(gone[0])} with GKE's default") if gone else None


KUBELET = Annotated[
    GkeKubeletArgs | None, OnChange(_kept_whole), Sent("NodePool nodeConfig.kubeletConfig")
]
LINUX = Annotated[
    GkeLinuxArgs | None, OnChange(_kept_whole), Sent("NodePool nodeConfig.linuxNodeConfig")
]


_ALIGNMENT = ("memory_manager_policy", "topology_manager_policy", "topology_manager_scope")
_BLUE_GREEN = only(strategy="blue-green")(
    "needs strategy blue-green; drop the key, or set strategy: blue-green"
)
_SURGE = only(strategy="surge")("{} needs strategy surge; drop the key or the strategy")


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeUpgradeArgs(Checked):
    """How GKE replaces a pool's nodes for a new version or changed settings."""

    strategy: Literal["surge", "blue-green"] = "surge"
    """Node by node (`surge`), or with a second set of nodes while the first is drained
    (`blue-green`), which needs twice the GPUs and the quota of the pool."""
    max_surge: Annotated[int, Interval(ge=0, le=_MOST_SURGE), _SURGE] = 0
    """How many nodes are added first, with `surge`: each needs an available GPU."""
    max_unavailable: Annotated[
        int,
        Interval(ge=0, le=_MOST_SURGE),
        _SURGE,
        Fits("{!r} is out of range with maxSurge {max_surge}"),
    ] = 1
    """How many nodes may be unavailable during the upgrade, with `surge`."""
    batch_node_count: Annotated[int | None, Ge(1), _BLUE_GREEN] = None
    """How many of the old nodes are drained at a time, with `blue-green`; by default, one."""
    batch_soak_seconds: Annotated[int | None, Ge(0), _BLUE_GREEN] = None
    """How many seconds GKE waits after each batch, with `blue-green`."""
    soak_seconds: Annotated[int | None, Interval(ge=0, le=604800), _BLUE_GREEN] = None
    """How long the drained old nodes are kept before they are deleted, with `blue-green`: by
    default an hour, at most 7 days. Until then, the upgrade can be rolled back."""

    def possible(self, key: str) -> Range | None:
        if key != "maxUnavailable":
            return None
        return Range(int(not self.max_surge), _MOST_SURGE - self.max_surge)

    def soak(self, nodes: int) -> int:
        """The seconds in which an upgrade of this many nodes only waits."""
        if self.strategy == "surge":
            return 0
        batches = -(-nodes // (self.batch_node_count or 1))
        soak = 3600 if self.soak_seconds is None else self.soak_seconds
        return batches * (self.batch_soak_seconds or 0) + soak

    @property
    def declared(self) -> Any:
        """The settings as `upgradeSettings`."""
        if self.strategy == "surge":
            return {"max_surge": self.max_surge, "max_unavailable": self.max_unavailable}
        return {
            "strategy": "BLUE_GREEN",
            "blue_green_settings": {
                "standard_rollout_policy": {
                    "batch_node_count": self.batch_node_count or 1,
                    "batch_soak_duration": f"{self.batch_soak_seconds or 0}s",
                },
                "node_pool_soak_duration": f"{self.soak(0)}s",
            },
        }
