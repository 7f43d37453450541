"""A cluster and a node pool that GKE makes or changes half way, under the real engine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.plugins import gcp
from gpu_cluster.rehearsal.plugins.cloud.server import ProviderServer
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.simulators.google import GoogleCloud, serve_api
from gpu_cluster.stacks.engine.state import resources
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.stacks.recovery.command import Recovery, recover
from quality.faults.fault_run import FakeCloudApi
from tests.rehearsal.small_program import SmallStack
from tests.unit.plugins.offline_engine import Plane

PROGRAM = """
from types import SimpleNamespace

import pulumi
import pulumi_gcp as gcp

from gpu_cluster.components.gke.control_plane import control_plane_options

root = pulumi.ComponentResource("test:index:Root", "root")
network = gcp.compute.Network("net", auto_create_subnetworks=False)
nodes = gcp.compute.Subnetwork("nodes", network=network.id, ip_cidr_range="10.0.0.0/20")
cluster = gcp.container.Cluster(
    "dev",
    name="dev",
    location="us-central1-a",
    network=network.self_link,
    subnetwork=nodes.self_link,
    initial_node_count=1,
    remove_default_node_pool=True,
    deletion_protection=False,
    enable_shielded_nodes=pulumi.Config().get_bool("shielded") is not False,
    opts=control_plane_options(SimpleNamespace(deletion_protection=False), root),
)
gcp.container.NodePool(
    "cpu",
    cluster=cluster.id,
    initial_node_count=pulumi.Config().get_int("nodes") or 1,
    opts=pulumi.ResourceOptions(deleted_with=cluster, delete_before_replace=True),
)
"""
STOCKOUT = "Google Compute Engine: Not all instances running in IGM after 35m4s. Expected 1"
CLUSTER = "projects/p/locations/us-central1-a/clusters/dev"


class Stack(SmallStack):
    """A stack of the program above, in a cloud of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cloud = GoogleCloud(control_plane=Plane(), faults=Faults())
        self.api = serve_api(self.cloud)
        self.server = ProviderServer(
            gcp.settings_for(self.api.environment, faults=Faults(), changed=self.cloud.notify)
        )
        config = "config: { gcp:project: p, gcp:region: us-central1 }\n"
        super().__init__(folder, PROGRAM, f"gcp:{self.server.port}", config=config)

    def up(self, *, fails: bool = False) -> str:
        return self.run("up", "--yes", "--skip-preview", fails=fails)

    def recover(self) -> Recovery:
        clouds = FakeCloudApi(self.cloud, self.api.endpoint)  # type: ignore[arg-type]
        found = recover(self.pulumi, clouds=clouds)
        assert found.notes == []
        return found

    def recovered(self) -> dict[str, str]:
        """Recovers; what had failed, type -> why."""
        return {Urn.parse(urn).type: reason for urn, reason in self.recover().failed.items()}

    def held(self) -> list[str]:
        """Words for what the cloud has of GKE."""
        return [line.split(" projects/")[0] for line in self.cloud.list_resources()
                if "clusters/" in line]  # fmt: skip


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path)
    yield made
    made.server.stop()
    made.api.stop()


def test_what_gke_makes_half_way_is_replaced_after_a_recovery(stack: Stack) -> None:
    """The engine has it; a second `up` passes it by, and its own node pool is refused; after a
    recovery the next one replaces it, and nothing is orphaned."""
    stack.cloud.faults.halfway |= {"CREATE_CLUSTER": [STOCKOUT]}
    assert f"Error waiting for creating GKE cluster: {STOCKOUT}" in stack.up(fails=True)
    assert stack.states()["dev"]["id"] == CLUSTER
    assert "creating urn:" in stack.states()["dev"]["initErrors"][0]
    said = stack.up(fails=True)
    assert "cannot be updated" in said
    assert "409" not in said
    assert "initErrors" not in stack.states()["dev"]
    assert stack.recovered() == {"gcp:container/cluster:Cluster": STOCKOUT}
    stack.cloud.faults.halfway |= {"CREATE_NODE_POOL": [STOCKOUT]}
    said = stack.up(fails=True)
    assert "+-1 replaced" in said
    assert 'was created in the error state "ERROR"' in said
    assert stack.recovered() == {"gcp:container/nodePool:NodePool": STOCKOUT}
    stack.up()
    assert stack.held() == ["cluster", "node pool"]
    assert stack.recovered() == {}
    stack.pulumi.must("preview", "--expect-no-changes")
    stack.pulumi.must("destroy", "--yes", "--skip-preview")
    assert stack.cloud.list_resources() == []


