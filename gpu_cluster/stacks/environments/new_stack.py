"""A new environment's file: short, and with nothing that the program would refuse."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import yaml

from gpu_cluster.components.catalog import gke
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.catalog.images import CUDA_SAMPLE
from gpu_cluster.components.platforms import PLATFORMS, WRITTEN, platform_in
from gpu_cluster.components.schema.refusal import Refusal
from gpu_cluster.stacks.cost.gpu_offers import Offer, offers
from gpu_cluster.stacks.definition.files import ROOT, document_in, folder_of
from gpu_cluster.stacks.definition.names import StackError, stack_name
from gpu_cluster.stacks.definition.owners import refuse_shared
from gpu_cluster.stacks.definition.validation import refusals

SCHEMA = "docs/reference/stack.schema.json"
PROJECT = "my-project"
ADMIN = "arn:aws:iam::123456789012:role/deployer"
NETWORKS = {"office": "203.0.113.0/24"}
NODE_LABEL = ("nvidia.com/gpu.present", "true")
GPU = "t4"
MAX_NODES = 2
"""Placeholders for values that are not given, as in the samples."""
POOL = "gpus"
Parts = tuple[str, list[str], list[str], int]
"""The file's comment, lines of the cluster, lines of the pool, GPUs of a pod that tries one."""
OPTIONS: Mapping[str, str] = {
    "admins": "--admin",
    "authorizedNetworks": "--network",
    "existing": "--existing",
    "gpusPerNode": "--gpus-per-node",
    "hostProject": "--host-project",
    "location": "--location",
    "maxNodes": "--max-nodes",
    "name": "--name",
    "nodeSelector": "--node-label",
    "podsRange": "--pods-range",
    "privateEndpoint": "--private-endpoint",
    "project": "--project",
    "region": "--location",
    "scaler": "--scaler",
    "securityGroupIds": "--security-group-id",
    "servicesRange": "--services-range",
    "subnetIds": "--subnet-id",
    "subnetwork": "--subnetwork",
    "version": "--kubernetes-version",
    "vpc": "--vpc",
    "zones": "--zone",
}
"""Key of a stack's file -> the option of `gpu-cluster new` that sets it."""
_WORDS = {**OPTIONS, "set privateEndpoint: true": "give --private-endpoint"}
"""Words of a refusal about a file -> those about options."""
YOURS = " # yours instead of this example"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The choices for a new environment; what is not given is empty."""

    platform: str
    """The platform as in `cluster.platform`."""
    scaler: str = ""
    """What starts the nodes, as `cluster.scaler`; if empty, the platform's default."""
    existing: str = ""
    """The name of an existing cluster on GKE or EKS."""
    name: str = ""
    """The cluster's name; if empty, derived from the environment's."""
    project: str = ""
    admin: str = ""
    """ARN of the IAM role or user that runs Pulumi."""
    location: str = ""
    """A zone or region; if empty, that of the platform's module."""
    zones: Sequence[str] = ()
    """Zones of an EKS cluster; if empty, the first two by name."""
    gpu: str = ""
    """A GPU model as in `gpu-cluster offers`."""
    max_nodes: int = 0
    networks: Mapping[str, str] = field(default_factory=dict)
    """Networks that may reach the control plane: name -> CIDR; if empty, an example."""
    private_endpoint: bool = False
    """Whether the control plane has no public address."""
    subnet_ids: Sequence[str] = ()
    """On EKS, the private subnets of an existing VPC."""
    security_group_ids: Sequence[str] = ()
    """On EKS, the security groups of the nodes in an existing cluster."""
    kubernetes_version: str = ""
    """The version of an existing cluster."""
    network: Mapping[str, str] = field(default_factory=dict)
    """On GKE, an existing subnetwork: the contents of `cluster.network`."""
    node_label: tuple[str, str] | tuple[()] = ()
    """A label that only an existing cluster's GPU nodes have."""
    gpus_per_node: int = 0
    """GPUs per node of an existing cluster."""

    @property
    def row(self) -> str:
        """Key of `PLATFORMS`."""
        existing = {"existing": self.existing} if self.existing else {}
        return platform_in({"platform": self.platform, **existing})


def write_stack(stack: str, choices: Choices, source: Path = ROOT) -> tuple[Path, dict[str, Any]]:
    """Writes the environment's file; returns it and its config.

    Raises StackError, and writes nothing, if the file exists, if the program would refuse it, or if
    another stack in the folder has the same cluster.
    """
    file = folder_of(source) / f"Pulumi.{stack_name(stack)}.yaml"
    if file.exists():
        raise StackError(f"{file.name} already exists; edit it, or choose another name")
    schema = next(filter(Path.is_file, (source / Path(SCHEMA).name, ROOT / SCHEMA)), None)
    written = stack_text(stack, choices, os.path.relpath(schema, file.parent) if schema else "")
    config: dict[str, Any] = document_in(written.encode(), file.name)["config"]
    if refused := refusals(config):
        raise StackError("\n".join(map(by_options, refused)))
    refuse_shared(source, stack, config)
    try:
        with file.open("x") as target:
            target.write(written)
    except FileExistsError:
        raise StackError(f"{file.name} already exists; choose another name") from None
    except OSError as error:
        raise StackError(f"{file.name}: cannot be written: {error.strerror}") from None
    return file, config


