"""Which pods the rehearsal runs for real, and what it says of jobs in a queue."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from gpu_cluster.components.catalog import images
from gpu_cluster.rehearsal.control_plane import controllers
from gpu_cluster.rehearsal.control_plane.cluster_cache import ClusterCache
from gpu_cluster.rehearsal.control_plane.controllers import Controllers, program_of, provide
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.control_plane.pod_network import PodNetwork
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.nodes import kwok
from gpu_cluster.rehearsal.processes import Processes
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot
from gpu_cluster.rehearsal.verify.workloads import Workload, declared, why_not
from gpu_cluster.tools.programs import HERE, Program, cache_folder, program

JOB = Workload(kind="Job", namespace="default", name="sweep")


def pod(image: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "manager", "image": image}]}}


def test_the_pinned_images_are_run_for_real() -> None:
    """What the program declares is recognised by its image's name, whatever the registry."""
    assert program_of(pod(images.KUEUE.reference)) == "kueue"
    assert program_of(pod(images.JOBSET.reference)) == "jobset"
    assert program_of(pod("127.0.0.1:5000/kueue@sha256:abc")) == "kueue"
    assert program_of(pod("docker.io/nvidia/cuda:12")) is None


def test_kwok_leaves_those_pods_alone() -> None:
    """The sandbox that makes pods run excludes the same images."""
    stages = yaml.safe_load_all(kwok.STAGES.joinpath("pod.yaml").read_text())
    (run,) = [stage for stage in stages if stage["metadata"]["name"] == "pod-run"]
    keys = [expression["key"] for expression in run["spec"]["selector"]["matchExpressions"]]
    (key,) = [key for key in keys if "image" in key]
    assert all(name in key for name in controllers.PROGRAMS)


def test_a_pod_of_an_earlier_revision_runs_the_version_of_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its definitions are of that version too; every other image is this tree's program."""
    monkeypatch.setattr(controllers.tools, "binary", lambda name: Path("today", name))
    (tmp_path / "kueue").mkdir()
    then = "module m\n\ngo 1.25.0\n\nrequire sigs.k8s.io/kueue v0.14.8\n"
    (tmp_path / "kueue" / "go.mod").write_text(then)
    image = images.KUEUE.reference
    old = image.replace(images.KUEUE.tag or "", "v0.14.8")
    today = Path("today", "kueue")
    assert controllers.binary_of(pod(image), tmp_path) == today
    assert controllers.binary_of(pod(old), HERE) == today
    earlier = controllers.binary_of(pod(old), tmp_path)
    assert earlier.parent.parent == cache_folder()
    assert earlier.parent != program("kueue").folder()


@pytest.mark.parametrize(
    ("batch", "wanted"),
    [
        (None, []),
        ({"jobSet": True}, ["jobset"]),
        ({"queues": {"q": {}}}, ["kueue"]),
        ({"jobSet": True, "queues": {"q": {}}}, ["jobset", "kueue"]),
        ("nonsense", []),
    ],
)
def test_only_what_a_stack_asks_for_is_built(
    batch: Any, wanted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack without queues never waits for Kueue's build."""
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path / "empty"))
    built: list[Program] = []
    monkeypatch.setattr(controllers, "build_programs", built.extend)
    provide({"gpu-cluster:batch": batch})
    assert [program.name for program in built] == wanted


def test_a_job_set_is_the_jobs_that_it_makes() -> None:
    """A stack's JobSet has reached its state once each of its Jobs has."""
    resource = {
        "type": "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet",
        "outputs": {
            "metadata": {"name": "ddp", "namespace": "team"},
            "spec": {"replicatedJobs": [{"name": "workers", "replicas": 1}]},
        },
    }
    (found,) = declared([resource])
    assert (str(found), found.derived) == ("Job team/ddp-workers-0", True)
    diagnosis = why_not(found, None, ClusterSnapshot(groups=[], nodes={}))
    assert not diagnosis.permanent


@pytest.mark.parametrize(
    ("job", "owner"), [("sweep", "job-sweep-1"), ("d-workers-0", "jobset-d-1")]
)
def test_a_job_in_a_queue_says_what_kueue_says(job: str, owner: str) -> None:
    """A suspended job has no pod that could tell; the last word on its Workload does."""
    said = [(owner, "first", 1), (owner, "insufficient quota", 2), ("job-other-1", "no", 3)]
    events = [
        {
            "involvedObject": {"kind": "Workload", "namespace": "default", "name": name},
            "message": message,
            "lastTimestamp": f"2026-11-21T06:0{minute}:00Z",
        }
        for name, message, minute in said
    ]
    wanted = Workload(kind="Job", namespace="default", name=job)
    suspended = {"metadata": {}, "spec": {"suspend": True}, "status": {}}
    diagnosis = why_not(wanted, suspended, ClusterSnapshot(groups=[], nodes={}, events=events))
    assert diagnosis.message == (
        f"Job default/{job} is still in its queue: Kueue says: insufficient quota"
    )
    assert not diagnosis.permanent


