"""The pods that provide a node's GPUs: installers of NVIDIA's driver, its device plugin, and its
DRA driver.

Many DaemonSets are privileged and called a driver (those of storage), and every device plugin
mounts the kubelet's directory of sockets (also those of network adapters). The name of the
container or of its image tells them apart. Names are from Google's container-engine-accelerators,
GKE's own add-ons, NVIDIA's GPU operator and k8s-device-plugin (read 2026-11-21), and
dra-driver-nvidia-gpu v0.4.1.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from .partial import UNKNOWN, all_of, any_of, get, items

PLUGIN_SOCKETS: Final = "/var/lib/kubelet/device-plugins"
"""The directory on the node in which a device plugin registers with the kubelet."""
DRA_SOCKETS: Final = "/var/lib/kubelet/plugins_registry"
"""The directory on the node in which a DRA driver registers with the kubelet."""
_COS_DRIVER: Final = "/home/kubernetes/bin/nvidia"
_DRIVER_NAME: Final = re.compile(r"nvidia-(gpu-)?driver(-installer|-ctr|-daemonset)?")
_DRIVER_IMAGE: Final = re.compile(
    r"(.*/)?(nvidia/driver|[a-z0-9-]*nvidia-(gpu-)?(driver-)?installer|cos-gpu-installer"
    r"|nvidia-(gpu-)?driver)"
)
_PLUGIN_NAME: Final = re.compile(r"nvidia-(gpu-)?device-plugin(-ctr|-daemonset)?")
_PLUGIN_IMAGE: Final = re.compile(r"(.*/)?(nvidia/k8s-device-plugin|nvidia-(gpu-)?device-plugin)")


_DRA_IMAGE: Final = re.compile(r"(.*/)?(k8s-dra-driver-gpu|dra-driver-nvidia-gpu)")
_DRA_CONTAINER: Final = "gpus"
"""The driver's other container only serves compute domains, and publishes no GPUs."""


def installs_driver(spec: Mapping[str, Any]) -> bool | None:
    """Whether a pod with this spec installs NVIDIA's driver on its node; None if not known."""
    return _any_container(
        spec,
        lambda container: all_of([
            _is(get(container, "securityContext", "privileged"), True),
            _runs(container, _DRIVER_NAME, _DRIVER_IMAGE),
        ]),
    )  # fmt: skip


def installer_made_for(spec: Mapping[str, Any]) -> Literal["cos", "ubuntu", "other"] | None:
    """The node image that this installer of NVIDIA's driver supports; None for other pods.

    Google's installers for Container-Optimized OS write the driver to a directory next to the
    kubelet, those for Ubuntu build it against the host's `/boot`. The tag of NVIDIA's driver
    container ends with its operating system: `595.91.07-ubuntu24.04`.
    """
    if not installs_driver(spec):
        return None
    paths = host_paths(spec)
    if _COS_DRIVER in paths:
        return "cos"
    tags = [str(get(part, "image")).rpartition(":")[2] for part in items(spec, "containers")]
    return "ubuntu" if "/boot" in paths or any("-ubuntu" in tag for tag in tags) else "other"


def is_device_plugin(spec: Mapping[str, Any]) -> bool | None:
    """Whether a pod with this spec registers NVIDIA's GPUs with the kubelet; None if not known."""
    theirs = _any_container(spec, lambda part: _runs(part, _PLUGIN_NAME, _PLUGIN_IMAGE))
    return all_of([_mounts(spec, PLUGIN_SOCKETS), theirs])


def is_dra_driver(spec: Mapping[str, Any]) -> bool | None:
    """Whether a pod with this spec is NVIDIA's DRA driver of a node, from which pods claim GPUs;
    None if not known."""
    theirs = _any_container(
        spec,
        lambda part: all_of([
            _is(get(part, "name"), _DRA_CONTAINER),
            _fits(_image(part), _DRA_IMAGE),
        ]),
    )  # fmt: skip
    return all_of([_mounts(spec, DRA_SOCKETS), theirs])


def _mounts(spec: Mapping[str, Any], directory: str) -> bool | None:
    return any_of(
        None if path is UNKNOWN else str(path).rstrip("/") == directory
        for path in (get(volume, "hostPath", "path") for volume in items(spec, "volumes"))
    )


def host_paths(spec: Mapping[str, Any]) -> set[str]:
    """The known host paths that a pod mounts, without a trailing `/`."""
    paths = (get(volume, "hostPath", "path") for volume in items(spec, "volumes"))
    return {path.rstrip("/") or "/" for path in paths if isinstance(path, str)}


def _any_container(spec: Mapping[str, Any], verdict: Callable[[Any], bool | None]) -> bool | None:
    containers = [*items(spec, "initContainers"), *items(spec, "containers")]
    return any_of(map(verdict, containers))


def _runs(container: Any, name: re.Pattern[str], image: re.Pattern[str]) -> bool | None:
    return any_of([_fits(get(container, "name"), name), _fits(_image(container), image)])


def _image(container: Any) -> Any:
    """The image's repository, or that it is not known."""
    image = get(container, "image")
    return _repository(image) if isinstance(image, str) else image


def _fits(word: Any, pattern: re.Pattern[str]) -> bool | None:
    return None if word is UNKNOWN else bool(pattern.fullmatch(str(word)))


def _is(found: Any, wanted: Any) -> bool | None:
    return None if found is UNKNOWN else bool(found == wanted)


def _repository(image: str) -> str:
    """`registry:5000/a/b:tag@sha256:...` -> `registry:5000/a/b`."""
    path = image.partition("@")[0]
    head, slash, last = path.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"
