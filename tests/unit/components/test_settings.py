"""Settings are complete and frozen, or refused in one line that names the key."""

import dataclasses
import json
import re
import string
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import botocore.session
import pulumi
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client
from pulumi.runtime import config as runtime_config
from pulumi_gcp.container import NodePoolArgs, NodePoolNodeConfigArgs

from gpu_cluster.components.catalog import dates
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gpu.volume_args import VolumeArgs
from gpu_cluster.components.gpu.workload_args import WorkloadArgs
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.decode import camel, no_such_key
from gpu_cluster.components.schema.refusal import OTHER, Refusal, named, refuse
from gpu_cluster.components.schema.renamed import COUNTERPARTS, ELSEWHERE
from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings.endpoints import foreign_endpoints
from gpu_cluster.components.settings.validate import warnings
from gpu_cluster.stacks.definition.validation import refusals
from quality.keys import settings_of
from tests.program.effects import STACK_OF
from tests.program.environments import (
    as_engine_config,
    config_of,
    values_of,
    with_changes,
    without_keys,
)

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

HERE = Path(__file__).parent
OF_OTHERS = {"batch", "pods", "services"}
"""Tables of refusals whose tests have configs of their own to start from."""


def entries() -> Iterator[tuple[str, list[list[Any]], str]]:
    """Stack, changes and refusal of each entry; one without a refusal is the start of the next."""
    for path in sorted(HERE.glob("refused_*.yaml")):
        name = path.stem.removeprefix("refused_")
        stack, start = STACK_OF.get(name, "dev"), list[list[Any]]()
        for entry in yaml.safe_load(path.read_text()) if name not in OF_OTHERS else ():
            if "says" in entry:
                yield stack, [*start, *entry["change"]], entry["says"]
            else:
                stack, start = entry["stack"], entry.get("start", [])


REFUSED = [*entries()]


NAMESPACE = "gpu-cluster:"
KMS = "arn:aws:kms:eu-west-1:123456789012:key/1"


class Later(date):
    """A day on which no table of the catalog holds."""

    @classmethod
    def today(cls) -> "Later":
        return cls(2030, 1, 1)


def changed(stack: str, changes: list[list[Any]]) -> dict[str, str]:
    """The stack's config after `changes`."""
    return as_engine_config(with_changes(values_of(stack), changes))


def refusal(config: dict[str, str]) -> str | None:
    """What refuses the config; None where it is accepted."""
    try:
        settings.from_config(config)
    except ValueError as error:
        return str(error)
    return None


