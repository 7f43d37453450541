"""What a stack's resources carry, and that recovery adopts nothing that carries something else."""

from collections.abc import Mapping
from typing import Any

import pytest

from components.ownership import google_label
from stacks.recovery import google as on_google
from stacks.recovery.command import recover
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

    def google(self, url: str) -> Mapping[str, Any]:
        assert url == f"https://container.googleapis.com/v1/{IDENTITY}"
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
    assert f"cluster gpu-dev is there and {whose}, not gpu-cluster_dev: it is not adopted" in note


def test_a_network_that_somebody_uses_is_not_taken() -> None:
    """A network has no label: one under a generated name is this stack's while nothing is in it."""
    inputs = {"project": "p", "name": "net-aaaaaaa"}
    rows = [{"name": "net-0123abc", "subnetworks": ["s"]}, {"name": "net-1234abc"}]
    found = on_google.find(
        "gcp:compute/network:Network", "net", inputs, lambda url: {"items": rows}
    )
    assert found == ["projects/p/global/networks/net-1234abc"]


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
