"""Updates of a node group for which EKS drains and replaces its nodes, by its hook."""

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from pulumi.runtime.rpc import UNKNOWN

from components.eks.scaling import size_check

SIZE = {"minSize": 0, "maxSize": 3, "desiredSize": 1}
GROUP = {
    "scalingConfig": SIZE,
    "launchTemplate": {"id": "lt-1", "version": "1"},
    "version": "1.35",
    "releaseVersion": "1.35.6-20260917",
    "labels": {"role": "train-gpu"},
}
Update = Callable[[str, Any, Any], list[str]]
SECRET = object()
"""For an Output: a real one that is made on import is waited for by every program that is recorded
afterwards, for ever."""


@pytest.fixture
def update(monkeypatch: pytest.MonkeyPatch) -> Update:
    """What is said of an update of the pool at this path from these inputs to those."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda line, *_: said.append(line))
    # The real one registers itself with an engine.
    monkeypatch.setattr(pulumi, "ResourceHook", lambda name, callback, opts: callback)

    def update(path: str, old: Any, new: Any) -> list[str]:
        (hook,) = size_check("pool", path).before_update or ()
        urn = "urn:pulumi:train::gpu-cluster::aws:eks/nodeGroup:NodeGroup::pool"
        hook(
            pulumi.ResourceHookArgs(
                urn=urn, id="", name="pool", type="", old_inputs=old, new_inputs=new
            )
        )
        return said

    return update


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
        f"each is drained and replaced, and the pods on it start again [GPUC-RECYCLE-{code}]"
    ]


@pytest.mark.parametrize("old", [None, GROUP], ids=["created", "updated"])
def test_nothing_is_said_of_what_leaves_the_nodes(update: Update, old: Any) -> None:
    """A group that is created has none, and labels are set on those that run."""
    assert update("gpuPools.train-gpu", old, GROUP | {"labels": {}}) == []
