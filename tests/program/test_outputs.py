"""Settings that take outputs of other resources: which there are, and what becomes of each."""

import dataclasses
import json
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pulumi
import pytest

from gpu_cluster import EksClusterArgs, GpuStack, GpuStackArgs
from gpu_cluster.components.eks.network_args import EksNetworkArgs
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.decode import camel
from gpu_cluster.components.schema.effect import Sent
from gpu_cluster.components.schema.limits import unwrapped
from gpu_cluster.components.schema.outputs import OUTPUT
from gpu_cluster.components.schema.refusal import known_only
from gpu_cluster.components.schema.rules import limit_refusals
from gpu_cluster.components.settings import load
from gpu_cluster.components.settings.blocks import BLOCKS
from tests.components.recording import Recording, record
from tests.program.effects import _class, _within
from tests.program.environments import ANSWERS, as_engine_config
from tests.program.everything import _merge, config_of
from tests.program.registered import inputs_of

Path = tuple[str | int, ...]
FIELDS = {
    "EksClusterArgs": {
        "admins", "node_policies", "secrets_encryption_key", "disks_encryption_key",
    },
    "EksCpuPoolArgs": {"zones"},
    "EksExistingClusterArgs": {
        "endpoint", "certificate_authority", "node_policies", "karpenter_node_role",
        "disks_encryption_key",
    },
    "EksExistingNetworkArgs": {"subnet_ids", "security_group_ids"},
    "EksGpuNodeGroupArgs": {
        "subnet_ids", "security_group_ids", "ami_id", "reservation", "disk_snapshot_id",
    },
    "EksNetworkArgs": {"subnet_ids"},
    "EksUserArgs": {"principals"},
    "ExistingClusterArgs": {"kubeconfig"},
    "GkeAutopilotArgs": {"secrets_encryption_key"},
    "GkeClusterArgs": {"secrets_encryption_key"},
    "GkeExistingClusterArgs": {"endpoint", "certificate_authority"},
    "GkeExistingNetworkArgs": {"vpc"},
    "GkeGpuNodePoolArgs": {"service_account", "reservation"},
    "GkeNetworkArgs": {"vpc", "subnetwork", "pods_range", "services_range"},
    "ServiceAccountArgs": {"policies", "bucket_keys", "roles"},
}  # fmt: skip
"""Every such setting: IDs, ARNs, endpoints, certificates, and names that clouds complete."""