def test_a_program_may_have_keys_of_its_own(tmp_path: Path) -> None:
    """In the namespace of its project; the package's keep theirs, and the engine would pass one
    without a namespace on under the project's name."""
    (tmp_path / "Pulumi.yaml").write_text("name: gpus\nruntime: python\n")
    config = changed("dev", [])
    own = {**config, "gpus:owner": "me"}
    assert settings.from_config(own, tmp_path).platform == "gke"
    assert "nothing reads the namespace 'gpus'" in str(refusal(own))
    with pytest.raises(ValueError, match=r"^gpus:gpuPools: is a key of gpu-cluster, not of the pr"):
        settings.from_config({**config, "gpus:gpuPools": "{}"}, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "does"), TABLE["test_credentials_go_to_no_server_that_a_stack_file_names"]
)
def test_credentials_go_to_no_server_that_a_stack_file_names(
    key: str, value: str, does: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preview warns of it; continuous integration, where nobody reads that, refuses it."""
    config = {**as_engine_config(values_of("dev")), key: value}
    monkeypatch.delenv("CI", raising=False)
    assert refusal(config) is None
    lines = [*map(str, foreign_endpoints(config))]
    assert [does in line for line in lines if does] == ([True] if does else [])
    assert bool(lines) == bool(does)
    monkeypatch.setenv("CI", "true")
    assert refusal(config) == (lines[0] if does else None)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (["gpu-cluster:cluster", "secretsEncryptionKey", KMS],
            "cluster.secretsEncryptionKey"),
        (["gpu-cluster:gpuPools", "train-gpu", "releaseVersion", "1.30.2-20260714"],
            "gpuPools.train-gpu.releaseVersion"),
        (["gpu-cluster:workloads", "sample-gpu-job", "nodeSelector", {"role": "other"}],
            "workloads.sample-gpu-job.nodeSelector.role"),
        (["gpu-cluster:serviceAccounts", {"a": {"buckets": {"data": "read"}, "bucketKeys": [KMS]}}],
            "serviceAccounts.a.bucketKeys[0]"),
    ],
)  # fmt: skip
def test_a_zone_of_another_region_hides_no_other_refusal(change: list[Any], path: str) -> None:
    """What needs the cluster's settings is checked, and so is what needs its pools."""
    zones = ["gpu-cluster:cluster", "network", "zones", ["us-east-1a", "us-west-2a"]]
    with pytest.raises(Refusal) as refused:
        settings.from_config(changed("train", [zones, change]))
    found = [refusal.at for refusal in refused.value.every]
    assert found == ["gpu-cluster:cluster.network.zones[1]", f"gpu-cluster:{path}"]


@pytest.mark.parametrize(
    ("stack", "changes", "expected"), REFUSED, ids=[line.split(": ")[0] for *_, line in REFUSED]
)
def test_refuses_a_bad_config_in_one_line(
    stack: str, changes: list[list[Any]], expected: str
) -> None:
    """A bad config is refused with exactly the line that the table has."""
    says = refusal(changed(stack, changes)) or "accepted"
    assert without_keys(says) == expected
    assert "\n" not in says


@pytest.mark.parametrize(
    ("stack", "kind"), [("dev", GkeGpuNodePoolArgs), ("train", EksGpuNodeGroupArgs)]
)
def test_a_key_that_does_not_exist_is_refused_with_those_that_do(stack: str, kind: type) -> None:
    """The tables of refusals leave them out."""
    says = refusal(changed(stack, [["gpu-cluster:gpuPools", "train-gpu", "xyz", 1]])) or ""
    allowed = says.partition(" allowed: ")[2].split(", ")
    assert allowed == sorted(camel(field.name) for field in dataclasses.fields(kind) if field.init)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_key_of_the_cluster_on_the_level_of_blocks_is_told_where_it_belongs(
    platform: str,
) -> None:
    """Every key of every platform, unless a block has that name."""
    cluster = {"platform": platform.removesuffix("-existing")}
    cluster |= {"existing": "c"} if cluster["platform"] != platform else {}
    keys = {camel(field.name) for field in dataclasses.fields(PLATFORMS[platform].settings.CLUSTER)}
    for key in keys - {*settings._KEYS}:
        config = as_engine_config({"gpu-cluster:cluster": cluster, f"gpu-cluster:{key}": {}})
        assert refusal(config) == (
            f"gpu-cluster:{key}: is a key of cluster; move it into gpu-cluster:cluster"
        )


@pytest.mark.parametrize("text", ["", "null"])
def test_a_block_without_a_value_is_refused(text: str) -> None:
    """As a key within it is, and an entry: the table and test_limits have those."""
    for key in settings._KEYS:
        says = refusal({**config_of("dev"), f"gpu-cluster:{key}": text}) or "accepted"
        drop = "" if key == "cluster" else ", or drop the key"
        assert says == f"gpu-cluster:{key}: has no value; set it{drop}"


def test_the_tables_of_refusals_have_no_entry_twice() -> None:
    """Every refusal is another change of a stack, and there are 200 at least."""
    changes = [json.dumps([stack, changes]) for stack, changes, _ in REFUSED]
    assert len(set(changes)) == len(changes) >= 200


@pytest.mark.parametrize("stack", ["dev", "train"])
def test_settings_cannot_be_changed(stack: str) -> None:
    """Settings are frozen, and so is what they hold."""
    read = settings.from_config(config_of(stack))
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.own.pools = {}  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.platform = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.pools["train-gpu"].args.max_nodes = 9  # type: ignore[misc]


def test_derives_accelerator_and_count_from_the_machine_type() -> None:
    """A machine type with built-in GPUs needs neither accelerator nor count."""
    pool = {"gpu-cluster:gpuPools": {"l4": {"machineType": "g2-standard-24"}}}
    read = settings.from_config(
        as_engine_config({**values_of("dev"), **pool, "gpu-cluster:workloads": {}})
    )
    l4 = read.pools["l4"].pool
    assert (l4.accelerator, l4.gpus_per_node) == ("nvidia-l4", 2)


@pytest.mark.parametrize("project", ["example.com:team-project", "abc123", "a" * 30])
def test_a_project_id_is_accepted(project: str) -> None:
    """Also the longest, the shortest, and an organization's old one with its domain in front."""
    read = settings.from_config(changed("dev", [["gcp:project", project]]))
    assert read.own.project == project


def test_an_explicit_zero_is_no_absence() -> None:
    """An explicit 0 stays 0 where the default is another number."""
    changes = [["gpu-cluster:workloads", "sample-gpu-pod", "gpus", 0]]
    running = settings.from_config(changed("dev", changes)).running
    assert running["workloads"]["sample-gpu-pod"].gpus == 0


KEYS = st.sampled_from(
    ["platform", "name", "location", "machineType", "gpusPerNode", "maxNodes", "labels", "x"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 50)
    | st.floats(-5, 5)
    | st.text(string.printable, max_size=9)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(cluster=VALUES, pools=VALUES, workloads=VALUES, merge=st.booleans())
def test_any_config_is_accepted_or_refused_in_one_line(
    cluster: Any, pools: Any, workloads: Any, merge: bool
) -> None:
    """No value, of whatever shape, gets anything but settings or one line."""
    values = values_of("dev")
    for key, value in (("cluster", cluster), ("gpuPools", pools), ("workloads", workloads)):
        known = values[f"gpu-cluster:{key}"]
        both = merge and isinstance(value, dict)
        values[f"gpu-cluster:{key}"] = {**known, **value} if both else value
    says = refusal(as_engine_config(values))
    assert says is None or (says.startswith("gpu-cluster:") and len(says.splitlines()) == 1)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", id="lists 100,000 deep"),
        pytest.param('{"a":' * 100_000 + "1" + "}" * 100_000, id="maps 100,000 deep"),
        pytest.param('{"a":' + "[" * 990 + "]" * 990 + "}", id="just readable"),
        pytest.param(json.dumps({"x" * 1_000_000: {}}), id="a name of a megabyte"),
        pytest.param(json.dumps({"a": {"machineType": "x" * 1_000_000}}), id="a value of one"),
        pytest.param(json.dumps({"a": {"machineType": "x y " * 250_000}}), id="words of one"),
        pytest.param('{"a":' + "9" * 100_000 + "}", id="a number of 100,000 digits"),
        pytest.param("x" * 1_000_000, id="no map"),
    ],
)
def test_what_nobody_reads_is_refused_in_a_short_line(value: str) -> None:
    """No traceback, and not the value itself."""
    said = refusal({**changed("dev", []), "gpu-cluster:gpuPools": value})
    assert said is not None
    assert said.startswith("gpu-cluster:gpuPools")
    assert len(said) <= 2000
    assert "\n" not in said
    assert ("a value is nested too deeply" in said) == ("[[" in value or "}}}" in value)


