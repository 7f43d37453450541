"""One rehearsal of train-gke with JobSet and Kueue: jobs in a queue, a user's job, a drained node.

To install both takes longer than all that is seen here. Each test has jobs of its own; the first
is about those that came with the environment.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.cli.main import main
from gpu_cluster.rehearsal.control_plane.pods import full_name, workload
from gpu_cluster.rehearsal.nodes.autoscaler import EMPTY_SECONDS
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.report.report import gpu_nodes_over_time, node_lives, pod_lives
from gpu_cluster.rehearsal.sandbox import SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.outcome import ExitCode
from tests.rehearsal.conftest import configured, entered, until, up
from tests.rehearsal.test_disruptions import nodes_of
from tests.rehearsal.test_queues import handover, spans, with_queues
from tests.unit.stacks.test_jobs import JOB

SUBMITTED = {**JOB, "volumes": {"code": {"mountPath": "/code", "files": ["train.py"]}}}
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/drained"
SECONDS = 60.0


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Up, with both jobs done. A job's pods run long enough to be evicted."""
    folder, options = tmp_path_factory.mktemp("batch") / "sandbox", SandboxOptions(job_seconds=8)
    change, team = configured(with_queues), configured(with_a_team)
    with entered("train-gke", folder, change, team, options=options) as sandbox:
        found = Rehearsal(sandbox=sandbox, deadline=90)
        assert found.run_up_only(), found.failures
        yield found


def with_a_team(config: dict[str, Any]) -> None:
    """A namespace that may use the queue, with an account and a claim in it."""
    config["gpu-cluster:namespaces"] = {"team": {}}
    config["gpu-cluster:batch"]["queues"]["training"]["namespaces"] = ["default", "team"]
    config["gpu-cluster:serviceAccounts"] = {"trainer": {"namespace": "team"}}
    config["gpu-cluster:volumeClaims"] = {"results": {"size": "1Gi", "namespace": "team"}}


def alone(config: dict[str, Any]) -> None:
    """What a platform team declares: a pool, a queue, and no job."""
    config["gpu-cluster:trainingJobs"] = config["gpu-cluster:workloads"] = {}


def drained(config: dict[str, Any]) -> None:
    """A job on nodes with room for both of its workers."""
    alone(config)
    pool = config["gpu-cluster:gpuPools"]["train-gpu"]
    pool.update(machineType="n1-standard-16", gpusPerNode=4)
    config["gpu-cluster:trainingJobs"] = {
        "drained": {
            "pool": "train-gpu",
            "queue": "training",
            "nodes": 2,
            "gpus": 1,
            "image": "example.com/image:1",
            "command": ["train.py"],
            "maxRestarts": 0,
            "disruptionBudget": True,
        }
    }


def test_two_jobs_that_need_the_whole_pool_run_one_after_the_other(
    rehearsal: Rehearsal,
) -> None:
    """A JobSet and a Job, each for both nodes, take turns on nodes that came up once."""
    events = rehearsal.sandbox.event_log.events
    (_, first_done), (second_created, _) = spans(events)
    # Not even its pods are there before: the queue holds back the job, not the scheduler the pods.
    assert first_done <= second_created
    came = [node.gpus for node in node_lives(events) if node.gpus]
    # On a busy machine they stand empty for so long in between that they leave.
    assert came == [1, 1] or handover(events) > EMPTY_SECONDS
    counts = [count for _, count in gpu_nodes_over_time(node_lives(events))]
    assert max(counts) == 2
    service = rehearsal.sandbox.control_plane.api.get("/api/v1/namespaces/default/services/ddp")
    assert service["spec"]["clusterIP"] == "None"
    pods = rehearsal.sandbox.cluster_cache.pods
    workers = [pod for pod in pods if pod["metadata"]["labels"].get("app") == "ddp"]
    names = {f"{p['spec']['hostname']}.{p['spec']['subdomain']}" for p in workers}
    (master,) = {
        variable["value"]
        for pod in workers
        for variable in pod["spec"]["containers"][0]["env"]
        if variable["name"] == "MASTER_ADDR"
    }
    assert len(names) == 2
    assert master in names
    assert "violates PodSecurity" in privileged_pod_in(rehearsal, "kueue-system")
    assert "violates PodSecurity" in privileged_pod_in(rehearsal, "jobset-system")


def test_a_team_has_a_namespace_from_the_first_up(rehearsal: Rehearsal) -> None:
    """With what the stack declares in it. Its pods are held to a Pod Security Standard, and get no
    token unless they ask for one."""
    api = rehearsal.sandbox.control_plane.api
    for path in (
        "configmaps/gpu-cluster",
        "serviceaccounts/trainer",
        "persistentvolumeclaims/results",
    ):
        assert api.get(f"/api/v1/namespaces/team/{path}")["metadata"]["namespace"] == "team"
    account = api.get("/api/v1/namespaces/team/serviceaccounts/default")
    assert account["automountServiceAccountToken"] is False
    assert "violates PodSecurity" in privileged_pod_in(rehearsal, "team")


def privileged_pod_in(rehearsal: Rehearsal, namespace: str) -> str:
    """What the API server says of one, beside a controller."""
    container = {"name": "c", "image": "i", "securityContext": {"privileged": True}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "intruder"},
        "spec": {"containers": [container]},
    }
    with pytest.raises(ApiError) as refusal:
        rehearsal.sandbox.control_plane.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    return str(refusal.value)