_ARN, _KEY = "arn:aws:iam::123456789012", "arn:aws:kms:us-east-1:123456789012:key/"
_PLACES = ["subnet-0aaaaaaaaaaaaaaa1", "subnet-0aaaaaaaaaaaaaaa2"]
_GROUPS = {"securityGroupIds": ["sg-0aaaaaaaaaaaaaaa9"]}
_ALL_AWS = {
    "gpu-cluster:cluster": {
        "nodePolicies": [f"{_ARN}:policy/nodes"],
        "disksEncryptionKey": f"{_KEY}disks",
        "network": {"zones": "absent", "subnetIds": _PLACES},
        "cpuPools": {"cpu": {"zones": _PLACES[1:]}},
    },
    "gpu-cluster:gpuPools": {
        "train": {"zones": "absent", "subnetIds": _PLACES[:1], **_GROUPS},
        **{name: {"zones": "absent", "subnetIds": _PLACES[:1]} for name in ("serve", "shared")},
        "reserved": {"zones": "absent", "subnetIds": _PLACES[1:]},
    },
    "gpu-cluster:serviceAccounts": {
        "trainer": {"policies": [f"{_ARN}:policy/pods"], "bucketKeys": [f"{_KEY}bucket"]}
    },
    "gpu-cluster:volumeClaims": {"results": {"zone": "us-east-1a"}, "cache": "absent"},
}
_OWN_AWS = {"gpu-cluster:cluster": {"secretsEncryptionKey": f"{_KEY}secrets"}}
_SNAPSHOT = {
    "gpu-cluster:gpuPools": {
        "train": {"os": "bottlerocket", "diskSnapshotId": "snap-0aaaaaaaaaaaaaaa1"}
    }
}
_IMAGE = {"gpu-cluster:gpuPools": {"shared": {"amiId": "ami-0aaaaaaaaaaaaaaa1"}}}
_ACCOUNT = {"shared": {"serviceAccount": "nodes@my-project.iam.gserviceaccount.com"}}
_NAMES = {"vpc": "theirs", "subnetwork": "here", "podsRange": "of-pods", "servicesRange": "of-svc"}
_KMS = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"
_OWN_GOOGLE = {"gpu-cluster:cluster": {"network": _NAMES, "secretsEncryptionKey": _KMS}}
_FILES = {
    "files": {
        "size": "1Ti",
        "storageClass": "gpu-cluster-filestore",
        "accessMode": "ReadWriteMany",
    }
}
_KUBECONFIG = {
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}
STACKS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "eks-cluster-autoscaler": [_ALL_AWS, _OWN_AWS, _IMAGE, _SNAPSHOT],
    "eks-karpenter": [_ALL_AWS, _OWN_AWS, _IMAGE, _SNAPSHOT],
    "eks-auto-mode": [_ALL_AWS, _OWN_AWS],
    "eks-existing-autoscaler": [_ALL_AWS],
    "eks-existing-karpenter": [_ALL_AWS, _IMAGE],
    "eks-existing-owners-karpenter": [
        _ALL_AWS, {"gpu-cluster:cluster": {"nodePolicies": "absent"}}, _IMAGE,
    ],
    "eks-existing-auto-mode": [_ALL_AWS],
    "gke-node-pools": [_OWN_GOOGLE, {"gpu-cluster:gpuPools": _ACCOUNT}],
    "gke-compute-classes": [_OWN_GOOGLE, {"gpu-cluster:gpuPools": _ACCOUNT}],
    "gke-existing": [
        {
            "gpu-cluster:cluster": {"network": {"vpc": "theirs"}},
            "gpu-cluster:gpuPools": _ACCOUNT,
            "gpu-cluster:volumeClaims": _FILES,
        }
    ],
    "gke-autopilot": [_OWN_GOOGLE],
    "existing": [{"gpu-cluster:cluster": {"kubeconfig": json.dumps(_KUBECONFIG)}}],
}  # fmt: skip
"""For each scaler, a stack of `everything.yaml` and the settings that it lacks."""
DEFAULT = {
    "eks-cluster-autoscaler", "eks-existing-autoscaler", "gke-node-pools", "gke-existing",
    "gke-autopilot", "existing",
}  # fmt: skip
_OTHERS = ("workloads", "batch", "teams", "trainingJobs", "services", "gpuTest", "monitoring")


def config(stack: str) -> dict[str, Any]:
    """The stack's config, without what takes no outputs."""
    found = config_of(stack)
    for key in _OTHERS:
        found.pop(f"gpu-cluster:{key}", None)
    for name, account in found["gpu-cluster:serviceAccounts"].items():
        account["namespace"] = "default" if name == "trainer" else "apps"
    for layer in STACKS[stack]:
        _merge(found, layer)
    cluster, accounts = found["gpu-cluster:cluster"], found["gpu-cluster:serviceAccounts"]
    groups = cluster.get("users", {})
    for key, blocks in {
        "admins": [cluster],
        "nodePolicies": [cluster],
        "principals": groups.values(),
        "policies": accounts.values(),
        "roles": accounts.values(),
    }.items():
        for block in (block for block in blocks if key in block):
            block[key] = {f"name-{place}": text for place, text in enumerate(block[key])}
    return found


def fields(kind: type, seen: set[type]) -> Iterator[tuple[str, str]]:
    """Class and name of each field, in a class and those of its fields, that takes outputs."""
    if kind in seen:
        return
    seen.add(kind)
    hints = typing.get_type_hints(kind, include_extras=True)
    for name, hint in ((row.name, hints[row.name]) for row in dataclasses.fields(kind)):
        for part in parts(hint):
            if OUTPUT in unwrapped(part)[1]:
                yield kind.__name__, name
            if dataclasses.is_dataclass(inner := unwrapped(part)[0]):
                yield from fields(typing.cast("type", inner), seen)


