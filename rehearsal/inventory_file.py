"""Writes down the machines of an existing cluster, for rehearsals of it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from components.existing.settings import ExistingSettings
from components.platforms import PLATFORMS
from rehearsal.simulators.inventory import INVENTORIES, Machine, checked_machines
from stacks.definition.names import StackError
from stacks.definition.settings import NOWHERE, config_of, own_kubeconfig, settings_of

GPU = "nvidia.com/gpu"
_OWN = ("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch")
"""Labels that every simulated node gets automatically."""
_HEAD = """\
# The machines of the cluster that Pulumi.{stack}.yaml expects, as they exist before the
# stack, written from `kubectl get nodes`. `gpus` are in the machine and its driver is installed.
"""


def write(
    stack: str, nodes: Path | None, folder: Path = INVENTORIES, *, trusted: bool = False
) -> Path:
    """Writes the inventory from `kubectl get nodes -o json`: of a file, `-` for standard input, or
    else of the cluster in the settings. Raises CheckError, in one line, also if `own_kubeconfig`
    does not trust the settings."""
    config = config_of(stack)
    settings = settings_of(stack, config, kubeconfig=NOWHERE)
    if not isinstance(own := settings.own, ExistingSettings):
        what = (
            "the cluster and what its owner runs in it are"
            if PLATFORMS[settings.platform].added
            else "its cluster is the stack's; the subnets of an existing VPC are"
        )
        raise StackError(
            f"{stack} is on {settings.platform}: {what} written by hand: docs/how-to/inventories.md"
        )
    if nodes is None:
        kubeconfig = own_kubeconfig(stack, config, trusted=trusted)
        if kubeconfig is None:
            raise StackError("the stack's kubeconfig is encrypted: give --nodes FILE")
        text = _asked(kubeconfig)
    else:
        try:
            text = sys.stdin.read() if str(nodes) == "-" else nodes.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise StackError(f"{nodes} cannot be read: {error}") from None
    selected = {key for pool in own.pools.values() for key in pool.args.node_selector}
    machines = checked_machines(stack, from_nodes(text, selected))
    file = folder / f"{stack}.yaml"
    file.write_text(_HEAD.format(stack=stack) + yaml.safe_dump(machines, sort_keys=False))
    return file


def from_nodes(text: str, selected: set[str]) -> list[Machine]:
    """The machines in `kubectl get nodes -o json`. Labels are kept that a pool selects by, and
    NVIDIA's. Raises StackError if it is something else."""
    try:
        nodes = [_machine(node, selected) for node in json.loads(text)["items"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StackError(
            "that is not a list of nodes; give the output of kubectl get nodes -o json"
        ) from None
    if not nodes:
        raise StackError("the cluster has no nodes")
    return nodes


def _machine(node: Mapping[str, Any], selected: set[str]) -> Machine:
    metadata, capacity = node["metadata"], node["status"]["capacity"]
    labels = {
        key: value
        for key, value in metadata.get("labels", {}).items()
        if key in selected or (key.startswith("nvidia.com/") and key not in _OWN)
    }
    taints = [
        {"key": taint["key"], "value": taint.get("value", ""), "effect": taint["effect"]}
        for taint in node["spec"].get("taints", [])
        # Of a node that is not ready at the moment.
        if not taint["key"].startswith("node.kubernetes.io/")
    ]
    found = {
        "name": metadata["name"],
        "labels": labels,
        "taints": taints,
        "gpus": int(capacity.get(GPU, 0)),
        "capacity": {"cpu": str(capacity["cpu"]), "memory": str(capacity["memory"])},
    }
    return {key: value for key, value in found.items() if value}


def _asked(kubeconfig: str) -> str:
    """What kubectl says. The kubeconfig reaches it without being written anywhere."""
    reading, writing = os.pipe()
    os.write(writing, kubeconfig.encode())
    os.close(writing)
    command = ["kubectl", "--kubeconfig", f"/dev/fd/{reading}", "get", "nodes", "-o", "json"]
    try:
        done = subprocess.run(
            command, pass_fds=[reading], capture_output=True, text=True, timeout=60
        )
    except FileNotFoundError:
        raise StackError(
            "kubectl is not installed: give --nodes FILE with the output of kubectl get nodes "
            "-o json"
        ) from None
    except subprocess.TimeoutExpired:
        raise StackError("kubectl get nodes gave no answer in 60 s") from None
    finally:
        os.close(reading)
    if done.returncode:
        raise StackError(f"kubectl get nodes: {' '.join(done.stderr.split())}")
    return done.stdout