def test_a_suspended_job_of_which_nothing_is_said() -> None:
    """Without an event the line says as much as is known."""
    suspended = {"metadata": {}, "spec": {"suspend": True}, "status": {}}
    diagnosis = why_not(JOB, suspended, ClusterSnapshot(groups=[], nodes={}))
    assert diagnosis.message == "Job default/sweep is still in its queue"


class TokensOnly:
    """An API server that gives out service accounts' tokens and takes a pod's status."""

    def create(self, path: str, body: Any) -> dict[str, Any]:
        return {"status": {"token": "t"}}

    def __init__(self) -> None:
        self.statuses: list[Any] = []

    def patch(self, path: str, body: Any, kind: str) -> None:
        self.statuses.append(body["status"])


@pytest.fixture
def simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], tuple[EventLog, int]]:
    """Simulates a JobSet pod whose program is a shell script, until the event log says a word; the
    event log, and how often the program was started."""

    def simulate(script: str, until: str) -> tuple[EventLog, int]:
        starts = tmp_path / "starts"
        program = tmp_path / "jobset"
        program.write_text(f"#!/bin/sh\necho >> {starts}\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr("gpu_cluster.tools.binary", lambda name: program)
        kubeconfig = tmp_path / "admin"
        kubeconfig.write_text(json.dumps({"users": [{"user": {}}]}))
        event_log, api = EventLog(), TokensOnly()
        cluster_cache = ClusterCache(event_log)
        made = pod(images.JOBSET.reference)
        made["metadata"] = {"name": "jobset-abcde", "namespace": "jobset-system", "uid": "u"}
        made["spec"]["nodeName"] = "n1"
        cluster_cache.change("Pod", "ADDED", made)
        processes = Processes(tmp_path / "logs", "test")
        controllers_ = Controllers(
            tmp_path,
            cast("LocalControlPlane", SimpleNamespace(api=api, kubeconfig=kubeconfig)),
            processes,
            cast("PodNetwork", SimpleNamespace(forget=lambda address: None)),
            cluster_cache,
            event_log,
        )
        controllers_.start()
        try:
            deadline = time.monotonic() + 10
            while until not in [event.what for event in event_log.events] + event_log.findings:
                assert time.monotonic() < deadline, event_log.events
                time.sleep(0.05)
            time.sleep(1)
        finally:
            controllers_.stop()
        # `kubectl get pods` counts containers that are ready.
        for status in api.statuses:
            ready = {row["type"]: row["status"] == "True" for row in status["conditions"]}
            assert [row["ready"] for row in status["containerStatuses"]] == [ready["Ready"]]
        return event_log, len(starts.read_text().splitlines())

    return simulate


def test_karpenter_and_its_replica_may_end_together(tmp_path: Path) -> None:
    """As when the stack is destroyed: the thread that follows them goes on."""
    processes = Processes(tmp_path / "logs", "test")
    plane = cast("LocalControlPlane", SimpleNamespace())
    network = cast("PodNetwork", SimpleNamespace(forget=lambda address: None))
    log = EventLog()
    followed = Controllers(tmp_path, plane, processes, network, ClusterCache(log), log)
    for uid, kind in (("leader", controllers._Karpenter), ("replica", controllers._StandBy)):
        made = pod("public.ecr.aws/karpenter/controller:1.15.0")
        made["metadata"] = {"name": uid, "namespace": "kube-system"}
        followed._simulated[uid] = kind(
            made, "10.1.0.1", tmp_path, plane, processes, tmp_path, lambda: None
        )
    followed._tick()
    assert followed._simulated == {}


def test_a_controller_that_ends_once_is_started_again(
    simulated: Callable[[str, str], tuple[EventLog, int]],
) -> None:
    """As a kubelet would: it may have looked for its certificate a moment too early."""
    script = '[ $(wc -l < "$0.twice") = 1 ] 2> /dev/null && sleep 60; echo > "$0.twice"; exit 1'
    event_log, starts = simulated(script, "restarted")
    assert starts == 2
    assert event_log.findings == []


def test_a_controller_that_keeps_ending_is_named(
    simulated: Callable[[str, str], tuple[EventLog, int]],
) -> None:
    """With its last words, and no third time."""
    message = "jobset-abcde ended with 1: bad config | bad config"
    event_log, starts = simulated('echo "bad config"; exit 1', message)
    assert starts == 2
    assert event_log.findings == [message]
