"""What GKE's machine families support: disks, placement, and settings of kubelet and kernel.

The families are in machine_families.yaml, which is the table of GKE's own autoscaler.

The rules are those for compute classes in GoogleCloudPlatform/cluster-autoscaler 7d250507,
pkg/computeclass/status/validator/conditions, node_system_misconfigured.go (read on 2026-11-28).
That the API refuses the same in a node pool is an assumption: its reference has the same ranges.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.catalog.gke import MachineType, machine_type
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request

_NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_SECOND, _DAY = _NANOSECONDS["s"], 86_400
_MIB = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024}
_MOST_SHARED = 18_446_744_073_692_774_399
_UP_TO = {"kernel.shmall": _MOST_SHARED, "kernel.shmmax": _MOST_SHARED}


@cache
def _table() -> Mapping[str, Any]:
    file = Path(__file__).with_name("machine_families.yaml")
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")))


def features(name: str) -> Mapping[str, Any]:
    """The row of a machine type's family, with its own boot disks if they differ."""
    family = "n1" if name.startswith("custom-") else name.partition("-")[0]
    row = {**_table()["families"][family], **_table()["machines"].get(name, {})}
    if name.endswith("-metal"):
        # OpenShift's documentation of the disk driver says so of C3; of others it is assumed.
        row |= {key: [disk for disk in row[key] if not disk.startswith("pd-")]
                for key in ("boot", "attach")}  # fmt: skip
    return row


def local_ssds(name: str) -> tuple[int, int]:
    """How many local SSDs a machine always has, and the GiB of each."""
    row = features(name)
    return row.get("ssds", 0), row.get("ssd_gib", 375)


def ssd_counts(name: str) -> list[int]:
    """How many local SSDs a machine can have: those that it always has, or some of these."""
    count, _ = local_ssds(name)
    family = "n1" if name.startswith("custom-") else name.partition("-")[0]
    counts = _table()["counts"]
    return [count] if count else counts.get(name, counts.get(family, []))


def pool_ssds(config: Mapping[str, Any]) -> tuple[int, int]:
    """How many local SSDs the nodes of a `NodeConfig` have as the disk of pods, as which GKE uses
    those that a machine includes by default, and as devices."""
    names = ("ephemeralStorageLocalSsdConfig", "localNvmeSsdBlockConfig")
    pods, devices = (int((config.get(name) or {}).get("localSsdCount") or 0) for name in names)
    return pods or (0 if devices else local_ssds(str(config["machineType"]))[0]), devices


def cache_ssds(config: Mapping[str, Any]) -> int:
    """How many local SSDs the nodes of a `NodeConfig` have for Data Cache."""
    return int((config.get("ephemeralStorageLocalSsdConfig") or {}).get("dataCacheCount") or 0)


def check_ssds(pool: Mapping[str, Any]) -> None:
    """Raises ApiError for local SSDs that the machine cannot have. The message is Compute Engine's
    (magic-modules pull request 9180, of a template); of two uses, that which GKE has for an older
    field (terraform-google-kubernetes-engine pull request 902)."""
    config = pool["config"]
    machine, (pods, devices) = str(config["machineType"]), pool_ssds(config)
    cached = cache_ssds(config)
    if config.get("localSsdCount") or config.get("ephemeralStorageConfig"):
        raise ApiError(501, "a rehearsal simulates no older uses of local SSDs")
    if pods and devices:
        raise bad_request(
            "Can not use local SSDs as volumes when using ephemeral storage backed by local SSDs."
        )
    always, counts = local_ssds(machine)[0], ssd_counts(machine)
    allowed = counts if always else [0, *counts]
    if (requested := pods + devices + cached) not in allowed:
        raise bad_request(
            f"Number of local SSDs for an instance of type {machine} should be one of {allowed}, "
            f"while [{requested}] is requested."
        )


def ssd_labels(pool: Mapping[str, Any]) -> dict[str, str]:
    """docs.cloud.google.com/kubernetes-engine/docs/how-to/persistent-volumes/local-ssd and
    local-ssd-raw; the first also in the autoscaler's labels/system_labels.go, and that of Data
    Cache in kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, pkg/constants."""
    names = ("gke-ephemeral-storage-local-ssd", "gke-local-nvme-ssd")
    counts = zip(names, pool_ssds(pool["config"]), strict=True)
    cached = cache_ssds(pool["config"])
    return {f"cloud.google.com/{name}": "true" for name, count in counts if count} | (
        {"cloud.google.com/gke-data-cache-disk": str(cached)} if cached else {}
    )


def memory_gib(machine: MachineType) -> float:
    """The memory of a machine, which Google's table has for all but custom sizes and new ones."""
    row = _table()["machines"].get(machine.name, {})
    return float(row.get("gib") or _table()["gib"].get(machine.name, machine.memory_gib))


def system_reserved(resource: str, image: str, size: int) -> int:
    """Bytes of `memory` or `disk` that a node's system has: between two sizes of the table on the
    line through both (pkg/cloudprovider/gke/nodetemplate, system_reserved_config.go)."""
    rows = [(0, 0), *_table()["reserved"][resource][image]]
    upper = next((i for i, row in enumerate(rows) if row[0] >= size and i), len(rows) - 1)
    (x1, y1), (x2, y2) = rows[upper - 1], rows[upper]
    return int(y1 + (size - x1) / (x2 - x1) * (y2 - y1))


