"""A field of a node config that neither plugin nor simulator was written for."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pulumi_gcp.container as sdk_container
import pytest

from gpu_cluster.rehearsal.plugins import sdk
from gpu_cluster.rehearsal.plugins.cloud.schema import block
from gpu_cluster.rehearsal.simulators.cloud import Assuming
from gpu_cluster.rehearsal.simulators.google.api.server import Request
from gpu_cluster.tools.google_discovery import document
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import POOL, GoogleStack, pool, t4

_LABELLED = {"type": "object", "additionalProperties": {"type": "string"}}
_FIELDS: Mapping[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "tomorrowsSwitch": (bool, {"type": "boolean"}, {"type": "boolean"}),
    "tomorrowsCount": (
        int,
        {"type": "integer", "format": "int32"},
        {"type": "string", "format": "int64"},
    ),
    "tomorrowsMarks": (Mapping[str, str], _LABELLED, {"$ref": "NodeLabels"}),
    "tomorrowsLogs": (Any, {"$ref": "LinuxNodeConfig"}, {"$ref": "LinuxNodeConfig"}),
    "fixedName": (str, {"type": "string"}, {}),
}
"""Property -> its type in the SDK, in `NodeConfig` and in `UpdateNodePoolRequest`, which lacks the
last one."""


@pytest.fixture(autouse=True)
def _tomorrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The SDK and Google's document have the fields."""
    google = document("container", "v1beta1")
    assert google is not None
    for name, (_, config, update) in _FIELDS.items():
        monkeypatch.setitem(google.schemas["NodeConfig"]["properties"], name, config)  # type: ignore[arg-type]
        if update:
            properties = google.schemas["UpdateNodePoolRequest"]["properties"]
            monkeypatch.setitem(properties, name, update)
    kinds = {name: kind for name, (kind, _, _) in _FIELDS.items()}

    def with_more(
        read: Callable[[type], Mapping[str, Any]], more: type
    ) -> Callable[[type], Mapping[str, Any]]:
        return lambda kind: {**read(kind), **(kinds if kind is more else {})}

    inputs, outputs = (
        sdk_container.NodePoolNodeConfigArgs,
        sdk_container.outputs.NodePoolNodeConfig,
    )
    monkeypatch.setattr(sdk, "input_types", with_more(sdk.input_types, inputs))
    monkeypatch.setattr(sdk, "output_types", with_more(sdk.output_types, outputs))
    block.cache_clear()
    yield
    block.cache_clear()


@pytest.mark.parametrize(
    ("name", "value", "sent", "zero"),
    [
        ("tomorrowsSwitch", True, True, False),
        ("tomorrowsCount", 3, "3", "0"),
        ("tomorrowsMarks", {"a": "b"}, {"labels": {"a": "b"}}, {"labels": {}}),
        ("tomorrowsLogs", {"cgroupMode": "CGROUP_MODE_V2"}, {"cgroupMode": "CGROUP_MODE_V2"}, {}),
    ],
)
def test_an_unlisted_field_is_sent_last_and_kept(
    name: str, value: object, sent: object, zero: object
) -> None:
    """The plugin sends it in a request of its own, after the fields whose order it knows; the cloud
    stores it, recreates the nodes, and says that it assumed so."""
    requests: list[Request] = []
    stack = GoogleStack.with_cluster(seen=requests.append)
    physical = stack.pool()["name"]

    def update(**config: object) -> list[dict[str, Any]]:
        requests.clear()
        stack.pool(nodeConfig=t4(**config))
        return [body for verb, _, body in requests if verb == "PUT"]

    (before,) = (group.revision for group in stack.cloud.node_groups() if "gpu" in group.name)
    labels = {"labels": {"role": "other"}}
    assert update(**{name: value}, **labels) == [
        {"name": physical, "labels": labels},
        {"name": physical, name: sent},
    ]
    assert (stack.refresh(POOL, "gpu") or {})["nodeConfig"][name] == value
    (after,) = (group.revision for group in stack.cloud.node_groups() if "gpu" in group.name)
    assert after == before + 1
    assert stack.cloud.assumptions() == [
        f"node pool {physical}: it is not known whether GKE recreates the nodes when {name} "
        "changes; this rehearsal recreates them"
    ]
    assert update(**labels) == [{"name": physical, name: zero}]
    assert not (stack.refresh(POOL, "gpu") or {})["nodeConfig"].get(name)


