"""NVIDIA's device plugin or its DRA driver, on the pools for which the stack installs one.

The manifest follows deployments/static/nvidia-device-plugin.yml of NVIDIA/k8s-device-plugin, in the
version of `images.DEVICE_PLUGIN`, and for MIG and MPS its chart (read 2026-11-21).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1 import (
    ContainerArgsDict,
    EnvVarArgsDict,
    PodSpecArgsDict,
    SecurityContextArgsDict,
    VolumeArgsDict,
    VolumeMountArgsDict,
)

from ..catalog import images
from ..catalog import kubernetes as names
from ..cluster import Cluster, GpuPool
from ..daemon_set import NAMESPACE, affinity_to, daemon_set
from ..lifecycle.prefix import unique
from . import dra_driver
from .sharing import (
    CONFIG_FILE,
    CONFIG_MOUNT,
    MPS_ROOT,
    config_volume,
    mps_control_daemon,
    mps_mounts,
    mps_shared_memory,
    mps_volumes,
    plugin_config,
)

_NAME = "nvidia-device-plugin"
_MPS_NAME = "nvidia-mps-control-daemon"
_SOCKETS = "/var/lib/kubelet/device-plugins"
_CDI = "/var/run/cdi"
_DRIVER_ROOT = "/driver-root"


class DevicePlugin(pulumi.ComponentResource):
    """One DaemonSet for the pools with whole GPUs, one for each pool that shares its GPUs, and one
    for each whose GPUs pods claim: the DRA driver's. A pool that is removed together with its pods
    keeps the driver until these have ended.

    The names are fixed, and a pool's sharing is the config of its own DaemonSet: another number of
    replicas replaces the pod on a node, and never runs two plugins at the same time.
    """

    daemon_sets: list[kubernetes.apps.v1.DaemonSet]

    def __init__(
        self, name: str, *, cluster: Cluster, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpu-cluster:gpu:DevicePlugin", name, None, opts)
        self.daemon_sets = []
        driver: list[pulumi.Resource] = []
        for group in map(_unique, _groups(cluster.pools)):
            # A pool that starts sharing its GPUs leaves the common DaemonSet first.
            before: list[pulumi.Resource] = [*self.daemon_sets[:1]]
            if group.claimed:
                driver = driver or [*self.daemon_sets, *dra_driver.declare_access(cluster, self)]
                before = [*driver]
            if group.config is not None:
                before.append(self._config_map(group, cluster))
            if group.mps:
                daemon = unique(f"{_MPS_NAME}-on-{group.pools[0].name}")
                before.append(self._daemon_set(daemon, group, _mps_pod(group), cluster, before))
            pod = _driver_pod(group) if group.claimed else _plugin_pod(group)
            self.daemon_sets.append(
                self._daemon_set(group.name, group, pod, cluster, before, group.formerly)
            )
        self.register_outputs({})

    def _config_map(self, group: "_Group", cluster: Cluster) -> kubernetes.core.v1.ConfigMap:
        return kubernetes.core.v1.ConfigMap(
            group.name,
            metadata={"name": group.name, "namespace": NAMESPACE},
            data={"config.yaml": group.config or ""},
            opts=cluster.options(self, delete_before_replace=True),
        )

    def _daemon_set(
        self,
        name: str,
        group: "_Group",
        pod: PodSpecArgsDict,
        cluster: Cluster,
        before: Sequence[pulumi.Resource],
        formerly: Sequence[str] = (),
    ) -> kubernetes.apps.v1.DaemonSet:
        # Both programs read their config only once, so another config needs new pods.
        checksum = hashlib.sha256(group.config.encode()).hexdigest() if group.config else None
        return daemon_set(
            name,
            pod,
            # Two plugins for one resource on a node conflict about who uses which GPU, and the one
            # that ends removes the socket of both: the node then offers none.
            pulumi.ResourceOptions.merge(
                cluster.options(self, delete_before_replace=True, depends_on=before),
                pulumi.ResourceOptions(aliases=[pulumi.Alias(name=name) for name in formerly]),
            ),
            label="name",
            annotations={"gpu-cluster/config": checksum} if checksum else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Pools with the same plugin and the same requirements for their nodes, in one DaemonSet."""

    name: str
    pools: Sequence[GpuPool]
    formerly: Sequence[str] = ()
    """Names of DaemonSets that the pools may have had to themselves: this one replaces them, so
    that they are deleted first."""

    @property
    def runtime_class(self) -> str | None:
        return self.pools[0].runtime_class

    @property
    def driver_directory(self) -> str | None:
        return self.pools[0].driver_directory

    @property
    def claimed(self) -> bool:
        return self.pools[0].device_class is not None

    @property
    def cdi(self) -> bool:
        return self.pools[0].cdi is True

    @property
    def mig(self) -> bool:
        sharing = self.pools[0].sharing
        return sharing is not None and sharing.partition is not None

    @property
    def mps(self) -> bool:
        sharing = self.pools[0].sharing
        return sharing is not None and sharing.strategy == "mps"

    @property
    def config(self) -> str | None:
        return plugin_config(self.pools[0].sharing)