def by_options(refusal: Refusal) -> str:
    """The program's error about a file that is not written, with options instead of keys."""
    return f"{_option_of(refusal) or refusal.at}: {refusal.spelled(_WORDS)}"


def _option_of(refusal: Refusal) -> str:
    # The last key that has an option: gcp:project, or admins and authorizedNetworks of more.
    keys = [f"{key}".rpartition(":")[2] for key in refusal.path]
    return next((OPTIONS[key] for key in reversed(keys) if key in OPTIONS), "")


def answer_refusal(stack: str, choices: Choices, option: str) -> str:
    """Why the file is refused because of this option; empty if it is not."""
    try:
        config = document_in(stack_text(stack, choices, "").encode(), stack)["config"]
        reasons = {_option_of(refusal): refusal for refusal in reversed(refusals(config))}
    except _OptionError as error:
        return error.clause if error.option == option else ""
    except StackError as error:
        return str(error) if option == "--gpu" else ""
    if option in reasons:
        return reasons[option].spelled(_WORDS)
    # The GPU decides about the machine, which has no option.
    return by_options(reasons[""]) if option == "--gpu" and "" in reasons else ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of `gpu-cluster new` for a platform."""

    key: str
    """The field of `Choices`."""
    text: str
    default: Any
    pair: bool = False
    """Whether the answer is `name=value`."""
    many: bool = False
    """Whether the answer is a list, separated by commas."""


class Environment(Protocol):
    """The module that `Platform.environment` names."""

    LOCATION: str
    """The default location of a cluster; empty if the question makes no sense."""
    QUESTIONS: Sequence[Question]

    def provider(self, choices: Choices) -> list[str]:
        """Lines of the config for the cloud's provider."""

    def parts(self, choices: Choices) -> Parts:
        """The file's lines about cluster and pool."""


def environment_of(platform: str) -> Environment:
    """The platform's module; raises StackError for one without files to write."""
    name = PLATFORMS[platform].environment
    if not name:
        raise StackError(f"no file can be written for {platform} yet; write one by hand")
    return cast(Environment, import_module(name))


def stack_text(stack: str, choices: Choices, schema: str = SCHEMA) -> str:
    """The file's text; raises StackError for an unknown platform or GPU."""
    if choices.platform not in WRITTEN:
        raise StackError(
            f"{choices.platform!r} is not a valid platform; allowed: {', '.join(WRITTEN)}"
        )
    _check_existing(choices)
    _check_network(choices)
    environment = environment_of(choices.row)
    chosen = cast(Choices, read := _Read(choices))
    head, cluster, pool, gpus = environment.parts(chosen)
    lines = [
        *([f"# yaml-language-server: $schema={schema}"] if schema else []),
        f"# {head}.",
        f"# Try it without a cloud: gpu-cluster rehearse {stack}",
        "config:",
        *environment.provider(chosen),
        "  pulumi:disable-default-providers: [kubernetes]",
        "  gpu-cluster:cluster:",
        f"    platform: {choices.platform}",
        f"    existing: {scalar(choices.existing)}"
        if choices.existing
        else f"    name: {scalar(choices.name or _name(stack))}",
        *([f"    scaler: {scalar(chosen.scaler)}"] if choices.scaler else []),
        *(f"    {line}" for line in cluster),
        "  gpu-cluster:gpuPools:",
        f"    {POOL}:",
        *(f"      {line}" for line in pool),
        "  gpu-cluster:workloads:",
        "    try-a-gpu: # adds two vectors on a GPU and exits; replace it with your own",
        "      kind: job",
        f"      pool: {POOL}",
        f"      gpus: {gpus}",
        f"      image: {CUDA_SAMPLE.reference}",
    ]
    read.check()
    return "\n".join(lines) + "\n"


class _OptionError(StackError):
    """No file can have the value of this option."""

    def __init__(self, option: str, clause: str, between: str = ": ") -> None:
        super().__init__(f"{option}{between}{clause}")
        self.option, self.clause = option, clause