TOGETHER = {
    "gke": (
        "dev",
        [
            ["gpu-cluster:gpuPools", "train-gpu", "accelerator", "nvidia-t4"],
            ["gpu-cluster:gpuPools", "train-gpu", "driver", "manged"],
            ["gpu-cluster:gpuPools", "train-gpu", "maxNodes", -1],
            ["gpu-cluster:workloads", "sample-gpu-pod", "kind", "jobb"],
        ],
        [
            "gpuPools.train-gpu.driver: 'manged' is not known; did you mean 'managed'?",
            "gpuPools.train-gpu.maxNodes: -1 is too small; allowed: 1 or more",
            "gpuPools.train-gpu.accelerator: 'nvidia-t4' is not known; did you mean",
            "workloads.sample-gpu-pod.kind: 'jobb' is not known; did you mean 'job'?",
        ],
    ),
    "gke-autopilot": (
        "autopilot",
        [
            ["gpu-cluster:gpuPools", "t4", "accelerator", "nvidia-t4"],
            ["gpu-cluster:gpuPools", "t4", "capacityType", "spott"],
        ],
        [
            "gpuPools.t4.capacityType: 'spott' is not known; did you mean 'spot'?",
            "gpuPools.t4.accelerator: 'nvidia-t4' is not known; did you mean",
        ],
    ),
    "machine": (
        "dev",
        [
            ["gpu-cluster:gpuPools", "train-gpu", "machineType", "g9-standard-4"],
            ["gpu-cluster:gpuPools", "train-gpu", "driver", "manged"],
        ],
        [
            "gpuPools.train-gpu.driver: 'manged' is not known; did you mean 'managed'?",
            "gpuPools.train-gpu.machineType: 'g9-standard-4' is not a machine type that carries",
        ],
    ),
    "a scaler that is not a word": (
        "dev",
        [
            ["gpu-cluster:cluster", "scaler", [{}]],
            ["gpu-cluster:gpuPools", "train-gpu", "maxNodes", -1],
        ],
        [
            "cluster.scaler: [{}] is not known; allowed: compute-classes, node-pools",
            "gpuPools.train-gpu.maxNodes: -1 is too small; allowed: 1 or more",
        ],
    ),
    "namespaces that are no list": (
        "train",
        [["gpu-cluster:teams", {"a": {"namespaces": True}}]],
        [
            "teams.a.gpus: is missing; set it,",
            "teams.a.members: is missing; set it,",
            "teams.a.namespaces: true is not a list; write it as [ONE, TWO]",
        ],
    ),
    "names in an entry with a refused setting": (
        "dev",
        [
            ["gpu-cluster:gpuPools", "train-gpu", "maxNodes", -1],
            ["gpu-cluster:workloads", "sample-gpu-pod", {
                "image": "a:1", "kind": "job", "gpus": -1, "pool": "others", "queue": "night",
                "serviceAccount": "reader", "namespace": "nowhere",
                "volumes": {"data": {"mountPath": "/data", "claim": "data"}},
            }],
        ],
        [
            "gpuPools.train-gpu.maxNodes: -1 is too small; allowed: 1 or more",
            "workloads.sample-gpu-pod.gpus: -1 is negative; allowed: 0 or more",
            "workloads.sample-gpu-pod.namespace: nothing creates the namespace 'nowhere'; add it",
            "workloads.sample-gpu-pod.pool: 'others' is not a pool; allowed: train-gpu",
            "workloads.sample-gpu-pod.queue: 'night' is not a queue; add batch.queues.night",
            "workloads.sample-gpu-pod.serviceAccount: 'reader' is not a service account; add",
            "workloads.sample-gpu-pod.volumes.data.claim: 'data' is not one of volumeClaims; add",
        ],
    ),
    "two namespaces of a queue": (
        "dev",
        [["gpu-cluster:batch", {"jobSet": True, "queues": {"training": {
            "pools": ["train-gpu"], "groups": ["a"], "namespaces": ["default", "kube-system"],
        }}}]],
        [
            "batch.queues.training.namespaces[0]: the namespace 'default' is not one of this stack",
            "batch.queues.training.namespaces[1]: the namespace 'kube-system' is not one of this",
        ],
    ),
    "the provider's region, and networks": (
        "train",
        [
            ["aws:region", "virginia"],
            ["gpu-cluster:cluster", "authorizedNetworks",
             dict.fromkeys(("office", "home", "hotel"), "203.0.113.0/24")],
            ["gpu-cluster:cluster", "users", {"a": {"principals": [
                "arn:aws:iam::123456789012:role/deployer"]}}],
        ],
        [
            "aws:region: 'virginia' is not a region; give one such as us-east-1",
            "cluster.authorizedNetworks.home: '203.0.113.0/24' is a duplicate of office; remove",
            "cluster.authorizedNetworks.hotel: '203.0.113.0/24' is a duplicate of office; remove",
            "cluster.users.a.principals[0]: 'arn:aws:iam::123456789012:role/deployer' is also in",
        ],
    ),
    "checks of the whole cluster and of a pool in it": (
        "train",
        [
            ["gpu-cluster:cluster", "users", {"analysts": ["x"]}],
            ["gpu-cluster:cluster", "nodePolicies", [
                "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"]],
            ["gpu-cluster:gpuPools", "train-gpu", "taints", [
                {"key": "nvidia.com/gpu", "value": "a", "effect": "NoExecute"}]],
        ],
        [
            'cluster.users.analysts: ["x"] is not a map; write it as { principals: ... }',
            "cluster.nodePolicies[0]: 'arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy' has the",
            "gpuPools.train-gpu.taints[0]: 'nvidia.com/gpu' is a duplicate, and the tag of",
        ],
    ),
    "one check": (
        "dev",
        [
            ["gpu-cluster:gpuPools", "train-gpu", {
                "machineType": "g2-standard-4", "driver": "none", "driverVersion": "latest",
                "osImage": "ubuntu",
                "installerImage": "example.com/installer:1", "imageStreaming": True,
            }],
        ],
        [
            "gpuPools.train-gpu.driverVersion: 'latest' needs driver managed; with driver none",
            "gpuPools.train-gpu.driverVersion: latest exists only for cos",
            "gpuPools.train-gpu.imageStreaming: needs osImage cos; drop one of the two",
            "gpuPools.train-gpu.installerImage: needs driver daemonset; drop the key",
        ],
    ),
}  # fmt: skip
"""Changes that are refused together -> the beginnings of the lines, in any order."""