def _groups(pools: Mapping[str, GpuPool]) -> list[_Group]:
    """Groups with whole GPUs, by runtime class and CDI; then one for each pool that shares its
    GPUs; then one for each pool with the DRA driver."""
    served = [pool for pool in pools.values() if pool.device_plugin]
    whole: dict[str, list[GpuPool]] = {}
    # If all pools are alike, the name stays, and CDI only rolls the DaemonSet's pods.
    mixed = len({pool.cdi for pool in served if pool.sharing is None}) == 2
    for pool in served:
        if pool.sharing is None:
            name = _whole_names(pool)[-1 if mixed else 0]
            whole.setdefault(name, []).append(pool)
    shared = [pool for pool in served if pool.sharing is not None]
    claimed = [pool for pool in pools.values() if pool.device_class is not None]
    others = {_own_names(pool)[0]: pool for pool in shared}
    others |= {_own_names(pool)[1]: pool for pool in claimed}
    # Only one DaemonSet can replace a former one.
    former = {
        name: owner
        for owner, pool in reversed(others.items())
        for name in [*_whole_names(pool), *_own_names(pool)]
        if name not in whole and name not in others
    }
    # Sorted, so that a pool leaves the common DaemonSet before the one with CDI takes it.
    return [
        _Group(
            name=name,
            pools=group,
            formerly=[own for pool in group for own in _own_names(pool)],
        )
        for name, group in sorted(whole.items())
    ] + [
        _Group(
            name=name,
            pools=[pool],
            formerly=[formerly for formerly, owner in former.items() if owner == name],
        )
        for name, pool in others.items()
    ]


def _unique(group: _Group) -> _Group:
    return replace(
        group, name=unique(group.name), formerly=[unique(name) for name in group.formerly]
    )


def _own_names(pool: GpuPool) -> tuple[str, str]:
    """The names of the pool's own DaemonSet if it shares its GPUs, and if pods claim them."""
    return f"{_NAME}-on-{pool.name}", f"{dra_driver.NAME}-on-{pool.name}"


def _whole_names(pool: GpuPool) -> list[str]:
    """The names of the DaemonSet that the pool may have had with whole GPUs."""
    name = f"{_NAME}-{pool.runtime_class}" if pool.runtime_class else _NAME
    return [name, f"{name}-cdi"] if pool.cdi else [name]


def _on_nodes_of(group: _Group, *containers: ContainerArgsDict) -> PodSpecArgsDict:
    """A pod with these containers on every node of the group, and only there."""
    return {
        "runtime_class_name": group.runtime_class,
        # On other nodes, the plugin finds no driver and crashes again and again.
        "affinity": affinity_to(_labels(pool) for pool in group.pools),
        "containers": [*containers],
    }


def _driver_pod(group: _Group) -> PodSpecArgsDict:
    driver = dra_driver.driver_pod(group.driver_directory)
    return {**_on_nodes_of(group), **driver, "runtime_class_name": None}


