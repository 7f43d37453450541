"""The user data of nodes on EKS: settings for the image's own agent, and the user's parts.

AL2023 expects a MIME document. Its NodeConfig parts are merged by nodeadm in order, and the last
one wins (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/, read 2026-11-24); EKS adds
the part about the cluster itself, unless the image is the user's own. Bottlerocket expects settings
in TOML, to which EKS also adds its own (bottlerocket.dev, settings.kubernetes of 1.54.x).
"""

import ipaddress
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..cluster import GpuPool, Sharing, Taint
from ..schema.decode import camel
from ..schema.refusal import refuse
from .node_args import SCRIPTS, EksKubeletArgs

LocalStorage = Literal["raid0", "mounts"]
_STRATEGIES: Mapping[LocalStorage, str] = {"raid0": "RAID0", "mounts": "Mount"}
"""LocalStorageStrategy of awslabs/amazon-eks-ami, nodeadm/api/v1alpha1, read 2026-11-29."""
ImagePull = Literal["parallel"]
BOTTLEROCKET_PARALLEL_SINCE = (1, 44)
"""The first release with it. AL2023's is 20250821, older than `catalog.TOOLKIT_SINCE`, which a
pool needs."""
PARALLEL_ON_DISKS_SINCE = "20251217"
"""The first release of AL2023 that moves such images to the local disks of `raid0`: the changelog
of awslabs/amazon-eks-ami, pull request 2548, read 2026-11-29."""
PARALLEL_NEVER_READY = "20260505"
"""The release of AL2023 with which no pod starts on such nodes: awslabs/amazon-eks-ami issue 2710,
and pull request 2717, which 20260512 has; read 2026-11-30."""
RAID_AGAIN_SINCE = "20260707"
"""The first release of AL2023 that sets up `raid0` again after a stop, which empties the disks:
awslabs/amazon-eks-ami, pull request 2755, read 2026-11-30."""
PARALLEL_THROUGHPUT = 600
"""The MiB/s of a volume that AWS recommends at least; with less, pulls may take longer than without
it: awslabs/amazon-eks-ami, nodeadm/doc/examples.md, "Enabling fast image pull (experimental)". It
and the base of 3000 IOPS, and the releases: aws-samples/karpenter-blueprints, blueprints/
soci-snapshotter. Both read 2026-11-29."""
_PARALLEL = """[settings.container-runtime]
snapshotter = "soci"

[settings.container-runtime-plugins.soci-snapshotter]
pull-mode = "parallel-pull-unpack"

[settings.container-runtime-plugins.soci-snapshotter.parallel-pull-unpack]
max-concurrent-downloads-per-image = 20
concurrent-download-chunk-size = "16mb"
max-concurrent-unpacks-per-image = 12
discard-unpacked-layers = true
"""
"""The values that AL2023's images have: Bottlerocket's own download 3 layers and unpack 1 at a
time. bottlerocket.dev/en/os/1.53.x/api/settings/container-runtime-plugins, read 2026-11-29."""
_PLUGIN = "settings.kubelet-device-plugins.nvidia"
_EPHEMERAL = """[settings.bootstrap-commands.local-storage]
commands = [
  ["apiclient", "ephemeral-storage", "init"],
  ["apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", \
"/var/log/pods"],
]
mode = "always"
essential = true
"""
"""What Karpenter 1.15.0 writes for `instanceStorePolicy: RAID0` too:
https://bottlerocket.dev/en/os/1.50.x/concepts/bootstrap-commands (read 2026-11-29)."""
EVICTION = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
}
"""The kubelet's default thresholds:
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/, "Hard eviction
thresholds", read 2026-11-24."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The cluster's data for nodes that join it, which EKS adds only to its own images."""

    name: str
    endpoint: str
    ca_certificate: str
    service_cidr: str
    labels: Mapping[str, str]
    taints: Sequence[Taint]