@pytest.mark.parametrize("name", TOGETHER)
def test_refusals_that_do_not_follow_from_each_other_are_raised_together(name: str) -> None:
    """By the program and by `gpu-cluster validate`, each in one line."""
    stack, changes, expected = TOGETHER[name]
    values = with_changes(values_of(stack), changes)
    with pytest.raises(Refusal) as refused:
        settings.from_config(as_engine_config(values))
    lines = [str(refusal) for refusal in refused.value.every]
    assert len(lines) == len(expected)
    for line, start in zip(sorted(lines), sorted(expected), strict=True):
        assert line.removeprefix("gpu-cluster:").startswith(start)
    assert lines == [*map(str, refusals(values))]


def test_a_refusal_shows_the_users_own_values_as_they_are() -> None:
    """Also those in its reason, beside the place of another path and of an option's name."""
    reason = f"«MOTHER» is in {OTHER}, too; drop one, or {named('vpc')}"
    refused = refuse("b", "«OTHER»")(reason, other=("a", "OTHER"), remedy=f"drop {named('vpc')}")
    line = "'«OTHER»' «MOTHER» is in a.OTHER, too; drop one, or {0}; drop {0}"
    assert str(refused) == f"b: {line.format('vpc')}"
    assert refused.spelled({"vpc": "--vpc", "OTHER": "x", "MOTHER": "x"}) == line.format("--vpc")
    assert (refused.fields["given"], refused.fields["remedy"]) == ("«OTHER»", "drop vpc")
    odd = refuse("k", {"a": float("nan"), "b": Path("y"), "c": ("x",)})("is wrong")
    assert odd.fields["given"] == {"a": "NaN", "b": "y", "c": ["x"]}
    assert "given" not in refuse("k", ["x" * 100, "a secret"])("is wrong").fields


