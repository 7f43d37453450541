import importlib.metadata
from collections.abc import Callable
from dataclasses import replace

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpu_cluster.rehearsal.plugins import aws, gcp
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.handler import ProviderSettings
from gpu_cluster.rehearsal.plugins.cloud.schema import UNKNOWN
from gpu_cluster.rehearsal.plugins.cloud.server import ProviderServer
from gpu_cluster.rehearsal.plugins.cloud.wire import decode, encode
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.plugins.gcp.container import DEFAULT_SCOPES
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import (
    CLUSTER,
    MEMBER,
    NETWORK,
    POOL,
    GoogleStack,
    cluster,
    pool,
    t4,
)

PLANNED = {"network": "net", "subnetwork": UNKNOWN, "initialNodeCount": 1, "location": "us-east1"}


@pytest.mark.parametrize("settings_for", [aws.settings_for, gcp.settings_for])
def test_every_type_has_its_facts(settings_for: Callable[..., ProviderSettings]) -> None:
    """Without a row nothing would replace, and nothing be refused."""
    assert (
        settings_for({"AWS_ENDPOINT_URL": ""}, faults=Faults()).handlers.keys() - facts.types()
        == set()
    )


def test_names_are_generated_once() -> None:
    """A resource without a name gets its own and seven digits, and keeps them."""
    stack = GoogleStack()
    first, failures = stack.check(NETWORK, "net", {"autoCreateSubnetworks": False})
    assert failures == []
    assert first["name"].startswith("net-")
    assert len(first["name"]) == len("net-") + 7
    again, _ = stack.check(NETWORK, "net", {"autoCreateSubnetworks": False}, first)
    assert again["name"] == first["name"]
    replacement, _ = stack.check(NETWORK, "net", {"autoCreateSubnetworks": False})
    assert replacement["name"] != first["name"]


def test_the_engines_autonaming_is_respected() -> None:
    """A proposed name is taken as it is; a stack that turns automatic names off must give one."""
    stack = GoogleStack()
    request = provider_pb2.CheckRequest(urn=stack.urn(NETWORK, "net"))
    request.autonaming.proposed_name = "wanted"
    answer = stack.provider.Check(request, stack.context)
    assert decode(answer.inputs)["name"] == "wanted"
    request.autonaming.mode = request.autonaming.DISABLE
    answer = stack.provider.Check(request, stack.context)
    assert [failure.reason for failure in answer.failures] == [
        "name: 'net' needs an explicit name: the stack turns automatic ones off"
    ]


def test_the_same_seed_gives_the_same_name() -> None:
    """The request's random seed decides the generated digits."""
    stack = GoogleStack()
    request = provider_pb2.CheckRequest(urn=stack.urn(NETWORK, "net"), randomSeed=b"seed")
    names = {decode(stack.provider.Check(request, stack.context).inputs)["name"] for _ in "ab"}
    assert len(names) == 1


def test_defaults_are_applied_and_recorded() -> None:
    """The provider's defaults become inputs, and `__defaults` says which."""
    inputs, failures = GoogleStack().check(CLUSTER, "c", {"initialNodeCount": 1})
    assert failures == []
    assert inputs["deletionProtection"] is True
    assert inputs["network"] == "default"
    assert {"deletionProtection", "network", "name"} <= set(inputs["__defaults"])


def test_a_default_gives_way_to_what_excludes_it() -> None:
    """`enableShieldedNodes` defaults to true, but not on Autopilot, which refuses it."""
    inputs, failures = GoogleStack().check(CLUSTER, "c", {"enableAutopilot": True})
    assert failures == []
    assert "enableShieldedNodes" not in inputs


def test_nested_defaults_need_their_block() -> None:
    """A nested default appears only inside a block that is given."""
    with_block, _ = GoogleStack().check(POOL, "p", {"cluster": "c", "management": {}})
    without, _ = GoogleStack().check(POOL, "p", {"cluster": "c"})
    assert with_block["management"] == {"autoRepair": True, "autoUpgrade": True}
    assert "management" not in without


def test_a_preview_knows_only_what_the_program_gave() -> None:
    """Before creation the name is known, the endpoint and all else that the cloud decides not."""
    planned = GoogleStack().preview(CLUSTER, "c", PLANNED | {"name": "dev"})
    assert planned["name"] == "dev"
    assert planned["endpoint"] == planned["masterVersion"] == planned["masterAuth"] == UNKNOWN
    assert planned["nodeLocations"] == UNKNOWN
    assert planned["clusterAutoscaling"] == UNKNOWN
    assert "maintenancePolicy" not in planned


