"""What a stack's resources carry, and that recovery adopts nothing that carries something else."""

from collections.abc import Mapping
from subprocess import CompletedProcess
from typing import Any

import pytest

from gpu_cluster.components.lifecycle.ownership import google_label
from gpu_cluster.stacks.recovery import google as on_google
from gpu_cluster.stacks.recovery.command import recover
from gpu_cluster.stacks.recovery.state import NotOursError
from tests.unit.simulators.google_stack import CLUSTER as CLUSTER_TYPE
from tests.unit.simulators.google_stack import GoogleStack
from tests.unit.stacks.test_recovery import FakePulumi, Nobody, row, state

CLUSTER = row(
    "gcp:container/cluster:Cluster",
    "gpu-dev",
    inputs={
        "name": "gpu-dev",
        "location": "us-central1-a",
        "resourceLabels": {"gpu-cluster-stack": "gpu-cluster_dev"},
    },
)
IDENTITY = "projects/p/locations/us-central1-a/clusters/gpu-dev"


class Google(Nobody):
    """Has one cluster."""

    def __init__(self, labels: Mapping[str, str] | None) -> None:
        self.labels = labels

    def google(self, service: str, path: str) -> Mapping[str, Any]:
        assert (service, path) == ("container", IDENTITY)
        return {} if self.labels is None else {"name": "gpu-dev", "resourceLabels": self.labels}


def test_a_cluster_of_this_stack_is_adopted() -> None:
    """It carries the label of the stack that asks."""
    pulumi = FakePulumi(state(pending={"creating": CLUSTER}))
    found = recover(pulumi, clouds=Google({"gpu-cluster-stack": "gpu-cluster_dev"}))
    assert found.adopted == {CLUSTER["urn"]: IDENTITY}


@pytest.mark.parametrize(
    ("labels", "whose"),
    [
        ({"gpu-cluster-stack": "gpu-cluster_prod"}, "is labelled gpu-cluster_prod"),
        ({"team": "ml"}, "has no label of a stack"),
    ],
)
def test_another_stacks_cluster_is_reported_and_left(labels: dict[str, str], whose: str) -> None:
    """Of the same name in the same place: the next destroy would be its end."""
    pulumi = FakePulumi(state(pending={"creating": CLUSTER}))
    found = recover(pulumi, clouds=Google(labels))
    assert found.adopted == {}
    (note,) = found.notes
    assert f"cluster gpu-dev exists and {whose}, not gpu-cluster_dev: it is not adopted" in note


def test_a_network_that_somebody_uses_is_not_taken() -> None:
    """A network has no label: one under a generated name is this stack's while nothing is in it."""
    inputs = {"project": "p", "name": "net-aaaaaaa"}
    rows = [{"name": "net-0123abc", "subnetworks": ["s"]}, {"name": "net-1234abc"}]
    found = on_google.find("gcp:compute/network:Network", "net", inputs, lambda *_: {"items": rows})
    assert found == ["projects/p/global/networks/net-1234abc"]


def test_a_node_pool_on_an_existing_cluster_is_found_by_its_stack() -> None:
    """Two stacks there have pools of one name; in the stack's own cluster no pool has a label."""
    cluster = "projects/p/locations/us-central1/clusters/platform"
    stacks = {"train-0123abc": "gpu-cluster_dev", "train-1234abc": "gpu-cluster_prod"}
    pools = [
        {"name": name, "config": {"resourceLabels": {"gpu-cluster-stack": stack}}}
        for name, stack in stacks.items()
    ] + [{"name": "train-2345abc", "config": {}}]

    def found(config: Mapping[str, Any]) -> Any:
        inputs = {"project": "p", "cluster": cluster, "nodeConfig": config}
        answer = lambda *_: {"nodePools": pools}  # noqa: E731
        return on_google.find("gcp:container/nodePool:NodePool", "train", inputs, answer)

    own = {"resourceLabels": {"gpu-cluster-stack": "gpu-cluster_dev"}}
    assert found(own) == [f"{cluster}/nodePools/train-0123abc"]
    assert len(found({})) == 3


