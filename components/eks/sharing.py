"""Shared GPUs on Bottlerocket: settings in the user data for the host's device plugin.

https://bottlerocket.dev/en/os/1.54.x/api/settings/kubelet-device-plugins (read 2026-11-21)
"""

from ..cluster import Sharing


def bottlerocket_settings(sharing: Sharing) -> str:
    """The settings, in TOML. With the default `rename-by-default`, no pod is ever scheduled."""
    plugin = "settings.kubelet-device-plugins.nvidia"
    lines = [
        f"[{plugin}]",
        f'device-sharing-strategy = "{sharing.strategy}"',
        "",
        f"[{plugin}.{sharing.strategy}]",
        f"replicas = {sharing.replicas}",
        "rename-by-default = false",
    ]
    if sharing.strategy == "time-slicing":
        # Two shares may be of the same GPU. With MPS there is no such setting: it always refuses.
        lines.append("fail-requests-greater-than-one = true")
    return "\n".join(lines) + "\n"