def _plugin_pod(group: _Group) -> PodSpecArgsDict:
    volumes, mounts = _volumes(group)
    container: ContainerArgsDict = {
        "name": _NAME,
        "image": images.DEVICE_PLUGIN.reference,
        "env": _env(group),
        "security_context": _security(group),
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "volume_mounts": mounts,
    }
    return {**_on_nodes_of(group, container), "volumes": volumes}


def _mps_pod(group: _Group) -> PodSpecArgsDict:
    return {
        **_on_nodes_of(group, mps_control_daemon()),
        "init_containers": [mps_shared_memory()],
        "volumes": [*mps_volumes(), config_volume(group.name)],
    }


def _env(group: _Group) -> list[EnvVarArgsDict]:
    variables: dict[str, str] = {}
    if group.config is not None:
        variables["CONFIG_FILE"] = CONFIG_FILE
    if group.mps:
        variables["MPS_ROOT"] = MPS_ROOT
    if group.mig:
        # All partitions of a node are equal, so that pods see them as plain `nvidia.com/gpu`.
        variables |= {"MIG_STRATEGY": "single", "NVIDIA_MIG_MONITOR_DEVICES": "all"}
    if any(pool.fabric for pool in group.pools):
        # It would give every pod all adapters of its node (k8s-device-plugin issue 1692).
        variables["MOFED_ENABLED"] = "false"
    if group.driver_directory is not None:
        variables |= {"LD_LIBRARY_PATH": names.DRIVER_SEARCH_PATH, "PASS_DEVICE_SPECS": "true"}
    if group.cdi:
        variables |= {
            "DEVICE_LIST_STRATEGY": "cdi-cri",
            # NVIDIA's sandbox library ends the plugin with drivers before 570 (issue 1555).
            "CDI_FEATURE_FLAGS": "disable-nvsandboxutils",
        }
    return [{"name": name, "value": value} for name, value in variables.items()]


def _security(group: _Group) -> SecurityContextArgsDict:
    if group.driver_directory is not None:
        # These nodes have no NVIDIA runtime that would provide the devices.
        return {"privileged": True}
    if group.mig or group.cdi:
        # To the NVIDIA runtime, a container with SYS_ADMIN is privileged: it gets the GPUs that its
        # variables name whatever the runtime accepts from others.
        return {"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}
    return {"allow_privilege_escalation": False, "capabilities": {"drop": ["ALL"]}}


def _volumes(group: _Group) -> tuple[list[VolumeArgsDict], list[VolumeMountArgsDict]]:
    volumes: list[VolumeArgsDict] = [
        {"name": "kubelet-device-plugins", "host_path": {"path": _SOCKETS, "type": "Directory"}}
    ]
    mounts: list[VolumeMountArgsDict] = [{"name": "kubelet-device-plugins", "mount_path": _SOCKETS}]
    if group.driver_directory is not None:
        volumes.append({"name": "driver", "host_path": {"path": group.driver_directory}})
        mounts.append({"name": "driver", "mount_path": names.DRIVER_MOUNT, "read_only": True})
    if group.cdi:
        # The plugin writes the node's CDI files, which name the files of the host's driver.
        volumes += [
            {"name": "cdi", "host_path": {"path": _CDI, "type": "DirectoryOrCreate"}},
            {"name": "host", "host_path": {"path": "/", "type": "Directory"}},
        ]
        mounts += [
            {"name": "cdi", "mount_path": _CDI},
            {
                "name": "host",
                "mount_path": _DRIVER_ROOT,
                "read_only": True,
                # Otherwise, volumes that the node unmounts stay mounted in this pod.
                "mount_propagation": "HostToContainer",
            },
        ]
    if group.config is not None:
        volumes.append(config_volume(group.name))
        mounts.append(CONFIG_MOUNT)
    if group.mps:
        volumes += mps_volumes()
        mounts += mps_mounts()
    return volumes, mounts


def _labels(pool: GpuPool) -> dict[str, str]:
    # Without nvidia.com/gpu.present: a GPU Operator in the cluster sets it to false on nodes that
    # its own feature discovery does not reach, which would remove the plugin from them.
    # NVIDIA/gpu-operator controllers/nodelabeling_controller.go, reconcileCommonGPULabel, 2026-11.
    return dict(pool.node_selector)