class User:
    """Has a kubeconfig, and nothing of the stack."""

    def __init__(
        self, rehearsal: Rehearsal, folder: Path, printed: pytest.CaptureFixture[str]
    ) -> None:
        self.kubeconfig = rehearsal.sandbox.control_plane.kubeconfig
        self.folder, self._printed = folder, printed
        (folder / "train.py").write_text("print('hello')\n")

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output and errors of `gpu-cluster job ...`."""
        self._printed.readouterr()
        code = main(["job", *arguments, "--kubeconfig", str(self.kubeconfig)])
        said = self._printed.readouterr()
        return code, said.out, said.err

    def submit(self, **job: Any) -> tuple[int, str, str]:
        """The outcome for a file with this job."""
        file = self.folder / "job.yaml"
        file.write_text(yaml.safe_dump({"trainingJobs": {"first": {**SUBMITTED, **job}}}))
        return self.run("submit", str(file))

    def states(self) -> list[str]:
        """How far each job is."""
        return [row["state"] for row in json.loads(self.run("list", "--json")[1])["jobs"]]


def test_a_user_submits_lists_and_cancels_a_job(
    rehearsal: Rehearsal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It leaves its queue, gets its nodes and completes; what could never run is refused before,
    and a cancelled one leaves nothing."""
    up(rehearsal.sandbox, configured(alone))
    api = rehearsal.sandbox.control_plane.api
    user = User(rehearsal, tmp_path, capsys)
    assert user.run("list")[1].startswith("no jobs in namespace ")
    code, _, said = user.submit(nodes=3)
    assert (code, said) == (
        ExitCode.UNKNOWN,
        "gpu-cluster job submit: trainingJobs.first.nodes: 3 is more than maxNodes of pool "
        "train-gpu allows, at most 2; lower it, or raise maxNodes\n",
    )
    assert user.submit() == (ExitCode.OK, "first: submitted\n", "")
    everywhere = json.loads(user.run("list", "--all-namespaces", "--json")[1])["jobs"]
    assert ("default", "first") in [(row["namespace"], row["name"]) for row in everywhere]
    assert "already has a job of that name" in user.submit()[2]
    deadline, logs = time.monotonic() + SECONDS, []
    while (states := user.states()) != ["completed"]:
        assert time.monotonic() < deadline, states
        if states == ["running"]:
            logs.append(user.run("logs", "first"))
        time.sleep(0.5)
    code, said, _ = user.run("startup", "first", "--json")
    pods, queue = json.loads(said)["pods"], json.loads(said)["queue"]
    assert (code, len(pods), queue["quota"] >= 0) == (ExitCode.OK, 2, True)
    for pod in pods:
        assert pod["seconds"]["total"] >= pod["seconds"]["node"] >= 0
        # KWOK runs the pods, which writes no events of images.
        assert pod["seconds"]["image"] is None
        assert f"{pod['timeline']}".count("bound to node") == 1
    # Its node is simulated, or gone again.
    for code, said, error in (*logs, user.run("logs", "first")):
        assert (code, said) == (ExitCode.UNKNOWN, "")
        assert re.fullmatch(
            r"gpu-cluster job logs: first: node \S+ has no log of worker 0, pod \S+?(?:: .+)?; "
            r"nodes that no longer exist .* have no logs\n",
            error,
        )
    policy = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/first"
    (owner,) = api.get(policy)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("JobSet", "first")
    assert user.run("cancel", "first")[:2] == (ExitCode.OK, "first: cancelled\n")
    policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    until(
        lambda: (
            not user.states()
            and not any(one["metadata"]["name"] == "first" for one in api.items(policies))
        ),
        "a cancelled job leaves nothing",
        SECONDS,
    )
    assert "has no job first" in user.run("cancel", "first")[2]
    assert "has no pods of first" in user.run("startup", "first")[2]


@pytest.mark.prove(reason="37 s of a processor")
def test_a_drained_worker_does_not_use_up_the_restarts(rehearsal: Rehearsal) -> None:
    """All workers start again and finish, with `maxRestarts: 0`; each has a node of its own, though
    one has room for both. The job's disruption budget does not let any be evicted."""
    sandbox = rehearsal.sandbox
    up(sandbox, configured(drained))
    workers, api = "Job default/drained-workers-0", sandbox.control_plane.api
    until(lambda: len(nodes_of(sandbox, workers, "ready")) == 2, "both workers run")
    pod = next(pod for pod in sandbox.cluster_cache.pods if workload(pod) == workers)
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
    eviction = {"name": pod["metadata"]["name"], "namespace": "default"}
    budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/drained"
    until(lambda: api.get(budget)["status"]["currentHealthy"] == 2, "the budget counts both")
    assert api.get(budget)["status"]["desiredHealthy"] == 2
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": eviction}
    with pytest.raises(ApiError) as refused:
        api.create(f"{path}/eviction", body)
    assert refused.value.status == 429
    assert "would violate the pod's disruption budget" in str(refused.value)
    api.delete(budget)
    api.create(f"{path}/eviction", body)
    until(
        lambda: any(
            condition["type"] in ("Completed", "Failed") and condition["status"] == "True"
            for condition in api.get(JOB_SETS)["status"].get("conditions") or []
        ),
        f"the training job ends after the eviction of {full_name(pod)}",
    )
    status = api.get(JOB_SETS)["status"]
    assert status["terminalState"] == "Completed"
    assert status["restarts"] == 1
    assert not status.get("restartsCountTowardsMax")
    # By now no worker is there to look at.
    lives = [pod for pod in pod_lives(sandbox.event_log.events) if pod.workload == workers]
    first = sorted(lives, key=lambda pod: pod.created)[:2]
    last = [pod for pod in lives if pod.state == "succeeded"]
    assert [len({pod.node for pod in attempt}) for attempt in (first, last)] == [2, 2]
