"""The real node's part of a rehearsal's report, as text."""

from collections.abc import Mapping
from typing import Any

TRACES = ("processes", "mounts", "interfaces", "cgroups", "files", "settings")


def blocks(node: Mapping[str, Any]) -> list[str]:
    """Formats the report's document about the node, in chronological order."""
    names = sorted({gpu["name"] for gpu in node["gpus"]})
    versions = ", ".join(f"{name} {version}" for name, version in node["versions"].items())
    offered = " -> ".join(f"{gpus} at {at:.1f} s" for at, gpus in node["allocatable"])
    parts = [
        f"real node: {len(node['gpus'])} x {', '.join(names)}, driver {node['driver']}; {versions}",
        "\n".join(["what is different here", *(f"  - {line}" for line in node["overrides"])]),
        f"allocatable nvidia.com/gpu of the real node: {offered}",
    ]
    if node["check"]:
        parts.append(f"gpu-cluster gpus\n{node['check']}")
    for name, sample in node["samples"].items():
        text = sample.get("said") or f"{sample['scheduler']}\n{sample['why']}"
        where = f" on {sample['node']}" if "node" in sample else ""
        title = name if sample["state"] == "published" else f"pod {name}"
        text = "\n".join([text.rstrip(), *sample.get("late", ())])
        parts.append(f"{title}: {sample['state']}{where}\n{_indented(text)}")
    if node["left"]:
        found = (f"{sort} {', '.join(node['left'][sort]) or 'none'}" for sort in TRACES)
        parts.append(f"left on the machine: {'; '.join(found)}")
    return parts


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.strip().splitlines())