def parts(hint: Any) -> Iterator[Any]:
    """A type and those of its elements."""
    yield hint
    for part in typing.get_args(unwrapped(hint)[0]):
        yield from parts(part)


def takers(path: Path, value: Any, hint: Any, sent: Sequence[str], of: str) -> Iterator[Any]:
    """Path, text, inputs and field of each setting in args that takes an output and is set."""
    kind, marks = unwrapped(hint)
    sent = [place for mark in marks if isinstance(mark, Sent) for place in mark.inputs] or sent
    if isinstance(value, str) and OUTPUT in marks:
        yield path, value, sent, of
    elif dataclasses.is_dataclass(value):
        hints = typing.get_type_hints(type(value), include_extras=True)
        for name in (row.name for row in dataclasses.fields(value)):
            field = f"{type(value).__name__} {name}"
            yield from takers((*path, camel(name)), getattr(value, name), hints[name], (), field)
    elif isinstance(value, Mapping | tuple):
        inner = (typing.get_args(kind) or (Any,))[-1 if isinstance(value, Mapping) else 0]
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from takers((*path, key), item, inner, sent, of)


def found(stack: str) -> list[tuple[Path, str, Sequence[str], str]]:
    """The settings of a stack that take outputs."""
    read = load.from_config(as_engine_config(config(stack)))
    pools = {name: pool.args for name, pool in read.pools.items()}
    blocks = {
        "cluster": read.cluster,
        "gpuPools": pools,
        "serviceAccounts": read.auxiliary.accounts,
    }
    return [*takers((), blocks, Any, (), "")]


def declared(
    stack: str, value: Callable[[str], Any], preview: bool = False
) -> tuple[Recording, set[tuple[str, str, str, str]]]:
    """What a program with a `GpuStack` registers, and each of its inputs."""
    values = config(stack)
    paths = [path for path, *_ in found(stack)]

    def program() -> None:
        args = {
            key.removeprefix("gpu-cluster:"): json.loads(json.dumps(block))
            for key, block in values.items()
            if key.startswith("gpu-cluster:")
        }
        for *above, last in paths:
            block: Any = args
            for step in above:
                block = block[step]
            block[last] = value(block[last])
        GpuStack("gpus", args)

    others = {key: text for key, text in values.items() if not key.startswith("gpu-cluster:")}
    flat = as_engine_config(others)
    recording = record(program, outputs=ANSWERS, config=flat, preview=preview)
    return recording, {
        (_class(resource.type), "", path, json.dumps(item))
        for resource in recording.resources
        for path, item in inputs_of(resource)
        if not path.startswith("(")
    }


def test_the_settings_that_take_outputs() -> None:
    """All are in the list, and each is set in a stack below."""
    seen: set[type] = set()
    kinds = [row.settings for row in PLATFORMS.values()]
    every = [*(row.CLUSTER for row in kinds), *(row.POOL for row in kinds)]
    every += [block.args for block in BLOCKS.values()]
    every = [row for kind in every for row in fields(kind, seen)]
    listed = {(kind, name) for kind, names in FIELDS.items() for name in names}
    assert set(every) == listed
    set_somewhere = {tuple(of.split()) for stack in STACKS for *_, of in found(stack)}
    assert set_somewhere == listed


@pytest.mark.parametrize("stack", STACKS)
def test_an_output_reaches_what_a_text_reaches(stack: str) -> None:
    """Known, every input is the same. Unknown, the same number of resources is declared in a
    preview, and the inputs that the field names are unknown, of which each had the text."""
    whole, plain = declared(stack, lambda text: text)
    _, known = declared(stack, pulumi.Output.from_input)
    assert plain == known
    part, after = declared(stack, lambda _: pulumi.Output.from_input(pulumi.UNKNOWN), preview=True)
    types = [sorted(row.type for row in recording.resources) for recording in (whole, part)]
    assert types[0] == types[1]
    lost = plain - after
    for path, text, sent, of in found(stack):
        named = any(_within(line, place) for line in lost for place in sent)
        # `Sent` names the inputs of the platform's default scaler.
        assert named or (stack not in DEFAULT and any(text in line[3] for line in lost)), (path, of)