@pytest.mark.parametrize(
    ("project", "stack", "label"),
    [("gpu-cluster", "dev", "gpu-cluster_dev"),
     ("gpu-cluster", "Dev.2", "gpu-cluster_dev-2-"),
     ("a_b", "c", "a_b_c-"), ("a", "b_c", "a_b_c-"), ("a" * 60, "dev", "a" * 54 + "-")],
)  # fmt: skip
def test_a_label_is_one_of_google_clouds(project: str, stack: str, label: str) -> None:
    """Lowercase letters, digits, hyphens and underscores, 63 at most."""
    found = google_label(project, stack)
    assert found.startswith(label)
    assert len(found) <= 63
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_")


def test_no_two_stacks_have_one_label() -> None:
    """What a label cannot say is distinguished by a checksum."""
    pairs = [("a_b", "c"), ("a", "b_c"), ("a", "B_c"), ("a", "b.c"), ("a", "b-c")]
    assert len({google_label(*pair) for pair in pairs}) == len(pairs)


def test_a_cluster_gets_the_label_in_place() -> None:
    """One that an older version made is updated, and not replaced."""
    stack = GoogleStack()
    inputs = stack.cluster()
    declared = stack.state[stack.urn(CLUSTER_TYPE, "dev")][1]
    assert "resourceLabels" not in declared
    labelled = {"resourceLabels": {"gpu-cluster-stack": "gpu-cluster_dev"}}
    given = {key: value for key, value in declared.items() if key != "__defaults"} | labelled
    changes, answer = stack.diff(CLUSTER_TYPE, "dev", given)
    assert list(answer.replaces) == []
    assert set(changes.values()) == {"ADD"}
    assert inputs["name"]


OBJECT = row(
    "kubernetes:apps/v1:DaemonSet",
    "nvidia-device-plugin",
    inputs={"metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system",
                         "annotations": {"gpu-cluster/stack": "gpu-cluster/dev"}}},
)  # fmt: skip


class Reading(FakePulumi):
    """A cluster that has an object with these annotations, which a refresh reads."""

    def __init__(self, deployment: Any, annotations: Mapping[str, str] | None) -> None:
        super().__init__(deployment)
        self.annotations = annotations

    def execute(self, *arguments: str, **environment: str) -> "CompletedProcess[str]":
        if arguments[0] == "refresh":
            for resource in self.deployment["deployment"]["resources"]:
                if resource["urn"] == OBJECT["urn"]:
                    resource["outputs"] = {"metadata": {"annotations": self.annotations}}
        return super().execute(*arguments, **environment)


@pytest.mark.parametrize(
    ("annotations", "whose"),
    [({"gpu-cluster/stack": "gpu-cluster/prod"}, "is labelled gpu-cluster/prod"),
     ({"app": "gpu"}, "has no label of a stack"),
     (None, "has no label of a stack"),
     ({"gpu-cluster/stack": "gpu-cluster/dev"}, None)],
)  # fmt: skip
def test_an_object_of_others_is_reported_and_left(
    annotations: dict[str, str] | None, whose: str | None
) -> None:
    """Another team's device plugin of that name is no part of this stack, nor of its destroy."""
    pulumi = Reading(state(CLUSTER, pending={"creating": OBJECT}), annotations)
    found = recover(pulumi, clouds=Google(None))
    identity = "kube-system/nvidia-device-plugin"
    left = [resource["urn"] for resource in pulumi.deployment["deployment"]["resources"]]
    if whose is None:
        assert found.adopted == {OBJECT["urn"]: identity}
        assert left[-1] == OBJECT["urn"]
        return
    assert found.adopted == {}
    assert OBJECT["urn"] not in left
    assert CLUSTER["urn"] in left
    (note,) = found.notes
    assert f"{identity} exists and {whose}, not gpu-cluster/dev: it is not adopted" in note


