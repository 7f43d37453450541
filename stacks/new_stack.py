"""A new environment's file: little text, nothing that the program would refuse."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from components.catalog import gke
from components.catalog.clouds import CLOUDS
from components.catalog.images import CUDA_SAMPLE
from components.platforms import PLATFORMS
from stacks.files import ROOT, document_in, folder_of
from stacks.gpu_offers import Offer, offers
from stacks.names import StackError, stack_name
from stacks.owners import refuse_shared
from stacks.validation import refusals

SCHEMA = "docs/reference/stack.schema.json"
LOCATIONS = {"gke": "us-central1-a", "gke-autopilot": "us-central1", "eks": "us-east-1"}
"""Platform -> where a cluster is if nothing is said."""
PROJECT = "my-project"
ADMIN = "arn:aws:iam::123456789012:role/deployer"
NETWORKS = {"office": "203.0.113.0/24"}
NODE_LABEL = ("nvidia.com/gpu.present", "true")
GPU = "t4"
"""What stands for the user's own where nothing is said, as in the samples."""
POOL = "gpus"
_Parts = tuple[str, list[str], list[str], int]
"""What the file is about, lines of the cluster, lines of the pool, GPUs of a pod that tries one."""
_YOURS = " # yours instead of this example"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What an environment is to be."""

    platform: str
    name: str = ""
    """The cluster's; left out, derived from the environment's."""
    project: str = PROJECT
    admin: str = ADMIN
    """ARN of the IAM role or user that runs Pulumi."""
    location: str = ""
    """A zone or region; left out, that of `LOCATIONS`."""
    zones: Sequence[str] = ()
    """Of an EKS cluster; left out, the first two by name."""
    gpu: str = GPU
    """A model, as `gpu-cluster offers` knows it."""
    max_nodes: int = 2
    networks: Mapping[str, str] = field(default_factory=dict)
    """Who may reach the control plane: name -> CIDR; left out, an example."""
    private_endpoint: bool = False
    """Whether the control plane has no public address."""
    subnet_ids: Sequence[str] = ()
    """On EKS, the private subnets of an existing VPC."""
    network: Mapping[str, str] = field(default_factory=dict)
    """On GKE, an existing subnetwork: what `cluster.network` has."""
    node_label: tuple[str, str] = NODE_LABEL
    """What an existing cluster's GPU nodes have, and no others."""
    gpus_per_node: int = 1
    """Of an existing cluster."""


def write(stack: str, choices: Choices, source: Path = ROOT) -> tuple[Path, dict[str, Any]]:
    """Writes the environment's file; returns it and its config.

    Raises StackError, and writes nothing, where there is such a file, the program would refuse what
    it says, or another stack of the folder has the cluster.
    """
    file = folder_of(source) / f"Pulumi.{stack_name(stack)}.yaml"
    if file.exists():
        raise StackError(f"{file.name} is there already; edit it, or choose another name")
    written = text(stack, choices, os.path.relpath(ROOT / SCHEMA, file.parent))
    config: dict[str, Any] = document_in(written.encode(), file.name)["config"]
    if refusal := next(refusals(config), None):
        raise StackError(refusal)
    refuse_shared(source, stack, config)
    try:
        with file.open("x") as target:
            target.write(written)
    except FileExistsError:
        raise StackError(f"{file.name} is there already; choose another name") from None
    except OSError as error:
        raise StackError(f"{file.name}: cannot be written: {error.strerror}") from None
    return file, config


