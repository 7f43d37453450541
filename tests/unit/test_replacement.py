"""What is said of a setting that the cloud can only change by making something anew."""

import dataclasses
from typing import get_type_hints

import pytest

from components.eks import lasting as eks
from components.eks.cluster_args import EksClusterArgs
from components.eks.pool_args import EksGpuNodeGroupArgs
from components.gke import lasting as gke
from components.gke.autopilot_args import GkeAutopilotArgs
from components.gke.cluster_args import GkeClusterArgs, GkeNetworkArgs
from components.gke.pool_args import GkeGpuNodePoolArgs
from components.gke.sharing_args import GkeSharingArgs
from components.replacement import Lasting, valued, warnings

ANEW = {
    "cluster.location": "cluster",
    "cluster.network.podsCidr": "nothing",
    "gpuPools.train-gpu.accelerator": "GPU pool",
}
BEFORE = {
    "cluster.location": "us-central1-a",
    "cluster.network.podsCidr": "10.16.0.0/14",
    "gpuPools.train-gpu.accelerator": "nvidia-tesla-t4",
}


def test_a_setting_that_stays_is_not_mentioned() -> None:
    """An update of anything else goes without a word."""
    assert list(warnings(BEFORE, BEFORE, ANEW)) == []


def test_the_setting_is_named_with_what_goes() -> None:
    """Key, old value, new value, and what it means for what runs there."""
    after = BEFORE | {"gpuPools.train-gpu.accelerator": "nvidia-tesla-v100"}
    assert list(warnings(BEFORE, after, ANEW)) == [
        "gpuPools.train-gpu.accelerator: nvidia-tesla-t4 -> nvidia-tesla-v100 makes the GPU pool "
        "anew: its nodes go, and the pods on them start again"
    ]


def test_what_was_not_remembered_is_not_compared() -> None:
    """A pool that is new, and the state of a version that remembered less."""
    assert list(warnings({}, BEFORE, ANEW)) == []


def test_a_setting_that_cannot_change_is_refused() -> None:
    """The provider would find out half way."""
    after = BEFORE | {"cluster.network.podsCidr": "10.32.0.0/14"}
    with pytest.raises(ValueError, match=r"^cluster.network.podsCidr: 10.16.0.0/14 -> 10.32"):
        list(warnings(BEFORE, after, ANEW))


def test_with_a_new_cluster_it_can_change() -> None:
    """Nothing holds the old value then."""
    after = BEFORE | {"cluster.network.podsCidr": "10.32.0.0/14", "cluster.location": "us-east1-b"}
    (line,) = warnings(BEFORE, after, ANEW)
    assert line.startswith("cluster.location: us-central1-a -> us-east1-b makes the cluster anew")


ZONES = "cluster.network.zones"
A, AB, ABC, B = '["a"]', '["a", "b"]', '["a", "b", "c"]', '["b"]'


def test_a_list_may_grow_at_its_end() -> None:
    """What was in use stays as it is."""
    (line,) = warnings({ZONES: AB}, {ZONES: ABC}, {ZONES: "node pools, if longer"})
    assert line.startswith(f"{ZONES}: {AB} -> {ABC} makes the node pools anew: ")


@pytest.mark.parametrize(("old", "new"), [(AB, A), (AB, B), (B, AB), ("[]", AB), (AB, "[]")])
def test_a_list_that_loses_or_moves_something_is_refused(old: str, new: str) -> None:
    """What it held is still in use; a list that was empty was no setting of this cluster."""
    with pytest.raises(ValueError, match=r"cannot be while the cluster stands; .* add at its end"):
        list(warnings({ZONES: old}, {ZONES: new}, {ZONES: "node pools, if longer"}))


VERSION = "cluster.version"


def test_a_version_moves_to_the_next_minor() -> None:
    """In place, without a word."""
    assert list(warnings({VERSION: "1.35"}, {VERSION: "1.36"}, {VERSION: "next minor"})) == []


@pytest.mark.parametrize("new", ["1.34", "1.37", "1.9"])
def test_a_version_moves_neither_back_nor_two_minors(new: str) -> None:
    """EKS would refuse it at the first call of the update."""
    with pytest.raises(ValueError, match=r"cannot be while .* go to the next minor alone"):
        list(warnings({VERSION: "1.35"}, {VERSION: new}, {VERSION: "next minor"}))


@pytest.mark.parametrize(
    ("lasting", "args"),
    [
        (gke.CLUSTER, GkeClusterArgs),
        (gke.CONTROL_PLANE, GkeAutopilotArgs),
        (gke.POOL, GkeGpuNodePoolArgs),
        (eks.CLUSTER, EksClusterArgs),
        (eks.POOL, EksGpuNodeGroupArgs),
    ],
)
def test_every_lasting_setting_is_one(lasting: Lasting, args: type) -> None:
    """No path leads nowhere."""
    for path in lasting:
        kind = args
        for step in path.split("."):
            assert step in {field.name for field in dataclasses.fields(kind)}, path
            kind = get_type_hints(kind)[step]


def test_a_cluster_s_secrets_keep_their_key() -> None:
    """EKS keeps the first one, which the stack would delete once another is named."""
    assert eks.CLUSTER["secrets_key"] == "nothing"


def test_values_are_text() -> None:
    """As they stand in the state: maps and lists too."""
    args = GkeClusterArgs(
        name="gpu", location="us-central1", authorized_networks={"office": "203.0.113.0/24"},
        network=GkeNetworkArgs(nodes_cidr="10.1.0.0/20"), zones=["us-central1-a"],
    )  # fmt: skip
    pool = GkeGpuNodePoolArgs(
        machine_type="n1-standard-4", accelerator="nvidia-tesla-t4",
        sharing=GkeSharingArgs(strategy="mps", replicas=4),
    )  # fmt: skip
    assert valued(args, "network.nodes_cidr") == "10.1.0.0/20"
    assert valued(args, "zones") == '["us-central1-a"]'
    assert valued(args, "version") == "null"
    assert '"strategy": "mps"' in valued(pool, "sharing")
