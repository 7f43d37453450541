"""GPU pools on an EKS cluster that somebody else made, rehearsed: the cluster is as it was."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.run import POLICIES
from gpu_cluster.rehearsal.sandbox import Sandbox, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.simulators.aws import AwsCloud
from gpu_cluster.rehearsal.simulators.aws.access import ENTRIES
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES
from gpu_cluster.stacks.capacity import eks
from gpu_cluster.stacks.capacity.conflicts import conflicts
from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT
from gpu_cluster.stacks.live.controllers import foreign_controllers
from gpu_cluster.stacks.recovery.command import recover
from gpu_cluster.stacks.recovery.engine import RecoveringPulumi
from quality.faults.fault_run import FakeCloudApi
from tests.rehearsal.conftest import details, until, with_inventory
from tests.rehearsal.own_stacks import folder_of

pytestmark = pytest.mark.prove


@contextmanager
def rehearsed(stack: str, folder: Path, **cluster: Any) -> Iterator[Rehearsal]:
    """The sample on its cluster, with these settings of the cluster."""
    document = yaml.safe_load((EXAMPLES / f"Pulumi.{stack}.yaml").read_text())
    document["config"]["gpu-cluster:cluster"] |= cluster
    source, options = folder_of(stack, folder, yaml.safe_dump(document)), SandboxOptions(kept=True)
    with Sandbox(stack, source=source, folder=folder / "sandbox", options=options) as sandbox:
        yield Rehearsal(sandbox=sandbox, policy_pack=POLICIES)


def preview_ends(folder: Path, stack: str, words: str, **cluster: Any) -> None:
    """A preview on the sample's cluster, which differs so, fails in these words, and nothing has
    been created."""
    described = yaml.safe_load((INVENTORIES / f"{stack}.yaml").read_text())
    described["cluster"] |= cluster
    options = with_inventory(folder, stack, described, scaling=False)
    with Sandbox(stack, folder=folder / "sandbox", options=options) as sandbox:
        outcome = sandbox.engine.preview(None)
        assert not outcome.ok
        assert any(words in line for line in outcome.errors), outcome.errors
        assert sandbox.cloud.list_resources() == []


def ends_without_the_stack(run: Rehearsal) -> None:
    """Its cluster is as before, and still runs."""
    assert run.teardown(), run.failures
    assert details(run)["leak check"] == (
        "nothing left in the state, nothing left in the cluster, which still exists"
    )
    assert run.sandbox.cloud.list_resources() == run.sandbox.disturbed() == []
    assert run.sandbox.control_plane.running


@pytest.mark.parametrize("stack", ["on-eks-karpenter", "on-eks-auto-mode"])
def test_the_owners_scaler_starts_the_nodes(stack: str, tmp_path: Path) -> None:
    """The example with its inventory: nodes come and go, and the cluster is as it was."""
    text = (ROOT / "examples" / "existing" / f"Pulumi.{stack}.yaml").read_text()
    source = folder_of(stack, tmp_path, text)
    with Sandbox(stack, source=source, folder=tmp_path / "sandbox") as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, policy_pack=POLICIES, deadline=240)
        assert rehearsal.run_until_ready(), rehearsal.failures
        assert rehearsal.teardown(), rehearsal.failures
        assert sandbox.disturbed() == []


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """The tests below end it."""
    loaders = {"instanceTypes": ["c7i.xlarge"], "maxNodes": 2}
    given = {"cpuPools": {"loaders": loaders}, "ssm": True}
    with rehearsed("on-eks", tmp_path_factory.mktemp("on-eks"), **given) as rehearsal:
        assert rehearsal.run_until_ready(), rehearsal.failures
        yield rehearsal


def test_pools_grow_from_zero_by_the_autoscaler_of_the_cluster(run: Rehearsal) -> None:
    """A second up changes nothing."""
    assert [step.name for step in run.steps if not step.ok] == []
    assert any("; none starts a node in loaders" in step.detail for step in run.steps)
    nodes = {node["metadata"]["name"] for node in run.sandbox.cluster_cache.gpu_nodes}
    assert len(nodes) == 1


def a_cpu_pool_grows_and_shrinks(sandbox: Sandbox) -> None:
    """From zero to two nodes with two pods that fill one each, and back without them."""
    api, pods = sandbox.control_plane.api, "/api/v1/namespaces/default/pods"
    label = {"gpu-cluster/pool": "loaders"}

    def nodes() -> int:
        rows = api.get("/api/v1/nodes")["items"]
        return sum(label.items() <= row["metadata"]["labels"].items() for row in rows)

    assert nodes() == 0
    for name in ("a", "b"):
        room = {"requests": {"cpu": "3"}}
        containers = [{"name": "loader", "image": "registry.example/loader:1", "resources": room}]
        spec = {"nodeSelector": label, "containers": containers, "terminationGracePeriodSeconds": 0}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        api.create(pods, pod)
    until(lambda: nodes() == 2, "two nodes")
    for name in ("a", "b"):
        until(lambda at=f"{pods}/{name}": api.get(at)["status"]["phase"] == "Running", name)
    for name in ("a", "b"):
        api.delete(f"{pods}/{name}")
    until(lambda: nodes() == 0, "no node")


def test_a_pool_without_gpus_grows_by_the_autoscaler_of_the_cluster(run: Rehearsal) -> None:
    """The role of its nodes has the policy of Systems Manager."""
    a_cpu_pool_grows_and_shrinks(run.sandbox)
    assert isinstance(run.sandbox.cloud, AwsCloud)
    account = run.sandbox.cloud.account
    with account.lock, account.asking:
        iam = account.client("iam")
        roles = [one["RoleName"] for one in iam.list_roles()["Roles"]]
        (role,) = [name for name in roles if name.startswith("platform-gpu-nodes-")]
        attached = iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    assert "AmazonSSMManagedInstanceCore" in [one["PolicyName"] for one in attached]


def test_what_it_changes_of_the_cluster_is_found(run: Rehearsal) -> None:
    """Anything of another owner, in AWS and in Kubernetes: an addon, a group's bounds, a tag, a
    Deployment; and what it takes away or leaves."""
    cloud, api = run.sandbox.cloud, run.sandbox.control_plane.api
    assert isinstance(cloud, AwsCloud)
    before = set(cloud.list_resources()), set(run.sandbox.disturbed())
    account, deployments = cloud.account, "/apis/apps/v1/namespaces/kube-system/deployments"
    group = next(one for name, one in account.groups.items() if name == "default")
    with account.lock, account.asking:
        addon = account.clusters["platform"].addons["coredns"]
        addon["addonVersion"] = "v9.9.9-eksbuild.1"
        group.row["scalingConfig"] |= {"maxSize": 9}
        tags = [{"Key": "stack", "Value": "a"}]
        ec2 = account.client("ec2")
        ec2.create_tags(Resources=["sg-0aaaaaaaaaaaaaaa1"], Tags=tags)
    api.patch(f"{deployments}/cluster-autoscaler", {"spec": {"replicas": 0}})
    found = set(cloud.list_resources()) - before[0]
    assert found == {
        f"changed: {line}, which is somebody else's"
        for line in (
            "addon platform:coredns", "node group platform:default",
            "security group sg-0aaaaaaaaaaaaaaa1 (platform-node-sg-0aaaaaaaaaaaaaaa1)",
        )
    }  # fmt: skip
    changed = "changed: Deployment kube-system/cluster-autoscaler, which is somebody else's"
    assert set(run.sandbox.disturbed()) - before[1] == {changed}
    with account.lock, account.asking:
        addon["addonVersion"] = "v1.35.0-eksbuild.1"
        group.row["scalingConfig"] |= {"maxSize": 2}
        ec2.delete_tags(Resources=["sg-0aaaaaaaaaaaaaaa1"], Tags=tags)
    api.patch(f"{deployments}/cluster-autoscaler", {"spec": {"replicas": 1}})


def test_destroy_removes_the_stack_and_nothing_else(run: Rehearsal) -> None:
    """The pool goes to zero, then all that the stack added; the cluster has its nodes, addons and
    objects as before."""
    ends_without_the_stack(run)


CONFLICTS = """
controllers: [kueue]
objects:
  - { apiVersion: v1, kind: Namespace, metadata: { name: team } }
  - apiVersion: apps/v1
    kind: DaemonSet
    metadata: { name: nvdp, namespace: kube-system }
    spec:
      selector: { matchLabels: { app: nvdp } }
      template:
        metadata: { labels: { app: nvdp } }
        spec:
          tolerations: [{ key: nvidia.com/gpu, operator: Exists }]
          containers: [{ name: nvdp, image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.0" }]
"""
STACK = """
  gpu-cluster:namespaces: { team: {} }
  gpu-cluster:batch:
    queues: { training: { pools: [train-gpu], namespaces: [team] } }
"""


def test_each_conflict_is_found_once_before_the_first_update(tmp_path: Path) -> None:
    """In a live cluster, by `capacity`: a device plugin, a Kueue and a namespace of others, and no
    autoscaler. Nothing is created meanwhile."""
    described = (INVENTORIES / "on-eks.yaml").read_text().partition("objects:")[0]
    options = with_inventory(
        tmp_path, "on-eks", yaml.safe_load(described + CONFLICTS), scaling=False
    )
    text = (EXAMPLES / "Pulumi.on-eks.yaml").read_text() + STACK
    source = folder_of("on-eks", tmp_path, text)
    with Sandbox("on-eks", source=source, folder=tmp_path / "sandbox", options=options) as sandbox:
        settings, kubeconfig = (
            sandbox.program.settings,
            sandbox.control_plane.kubeconfig.read_text(),
        )
        assert settings is not None
        found, unread = conflicts(kubeconfig, settings, "gpu-cluster/on-eks")
        assert unread == []
        assert settings.batch is not None
        controllers = foreign_controllers(kubeconfig, settings.batch, "gpu-cluster/on-eks")
        assert sorted(found) == ["cluster.autoscaler", "gpuPools.train-gpu", "namespaces.team"]
        assert list(controllers) == ["batch.queues"]
        asked = eks.questions(settings, sandbox.cloud_api).existing("gpu-cluster/on-eks")
        assert asked == []
        assert sandbox.cloud.list_resources() == sandbox.disturbed() == []


def test_a_cluster_without_access_entries_ends_the_preview(tmp_path: Path) -> None:
    """Before anything is created, and with what its owner has to do."""
    words = "authentication mode CONFIG_MAP"
    preview_ends(tmp_path, "on-eks", words, authenticationMode="CONFIG_MAP")


def test_pools_grow_by_the_auto_mode_of_the_cluster(tmp_path: Path) -> None:
    """Without an endpoint in the settings, the preview asks EKS, which has Auto Mode on; after
    destroy the cluster is as it was."""
    described = yaml.safe_load((INVENTORIES / "on-eks.yaml").read_text())
    described["cluster"] |= {"autoMode": ["general-purpose"], "podIdentities": {}}
    del described["objects"]
    options = with_inventory(tmp_path, "on-eks", described)
    config = yaml.safe_load((EXAMPLES / "Pulumi.on-eks.yaml").read_text())
    cluster = config["config"]["gpu-cluster:cluster"]
    del cluster["endpoint"], cluster["certificateAuthority"]
    cluster["scaler"] = "auto-mode"
    del config["config"]["gpu-cluster:gpuPools"]["train-gpu"]["nodeRepair"]
    source = folder_of("on-eks", tmp_path, yaml.safe_dump(config))
    with Sandbox("on-eks", source=source, folder=tmp_path / "sandbox", options=options) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=240)
        assert rehearsal.run_until_ready(), rehearsal.failures
        (node,) = sandbox.cluster_cache.gpu_nodes
        assert node["metadata"]["labels"]["eks.amazonaws.com/compute-type"] == "auto"
        kubeconfig, own = sandbox.control_plane.kubeconfig.read_text(), sandbox.program.settings
        assert own is not None
        assert conflicts(kubeconfig, own, "gpu-cluster/on-eks") == ({}, [])
        found, _ = conflicts(kubeconfig, own, "gpu-cluster/other")
        assert "already has a NodePool train-gpu, so" in found["gpuPools.train-gpu"]
        assert rehearsal.teardown(), rehearsal.failures
        assert sandbox.cloud.list_resources() == sandbox.disturbed() == []


ROLE = "arn:aws:iam::210987654321:role/"
TEAM = f"""
  gpu-cluster:teams:
    research: {{ members: ["{ROLE}research"], gpus: {{ train-gpu: 1 }} }}
"""


def with_team(tmp_path: Path) -> Path:
    """The sample with a team of one role, and no workload past its queue."""
    config = yaml.safe_load((EXAMPLES / "Pulumi.on-eks.yaml").read_text())
    config["config"] |= yaml.safe_load(TEAM)
    config["config"]["gpu-cluster:workloads"] = {}
    return folder_of("on-eks", tmp_path, yaml.safe_dump(config))


def test_people_get_in_with_the_stack_and_leave_with_it(tmp_path: Path) -> None:
    """The entry has the team's group, and those of the owner stay."""
    with Sandbox("on-eks", source=with_team(tmp_path), folder=tmp_path / "sandbox") as sandbox:
        assert isinstance(sandbox.cloud, AwsCloud)
        cluster = sandbox.cloud.account.clusters["platform"]
        before = set(cluster.entries)
        rehearsal = Rehearsal(sandbox=sandbox, deadline=240)
        assert rehearsal.run_until_ready(), rehearsal.failures
        assert cluster.entries[f"{ROLE}research"]["kubernetesGroups"] == ["research"]
        assert before < set(cluster.entries)
        assert rehearsal.teardown(), rehearsal.failures
        assert set(cluster.entries) == before
        assert sandbox.cloud.list_resources() == sandbox.disturbed() == []


def test_an_entry_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """EKS refuses another one, and `capacity` has said so; recovery does not adopt it, so that it
    stays after destroy."""
    with Sandbox("on-eks", source=with_team(tmp_path), folder=tmp_path / "sandbox") as sandbox:
        assert isinstance(sandbox.cloud, AwsCloud)
        account, settings = sandbox.cloud.account, sandbox.program.settings
        assert settings is not None
        with account.lock, account.asking:
            of = {"clusterName": "platform", "principalArn": f"{ROLE}research"}
            ENTRIES.add(account, of)
        asked = eks.questions(settings, sandbox.cloud_api).existing("gpu-cluster/on-eks")
        assert [one.about for one in asked] == ["teams.research.members"]
        outcome = sandbox.engine.up()
        assert not outcome.ok
        assert any("ResourceInUseException" in error for error in outcome.errors), outcome.errors
        engine = sandbox.engine
        pulumi = RecoveringPulumi(
            command=engine.command, program=engine.program, stack="on-eks",
            environment=engine.environment,
        )  # fmt: skip
        clouds = FakeCloudApi(sandbox.cloud, sandbox.cloud_api)
        recovery = recover(pulumi, clouds=clouds, adopt_orphans=True)
        # Notes about what a busy machine had not created before the refusal may come on top.
        theirs = f"access entry of {ROLE}research exists and has no label of a stack"
        assert sum(theirs in note for note in recovery.notes) == 1, recovery.notes
        assert not recovery.adopted
        assert engine.destroy().ok
        assert f"{ROLE}research" in account.clusters["platform"].entries
