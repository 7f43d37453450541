"""Writes the inventory of an existing cluster, or of its machines, for rehearsals."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from gpu_cluster.components.cluster import ResolvedPool
from gpu_cluster.components.existing.settings import ExistingSettings
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.limits import EXTENDED_RESOURCE
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.rehearsal.existing import inventory_objects
from gpu_cluster.rehearsal.simulators import google_inventory
from gpu_cluster.rehearsal.simulators.inventory import (
    INVENTORIES,
    Machine,
    checked_machines,
    eks_cluster,
    inventory,
)
from gpu_cluster.stacks.definition.files import project_name
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.settings import (
    NOWHERE,
    ROOT,
    config_of,
    own_kubeconfig,
    settings_of,
)
from gpu_cluster.stacks.outcome import CheckError

GPU = "nvidia.com/gpu"
_OWN = ("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch")
"""Labels that every simulated node gets automatically."""
_HEAD = """\
# The machines of the cluster that Pulumi.{stack}.yaml expects, as they exist before the
# stack, written from `kubectl get nodes`. `gpus` are in the machine and its driver is installed.
"""


_CLUSTER_HEAD = """\
# The cluster that Pulumi.{stack}.yaml expects, as it exists without the stack, and what its owner
# runs there, written by `gpu-cluster inventory`.
"""


def write_inventory(
    stack: str, nodes: Path | None, folder: Path = INVENTORIES, *, trusted: bool = False
) -> Path:
    """Writes the inventory of an existing cluster.

    Without a cloud, it is read from `kubectl get nodes -o json`: from a file (`-` for standard
    input), or else from the cluster in the settings. With a cloud, it is read from the cloud and
    the cluster, and the file's other keys are kept.

    Raises CheckError, one line, also if `own_kubeconfig` does not trust the settings.
    """
    config = config_of(stack)
    settings = settings_of(stack, config, kubeconfig=NOWHERE)
    if PLATFORMS[settings.platform].inventory:
        if nodes is not None:
            raise StackError(
                f"--nodes: {stack} is on {settings.platform}, whose cloud is asked; drop the option"
            )
        return write_cluster(stack, settings, folder)
    if not isinstance(own := settings.own, ExistingSettings):
        raise StackError(
            f"{stack} is on {settings.platform}: the stack creates its cluster; the subnets of an "
            "existing VPC are written by hand: docs/how-to/inventories.md"
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
    found, notes = with_gpus(from_nodes(text, selected), own.pools)
    for note in (*partitioned(text), *notes):
        print(note, file=sys.stderr)
    machines = checked_machines(stack, found)
    file = folder / f"{stack}.yaml"
    file.write_text(_HEAD.format(stack=stack) + yaml.safe_dump(machines, sort_keys=False))
    return file


def write_cluster(
    stack: str,
    settings: Settings[Any],
    folder: Path,
    *,
    endpoint: str | None = None,
    kubeconfig: str | None = None,
) -> Path:
    """Writes what a cloud and its cluster report. `endpoint`: a simulator's URL for the cloud's
    API; `kubeconfig`: the cluster's, by default as the cloud describes it. Raises CheckError, also
    for a cluster that an inventory cannot describe."""
    owner = f"{project_name(ROOT)}/{stack}"
    read = import_module(PLATFORMS[settings.platform].inventory).read_inventory
    described, known = read(settings, owner, endpoint)
    try:
        described |= inventory_objects.described(kubeconfig or known, settings, owner)
    except CheckError as error:
        print(
            f"objects, controllers: not read from the cluster, list them by hand: {error}",
            file=sys.stderr,
        )
    before = inventory(stack, folder)
    document = {**(before if isinstance(before, dict) else {}), **described}
    text = _CLUSTER_HEAD.format(stack=stack) + yaml.safe_dump(document, sort_keys=False)
    with TemporaryDirectory() as checked:
        (Path(checked) / f"{stack}.yaml").write_text(text)
        eks_cluster(stack, settings, Path(checked))
        google_inventory.gke_cluster(stack, settings, Path(checked))
        google_inventory.networks(stack, settings, Path(checked))
    file = folder / f"{stack}.yaml"
    file.write_text(text)
    return file


def from_nodes(text: str, selected: set[str]) -> list[Machine]:
    """The machines in the output of `kubectl get nodes -o json`. Keeps NVIDIA's labels and those
    that a pool selects by. Raises StackError if the text is something else."""
    try:
        nodes = [_machine(node, selected) for node in json.loads(text)["items"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StackError(
            "that is not a list of nodes; give the output of kubectl get nodes -o json"
        ) from None
    if not nodes:
        raise StackError("the cluster has no nodes")
    return nodes


def partitioned(text: str) -> list[str]:
    """A line for each node in the output of `kubectl get nodes -o json` that offers partitions of
    its GPUs, which pools of this platform cannot use."""
    lines = []
    for node in json.loads(text)["items"]:
        offered = [key for key in node["status"]["capacity"] if key.startswith("nvidia.com/mig-")]
        if offered:
            lines.append(
                f"node {node['metadata']['name']} offers {', '.join(offered)}: the stack's pods "
                "request whole GPUs, and cannot use it; turn MIG off there, or create pods for it "
                "yourself"
            )
    return lines


def with_gpus(
    machines: list[Machine], pools: Mapping[str, ResolvedPool[Any]]
) -> tuple[list[Machine], list[str]]:
    """The machines, with GPUs for those that a pool selects and that report none because the stack
    has not installed their device plugin yet; and what was assumed, one line for each pool."""
    found, assumed = list[Machine](), dict[str, list[str]]()
    for machine in machines:
        labels = machine.get("labels", {})
        fitting = (
            name
            for name, pool in pools.items()
            if pool.pool.device_plugin or pool.pool.device_class
            if pool.args.node_selector.items() <= labels.items()
        )
        if "gpus" in machine or (pool := next(fitting, None)) is None:
            found.append(machine)
            continue
        counted = labels.get(f"{GPU}.count", "")  # NVIDIA's GPU feature discovery
        gpus = int(counted) if counted.isdigit() else pools[pool].pool.gpus_per_node
        found.append({**machine, "gpus": gpus})
        assumed.setdefault(pool, []).append(f"{machine['name']} has {gpus}")
    return found, [
        f"gpuPools.{name}: no device plugin reports GPUs yet; by gpusPerNode or the label "
        f"{GPU}.count, {', '.join(lines)}: correct `gpus` in the file if that is wrong"
        for name, lines in assumed.items()
    ]


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
        # A node that is not ready at the moment has it.
        if not taint["key"].startswith("node.kubernetes.io/")
    ]
    extended = [
        key
        for key, amount in capacity.items()
        if EXTENDED_RESOURCE.refusal(key) is None and str(amount) != "0"
    ]
    found = {
        "name": metadata["name"],
        "labels": labels,
        "taints": taints,
        "gpus": int(capacity.get(GPU, 0)),
        "capacity": {key: str(capacity[key]) for key in ("cpu", "memory", *extended)},
    }
    return {key: value for key, value in found.items() if value}


def _asked(kubeconfig: str) -> str:
    """The output of kubectl, which gets the kubeconfig without it being written to a file."""
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
        raise StackError("kubectl get nodes gave no response within 60 s") from None
    finally:
        os.close(reading)
    if done.returncode:
        raise StackError(f"kubectl get nodes: {' '.join(done.stderr.split())}")
    return done.stdout