def text(stack: str, choices: Choices, schema: str = SCHEMA) -> str:
    """The file's text; raises StackError for a platform or GPU that there is not."""
    if choices.platform not in PLATFORMS:
        raise StackError(f"{choices.platform!r} is no platform; allowed: {', '.join(PLATFORMS)}")
    _check_network(choices)
    location = choices.location or LOCATIONS.get(choices.platform, "")
    chosen = replace(choices, name=choices.name or _name(stack), location=location)
    write_platform = {
        "gke": _gke,
        "gke-autopilot": _autopilot,
        "eks": _eks,
        "existing": _existing,
    }[choices.platform]
    head, cluster, pool, gpus = write_platform(chosen)
    lines = [
        f"# yaml-language-server: $schema={schema}",
        f"# {head}.",
        f"# Try it without a cloud: gpu-cluster rehearse {stack}",
        "config:",
        *_provider(chosen),
        "  pulumi:disable-default-providers: [kubernetes]",
        "  gpu-cluster:cluster:",
        f"    platform: {choices.platform}",
        f"    name: {_scalar(chosen.name)}",
        *(f"    {line}" for line in cluster),
        "  gpu-cluster:gpuPools:",
        f"    {POOL}:",
        *(f"      {line}" for line in pool),
        "  gpu-cluster:workloads:",
        "    try-a-gpu: # adds two vectors on a GPU, and ends; put your own here",
        "      kind: job",
        f"      pool: {POOL}",
        f"      gpus: {gpus}",
        f"      image: {CUDA_SAMPLE.reference}",
    ]
    return "\n".join(lines) + "\n"


def _provider(choices: Choices) -> list[str]:
    if choices.platform == "eks":
        return [f"  aws:region: {_scalar(choices.location)}"]
    if choices.platform == "existing":
        return []
    yours = _YOURS if choices.project == PROJECT else ""
    return [f"  gcp:project: {_scalar(choices.project)}{yours}"]


def _gke(choices: Choices) -> _Parts:
    offer = _offer(choices, "google")
    pool = [f"machineType: {offer.machine}"]
    if gke.MACHINE_TYPES.get(offer.machine) is None:
        pool.append(f"accelerator: {offer.accelerator}")
    pool += _capacity(offer)
    pool.append(f"maxNodes: {choices.max_nodes} # from 0, as pods need them")
    return (
        f"GKE Standard with {offer.gpu} GPUs, which cost nothing until a pod needs one",
        [f"location: {_scalar(choices.location)}", *_reachable(choices), *_network(choices)],
        pool,
        1,
    )


def _autopilot(choices: Choices) -> _Parts:
    offer = _offer(choices, "google")
    return (
        f"GKE Autopilot: a pod gets a node with {offer.gpu} GPUs while it runs",
        [f"location: {_scalar(choices.location)}", *_reachable(choices), *_network(choices)],
        [f"accelerator: {offer.accelerator}", *_capacity(offer)],
        offer.gpus,
    )


def _eks(choices: Choices) -> _Parts:
    offer = _offer(choices, "aws")
    subnets = ", ".join(map(_scalar, choices.subnet_ids))
    zones = list(choices.zones) or [f"{choices.location}a", f"{choices.location}b"]
    note = "" if choices.zones else " # aws ec2 describe-availability-zones lists yours"
    network = [f"  subnetIds: [{subnets}] # private, in two zones at least"] if subnets else []
    if choices.zones or not subnets:
        network.append(f"  zones: [{', '.join(map(_scalar, zones))}]{note}")
    return (
        f"EKS with {offer.gpu} GPUs, which cost nothing until a pod needs one",
        [
            "admins: # whoever runs Pulumi must be one",
            f"  - {_scalar(choices.admin)}{_YOURS if choices.admin == ADMIN else ''}",
            *_reachable(choices),
            "network:",
            *network,
        ],
        [
            f"instanceTypes: [{offer.machine}]",
            f"maxNodes: {choices.max_nodes} # from 0, as pods need them",
            *(
                [f"subnetIds: [{_scalar(choices.subnet_ids[0])}] # one zone for each pool"]
                if subnets
                else []
            ),
        ],
        1,
    )


def _existing(choices: Choices) -> _Parts:
    key, value = choices.node_label
    return (
        "A cluster that is already there, reached by the current kubeconfig ($KUBECONFIG)",
        [],
        [
            f"nodeSelector: {{ {_scalar(key)}: {_scalar(value)} }} # on GPU nodes, and no others",
            f"gpusPerNode: {choices.gpus_per_node}",
        ],
        1,
    )


