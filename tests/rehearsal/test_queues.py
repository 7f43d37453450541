"""Rehearsals with queues and a training job: the real JobSet and Kueue, as the program has them.

Only that shows the definitions accepted, the webhooks reached and trusted, the controllers' rights
sufficient, and who waits for whom.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.batch.batch_args import BatchArgs, QueueArgs
from gpu_cluster.rehearsal.event_log import Event
from gpu_cluster.rehearsal.nodes.autoscaler import EMPTY_SECONDS
from gpu_cluster.rehearsal.report.report import gpu_nodes_over_time, node_lives, pod_lives
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.simulators.inventory import inventory
from gpu_cluster.stacks.definition.program import Mutation
from gpu_cluster.stacks.live.controllers import foreign_controllers
from tests.rehearsal.conftest import (
    as_it_was,
    changed,
    configured,
    entered,
    nothing_stays,
    with_inventory,
)

QUEUES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("queues.yaml").read_text())
FIRST, SECOND = "Job default/ddp-workers-0", "Job default/sweep"

FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THEIRS = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "theirs"},
}


def with_queues(config: dict[str, Any]) -> None:
    """Two nodes at most, and two jobs of which each needs both."""
    config.update(QUEUES)
    config["gpu-cluster:gpuPools"]["train-gpu"]["maxNodes"] = 2


Run = Callable[..., Rehearsal]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Rehearses a stack with queues; `whole` also sees a second up, and everything leave, after
    what happens in `between`."""
    with ExitStack() as sandboxes:

        def run(
            *mutations: Mutation,
            stack: str = "train-gke",
            whole: bool = False,
            deadline: float = 90,
            between: Callable[[Sandbox], None] = lambda sandbox: None,
        ) -> Rehearsal:
            sandbox = sandboxes.enter_context(entered(stack, tmp_path / "sandbox", *mutations))
            rehearsal = Rehearsal(sandbox=sandbox, deadline=deadline)
            if not whole:
                rehearsal.run_up_only()
            elif rehearsal.run_until_ready():
                between(sandbox)
                rehearsal.teardown()
            return rehearsal

        yield run


def spans(events: list[Event]) -> list[tuple[float, float]]:
    """From the first pod's creation to the last pod's end, for each job, the first one first."""
    pods = [pod for pod in pod_lives(events) if pod.workload in (FIRST, SECOND)]
    assert len([pod for pod in pods if pod.state == "succeeded"]) == 4, pods
    # A node that stood empty for long may leave just as a pod has come to it, and take it along.
    assert len(pods) == 4 or handover(events) > EMPTY_SECONDS, pods
    found = [
        (
            min(pod.created for pod in pods if pod.workload == job),
            max(pod.done or 0 for pod in pods if pod.workload == job),
        )
        for job in (FIRST, SECOND)
    ]
    return sorted(found)


def handover(events: list[Event]) -> float:
    """Seconds from the end of the first job's first pod, when its node is empty, until the second
    job has all of its pods on nodes: longer than `EMPTY_SECONDS`, and a node may have left."""
    pods = [pod for pod in pod_lives(events) if pod.workload in (FIRST, SECOND)]
    first = min(pods, key=lambda pod: pod.created).workload
    ended = min(pod.done for pod in pods if pod.workload == first and pod.done)
    return max(pod.bound or 0.0 for pod in pods if pod.workload != first) - ended


def on_autopilot(config: dict[str, Any]) -> None:
    """The same where no pool has a maximum: the queue has a number of its own."""
    (pool, *_) = config["gpu-cluster:gpuPools"]
    ddp, sweep = config_of_jobs(pool)
    config["gpu-cluster:batch"] = {
        "jobSet": True,
        "queues": {"training": {"pools": [pool], "nominalQuota": {pool: 2}}},
    }
    config["gpu-cluster:trainingJobs"] = {"ddp": {**ddp, "gpus": 1}}
    config["gpu-cluster:workloads"] = {"sweep": sweep}