def test_a_refused_setting_takes_no_part_in_rules_over_several_settings() -> None:
    """The rule would judge a value that nobody wants: minNodes above maxNodes."""
    pool = ("gpu-cluster:gpuPools", "train-gpu")
    values = with_changes(values_of("dev"), [[*pool, "minNodes", 9], [*pool, "maxNodes", -1]])
    with pytest.raises(Refusal) as refused:
        settings.from_config(as_engine_config(values))
    assert [each.at for each in refused.value.every] == ["gpu-cluster:gpuPools.train-gpu.maxNodes"]


@pytest.mark.parametrize(("stack", "change", "says"), TABLE["test_doubtful_settings_are_warned_of"])
def test_doubtful_settings_are_warned_of(stack: str, change: list[Any], says: str | None) -> None:
    """By key; the neighbouring settings are not."""
    block, *rest = change
    changes = [[f"gpu-cluster:{block}", *rest]]
    if stack == "classes":
        stack = "dev"
        changes.append(["gpu-cluster:cluster", "scaler", "compute-classes"])
    if stack == "far":
        stack = "dev"
        changes.append(["gpu-cluster:gpuPools", "train-gpu", "zones", ["us-central1-b"]])
    if stack == "claimed":
        stack = "dev"
        changes.append(["gpu-cluster:gpuPools", "train-gpu", "devicePlugin", "dra"])
    if says and says.startswith("cluster.network.cidr"):
        zones = {"zones": ["us-east-1a", "us-east-1b"], "cidr": "10.0.0.0/18"}
        changes.append(["gpu-cluster:cluster", "network", zones])
    usual = warnings(settings.from_config(changed(stack, [])))
    found = warnings(settings.from_config(changed(stack, changes)))
    lines = [line.removeprefix("gpu-cluster:") for line in found if line not in usual]
    assert any(line.startswith(says) for line in lines) if says else lines == []