def _reachable(choices: Choices) -> list[str]:
    """Who may reach the control plane, and that nobody deletes it by mistake."""
    networks, yours = choices.networks, ""
    if not networks and not choices.private_endpoint:
        networks, yours = NETWORKS, _YOURS
    return [
        *(
            ["privateEndpoint: true # run Pulumi where the VPC is reached"]
            if choices.private_endpoint
            else []
        ),
        *(["authorizedNetworks:"] if networks else []),
        *(f"  {_scalar(name)}: {_scalar(block)}{yours}" for name, block in networks.items()),
        "deletionProtection: true # pulumi destroy is refused until this is false",
    ]


def _network(choices: Choices) -> list[str]:
    """The existing subnetwork of a GKE cluster."""
    keys = [f"  {key}: {_scalar(name)}" for key, name in choices.network.items()]
    return ["network:", *keys] if keys else []


def _check_network(choices: Choices) -> None:
    """Refuses what only another platform has a use for."""
    google = choices.platform.startswith("gke")
    if choices.network and not google:
        raise StackError("a subnetwork is for gke and gke-autopilot; on eks give --subnet-id")
    if choices.subnet_ids and choices.platform != "eks":
        raise StackError("--subnet-id is for eks; on gke give --vpc, --subnetwork and its ranges")
    if choices.private_endpoint and choices.platform == "existing":
        raise StackError("--private-endpoint: an existing cluster has its own; drop it")


def _offer(choices: Choices, cloud: str) -> Offer:
    """The smallest machine with the GPU where the cluster is.

    Raises StackError where it is nowhere there, with where it is.
    """
    autopilot = choices.platform == "gke-autopilot"
    region = gke.region_of(choices.location) if cloud == "google" else choices.location
    every = [offer for offer in offers(choices.gpu) if offer.cloud == cloud]
    if autopilot:
        every = [offer for offer in every if offer.autopilot]
    what = "GKE Autopilot" if autopilot else CLOUDS[cloud].title
    if not every:
        raise StackError(f"{choices.gpu}: {what} has no such GPU; gpu-cluster offers lists all")
    place = choices.location if choices.platform == "gke" else region
    # AWS says for an account alone what a region has.
    there = every
    if cloud == "google":
        found = offers(choices.gpu, place)
        there = [offer for offer in found if offer.autopilot or not autopilot]
    if not there:
        zones = sorted({zone for offer in every for zone in offer.zones or ()})
        near = [zone for zone in zones if gke.region_of(zone) == region]
        where = (
            f"zones of {region} that have it: {', '.join(near)}"
            if near
            else f"regions that have it: {', '.join(sorted(set(map(gke.region_of, zones))))}"
        )
        raise StackError(f"no machine with {choices.gpu} is known in {place}; {where}")
    sold = [offer for offer in there if {"on-demand", "spot"} & set(offer.sold)]
    if not sold:
        raise StackError(
            f"{choices.gpu}: is sold by {what} as {', '.join(there[0].sold)} alone, which needs "
            "keys of yours; begin with another GPU and change the file"
        )
    return min(sold, key=lambda one: ("on-demand" not in one.sold, one.gpus, one.vcpu))


def _capacity(offer: Offer) -> list[str]:
    return [] if "on-demand" in offer.sold else ["capacityType: spot # it is not sold on demand"]


def _name(stack: str) -> str:
    """A cluster's name that every platform takes, from the environment's."""
    return f"gpu-{re.sub('[^a-z0-9]+', '-', stack.lower()).strip('-')}"[:40].rstrip("-")


def _scalar(value: str) -> str:
    """A string as YAML has it, in quotes where it would be something else without."""
    dumped: str = yaml.safe_dump(value, width=1000)
    return dumped.removesuffix("\n").removesuffix("\n...")
