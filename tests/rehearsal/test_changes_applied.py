"""Changes of a stack that stands, applied: what replaces a cluster, and what recycles its nodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.engine.engine import run_in_thread
from gpu_cluster.rehearsal.sandbox import Sandbox
from quality.faults.fault_run import FaultRunner
from tests.rehearsal.conftest import Runners, Sandboxes, as_it_was, configured, until

CLUSTER = "gcp:container/cluster:Cluster"


@pytest.fixture(scope="module")
def runner(runners: Runners) -> Iterator[FaultRunner]:
    """The dev environment, up, without nodes that scale."""
    made = runners("dev")
    if not made.sandbox.engine.resources():
        made.baseline_up()
    with as_it_was(made.sandbox):
        yield made


def change(sandbox: Sandbox, room: str, **values: Any) -> None:
    """Writes these values into a part of the stack's file."""

    def written(config: dict[str, Any]) -> None:
        block = config[f"gpu-cluster:{room}"]
        (next(iter(block.values())) if room == "gpuPools" else block).update(values)

    configured(written)(sandbox.folder / "program")


def of(warnings: tuple[str, ...], word: str) -> list[str]:
    subject = "gpu-cluster:cluster:LastingSettings lasting-settings: "
    return [line.removeprefix(subject) for line in warnings if word in line]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"network": {"nodesCidr": "10.1.0.0/20"}},
            "network.nodesCidr: 10.0.0.0/20 -> 10.1.0.0/20",
        ),
        # The same with another cause.
        pytest.param(
            {"location": "us-east1-c"},
            "location: us-central1-a -> us-east1-c",
            marks=pytest.mark.prove,
        ),
    ],
)
def test_a_cluster_is_replaced_with_all_that_was_in_it(
    runner: FaultRunner, values: dict[str, Any], reason: str
) -> None:
    """Its subnetwork makes room first, and every object is made again: a refresh misses none.

    The warning is there until the change is made: also after an update that failed midway.
    """
    engine = runner.sandbox.engine
    change(runner.sandbox, "cluster", **values)
    lost = "everything in it is deleted permanently [GPUC-REPLACE-CLUSTER]"
    said = f"cluster.{reason} replaces the cluster: {lost}"
    assert of(engine.preview().warnings, " replaces ") == [said]
    runner.sandbox.cloud.faults.errors[CLUSTER] = ["googleapi: Error 403: no"]  # type: ignore[attr-defined]
    assert not engine.up().ok
    assert of(engine.preview().warnings, " replaces ") == [said]
    runner.run_or_fail(engine.up)
    again = runner.run_or_fail(lambda: engine.up(refresh=True))
    assert again.resources == ()
    assert of(again.warnings, " replaces ") == []


def test_a_range_grows_in_place(runner: FaultRunner) -> None:
    """Nothing is replaced, and nothing is said."""
    (made,) = (
        row for row in runner.sandbox.engine.resources() if "subnetwork:Subnetwork" in row["type"]
    )
    address = made["inputs"]["ipCidrRange"].partition("/")[0]
    change(runner.sandbox, "cluster", network={"nodesCidr": f"{address}/19"})
    preview = runner.run_or_fail(runner.sandbox.engine.preview)
    assert "replace" not in preview.changes
    assert of(preview.warnings, " replaces ") == []
    assert "replace" not in runner.run_or_fail(runner.sandbox.engine.up).changes


def placed(sandbox: Sandbox) -> tuple[str, str] | None:
    """Name and node of the sample's running pod."""
    for pod in sandbox.cluster_cache.pods:
        running = pod["status"].get("phase") == "Running"
        leaving = pod["metadata"].get("deletionTimestamp")
        if pod["metadata"]["name"].startswith("sample-gpu-pod") and running and not leaving:
            return pod["metadata"]["name"], pod["spec"]["nodeName"]
    return None