def config_of_jobs(pool: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two jobs on another pool, without the node selector of their own."""
    ddp = {**QUEUES["gpu-cluster:trainingJobs"]["ddp"], "pool": pool}
    sweep = {**QUEUES["gpu-cluster:workloads"]["sweep"], "pool": pool, "nodeSelector": {}}
    return ddp, sweep


@pytest.mark.prove
@pytest.mark.parametrize(
    ("stack", "change"),
    [("train-gke", with_queues), ("train", with_queues), ("autopilot", on_autopilot)],
    ids=["gke", "eks", "autopilot"],
)
def test_the_pool_grows_once_and_goes_to_zero(
    run: Run, stack: str, change: Callable[[dict[str, Any]], None]
) -> None:
    """GPU nodes go 0, 1, 2, 1, 0; a second up changes nothing, and nothing is left in the end."""
    rehearsal = run(configured(change), stack=stack, whole=True)
    assert rehearsal.failures == []
    events = rehearsal.sandbox.event_log.events
    (_, first_done), (second_created, _) = spans(events)
    assert first_done <= second_created
    # A pool on which nothing runs has a node for the rehearsal's own pod, at about the same time.
    lives, jobs = node_lives(events), {FIRST, SECOND}
    used = {pod.node for pod in pod_lives(events) if pod.workload in jobs}
    groups = {life.group for life in lives if life.name in used}
    counts = [n for _, n in gpu_nodes_over_time([one for one in lives if one.group in groups])]
    # On a busy machine a node may be empty for so long in between that it is removed.
    assert counts == [0, 1, 2, 1, 0] or handover(events) > EMPTY_SECONDS
    assert (counts[:3], counts[-1]) == ([0, 1, 2], 0)
    nothing_stays(rehearsal)


def with_two_teams(config: dict[str, Any]) -> None:
    """Each has a namespace, a pool, a queue, an account and a claim; one of them a bare pod, which
    is refused in a namespace without a default account."""
    pools = config["gpu-cluster:gpuPools"]
    pools["vision"] = {**pools["train-gpu"], "maxNodes": 2, "labels": {"role": "vision"}}
    pools["train-gpu"]["maxNodes"] = 2
    ddp, sweep = config_of_jobs("vision")
    config["gpu-cluster:namespaces"] = {"team-llm": {}, "team-vision": {}}
    config["gpu-cluster:batch"] = {
        "jobSet": True,
        "queues": {
            "llm": {"pools": ["train-gpu"], "namespaces": ["team-llm"]},
            "vision": {"pools": ["vision"], "namespaces": ["team-vision"]},
        },
    }
    config["gpu-cluster:serviceAccounts"] = {
        "trainer": {"namespace": "team-llm"},
        "viewer": {"namespace": "team-vision"},
    }
    config["gpu-cluster:volumeClaims"] = {
        "llm": {"size": "1Gi", "namespace": "team-llm"},
        "vision": {"size": "1Gi", "namespace": "team-vision"},
    }
    llm = {"queue": "llm", "namespace": "team-llm", "pool": "train-gpu"}
    config["gpu-cluster:trainingJobs"] = {"ddp": {**ddp, **llm, "serviceAccount": "trainer"}}
    vision = {"pool": "vision", "namespace": "team-vision"}
    config["gpu-cluster:workloads"] = {
        "sweep": {**sweep, **vision, "queue": "vision"},
        "look": {"kind": "pod", "image": sweep["image"], "gpus": 1, **vision},
    }


@pytest.mark.prove
def test_two_teams_come_up_at_once(run: Run) -> None:
    """One `up` creates their namespaces and everything in them, and a destroy deletes all of it."""
    rehearsal = run(configured(with_two_teams), whole=True)
    assert rehearsal.failures == []
    ended = {pod.workload for pod in pod_lives(rehearsal.sandbox.event_log.events)}
    assert {"Job team-llm/ddp-workers-0", "Job team-vision/sweep"} <= ended


def with_queues_there(config: dict[str, Any]) -> None:
    """On machines that stand: no pool has a maximum there."""
    ddp, sweep = config_of_jobs("gpus")
    config["gpu-cluster:batch"] = {
        "jobSet": True,
        "queues": {"training": {"pools": ["gpus"], "nominalQuota": {"gpus": 18}}},
    }
    config["gpu-cluster:trainingJobs"] = {"ddp": ddp}
    config["gpu-cluster:workloads"] = {"sweep": {**sweep, "gpus": 9}}


def last_queue_removed(sandbox: Sandbox) -> None:
    """The definitions are protected there, so that objects of others outlive the stack's queues;
    and a whole `destroy`, which reaches them last, is refused before it deletes anything."""

    def without_batch(config: dict[str, Any]) -> None:
        for block in ("batch", "trainingJobs", "workloads"):
            del config[f"gpu-cluster:{block}"]

    api = sandbox.control_plane.api
    api.create(FLAVORS, THEIRS)
    refused = sandbox.engine.destroy()
    assert not refused.ok
    assert refused.changed == 0
    assert "DeletionProtection::batch.deletionProtection" in "".join(refused.errors)
    with as_it_was(sandbox) as program:
        configured(without_batch)(program)
        outcome = sandbox.engine.up()
    assert not outcome.ok
    assert any("protected" in error for error in outcome.errors), outcome.errors
    assert api.get(f"{FLAVORS}/theirs")["metadata"]["name"] == "theirs"
    api.delete(f"{FLAVORS}/theirs")


@pytest.mark.prove
def test_somebody_elses_cluster_is_left_as_it_was(run: Run) -> None:
    """There every object goes one by one: queues before Kueue, Kueue before its definitions, and
    these only after somebody has said so."""
    rehearsal = run(
        configured(with_queues_there), stack="onprem", whole=True, between=last_queue_removed
    )
    assert rehearsal.failures == []
    (_, first_done), (second_created, _) = spans(rehearsal.sandbox.event_log.events)
    assert first_done <= second_created
    kinds = rehearsal.sandbox.control_plane.api.items(DEFINITIONS)
    assert not [kind for kind in kinds if "kueue" in kind["spec"]["group"]]
    assert not [kind for kind in kinds if "jobset" in kind["spec"]["group"]]


def test_a_kueue_of_somebody_elses_is_seen_before_and_left_alone(tmp_path: Path) -> None:
    """Nothing of it is changed, adopted or deleted, and none of the stack's own is created."""
    described = {"machines": inventory("onprem"), "controllers": ["kueue", "jobset"]}
    options = with_inventory(tmp_path, "onprem", described)
    change = configured(with_queues_there)
    with entered("onprem", tmp_path / "sandbox", change, options=options) as sandbox:
        api = sandbox.control_plane.api
        api.create(FLAVORS, THEIRS)
        before = {one["metadata"]["name"]: one for one in api.items(DEFINITIONS)}
        batch = BatchArgs(
            job_set=True, queues={"training": QueueArgs(pools=["gpus"], nominal_quota={"gpus": 18})}
        )
        kubeconfig = sandbox.control_plane.kubeconfig.read_text()
        seen = foreign_controllers(kubeconfig, batch, "gpu-cluster/onprem")
        assert seen["batch.queues"].startswith("the cluster already has Kueue, installed by Helm")
        assert set(seen) == {"batch.queues", "batch.jobSet"}
        outcome = sandbox.engine.up()
        assert not outcome.ok
        # The engine ends with the first of the two that fails.
        there = re.compile(r'"(workloads\.kueue|jobsets\.jobset)\.x-k8s\.io" already exists')
        assert any(there.search(error) for error in outcome.errors), outcome.errors
        assert not [
            one
            for path in ("/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles")
            for one in api.items(path)
            if one["metadata"]["name"].startswith(("kueue", "jobset"))
        ]
        assert sandbox.engine.destroy().ok
        assert sandbox.cloud.list_resources() == []
        after = {one["metadata"]["name"]: one for one in api.items(DEFINITIONS)}
        assert {name: one["spec"] for name, one in after.items()} == {
            name: one["spec"] for name, one in before.items()
        }
        assert api.get(f"{FLAVORS}/theirs")["metadata"]["name"] == "theirs"
        own = {"metadata": {"annotations": {"gpu-cluster/stack": "a/b"}}}
        api.patch(f"{DEFINITIONS}/jobsets.jobset.x-k8s.io", own)
        assert set(foreign_controllers(kubeconfig, batch, "a/b")) == {"batch.queues"}


@pytest.mark.prove
def test_a_queue_with_more_than_there_is_lets_both_start(run: Run) -> None:
    """Then it is the scheduler that holds back pods: what the turns are due to is the quota."""
    code = "props['spec']['resourceGroups'][0]['flavors'][0]['resources'][0]['nominalQuota'] = '4'"
    more = changed("kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue", code)
    rehearsal = run(configured(with_queues), more)
    (_, first_done), (second_created, _) = spans(rehearsal.sandbox.event_log.events)
    assert second_created < first_done


@pytest.mark.prove
@pytest.mark.parametrize(
    ("kind", "code", "says"),
    [
        ("kubernetes:core/v1:Service", "props['spec']['ports'][0]['target_port'] = 9443",
            "failed calling webhook"),
        ("kubernetes:rbac.authorization.k8s.io/v1:Role",
            "props['rules'] = [r for r in props['rules'] if 'secrets' not in r['resources']]",
            "controller-manager"),
        (
            "kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor",
            "props['spec']['nodeLabels'] = {'role': 'other'}",
            # Of one job or of the other, whichever Kueue looks at first.
            "(couldn't assign flavors to pod set main: flavor train-gpu doesn't match node affinity"
            "|cannot be scheduled: it selects label role=other, a node there has role=train-gpu)",
        ),
        ("kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue", "props['spec']['clusterQueue'] = 'other'",
            "is still in its queue"),
        ("kubernetes:networking.k8s.io/v1:NetworkPolicy", "props['spec']['ingress'][0].pop('from')",
            "training job default/ddp: its NetworkPolicy admits others than its own workers"),
    ],
    ids=[
        "nobody listens there",
        "no right to its certificate",
        "other nodes",
        "no such queue",
        "a policy for everybody",
    ],
)  # fmt: skip
def test_a_mistake_around_the_controllers_is_seen(
    run: Run, kind: str, code: str, says: str
) -> None:
    """What a cluster would not forgive fails the rehearsal, in the API server's or its words."""
    rehearsal = run(configured(with_queues), changed(kind, code), deadline=30)
    assert rehearsal.failures
    assert any(re.search(says, failure) for failure in rehearsal.failures), rehearsal.failures