def check_boot_disk(config: Mapping[str, Any]) -> None:
    """Raises ApiError, with Compute Engine's message, for an unsupported type of the boot disk."""
    machine, disk = str(config["machineType"]), str(config["diskType"])
    if disk not in features(machine)["boot"]:
        raise bad_request(f"{disk} disk type cannot be used by {machine} machine type.")


def attaches(name: str, disk: str) -> bool:
    """Whether a disk of this type can be attached to a running machine. A machine type that boots
    from fewer types than its family attaches no others either: Vertex AI's DiskSpec of A3 Ultra."""
    row = features(name)
    known = row["attach"] or row["boot"]
    own = _table()["machines"].get(name, {}).get("boot")
    return disk in known and (own is None or not disk.startswith("pd-") or disk in own)


def check_node_settings(pool: Mapping[str, Any]) -> None:
    """Raises ApiError for the first setting of kubelet or kernel that GKE refuses."""
    config = pool["config"]
    row = features(str(config["machineType"]))
    if (pool.get("placementPolicy") or {}).get("type") == "COMPACT" and not row["compact"]:
        raise bad_request(f"COMPACT placement is not supported by {config['machineType']}")
    limited, flexible = config.get("maxRunDuration"), bool(config.get("flexStart"))
    least, most = (600, 7 * _DAY) if flexible else (30, 120 * _DAY)
    if limited and not least <= int(str(limited).removesuffix("s")) <= most:
        # pkg/autoprovisioning/injection.go there
        raise bad_request(f"maxRunDuration {limited} must be between {least}s and {most}s")
    for problem in (*_kubelet(config, row), *_linux(config, row)):
        raise bad_request(problem)


def _kubelet(config: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    kubelet = config.get("kubeletConfig") or {}
    period = kubelet.get("cpuCfsQuotaPeriod") or "100ms"
    if not _NANOSECONDS["ms"] <= _duration(period) <= _SECOND:
        yield f"cpuCfsQuotaPeriod '{period}' must be between 1ms and 1s"
    youngest = _duration(kubelet.get("imageMinimumGcAge") or "2m")
    if not 0 < youngest <= 120 * _SECOND:
        yield f"imageMinimumGcAge '{kubelet['imageMinimumGcAge']}' must be positive, at most 2m"
    oldest = _duration(kubelet.get("imageMaximumGcAge") or "0s")
    if oldest and oldest <= youngest:
        yield f"imageMaximumGcAge '{kubelet['imageMaximumGcAge']}' must exceed imageMinimumGcAge"
    size = kubelet.get("containerLogMaxSize") or "10Mi"
    mib = int(size[:-2]) * _MIB[size[-2:]]
    if not 10 <= mib <= 500:
        yield f"containerLogMaxSize '{size}' must be between 10Mi and 500Mi"
    files = int(kubelet.get("containerLogMaxFiles") or 5)
    _, gib = local_ssds(str(config["machineType"]))
    storage = int(config["diskSizeGb"]) + sum(pool_ssds(config)) * gib
    given = {"containerLogMaxSize", "containerLogMaxFiles"} & kubelet.keys()
    if given and files * mib / 1024 > storage / 100:
        yield f"{files} log files of {size} exceed 1% of the node's storage of {storage} GB"
    numa = {"memoryManager", "topologyManager"} & {key for key, value in kubelet.items() if value}
    if numa and not row["numa"]:
        yield f"{min(numa)}: {config['machineType']} does not support NUMA alignment"


def _linux(config: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    linux, machine = config.get("linuxNodeConfig") or {}, machine_type(str(config["machineType"]))
    assert machine is not None, "the pool's machine type has been checked"
    sysctls = linux.get("sysctls") or {}
    for name in {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"} & sysctls.keys():
        numbers = [int(part) for part in sysctls[name].split(" ") if re.fullmatch("[0-9]+", part)]
        parts = sysctls[name].split(" ")
        if len(numbers) != 3 or len(parts) != 3 or numbers != sorted(numbers) or not numbers[0]:
            yield f"sysctl {name} '{sysctls[name]}' must be 3 numbers - 'min default max'"
    for name in _UP_TO.keys() & sysctls.keys():
        if not re.fullmatch("[0-9]+", sysctls[name]) or int(sysctls[name]) > _UP_TO[name]:
            yield f"sysctl {name} '{sysctls[name]}' must be an integer of at most {_UP_TO[name]}"
    if sysctls.get("vm.overcommit_memory") == "2" and memory_gib(machine) < 15:
        yield f"sysctl vm.overcommit_memory 2 is not supported with {machine.name}"
    pages = linux.get("hugepages") or {}
    large, small = int(pages.get("hugepageSize1g") or 0), int(pages.get("hugepageSize2m") or 0)
    if large and not row["gigantic"]:
        yield f"hugepageSize1g is not supported by {machine.name}"
    share = 0.8 if memory_gib(machine) >= 30 else 0.6
    if large * 1024 + small * 2 > int(memory_gib(machine) * 1024 * share):
        yield f"huge pages exceed {share:.0%} of the memory of {machine.name}"


def _duration(text: str) -> float:
    parts = re.findall(r"([0-9.]+)(ns|us|ms|s|m|h)", text)
    return sum(float(number) * _NANOSECONDS[unit] for number, unit in parts)