def al2023(
    kubelet: EksKubeletArgs | None,
    parts: Sequence[str],
    bootstrap: Bootstrap | None,
    local_storage: LocalStorage | None = None,
    image_pull: ImagePull | None = None,
) -> str | None:
    """The MIME document; None if it would be empty."""
    spec: dict[str, Any] = {}
    if bootstrap:
        spec["cluster"] = {
            "name": bootstrap.name,
            "apiServerEndpoint": bootstrap.endpoint,
            "certificateAuthority": bootstrap.ca_certificate,
            "cidr": bootstrap.service_cidr,
        }
        labels = ",".join(f"{key}={value}" for key, value in bootstrap.labels.items())
        taints = ",".join(map(str, bootstrap.taints))
        spec["kubelet"] = {
            "flags": [
                f"--node-labels={labels}",
                *([f"--register-with-taints={taints}"] if taints else []),
            ]
        }
    if kubelet:
        spec["kubelet"] = {"config": kubelet.config, **spec.get("kubelet", {})}
    if local_storage:
        spec["instance"] = {"localStorage": {"strategy": _STRATEGIES[local_storage]}}
    if image_pull:
        spec["featureGates"] = {"FastImagePull": True}
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    # JSON is YAML.
    found = [json.dumps(config, indent=1), *parts] if spec else list(parts)
    if not found:
        return None
    body = "".join(f"--//\nContent-Type: {_kind(part)}\n\n{part.rstrip()}\n\n" for part in found)
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n{body}--//--\n'


def _kind(part: str) -> str:
    if part.startswith(SCRIPTS):
        return f"text/{'x-shellscript' if part.startswith('#!') else 'cloud-config'}"
    return "application/node.eks.aws"


def bottlerocket(
    kubelet: EksKubeletArgs | None,
    pool: GpuPool,
    parts: Sequence[str],
    bootstrap: Bootstrap | None,
    local_storage: LocalStorage | None = None,
    image_pull: ImagePull | None = None,
) -> str | None:
    """The settings in TOML; None if there are none. Raises `Refusal` if the user data sets one of
    them again, and for settings that Bottlerocket does not support."""
    for key in ("kube_reserved", "system_reserved"):
        if "pid" in getattr(kubelet, key, {}):
            # bottlerocket-settings-sdk, modeled-types, KubernetesReservedResourceKey, 2026-11-24.
            raise refuse(("kubelet", camel(key), "pid"))(
                "is not a setting of Bottlerocket; leave it out, or use os: al2023"
            )
    settings: dict[str, Any] = {}
    if bootstrap:
        network = ipaddress.IPv4Network(bootstrap.service_cidr)
        settings = {
            "cluster-name": bootstrap.name,
            "api-server": bootstrap.endpoint,
            "cluster-certificate": bootstrap.ca_certificate,
            "cluster-dns-ip": str(network[10]),
            "node-labels": dict(bootstrap.labels),
            "node-taints": {item.key: [f"{item.value}:{item.effect}"] for item in bootstrap.taints},
        }
    for key, value in (kubelet.settings if kubelet else {}).items():
        # The kubelet treats an omitted signal as zero, and Bottlerocket adds none.
        whole = {**EVICTION, **value} if key == "eviction_hard" else value
        settings[key.replace("_", "-")] = whole
    plugin = _bottlerocket_sharing(pool.sharing) if pool.sharing else ""
    if "device plugin" in (pool.left_to_others or ()):
        plugin = f"[{_PLUGIN}]\nenabled = false\n"
    disks = _EPHEMERAL if local_storage == "raid0" else ""
    if image_pull:  # The snapshotter keeps images in a directory of its own.
        disks = disks.replace('pods"]', 'pods", "/var/lib/soci-snapshotter"]')
    pull = _PARALLEL if image_pull else ""
    text = "\n".join(part for part in (_toml(settings), plugin, disks, pull, *parts) if part)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refuse("userData")(
            f"cannot be merged with this stack's settings as TOML: {error}"
        ) from None
    return text or None


def _toml(settings: Mapping[str, Any]) -> str:
    table = "settings.kubernetes"
    plain = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    lines = [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in plain.items())]
    for key, entries in settings.items():
        if isinstance(entries, Mapping) and entries:
            rows = (f"{json.dumps(name)} = {json.dumps(entry)}" for name, entry in entries.items())
            lines += ["", f"[{table}.{key}]", *rows]
    return "\n".join(lines) + "\n" if settings else ""


def _bottlerocket_sharing(sharing: Sharing) -> str:
    """Settings of the host's device plugin, in TOML. With the default `rename-by-default`, no pod
    is ever scheduled.

    https://bottlerocket.dev/en/os/1.54.x/api/settings/kubelet-device-plugins (read 2026-11-21)
    """
    lines = [
        f"[{_PLUGIN}]",
        f'device-sharing-strategy = "{sharing.strategy}"',
        "",
        f"[{_PLUGIN}.{sharing.strategy}]",
        f"replicas = {sharing.replicas}",
        "rename-by-default = false",
    ]
    if sharing.strategy == "time-slicing":
        # Two shares may be of the same GPU. With MPS there is no such setting: it always refuses.
        lines.append("fail-requests-greater-than-one = true")
    return "\n".join(lines) + "\n"
