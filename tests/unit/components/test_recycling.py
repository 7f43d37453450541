"""Updates of a node group for which EKS drains and replaces its nodes, by its hook."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pulumi
import pytest
from pulumi.runtime import rpc
from pulumi.runtime.rpc import UNKNOWN

from gpu_cluster.components.eks.scaling import size_check
from gpu_cluster.components.gke.node_identity import recycling_check
from gpu_cluster.components.lifecycle import recycling
from gpu_cluster.components.scalers import SCALERS

SIZE = {"minSize": 0, "maxSize": 3, "desiredSize": 1}
GROUP = {
    "scalingConfig": SIZE,
    "launchTemplate": {"id": "lt-1", "version": "1"},
    "version": "1.35",
    "releaseVersion": "1.35.6-20260917",
    "labels": {"role": "train-gpu"},
}
Update = Callable[[str, Any, Any], list[str]]
WarningsOf = Callable[[Callable[[], pulumi.ResourceHookBinding], Any, Any], list[str]]
SECRET = object()
"""For an Output: a real one that is made on import is waited for by every program that is recorded
afterwards, for ever."""


@pytest.fixture
def warnings_of(monkeypatch: pytest.MonkeyPatch) -> WarningsOf:
    """The warnings of a hook about an update from these inputs to those."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda line, *_: said.append(line))
    # The real one registers itself with an engine.
    monkeypatch.setattr(pulumi, "ResourceHook", lambda name, callback, opts: callback)

    def warnings_of(
        check: Callable[[], pulumi.ResourceHookBinding], old: Any, new: Any
    ) -> list[str]:
        (hook,) = check().before_update or ()
        urn = "urn:pulumi:train::gpu-cluster::aws:eks/nodeGroup:NodeGroup::pool"
        hook(
            pulumi.ResourceHookArgs(
                urn=urn, id="", name="pool", type="", old_inputs=old, new_inputs=new
            )
        )
        return said

    return warnings_of


@pytest.fixture
def update(warnings_of: WarningsOf) -> Update:
    """What is said of an update of the node group at this path from these inputs to those."""
    return lambda path, old, new: warnings_of(partial(size_check, "pool", path), old, new)


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({"launchTemplate": {"id": "lt-1", "version": "2"}}, "launchTemplate.version"),
        ({"version": "1.36"}, "version (1.35 -> 1.36)"),
        (
            {"releaseVersion": "1.35.7-20261015"},
            "releaseVersion (1.35.6-20260917 -> 1.35.7-20261015)",
        ),
        (
            {"version": SECRET, "releaseVersion": None},
            "version, releaseVersion (1.35.6-20260917 -> none)",
        ),
        ({"launchTemplate": {"version": UNKNOWN}}, "launchTemplate.version"),
    ],
)
@pytest.mark.parametrize(
    ("path", "code"),
    [("gpuPools.train-gpu", "GPU-POOL"), ("cluster.systemPool", "SYSTEM-POOL")],
)
def test_an_update_that_recycles_nodes_is_warned_of(
    update: Update, path: str, code: str, changed: dict[str, Any], differs: str
) -> None:
    """With the number of nodes, and the code by which programs know it."""
    assert update(path, GROUP, GROUP | changed) == [
        f"{path}: an update of {differs} recycles its nodes, 0 to 3 of them and one at a time: "
        f"each is drained and replaced, and its pods start again [GPUC-RECYCLE-{code}]"
    ]


@pytest.mark.parametrize("old", [None, GROUP], ids=["created", "updated"])
def test_nothing_is_said_of_what_leaves_the_nodes(update: Update, old: Any) -> None:
    """A group that is created has none, and labels are set on those that run."""
    assert update("gpuPools.train-gpu", old, GROUP | {"labels": {}}) == []


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({"diskSizeGb": 200}, "nodeConfig.diskSizeGb (100 -> 200)"),
        ({"kubeletConfig": {"podPidsLimit": 9000}}, "nodeConfig.kubeletConfig.podPidsLimit"),
        ({"aFieldOfNextYear": "X"}, "nodeConfig.aFieldOfNextYear (none -> X)"),
        ({"secret": {rpc._special_sig_key: "x", "value": "hidden"}}, "nodeConfig.secret recycles"),
        ({"labels": {"a": "c"}, "tags": ["one"]}, None),
    ],
)
def test_gke_recreates_nodes_for_whatever_it_is_not_known_to_change_in_place(
    warnings_of: WarningsOf, changed: dict[str, Any], differs: str | None
) -> None:
    """A field that nobody has listed counts as one that recycles nodes."""
    before: dict[str, Any] = {
        "diskSizeGb": 100,
        "kubeletConfig": {"podPidsLimit": 8192},
        "labels": {"a": "b"},
        "secret": {rpc._special_sig_key: "x", "value": "old"},
    }
    old, new = {"nodeConfig": before}, {"nodeConfig": before | changed}
    said = warnings_of(partial(recycling_check, "pool", "gpuPools.train-gpu", (0, 3)), old, new)
    assert len(said) == (differs is not None)
    assert all(str(differs) in line and "hidden" not in line for line in said)


@pytest.mark.parametrize(
    ("scaler", "kind", "changed", "says"),
    [
        ("karpenter", "NodePool", {"template": {"spec": {"taints": []}}},
         "spec.template.spec.taints replaces those of its nodes that no longer match, of 0 to 4: "
         "each is drained once its jobs have ended, and its pods start again "
         "[GPUC-RECYCLE-GPU-POOL]"),
        ("karpenter", "NodePool", {"limits": {"nodes": "5"}}, None),
        ("karpenter", "EC2NodeClass", {"tags": {"team": "a"}}, "[GPUC-RECYCLE-GPU-POOL]"),
        ("auto-mode", "NodeClass", {"role": "other"}, "spec.role (none -> other) replaces those"),
        ("compute-classes", "ComputeClass", {"priorities": []},
         "spec.priorities is for nodes that start from then on: those that run stay as they are "
         "until they are empty [GPUC-NEW-NODES]"),
    ],
)  # fmt: skip
def test_objects_that_launch_nodes_are_warned_of_too(
    warnings_of: WarningsOf, scaler: str, kind: str, changed: Any, says: str | None
) -> None:
    """By the scaler's row, whatever the cloud."""
    (token,) = [token for token in SCALERS[scaler].nodes if token.endswith(f":{kind}")]
    check = partial(recycling.warning_hook, "l4", "gpuPools.l4", SCALERS[scaler], token, (0, 4))
    spec = {"template": {"spec": {"taints": [{"key": "a"}]}}, "priorities": [{"spot": True}]}
    said = warnings_of(check, {"spec": spec}, {"spec": spec | changed})
    assert said == [] if says is None else says in said[0]