class _Read:
    """Choices, and which of them the platform's module has read."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._names = {"platform", "existing", "name"}

    def __getattr__(self, name: str) -> Any:
        self._names.add(name)
        return getattr(self._choices, name)

    def check(self) -> None:
        """Raises StackError for a choice that is given and was not read."""
        platform, existing = self._choices.platform, self._choices.existing
        where = f"an existing {platform.upper()} cluster" if existing else platform
        for name in sorted({item.name for item in fields(Choices)} - self._names):
            if value := getattr(self._choices, name):
                option = (name if isinstance(value, int) else name.removesuffix("s")).split("_")
                raise _OptionError(f"--{'-'.join(option)}", f"has no effect on {where}; drop it")


def example(given: object) -> str:
    """The comment on a line whose value is an example unless it is given."""
    return "" if given else YOURS


def reachable(choices: Choices) -> list[str]:
    """Lines for the access to the control plane, and for the deletion protection."""
    networks = choices.networks or ({} if choices.private_endpoint else NETWORKS)
    yours = example(choices.networks)
    return [
        *(
            ["privateEndpoint: true # run Pulumi where it can reach the VPC"]
            if choices.private_endpoint
            else []
        ),
        *(["authorizedNetworks:"] if networks else []),
        *(f"  {scalar(name)}: {scalar(block)}{yours}" for name, block in networks.items()),
        "deletionProtection: true # pulumi destroy is refused until this is false",
    ]


def added(choices: Choices, offer: Offer, cloud: str) -> str:
    """The comment in the file of an existing cluster."""
    return (
        f"{offer.gpu} GPUs on {choices.existing}, an existing {cloud} cluster; they cost nothing "
        "until a pod needs them"
    )


def network(choices: Choices) -> list[str]:
    """The lines about the existing subnetwork of a GKE cluster."""
    keys = [f"  {key}: {scalar(name)}" for key, name in choices.network.items()]
    return ["network:", *keys] if keys else []


def _check_existing(choices: Choices) -> None:
    """Refuses options that the owner of an existing cluster has decided."""
    added = PLATFORMS[choices.row].added
    if choices.existing and not added:
        reason = f"is for gke and eks, not for {choices.platform}; drop it"
        raise _OptionError("--existing", reason)
    decided: Mapping[str, object] = {
        "--name": choices.name,
        "--admin": choices.admin,
        "--network": choices.networks,
        "--private-endpoint": choices.private_endpoint,
        "--zone": choices.zones,
        "--vpc, --subnetwork and their ranges": choices.network,
    }
    if added and (option := next((name for name in decided if decided[name]), None)):
        raise _OptionError(option, f"the owner of {choices.existing} decides this; drop it")


def _check_network(choices: Choices) -> None:
    """Refuses network options of other platforms."""
    cloud = PLATFORMS[choices.platform].cloud
    if choices.network and cloud != "google":
        option = OPTIONS[next(iter(choices.network))]
        raise _OptionError(option, "is for gke and gke-autopilot; on eks give --subnet-id", " ")
    if choices.subnet_ids and cloud != "aws":
        reason = "is for eks; on gke give --vpc, --subnetwork and its ranges"
        raise _OptionError("--subnet-id", reason, " ")


def offer_for(choices: Choices, cloud: str, place: str, *, autopilot: bool = False) -> Offer:
    """The smallest machine with the GPU in the cluster's location, `place`.

    Raises StackError if there is none, with locations that have one.
    """
    gpu, region = choices.gpu or GPU, place
    if cloud == "google":
        try:
            region = gke.region_of(place)
        except ValueError as error:
            reason = f"{error}; give one such as us-central1-a"
            raise _OptionError("--location", reason) from None
    every = [offer for offer in offers(gpu) if offer.cloud == cloud]
    if autopilot:
        every = [offer for offer in every if offer.autopilot]
    what = "GKE Autopilot" if autopilot else CLOUDS[cloud].title
    if not every:
        raise StackError(f"{gpu}: {what} does not have this GPU; gpu-cluster offers lists all GPUs")
    location = region if autopilot else place
    # AWS only tells an account what a region offers.
    found = every
    if cloud == "google":
        in_location = offers(gpu, location)
        found = [offer for offer in in_location if offer.autopilot or not autopilot]
    if not found:
        zones = sorted({zone for offer in every for zone in offer.zones or ()})
        near = [zone for zone in zones if gke.region_of(zone) == region]
        where = (
            f"zones of {region} that have it: {', '.join(near)}"
            if near
            else f"regions that have it: {', '.join(sorted(set(map(gke.region_of, zones))))}"
        )
        raise StackError(f"no known machine has {gpu} in {location}; {where}")
    sold = [offer for offer in found if {"on-demand", "spot"} & set(offer.sold)]
    if not sold:
        raise StackError(
            f"{gpu}: is sold by {what} only as {', '.join(found[0].sold)}, which needs "
            "additional keys; start with another GPU, and edit the file"
        )
    return min(sold, key=lambda offer: ("on-demand" not in offer.sold, offer.gpus, offer.vcpu))


def capacity(offer: Offer) -> list[str]:
    """The lines of a pool's capacity type; none if the machine is sold on demand."""
    spot = ["capacityType: spot # it is not available on demand"]
    return [] if "on-demand" in offer.sold else spot


def _name(stack: str) -> str:
    """A cluster name that every platform accepts, from the environment's."""
    return f"gpu-{re.sub('[^a-z0-9]+', '-', stack.lower()).strip('-')}"[:40].rstrip("-")


def scalar(value: str) -> str:
    """A string in YAML, with quotes if it would otherwise be parsed as something else."""
    dumped: str = yaml.safe_dump(value, width=1000)
    return dumped.removesuffix("\n").removesuffix("\n...")
