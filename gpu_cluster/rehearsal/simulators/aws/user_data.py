"""How Bottlerocket's own device plugin shares GPUs, read from a launch template's user data.

bottlerocket.dev, settings.kubelet-device-plugins of 1.54.x (read 2026-11-21): omitted settings have
defaults, sharing renames the resource unless disabled, and MPS excludes MIG.
"""

import base64
import binascii
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.cloud import MOST_MPS_CLIENTS, RENAMED, GpuSharing

_WHO = "Bottlerocket's device plugin"
_SETTINGS = "settings.kubelet-device-plugins.nvidia"
_DEFAULT_REPLICAS = 2
_SWITCH_SINCE = (1, 63)
"""The release that added `enabled` (its notes of 2026-07-17, read 2026-11-28)."""


def runs_plugin(text: str) -> bool:
    """Whether the host runs its device plugin with these settings, in TOML: `enabled`, by default
    true (bottlerocket-core-kit PR 914, read 2026-11-28)."""
    try:
        return bool(_plugin(tomllib.loads(text)).get("enabled", True))
    except tomllib.TOMLDecodeError:
        return True


def _plugin(given: Mapping[str, Any]) -> Mapping[str, Any]:
    plugin: Mapping[str, Any] = (
        given.get("settings", {}).get("kubelet-device-plugins", {}).get("nvidia", {})
    )
    return plugin


def host_sharing(user_data: str, release: str = "") -> GpuSharing:
    """How the node's GPUs are shared; `user_data` is in base64, empty if there is none; `release`:
    Bottlerocket's, if it is known."""
    if not user_data:
        return GpuSharing()
    try:
        given = tomllib.loads(base64.b64decode(user_data, validate=True).decode())
    except (binascii.Error, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return GpuSharing(fault="the node does not boot: its user data is not valid TOML")
    plugin = _plugin(given)
    # A release with a date is the form that the simulator gives a group without one.
    version = re.match(r"([0-9]+)\.([0-9]+)\.[0-9]+-(?!20[0-9]{6}$)[0-9a-f]{8}$", release)
    if "enabled" in plugin and version and tuple(map(int, version.groups())) < _SWITCH_SINCE:
        return GpuSharing(
            fault=f"the node does not boot: Bottlerocket {release} knows no {_SETTINGS}.enabled"
        )
    strategy = plugin.get("device-sharing-strategy", "none")
    if plugin.get("device-partitioning-strategy", "none") != "none":
        both = ", and MPS excludes partitions" if strategy == "mps" else ""
        return GpuSharing(
            fault=f"{_WHO} is set to partitions, which a rehearsal does not simulate{both}"
        )
    if strategy == "none":
        return GpuSharing()
    if strategy not in ("time-slicing", "mps"):
        return GpuSharing(fault=f"{_WHO} knows no {_SETTINGS}.device-sharing-strategy {strategy!r}")
    return _shared(strategy, plugin.get(strategy, {}))


def _shared(strategy: str, block: Mapping[str, Any]) -> GpuSharing:
    mps = strategy == "mps"
    replicas = block.get("replicas", _DEFAULT_REPLICAS)
    if not isinstance(replicas, int) or replicas < 2 or (mps and replicas > MOST_MPS_CLIENTS):
        return GpuSharing(fault=f"{_WHO} does not take {_SETTINGS}.{strategy}.replicas {replicas}")
    return GpuSharing(
        strategy="mps" if mps else "time-slicing",
        replicas=replicas,
        most=1 if mps or block.get("fail-requests-greater-than-one", True) else None,
        fault=f"{_WHO} {RENAMED}" if block.get("rename-by-default", True) else "",
    )