PLAIN: Mapping[str, Callable[[Any], Mapping[str, Any]]] = {
    "name": lambda output: {"name": output},
    "logRetentionDays": lambda output: {"log_retention_days": output},
    "users": lambda output: {"users": output},
    "tags.team": lambda output: {"tags": {"team": output}},
}
NOT_BY_PLACE: Mapping[str, Callable[[Any], Mapping[str, Any]]] = {
    r"admins: is an output, and the length of a list must be known before an update; give a map "
    r"from a name of yours to each of its elements: { NAME: values\[0\] }": lambda output: {
        "admins": output
    },
    r"nodePolicies\[1\]: is an output in a list, whose resources would be named after its place; "
    "write a map instead, from a name of yours to each of them: { NAME: OUTPUT }": lambda output: {
        "node_policies": [f"{_ARN}:policy/a", output]
    },
    "nodePolicies.A: 'A' must be lowercase.*": lambda output: {"node_policies": {"A": output}},
    r"network.subnetIds: is an output, and the length of a list must be known before an update; "
    r"give a list of its elements: \[values\[0\], values\[1\]\]": lambda output: {
        "network": {"subnetIds": output}
    },
}
"""The refusal of an output that would give a resource the name of another one, or its number."""


@pytest.mark.parametrize("says", NOT_BY_PLACE)
def test_a_place_in_a_list_names_no_resource(says: str) -> None:
    """Without the one before it, an output would have another name: what remains is deleted."""

    def program() -> None:
        output = pulumi.Output.from_input("x")
        args = {"name": "x", "network": {"subnetIds": _PLACES}, "admins": [f"{_ARN}:role/a"]}
        given = {camel(key): value for key, value in NOT_BY_PLACE[says](output).items()}
        cluster = {"platform": "eks", "privateEndpoint": True, **args, **given}
        GpuStack("gpus", {"cluster": cluster})

    with pytest.raises(pulumi.RunError, match=rf"^gpu-cluster:cluster\.{says}$"):
        record(program, config={"aws:region": "us-east-1"})


def attachments(names: Sequence[str]) -> Mapping[str, str]:
    """Name of each resource of an administrator, a user or a policy -> the ARN that it has."""

    def by_name(kind: str) -> Mapping[str, Any]:
        return {name: pulumi.Output.from_input(f"{_ARN}:{kind}/{name}") for name in names}

    def program() -> None:
        cluster = {
            "name": "x",
            "platform": "eks",
            "network": {"subnetIds": _PLACES},
            "privateEndpoint": True,
            "admins": by_name("role/admin"),
            "nodePolicies": by_name("policy"),
            "users": {"lab": {"principals": by_name("user")}},
        }
        accounts = {"trainer": {"policies": by_name("policy")}}
        GpuStack("gpus", {"cluster": cluster, "serviceAccounts": accounts})

    found = record(program, config={"aws:region": "us-east-1"}, outputs=ANSWERS).resources
    rows = [(row.name, row.inputs.get("policyArn", row.inputs.get("principalArn"))) for row in found
            if row.type.rpartition(":")[2] in ("RolePolicyAttachment", "AccessEntry")]  # fmt: skip
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def test_what_remains_keeps_its_name_and_its_arn() -> None:
    """The names are the user's: the cloud detaches what is removed, and nothing else."""
    both, one = attachments(["one", "two"]), attachments(["two"])
    assert both.items() > one.items()
    assert len(both) == len(one) + 4


@pytest.mark.parametrize("output", [str, pulumi.Output.from_input])
@pytest.mark.parametrize("before", ["", "https://www.googleapis.com/compute/v1/"])
def test_a_network_may_be_its_id(before: str, output: Callable[[str], Any]) -> None:
    """Or its `selfLink`: the same network as by its name, in the project of the path."""
    folders = {"vpc": "global/networks", "subnetwork": "regions/us-central1/subnetworks"}

    def program(long: bool) -> None:
        network = dict(_NAMES)
        for key, folder in folders.items() if long else ():
            network[key] = output(f"{before}projects/my-project/{folder}/{network[key]}")
        cluster = {"platform": "gke", "name": "x", "location": "us-central1-a", "network": network}
        cluster["authorizedNetworks"] = {"office": "198.18.0.0/24"}
        GpuStack("gpus", {"cluster": cluster})

    config = {"gcp:project": "my-project"}
    plain, path = (
        record(lambda long=long: program(long), config=config, outputs=ANSWERS)  # type: ignore[misc]
        for long in (False, True)
    )
    # It keeps the settings as they are written.
    kept = "gpu-cluster:cluster:LastingSettings"
    assert [row for row in plain.resources if row.type != kept] == [
        row for row in path.resources if row.type != kept
    ]