@pytest.mark.prove(reason="tests/unit/stacks/test_recovery.py has the recovery, without an engine")
def test_a_default_pool_that_was_not_removed_is_removed_after_a_recovery(stack: Stack) -> None:
    """It has nodes that somebody pays for, and an `up` passes it by."""
    stack.cloud.faults.halfway |= {"DELETE_NODE_POOL": [STOCKOUT]}
    assert STOCKOUT in stack.up(fails=True)
    stack.up()
    assert stack.held() == ["cluster", "node pool", "node pool"]
    assert [Urn.parse(urn).name for urn in stack.recover().default_pools] == ["dev"]
    assert "~ 1 updated" in stack.up()
    assert stack.held() == ["cluster", "node pool"]
    assert stack.recover().default_pools == []
    stack.pulumi.must("preview", "--expect-no-changes")


@pytest.mark.prove(reason="tests/unit/stacks/test_recovery.py has the state, without an engine")
def test_a_pool_that_was_being_replaced_is_adopted_and_destroyed(stack: Stack) -> None:
    """A run that was killed between the deletion and the answer to the creation: the old pool is
    gone, and no later run may delete it again."""
    stack.up()
    killed = json.loads(stack.pulumi.must("stack", "export"))
    stack.pulumi.must("config", "set", "nodes", "2")
    assert "+-1 replaced" in stack.up()
    made = {k: v for k, v in stack.states()["cpu"].items() if k not in ("id", "outputs")}
    for row in resources(killed):
        if row["urn"] == made["urn"]:
            row["pendingReplacement"] = True
    killed["deployment"]["pending_operations"] = [{"type": "creating", "resource": made}]
    (file,) = stack.folder.rglob(".pulumi/stacks/*/dev.json")  # an import drops the operation
    checkpoint = json.loads(file.read_text())
    checkpoint["checkpoint"]["latest"] = killed["deployment"]
    file.write_text(json.dumps(checkpoint))
    assert list(stack.recover().adopted) == [made["urn"]]
    assert "deleted" not in stack.up()
    stack.pulumi.must("preview", "--expect-no-changes")
    stack.pulumi.must("destroy", "--yes", "--skip-preview")
    assert stack.cloud.list_resources() == []


@pytest.mark.prove(
    reason="tests/unit/plugins/test_official_requests.py has what the plugin answers"
)
def test_what_gke_changes_half_way_is_changed_by_the_next_up(stack: Stack) -> None:
    """The engine keeps the old inputs and the state that it is told, and that the update failed."""
    stack.up()
    stack.pulumi.must("config", "set", "shielded", "false")
    stack.cloud.faults.halfway |= {"UPDATE_CLUSTER": [STOCKOUT]}
    assert STOCKOUT in stack.up(fails=True)
    failed = stack.states()["dev"]
    assert "updating urn:" in failed["initErrors"][0]
    assert failed["inputs"]["enableShieldedNodes"] is True
    assert failed["outputs"]["enableShieldedNodes"] is True
    assert "~ 1 updated" in stack.up()
    assert "initErrors" not in stack.states()["dev"]
    assert stack.states()["dev"]["outputs"]["enableShieldedNodes"] is False
    stack.pulumi.must("preview", "--expect-no-changes")