def test_a_field_that_the_api_cannot_change_is_refused() -> None:
    """The API takes it in a create only, and no fact says that a change of it replaces the pool."""
    stack = GoogleStack.with_cluster()
    stack.pool(nodeConfig=t4(fixedName="a"))
    with pytest.raises(Refused, match="no field to change 'fixedName' of a node pool"):
        stack.pool(nodeConfig=t4(fixedName="b"))


def test_fields_whose_effect_is_known_are_not_assumed() -> None:
    """The report mentions only what no source describes."""
    stack = GoogleStack.with_cluster()
    assert isinstance(stack.cloud, Assuming)
    stack.pool()
    stack.up(POOL, "gpu", pool(nodeConfig=t4(labels={"role": "other"}, diskSizeGb=200)))
    assert stack.cloud.assumptions() == []


_HOST = {
    "server": "registry.example",
    "hosts": [
        {
            "host": "https://mirror.example",
            "cas": [{"gcpSecretManagerSecretUri": "projects/p/secrets/ca/versions/1"}],
            "headers": [{"key": "x", "values": ["y"]}],
        }
    ],
}


def test_lists_in_the_plural_are_sent_and_read() -> None:
    """The bridge names lists in the plural, and has some that are blocks in the API."""
    requests: list[Request] = []
    stack = GoogleStack.with_cluster(seen=requests.append)
    drain = {"graceTerminationDuration": "60s", "pdbTimeoutDuration": "60s"}
    inputs = {
        "nodeConfig": t4(containerdConfig={"registryHosts": [_HOST]}),
        "nodeDrainConfigs": [drain],
    }
    stack.pool(**inputs)
    (body,) = (body["nodePool"] for verb, path, body in requests if path.endswith("/nodePools"))
    assert body["nodeDrainConfig"] == drain
    (host,) = body["config"]["containerdConfig"]["registryHosts"]
    assert host["hosts"][0] == {
        "host": "https://mirror.example",
        "ca": [{"gcpSecretManagerSecretUri": "projects/p/secrets/ca/versions/1"}],
        "header": [{"key": "x", "value": ["y"]}],
    }
    state = stack.refresh(POOL, "gpu") or {}
    assert state["nodeDrainConfigs"] == [drain]
    assert state["nodeConfig"]["containerdConfig"]["registryHosts"] == [_HOST]
    requests.clear()
    longer = drain | {"graceTerminationDuration": "90s"}
    stack.pool(**inputs | {"nodeDrainConfigs": [longer]})
    assert [body for verb, _, body in requests if verb == "PUT"] == [
        {"name": state["name"], "nodeDrainConfig": longer}
    ]


def test_a_block_of_a_cluster_may_be_a_list_in_the_sdk_only() -> None:
    """As the Ray operator, of which the API has one."""
    stack = GoogleStack()
    ray = {"rayOperatorConfigs": [{"enabled": True, "rayClusterLoggingConfig": {"enabled": True}}]}
    state = stack.cluster(addonsConfig=ray)
    assert state["addonsConfig"]["rayOperatorConfigs"] == ray["rayOperatorConfigs"]


def test_the_kubelet_s_port_is_sent_with_every_kubelet_config() -> None:
    """It is text in the provider and a boolean in the API, which is told a false one too."""
    port, requests = "insecureKubeletReadonlyPortEnabled", list[Request]()
    stack = GoogleStack.with_cluster(seen=requests.append)
    for given in ({}, {port: "TRUE"}, {port: "FALSE"}):
        requests.clear()
        state = stack.pool(nodeConfig=t4(kubeletConfig={"cpuManagerPolicy": "static", **given}))
        (body,) = (body for verb, _, body in requests if verb in ("POST", "PUT"))
        sent = body.get("nodePool", {}).get("config", body)["kubeletConfig"][port]
        assert state["nodeConfig"]["kubeletConfig"][port] == given.get(port, "FALSE")
        assert sent is (given.get(port) == "TRUE")