def test_what_an_older_version_declared_is_known_by_its_name() -> None:
    """Its objects have no annotation to carry, and the state has the operation."""
    older = {**OBJECT, "inputs": {"metadata": {"name": "a", "namespace": "b"}}}
    pulumi = Reading(state(pending={"creating": older}), None)
    assert recover(pulumi, clouds=Nobody()).adopted == {older["urn"]: "b/a"}


PLACE = "projects/p/regions/us-central1"
HOW = {
    "gcp:serviceaccount/account:Account": (
        {"project": "p", "accountId": "a", "description": "stack gpu-cluster/dev"},
        "projects/p/serviceAccounts/a@p.iam.gserviceaccount.com",
        {"description": "stack gpu-cluster/dev"},
        {"description": "stack gpu-cluster/prod"},
    ),
    "gcp:compute/subnetwork:Subnetwork": (
        {"project": "p", "name": "s", "region": "us-central1", "network": "projects/p/x/net"},
        f"{PLACE}/subnetworks/s",
        {"network": "https://www.googleapis.com/compute/v1/projects/p/global/networks/net"},
        {"network": "https://www.googleapis.com/compute/v1/projects/p/global/networks/theirs"},
    ),
    "gcp:compute/router:Router": (
        {"project": "p", "name": "r", "region": "us-central1", "network": "projects/p/x/net"},
        f"{PLACE}/routers/r",
        {"network": "https://www.googleapis.com/compute/v1/projects/p/global/networks/net"},
        {"network": "https://www.googleapis.com/compute/v1/projects/p/global/networks/theirs"},
    ),
}
"""Type -> its inputs, its id, what Google says of the stack's own, and what of another's."""


@pytest.mark.parametrize("kind", HOW)
def test_on_google_cloud_its_mark_or_its_network_decides(kind: str) -> None:
    """A description where there are no labels; else the network that it is in."""
    inputs, identity, ours, theirs = HOW[kind]
    begun = row(kind, "it", inputs=inputs)

    class Answers(Nobody):
        says: Mapping[str, Any] = ours

        def google(self, service: str, path: str) -> Mapping[str, Any]:
            assert path == identity
            return self.says

    clouds = Answers()
    pulumi = FakePulumi(state(pending={"creating": begun}))
    assert recover(pulumi, clouds=clouds).adopted == {begun["urn"]: identity}
    for clouds.says in (theirs, {**theirs, "description": None}):
        found = recover(FakePulumi(state(pending={"creating": begun})), clouds=clouds)
        assert found.adopted == {}
        (note,) = found.notes
        assert note.endswith(": it is not adopted")


@pytest.mark.parametrize(
    ("kind", "rows", "labels", "inputs"),
    [
        ("gcp:monitoring/dashboard:Dashboard", "dashboards", "labels",
         {"dashboardJson": '{"displayName": "GPUs", "labels": {"gpu-cluster-stack": "a"}}'}),
        ("gcp:monitoring/alertPolicy:AlertPolicy", "alertPolicies", "userLabels",
         {"displayName": "GPUs", "userLabels": {"gpu-cluster-stack": "a"}}),
    ],
)  # fmt: skip
def test_dashboards_and_alerts_carry_the_label(
    kind: str, rows: str, labels: str, inputs: dict[str, Any]
) -> None:
    """A project's dashboards have titles that others may have too."""
    named = {
        name: {"name": name, "displayName": "GPUs", labels: {"gpu-cluster-stack": whose}}
        for name, whose in (("1", "a"), ("2", "b"))
    }
    plain = {"name": "3", "displayName": "GPUs"}

    def found(*there: dict[str, Any]) -> list[str] | None:
        return on_google.find(kind, "x", {"project": "p", **inputs}, lambda *_: {rows: [*there]})

    assert found(*named.values(), plain) == ["1"]
    assert found({"name": "4", "displayName": "other"}) == []
    with pytest.raises(NotOursError, match="'GPUs' exists and is labelled b, not a"):
        found(named["2"])
    with pytest.raises(NotOursError, match="'GPUs' exists and has no label of a stack, not a"):
        found(plain)