@pytest.mark.xdist_group("running")
def test_nodes_are_recycled_with_the_pods_on_them(running: Sandboxes) -> None:
    """An update in place in the preview; the pod is evicted, and starts again on another node."""
    sandbox = running("dev")
    name, node = until(lambda: placed(sandbox), "the sample runs", 40)
    kept = {each["metadata"]["name"] for each in sandbox.cluster_cache.nodes} - {node}
    change(sandbox, "gpuPools", diskSizeGb=200)
    change(sandbox, "cluster", systemPool={"diskSizeGb": 100})
    outcome = sandbox.engine.up()
    assert outcome.ok
    words = (
        "{}: an update of nodeConfig.diskSizeGb ({}) recycles its nodes, {} to 3 of them "
        "and one at a time: each is drained and replaced, and its pods start again "
        "[GPUC-RECYCLE-{}]"
    )
    assert sorted(of(outcome.warnings, " recycles ")) == [
        words.format("cluster.systemPool", "50 -> 100", 1, "SYSTEM-POOL"),
        words.format("gpuPools.train-gpu", "100 -> 200", 0, "GPU-POOL"),
    ]

    def moved() -> bool:
        now = placed(sandbox)
        return now is not None and now[0] != name and now[1] != node

    nodes = {each["metadata"]["name"] for each in sandbox.cluster_cache.nodes}
    assert not nodes & {node, *kept}, "a node is left when up has ended"
    until(moved, "the pod runs on another node", 40)
    until(lambda: len(sandbox.cluster_cache.nodes) == len(kept) + 1, "every node has a successor")


@pytest.mark.parametrize(
    "stack",
    [
        "dev",
        pytest.param("autopilot", marks=pytest.mark.prove),  # the same component, other resources
        pytest.param("train", marks=pytest.mark.prove),
    ],
)
def test_a_protected_stack_is_refused_before_anything_is_deleted(
    runners: Runners, stack: str
) -> None:
    """Also without a preview: the engine meets the one resource that depends on all others first.
    An update without the protection, and the stack can be destroyed."""
    made = runners(stack)
    sandbox, engine = made.sandbox, made.sandbox.engine
    with as_it_was(sandbox):
        change(sandbox, "cluster", deletionProtection=True)
        made.run_or_fail(engine.up)
        resources, held = engine.resources(), sandbox.cloud.list_resources()
        refused = engine.destroy()
        assert not refused.ok
        assert refused.changed == 0
        assert "DeletionProtection::cluster.deletionProtection" in "".join(refused.errors)
        assert [row["urn"] for row in engine.resources()] == [row["urn"] for row in resources]
        assert sandbox.cloud.list_resources() == held
        change(sandbox, "cluster", deletionProtection=False)
        made.run_or_fail(engine.up)
        made.baseline_destroy()
        assert engine.resources() == []


@pytest.mark.prove(reason="test_aws_api shows that the update takes time")
def test_a_kill_in_a_version_update_is_recovered_from(tmp_path: Path) -> None:
    """EKS goes on without the engine: the next update finds the version that it was to have."""
    with FaultRunner("train", tmp_path / "sandbox") as made:
        sandbox, engine = made.sandbox, made.sandbox.engine
        made.run_or_fail(engine.up)
        change(sandbox, "cluster", version="1.36")
        account = sandbox.cloud.account  # type: ignore[attr-defined]

        def status() -> str:
            return str(account.clusters["k8s-ml"].row["status"])

        thread, outcomes = run_in_thread(engine.up)
        until(lambda: status() == "UPDATING", "EKS has begun the update")
        engine.kill()
        thread.join()
        assert not outcomes[0].ok
        until(lambda: status() == "ACTIVE", "EKS is done")
        made.recover()
        made.run_or_fail(engine.up)
        assert account.clusters["k8s-ml"].row["version"] == "1.36"
        assert made.run_or_fail(engine.up).changed == 0
        made.destroy()