@pytest.mark.parametrize(
    ("stack", "change", "refuses", "warns"),
    [
        ("dev", ["cluster", "version", "1.38"], None, None),
        ("dev", ["gpuPools", "train-gpu", "zones", ["us-central1-d"]],
         "gpuPools.train-gpu.machineType: n1-standard-4 with nvidia-tesla-t4 is not offered in",
         "gpuPools.train-gpu.machineType: it is not known whether us-central1-d has n1-standard-4"),
    ],
)  # fmt: skip
def test_what_a_table_lacks_is_only_warned_of_after_its_last_day(
    stack: str,
    change: list[Any],
    refuses: str | None,
    warns: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then it is refused, or a warning says that the cloud refuses it."""
    block, *rest = change
    changes = [[f"gpu-cluster:{block}", *rest]]
    before = refusal(changed(stack, changes))
    assert before is None if refuses is None else (before or "").startswith(NAMESPACE + refuses)
    usual = warnings(settings.from_config(changed(stack, [])))
    monkeypatch.setattr(dates, "date", Later)
    found = warnings(settings.from_config(changed(stack, changes)))
    lines = [line.removeprefix(NAMESPACE) for line in found if line not in usual]
    assert [line.startswith(warns or "") for line in lines] == [True] * (warns is not None)


@pytest.mark.parametrize(
    ("stack", "cluster", "refused"),
    [
        ("train", {}, True),
        ("train", {"autoscaler": {"image": "registry.example.com/autoscaler:v1"}}, False),
        ("train", {"scaler": "karpenter", "autoscaler": "absent"}, False),
        ("on-eks", {}, False),
        ("on-eks", {"autoscaler": {}}, True),
    ],
)
@pytest.mark.parametrize("minor", ["1.37", "1.38"])
def test_only_a_stack_that_runs_cluster_autoscaler_needs_its_image(
    stack: str, cluster: dict[str, Any], refused: bool, minor: str
) -> None:
    """It belongs to one minor of Kubernetes. EKS may have a newer minor than the catalog."""
    changes = [["gpu-cluster:cluster", *change] for change in cluster.items()]
    config = changed(stack, [["gpu-cluster:cluster", "version", minor], *changes])
    says = (
        f"gpu-cluster:cluster.version: no image of Cluster Autoscaler for Kubernetes {minor} is "
        "known; name one in autoscaler.image, or choose another version"
    )
    assert refusal(config) == (says if refused else None)


def keys_of(*structs: type) -> set[str]:
    """The keys of structs of Pulumi's SDK."""
    members = [member for struct in structs for member in vars(struct).items()]
    return {camel(name) for name, value in members if isinstance(value, property)}


POD = {
    key
    for model in ("V1PodSpec", "V1Container", "V1JobSpec", "V1DeploymentSpec")
    for key in getattr(client, model).attribute_map.values()
}
VOLUME = {*client.V1Volume.attribute_map.values(), *client.V1VolumeMount.attribute_map.values()}
NODE_POOL = keys_of(NodePoolNodeConfigArgs, NodePoolArgs)
EKS = botocore.session.get_session().get_service_model("eks")
NODE_GROUP = {*EKS.operation_model("CreateNodegroup").input_shape.members}
EKSCTL = {
    "amiFamily", "availabilityZones", "desiredCapacity", "efaEnabled", "instanceType", "maxSize",
    "minSize", "placement", "volumeIOPS", "volumeSize", "volumeThroughput", "volumeType",
}  # fmt: skip
"""Of a node group: eksctl.io/usage/schema, which the tests cannot read; 2026-11."""
FOREIGN = {
    "workload": (POD, WorkloadArgs, {"completionMode": "completions"}),
    "volume": (VOLUME, VolumeArgs, {}),
    "GKE pool": (NODE_POOL, GkeGpuNodePoolArgs, {}),
    "EKS pool": (NODE_GROUP | EKSCTL, EksGpuNodeGroupArgs, {}),
}
"""Block -> keys of other tools, its args, and the suggestions by spelling only, which are right."""


@pytest.mark.parametrize("name", FOREIGN)
def test_a_key_of_another_tool_has_its_counterpart_or_no_suggestion(name: str) -> None:
    """Never one that is only spelt alike, such as completions for tolerations."""
    foreign, kind, alike = FOREIGN[name]
    known = {camel(field.name) for field in dataclasses.fields(kind)}
    assert len(foreign - known) > 10
    suggested = {}
    for key in foreign - known:
        near = re.search("mean '(.*)'", str(no_such_key("x", key, known)))
        if near and not {*COUNTERPARTS.get(key, ())} & known:
            suggested[key] = near[1]
    assert suggested == alike


@pytest.mark.parametrize(
    ("name", "value", "secret"), TABLE["test_what_looks_like_a_secret_is_warned_of"]
)
def test_what_looks_like_a_secret_is_warned_of(name: str, value: str, secret: bool) -> None:
    """In a variable, and an argument in which it is a word or a part of one."""
    pod = ["gpu-cluster:workloads", "sample-gpu-pod"]
    places: list[tuple[str, Any, str]] = [("env", {name: value}, f"env.{name}")]
    if name == "A":
        places.append(("args", ["run", value], "args[1]"))
    for key, change, path in places:
        lines = warnings(settings.from_config(changed("dev", [[*pod, key, change]])))
        found = [line for line in lines if f"{path}: looks like a secret" in line]
        assert len(found) == secret


@pytest.mark.parametrize("key", [*COUNTERPARTS, *ELSEWHERE])
def test_each_counterpart_is_a_key(key: str) -> None:
    """Of some block; and what has a counterpart or a remedy is not suggested itself."""
    keys = {
        setting.key.split(".")[-1] for platform in PLATFORMS for setting in settings_of(platform)
    }
    assert {*COUNTERPARTS.get(key, ())} <= keys
    for name in COUNTERPARTS.get(key, ()):
        assert f"did you mean {name!r}?" in str(no_such_key("x", key, {name, "other"}))
    if key in ELSEWHERE:
        assert str(no_such_key("x", key, {"other"})) == f"x: there is no such key; {ELSEWHERE[key]}"


@pytest.mark.parametrize(
    ("written", "meant"), [("max_size", "maxNodes"), ("disk-size-gb", "diskSizeGb")]
)
def test_keys_in_the_spelling_of_other_tools_are_recognized(written: str, meant: str) -> None:
    """Terraform's with underscores, gcloud's with dashes."""
    says = refusal(changed("dev", [["gpu-cluster:gpuPools", "train-gpu", written, 1]])) or ""
    assert f"did you mean {meant!r}?" in says


def test_a_taint_of_an_existing_node_may_have_no_value() -> None:
    """As `kubectl taint nodes n gpu:NoSchedule` sets it."""
    pools = ("gpu-cluster:gpuPools", "gpus", "taints")
    config = changed("onprem", [[*pools, [{"key": "gpu", "effect": "NoSchedule"}]]])
    (taint,) = settings.from_config(config).pools["gpus"].pool.taints
    assert str(taint) == "gpu=:NoSchedule"


def test_a_preview_shows_each_refusal_in_its_own_line() -> None:
    """The engine prints the text of a RunError without a traceback."""
    stack, changes, expected = TOGETHER["gke-autopilot"]
    values = as_engine_config(with_changes(values_of(stack), changes))
    token = runtime_config.CONFIG.set(values)
    try:
        with pytest.raises(pulumi.RunError) as refused:
            settings.load()
    finally:
        runtime_config.CONFIG.reset(token)
    assert len(str(refused.value).splitlines()) == len(expected)
