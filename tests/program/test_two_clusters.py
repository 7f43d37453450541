"""Two `GpuStack`s of one program that create two clusters, in one project or account and region."""

import json
from collections import Counter
from typing import Any

import pulumi
import pytest

from gpu_cluster import GpuStack
from tests.components.recording import Recording, record
from tests.components.test_stack import urn
from tests.program.environments import ANSWERS, as_engine_config
from tests.program.everything import config_of

OWN = [
    "eks-cluster-autoscaler", "eks-karpenter", "eks-auto-mode", "gke-node-pools",
    "gke-compute-classes", "gke-autopilot",
]  # fmt: skip
FIXED = ("name", "accountId", "displayName")
"""Inputs with a name that a cloud has once, or that tells people apart what it has."""


def both(stack: str, **account: bool) -> Recording:
    """Two stacks that differ in the name of the cluster. `account`: of each service account."""
    values = config_of(stack)

    def program() -> None:
        for name, prefix in (("first", ""), ("second", "more")):
            args: dict[str, Any] = json.loads(json.dumps({
                key.removeprefix("gpu-cluster:"): block for key, block in values.items()
                if key.startswith("gpu-cluster:")
            }))  # fmt: skip
            args["cluster"]["name"] = name
            for settings in args["serviceAccounts"].values():
                settings.update(account)
            GpuStack(name, {**args, "prefix": prefix})

    others = {key: text for key, text in values.items() if not key.startswith("gpu-cluster:")}
    return record(program, outputs=ANSWERS, config=as_engine_config(others))


@pytest.mark.parametrize("stack", OWN)
def test_nothing_of_two_clusters_has_one_name(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the state nor in the cloud, although both have the same pools and accounts."""
    monkeypatch.setattr("tests.components.recording.Recorder.make_urn", urn)
    found = both(stack, **({} if stack.startswith("eks") else {"thisClusterOnly": True}))
    places = Counter(urn(0, row.parent, row.type, row.name) for row in found.resources)
    assert [place for place, count in places.items() if count > 1] == []
    further = [row for row in found.resources if "gpu-cluster:more:GpuStack" in row.parent]
    hooks = {hook for row in further for hook in row.hooks}
    names = Counter(
        (row.type, key, row.inputs[key])
        for row in found.resources
        for key in FIXED
        if row.type.startswith(("aws:", "gcp:")) and isinstance(row.inputs.get(key), str)
    )
    assert [name for name, count in names.items() if count > 1] == []
    assert hooks
    assert not any(hooks & {*row.hooks} for row in found.resources if row not in further)


def test_one_identity_of_pods_in_two_clusters_is_refused() -> None:
    """GKE's names no cluster: its permissions would be those of both, and end with either."""
    with pytest.raises(pulumi.RunError) as refusal:
        both("gke-node-pools")
    assert str(refusal.value) == (
        "gpu-cluster:serviceAccounts.trainer: default/trainer is one identity in every cluster of "
        "the project, and GpuStack first grants it permissions too, which would be deleted with "
        "either; set thisClusterOnly: true, or give the account another namespace"
    )