def test_what_the_cloud_fills_in_beneath_a_block_is_unknown_as_well() -> None:
    """A member of a given block that only the cloud knows is unknown, not left out."""
    config = {"machineType": "n1-standard-8", "guestAccelerators": [{"type": "x", "count": 1}]}
    planned = GoogleStack().preview(POOL, "p", {"cluster": "c", "nodeConfig": config})
    filled = planned["nodeConfig"]
    assert filled["machineType"] == "n1-standard-8"
    assert filled["serviceAccount"] == filled["effectiveTaints"] == UNKNOWN
    assert filled["guestAccelerators"][0]["gpuDriverInstallationConfig"] == UNKNOWN
    assert planned["upgradeSettings"] == UNKNOWN


def test_a_create_may_not_return_what_its_preview_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that fills in a property which nobody named fails, so that no rehearsal lies."""
    stack = GoogleStack.with_cluster()
    nothing_computed = replace(facts.of(POOL), computed=frozenset())
    monkeypatch.setattr(facts, "of", {POOL: nothing_computed}.__getitem__)
    with pytest.raises(Refused, match=r"NodePool left out .*nodeConfig\.imageType.*: name it"):
        stack.pool()


def test_a_preview_creates_nothing() -> None:
    """The cloud stays empty."""
    stack = GoogleStack()
    stack.preview(CLUSTER, "c", PLANNED)
    assert stack.cloud.list_resources() == []
    assert not stack.plane.running


def test_unchanged_inputs_are_no_difference() -> None:
    """What the cloud filled in beside the inputs is no change."""
    stack = GoogleStack.with_cluster()
    stack.pool()
    changes, answer = stack.diff(POOL, "gpu", pool())
    assert changes == {}
    assert answer.changes == answer.DIFF_NONE


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"nodeConfig": t4(count=2)}, {"nodeConfig.guestAccelerators[0].count": "UPDATE_REPLACE"}),
        ({"nodeConfig": t4(labels={"role": "train-gpu", "a.b/c": "d"})},
            {'nodeConfig.labels["a.b/c"]': "ADD"}),
        ({"nodeConfig": t4(labels={})}, {"nodeConfig.labels.role": "DELETE"}),
        ({"nodeConfig": t4(taints=[])}, {"nodeConfig.taints[0]": "DELETE"}),
        ({"nodeConfig": t4(metadata={"disable-legacy-endpoints": "true", "x": "y"})},
            {"nodeConfig.metadata.x": "ADD_REPLACE"}),
        ({"nodeConfig": t4(oauthScopes=[*DEFAULT_SCOPES, "cloud-platform"])},
            {"nodeConfig.oauthScopes[0]": "ADD_REPLACE"}),
        ({"nodeConfig": t4(guestAccelerators=[])}, {}),
        ({"nodeConfig": t4(serviceAccount=UNKNOWN)},
            {"nodeConfig.serviceAccount": "UPDATE_REPLACE"}),
        ({"nodeConfig": t4(guestAccelerators=UNKNOWN)},
            {"nodeConfig.guestAccelerators": "UPDATE_REPLACE"}),
        ({"nodeConfig": t4(tags=[])}, {}),
        ({"nodeConfig": t4(machineType="n1-standard-8")}, {"nodeConfig.machineType": "UPDATE"}),
        ({"autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 5}},
            {"autoscaling.totalMaxNodeCount": "UPDATE"}),
        ({"initialNodeCount": 1}, {"initialNodeCount": "UPDATE_REPLACE"}),
        ({"initialNodeCount": None}, {}),
        ({"cluster": UNKNOWN}, {"cluster": "UPDATE_REPLACE"}),
        ({"networkConfig": {"enablePrivateNodes": True}},
            {"networkConfig.enablePrivateNodes": "UPDATE"}),
        ({"networkConfig": {"podRange": "more"}}, {"networkConfig.podRange": "UPDATE_REPLACE"}),
    ],
)  # fmt: skip
def test_a_difference_says_what_it_replaces(
    changes: dict[str, object], expected: dict[str, str]
) -> None:
    """Immutable properties replace, others update, and what the provider keeps is no change."""
    stack = GoogleStack.with_cluster()
    stack.pool()
    found, answer = stack.diff(POOL, "gpu", pool(**changes))
    assert found == expected
    replaced = [path for path, kind in expected.items() if kind.endswith("_REPLACE")]
    assert bool(answer.replaces) == bool(replaced)


def test_a_chosen_name_is_deleted_before_its_replacement() -> None:
    """An automatic name lets the new one come first; a chosen one cannot exist twice."""
    stack = GoogleStack.with_cluster()
    stack.pool("auto")
    stack.pool("chosen", name="chosen")
    _, auto = stack.diff(POOL, "auto", pool(nodeConfig=t4(count=2)))
    _, chosen = stack.diff(POOL, "chosen", pool(name="chosen", nodeConfig=t4(count=2)))
    assert not auto.deleteBeforeReplace
    assert chosen.deleteBeforeReplace


def test_an_iam_member_is_always_deleted_first() -> None:
    """The bridge marks project IAM members so."""
    stack = GoogleStack()
    member = {"project": "p", "role": "roles/viewer", "member": "user:a@example.com"}
    stack.up(MEMBER, "m", member)
    changes, answer = stack.diff(MEMBER, "m", member | {"role": "roles/editor"})
    assert changes == {"role": "UPDATE_REPLACE"}
    assert answer.deleteBeforeReplace


def test_ignored_changes_do_not_count() -> None:
    """A path in ignore_changes covers everything beneath it, and nothing beside it."""
    stack = GoogleStack.with_cluster()
    stack.pool()
    changed = pool(nodeConfig=t4(count=2, labels={"role": "x"}))
    assert stack.diff(POOL, "gpu", changed, ("nodeConfig",))[0] == {}
    assert stack.diff(POOL, "gpu", changed, ("nodeConfig.labels",))[0] == {
        "nodeConfig.guestAccelerators[0].count": "UPDATE_REPLACE"
    }


def test_what_the_program_no_longer_gives_goes() -> None:
    """An update drops a label that was removed and keeps what only the cloud knows."""
    stack = GoogleStack.with_cluster()
    stack.pool(nodeConfig=t4(labels={"role": "train-gpu", "old": "x"}))
    outputs = stack.pool(nodeConfig=t4(guestAccelerators=None))
    assert outputs["nodeConfig"]["labels"] == {"role": "train-gpu"}
    assert outputs["nodeConfig"]["guestAccelerators"][0]["type"] == "nvidia-tesla-t4"
    assert outputs["instanceGroupUrls"]


def test_a_planned_fault_fails_one_create() -> None:
    """The next create of the type answers with the planned error; the one after it succeeds."""
    stack = GoogleStack(**{NETWORK: ["googleapi: Error 403: no"]})
    said = "Error creating Network: googleapi: Error 403: no, forbidden"
    with pytest.raises(Refused, match=f"^{said}$"):
        stack.up(NETWORK, "net", {"autoCreateSubnetworks": False})
    stack.up(NETWORK, "net", {"autoCreateSubnetworks": False})


def test_what_is_not_played_is_refused() -> None:
    """An unknown function or resource type is an error that names it."""
    stack = GoogleStack()
    request = provider_pb2.InvokeRequest(tok="gcp:compute/getZones:getZones")
    with pytest.raises(
        Refused, match="does not simulate the function gcp:compute/getZones:getZones"
    ):
        stack.provider.Invoke(request, stack.context)
    with pytest.raises(Refused, match="does not simulate the resource type gcp:sql/user:User"):
        stack.check("gcp:sql/user:User", "u", {})


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"projct": "p"}, "the provider has no setting 'gcp:projct': did you mean 'project'?"),
        ({"defaultLabels": {}}, "a rehearsal does not simulate 'gcp:defaultLabels'"),
        ({"project": "p", "version": "10.2.0"}, None),
    ],
)
def test_the_providers_own_settings_are_checked(
    config: dict[str, object], reason: str | None
) -> None:
    """A misspelt setting in stack config is refused with the right one."""
    stack = GoogleStack()
    answer = stack.provider.CheckConfig(
        provider_pb2.CheckRequest(news=encode(config)), stack.context
    )
    assert [failure.reason for failure in answer.failures] == ([reason] if reason else [])


def test_an_import_reads_every_input() -> None:
    """A read without inputs, as `pulumi import` asks it, returns all that could have been given."""
    stack = GoogleStack.with_cluster()
    identity = stack.state[stack.urn(CLUSTER, "dev")][0]
    request = provider_pb2.ReadRequest(id=identity, urn=stack.urn(CLUSTER, "imported"))
    inputs = decode(stack.provider.Read(request, stack.context).inputs)
    assert inputs["location"] == "us-central1-a"
    assert "endpoint" not in inputs


def test_it_answers_over_a_socket() -> None:
    """The server listens on a port of its own on loopback and reports the SDK's version."""
    with ProviderServer(GoogleStack().provider.settings) as server:
        channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        version = stub.GetPluginInfo(empty_pb2.Empty(), timeout=5).version
        channel.close()
    assert version == importlib.metadata.version("pulumi-gcp")


def test_a_cluster_keeps_its_key_secret() -> None:
    """`masterAuth.clientKey` leaves the provider as a secret, as the official one sends it."""
    stack = GoogleStack()
    inputs, _ = stack.check(CLUSTER, "dev", cluster(stack.network()))
    answer = stack.provider.Create(
        provider_pb2.CreateRequest(urn=stack.urn(CLUSTER, "dev"), properties=encode(inputs)),
        stack.context,
    )
    key = answer.properties.fields["masterAuth"].struct_value.fields["clientKey"]
    assert key.WhichOneof("kind") == "struct_value"