def test_an_output_without_a_value_is_refused() -> None:
    """A StackReference without it: the setting would vanish."""
    with pytest.raises(pulumi.RunError, match=r"^gpu-cluster:[^ ]*: is an output without a value;"):
        declared("gke-node-pools", lambda _: pulumi.Output.from_input(None))


def test_one_value_twice_is_refused_once_both_are_known() -> None:
    """As in a list of plain values."""

    def program() -> None:
        subnets = [pulumi.Output.from_input(_PLACES[0]) for _ in range(2)]
        network, admins = EksNetworkArgs(subnet_ids=subnets), [f"{_ARN}:role/a"]
        cluster = EksClusterArgs(name="x", network=network, admins=admins, private_endpoint=True)
        GpuStack("gpus", GpuStackArgs(cluster=cluster))

    says = rf"^gpu-cluster:cluster.network.subnetIds: '{_PLACES[0]}' is a duplicate; remove it$"
    with pytest.raises(pulumi.RunError, match=says):
        record(program, config={"aws:region": "us-east-1"}, outputs=ANSWERS)


@pytest.mark.parametrize("path", PLAIN)
def test_an_output_where_none_may_be_is_refused(path: str) -> None:
    """With the key's path: a name, a number, an entry, a list as a whole."""

    def program() -> None:
        args = {
            "name": "x",
            "network": EksNetworkArgs(subnet_ids=_PLACES),
            "admins": [f"{_ARN}:role/a"],
            "private_endpoint": True,
        }
        EksClusterArgs(**{**args, **PLAIN[path](pulumi.Output.from_input("x"))})

    with pytest.raises(ValueError, match=rf"^{path}: is an output, whose value may only be"):
        record(program)


def test_a_bad_value_is_refused_once_it_is_known() -> None:
    """In the sentence that a plain one gets, with the whole path."""
    with pytest.raises(pulumi.RunError) as refusal:
        declared("eks-existing-karpenter", lambda text: pulumi.Output.from_input(f"{text} "))
    assert str(refusal.value).startswith("gpu-cluster:")
    assert "\n" not in str(refusal.value)


def test_a_preview_says_what_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each setting that could not be checked, by its path."""
    lines: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda line, *_: lines.append(line))
    declared("gke-node-pools", lambda _: pulumi.Output.from_input(pulumi.UNKNOWN), preview=True)
    assert (
        "gpu-cluster:cluster.network.subnetwork: unknown until up, and not checked before" in lines
    )
    assert len(lines) == len(found("gke-node-pools"))


def blocks_in(kind: Any) -> Iterator[tuple[type, str]]:
    """The fields of an args class, and of those in it, whose value is an args class too."""
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        if dataclasses.is_dataclass(inner := unwrapped(hint)[0]):
            yield kind, name
            yield from blocks_in(inner)


IN_BLOCKS = {
    f"{kind.__name__}.{name}": (kind, name)
    for row in PLATFORMS.values()
    for args in (row.settings.CLUSTER, row.settings.POOL, *(each.args for each in BLOCKS.values()))
    for kind, name in blocks_in(args)
}


@pytest.mark.parametrize("field", IN_BLOCKS)
def test_an_output_in_place_of_a_block_is_refused(field: str) -> None:
    """A block is a map or its class: which resources there are follows from it."""
    kind, name = IN_BLOCKS[field]

    def program() -> None:
        limit_refusals(known_only(kind, **{name: pulumi.Output.from_input({})})).check()

    says = rf"^{camel(name)}: is an output, whose value may only be"
    with pytest.raises(ValueError, match=says):
        record(program)
