"""The real program, for every committed environment."""

import json
import re
import shutil
from pathlib import Path

import pulumi
import pytest

from gpu_cluster.components.settings import owners
from gpu_cluster.components.settings.load import from_config, warned
from gpu_cluster.stacks.definition.files import EXAMPLES, SAMPLES
from gpu_cluster.stacks.engine.urn import Urn, of_reference
from tests.components.recording import Recording, record
from tests.program import everything
from tests.program.environments import (
    STACKS,
    as_engine_config,
    config_of,
    recorded,
    run_program,
    values_of,
)
from tests.program.everything import EVERYTHING

PROTECTION = "gpu-cluster:cluster:DeletionProtection"


@pytest.fixture(scope="module", params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    """The name of an environment."""
    return str(request.param)


@pytest.fixture(scope="module")
def update(stack: str) -> Recording:
    """What an update of the environment registers."""
    return recorded(values_of(stack))


@pytest.fixture(scope="module")
def preview(stack: str) -> Recording:
    """What the first preview registers, with nothing known of the cloud's answers."""
    return record(run_program, config=config_of(stack), preview=True)


def test_preview_and_update_register_the_same_resources(
    preview: Recording, update: Recording
) -> None:
    """A preview shows every resource that the update makes, under the same URN."""
    assert sorted(r.urn for r in preview.resources) == sorted(r.urn for r in update.resources)


def test_every_resource_is_registered_once(update: Recording) -> None:
    """No two resources share a URN."""
    urns = [resource.urn for resource in update.resources]
    assert len(set(urns)) == len(urns)


def test_kubernetes_objects_use_the_stack_s_own_provider(update: Recording) -> None:
    """No Kubernetes object goes to whatever cluster the machine's kubeconfig names."""
    objects = [r for r in update.resources if r.type.startswith("kubernetes:")]
    provider = update.one("pulumi:providers:kubernetes")
    assert {Urn.parse(of_reference(r.provider)[0]).name for r in objects} <= {provider.name}
    assert all(r.provider for r in objects)


def test_every_object_carries_its_stack(update: Recording) -> None:
    """By it recovery tells a stack's own objects from those of others with the same names."""
    objects = [r for r in update.resources if r.type.startswith("kubernetes:")]
    assert objects
    for each in objects:
        marks = each.inputs["metadata"]["annotations"]
        assert marks["gpu-cluster/stack"] == "gpu-cluster/test", each.urn


def test_the_cluster_identifier_is_known_at_preview(preview: Recording) -> None:
    """The Kubernetes provider is never replaced because its kubeconfig is not known yet."""
    inputs = preview.one("pulumi:providers:kubernetes").inputs
    assert inputs["clusterIdentifier"]


def test_exports_the_contract(update: Recording, stack: str) -> None:
    """The outputs say how a pod of another project reaches each pool."""
    pools = json.loads(config_of(stack)["gpu-cluster:gpuPools"])
    assert {"platform", "clusterName", "kubeconfig", "gpuPools"} <= set(update.outputs)
    assert set(update.outputs["gpuPools"]) == set(pools)
    for pool in update.outputs["gpuPools"].values():
        assert pool["nodeSelector"]
        assert pool["resource"] == "nvidia.com/gpu"


def test_the_kubeconfig_is_secret(update: Recording) -> None:
    """The exported kubeconfig is a secret."""
    assert "4dabf18193072939515e22adb298388d" in update.outputs["kubeconfig"]


def test_a_kubeconfig_of_this_stack_holds_no_token(update: Recording, stack: str) -> None:
    """A cluster that this stack makes is reached through an exec plugin's credentials."""
    if json.loads(config_of(stack)["gpu-cluster:cluster"])["platform"] == "existing":
        return  # there it is the user's own kubeconfig, with whatever is in it
    secret = update.outputs["kubeconfig"]
    (user,) = json.loads(secret["value"])["users"]
    assert set(user["user"]) == {"exec"}


def test_a_pod_of_its_own_waits_for_the_device_plugin() -> None:
    """A kubelet that is between two plugins refuses a pod, and nobody makes that one again."""
    found = recorded(values_of("onprem"))
    pods = [r for r in found.resources if r.type == "kubernetes:core/v1:Pod"]
    assert pods
    for pod in pods:
        assert "kubernetes:apps/v1:DaemonSet::nvidia-device-plugin" in found.before(pod)


def test_a_copy_of_a_stack_is_warned_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a preview and in an `up`, as a warning: the stack may be another backend's."""
    said: list[str] = []
    shutil.copy(EXAMPLES / "Pulumi.dev.yaml", tmp_path / "Pulumi.copy.yaml")
    warn = owners.warn_of_shared
    monkeypatch.setattr(owners, "warn_of_shared", lambda folder: warn(tmp_path))
    monkeypatch.setattr(pulumi.log, "warn", lambda line, *_: said.append(line))
    record(run_program, config=config_of("dev"), preview=True)
    assert [line for line in said if line.startswith("Pulumi.")] == [
        "Pulumi.copy.yaml creates this stack's cluster too, gpu-dev in us-central1-a: a destroy of "
        "either deletes it for both; give one of them another cluster.name"
    ]


@pytest.mark.parametrize("stack", [*SAMPLES, "efa"])
def test_a_preview_of_a_new_stack_and_validate_warn_of_the_same(
    monkeypatch: pytest.MonkeyPatch, stack: str
) -> None:
    """What is known without an engine is one list. `efa`: nodes whose network no pod would use."""
    values = values_of("train" if stack == "efa" else stack)
    if stack == "efa":
        pool = {"instanceTypes": ["p4d.24xlarge"], "zones": ["us-east-1a"], "maxNodes": 2}
        job = {"pool": "big", "nodes": 2, "image": "example.com/a:1", "command": ["a"]}
        values["gpu-cluster:gpuPools"]["big"] = pool
        values["gpu-cluster:batch"] = {"jobSet": True}
        values["gpu-cluster:trainingJobs"] = {"large": job}
    config, said = as_engine_config(values), []
    monkeypatch.setattr(pulumi.log, "warn", lambda line, *_: said.append(line))
    monkeypatch.setattr(owners, "warn_of_shared", lambda folder: None)
    record(run_program, config=config, preview=True)
    assert said == warned(config, from_config(config))
    paths = {line.partition(": ")[0] for line in said}
    assert ("gpu-cluster:gpuPools.big" in paths) == (stack == "efa")
    placeholders = {"gcp:project", "gpu-cluster:cluster.admins[0]"}
    assert bool(placeholders & paths) == bool(
        re.search("my-project|iam::123456789012", str(config))
    )


def test_a_stack_waits_for_nothing_to_lose_its_protection() -> None:
    """A workload that fails ends the update; what is to be unprotected is registered before. While
    protected it depends on every other resource, so that `destroy` comes to it first."""

    def protection(protect: bool) -> tuple[bool, list[str], set[str]]:
        values = values_of("dev")
        values["gpu-cluster:cluster"]["deletionProtection"] = protect
        recording = recorded(values)
        found = recording.one(PROTECTION)
        before = recording.before(found)
        types = {resource.type for resource in recording.resources if resource.key in before}
        return found.protect, found.behind(), types

    protected, _, before = protection(True)
    assert protected
    assert {"gcp:container/nodePool:NodePool", "kubernetes:apps/v1:Deployment"} <= before
    assert protection(False)[:2] == (False, [])


@pytest.mark.parametrize("protect", [None, True, False])
def test_definitions_of_an_existing_cluster_are_protected_first(protect: bool | None) -> None:
    """Without a preview the engine would come to them last, when all else is deleted."""
    values = values_of("onprem")
    pool = next(iter(values["gpu-cluster:gpuPools"]))
    queues = {"training": {"pools": [pool], "nominalQuota": {pool: 1}}}
    values["gpu-cluster:batch"] = {"queues": queues} | (
        {} if protect is None else {"deletionProtection": protect}
    )
    recording = recorded(values)
    found = recording.one(PROTECTION)
    behind = recording.before(found)
    before = {resource.name for resource in recording.resources if resource.key in behind}
    assert found.protect is (protect is not False)
    assert ("clusterqueues.kueue.x-k8s.io" in before) is found.protect
    assert ("cluster-queue-training" in before) is found.protect


def test_an_existing_cluster_without_queues_has_nothing_to_protect() -> None:
    """Its stack can be destroyed at any time."""
    assert recorded(values_of("onprem")).of(PROTECTION) == []


@pytest.mark.parametrize(
    "stack",
    [
        # Without a cluster of the stack's own, there are a hundredth as many.
        pytest.param(stack, marks=pytest.mark.prove if "existing" in stack else [])
        for stack in EVERYTHING
    ],
)
def test_the_engine_follows_few_paths_from_a_refused_deletion(stack: str) -> None:
    """Nor from a failed one, in a stack with three of all that can be repeated. It follows every
    path of dependencies, also to what it has seen before, and the parent of a resource once. Some
    70 million took it 38 s."""
    values = everything.config_of(stack)
    blocks = ("namespaces", "teams", "trainingJobs", "services", "workloads")
    for entries in (values[f"gpu-cluster:{block}"] for block in blocks):
        for name, entry in [*entries.items()]:
            entries |= {f"{name}{number}": entry for number in range(2)}
    for number, (name, team) in enumerate(values["gpu-cluster:teams"].items()):
        kind, _, member = team["members"][0].rpartition(":")
        values["gpu-cluster:teams"][name] = {
            **team,
            "members": [f"{kind}:{member.replace('/', f'/{number}').replace('@', f'{number}@')}"],
            "namespaces": [name],
        }
    if nodes := values["gpu-cluster:gpuPools"]["train"].get("maxNodes"):
        values["gpu-cluster:gpuPools"]["train"]["maxNodes"] = 3 * nodes
    recording = recorded(values)
    paths: dict[str, int] = {}
    for resource in recording.resources:
        paths[resource.key] = 1 + sum(paths[behind] for behind in resource.behind())
    parents = sum(paths[resource.key] for resource in recording.resources if not resource.custom)
    assert max(paths.values()) + parents < 8_000_000
