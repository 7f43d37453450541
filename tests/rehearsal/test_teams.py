"""Two teams on one pool: what their members may do, asked of the real API server as impersonated
users, and what the real Kueue does when one wants back the GPUs that the other has borrowed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes.client
import pytest
import yaml

from gpu_cluster.cli.main import main
from gpu_cluster.components.batch.published import SUBMIT
from gpu_cluster.rehearsal.sandbox import ROOT, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.jobs import cluster as jobs
from gpu_cluster.stacks.outcome import ExitCode
from tests.policy.in_the_cluster import REFUSED, TOLERATION
from tests.rehearsal.conftest import configured, entered, until

ADA = {"Impersonate-User": "ada@example.com"}
"""A member of team research."""
BEN = {"Impersonate-User": "ben@example.com", "Impersonate-Group": "vision@example.com"}
"""A member of team vision, by a group."""
EVE = {"Impersonate-User": "eve@example.com"}
"""Signs in, and is in no team."""
EXAMPLE = ROOT / "examples" / "teams" / "Pulumi.teams.yaml"
SECONDS = 120.0
JOB = {
    "pool": "train-gpu",
    "image": "docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime",
    "command": ["/code/train.py"],
    "volumes": {"code": {"mountPath": "/code", "files": ["train.py"]}},
}


def with_teams(config: dict[str, Any]) -> None:
    """The example: of two nodes with a GPU each one is each team's; vision is never urgent."""
    config.clear()
    config.update(yaml.safe_load(EXAMPLE.read_text())["config"])
    config["gpu-cluster:teams"]["vision"]["priorities"] = ["later"]


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Up, without a job. Pods of jobs run long enough to be preempted."""
    folder, options = tmp_path_factory.mktemp("teams") / "sandbox", SandboxOptions(job_seconds=15)
    with entered("train-gke", folder, configured(with_teams), options=options) as sandbox:
        found = Rehearsal(sandbox=sandbox, deadline=90)
        assert found.run_up_only(), found.failures
        yield found


class Member:
    """Uses the cluster as one user, with `gpu-cluster job` or without it."""

    def __init__(
        self, rehearsal: Rehearsal, headers: dict[str, str], namespace: str, folder: Path,
        printed: pytest.CaptureFixture[str], patched: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        self.kubeconfig = rehearsal.sandbox.control_plane.kubeconfig
        self.headers, self.namespace, self.folder = headers, namespace, folder
        self._printed, self._patched = printed, patched
        self._client_of: Callable[[str], Any] = jobs.client_of

    @property
    def client(self) -> kubernetes.client.ApiClient:
        client = self._client_of(self.kubeconfig.read_text())
        for header, value in self.headers.items():
            client.set_default_header(header, value)
        return client

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and what `gpu-cluster job ...` prints."""
        self._printed.readouterr()
        with self._patched.context() as patch:
            patch.setattr(jobs, "client_of", lambda kubeconfig: self.client)
            code = main(
                ["job", *arguments, "--kubeconfig", str(self.kubeconfig), "-n", self.namespace]
            )
        said = self._printed.readouterr()
        return code, said.out + said.err

    def submit(self, name: str, **job: Any) -> tuple[int, str]:
        """The outcome for a file with this job."""
        (self.folder / "train.py").write_text("print('hello')\n")
        file = self.folder / "job.yaml"
        file.write_text(yaml.safe_dump({"trainingJobs": {name: {**JOB, **job}}}))
        return self.run("submit", str(file))

    def state(self, name: str) -> str:
        """How far a job is."""
        listed = json.loads(self.run("list", "--json")[1])["jobs"]
        return str({job["name"]: job["state"] for job in listed}.get(name, "gone"))

    def rules(self, namespace: str) -> set[tuple[str, str, str]]:
        """All that the API server lets the user do there: API group, resource, verb."""
        api = kubernetes.client.AuthorizationV1Api(self.client)
        review = api.create_self_subject_rules_review({"spec": {"namespace": namespace}})
        return {
            (group, resource, verb)
            for rule in review.status.resource_rules
            for group in rule.api_groups
            for resource in rule.resources
            for verb in rule.verbs
        }

    def may(self, verb: str, resource: str, namespace: str = "", group: str = "") -> bool:
        """The answer of a SelfSubjectAccessReview; no namespace means all of them."""
        api = kubernetes.client.AuthorizationV1Api(self.client)
        resource, _, subresource = resource.partition("/")
        attributes = {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": namespace,
        }  # fmt: skip
        review = api.create_self_subject_access_review({"spec": {"resourceAttributes": attributes}})
        return bool(review.status.allowed)


@pytest.fixture
def member(
    rehearsal: Rehearsal, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[dict[str, str], str], Member]:  # fmt: skip
    def member(headers: dict[str, str], namespace: str) -> Member:
        return Member(rehearsal, headers, namespace, tmp_path, capsys, monkeypatch)

    return member


Members = Callable[[dict[str, str], str], Member]
SUBMITTING = {(group, each, verb) for group, kinds, verbs in SUBMIT for each in kinds
              for verb in verbs}  # fmt: skip
DENIED = [
    ("create", "pods", "research", ""),
    ("create", "pods/exec", "research", ""),
    ("get", "secrets", "research", ""),
    ("create", "serviceaccounts/token", "research", ""),
    ("update", "jobsets", "research", "jobset.x-k8s.io"),
    ("create", "rolebindings", "research", "rbac.authorization.k8s.io"),
    ("delete", "resourcequotas", "research", ""),
    ("patch", "localqueues", "research", "kueue.x-k8s.io"),
    ("create", "jobsets", "vision", "jobset.x-k8s.io"),
    ("list", "jobsets", "vision", "jobset.x-k8s.io"),
    ("get", "pods/log", "vision", ""),
    ("create", "jobsets", "default", "jobset.x-k8s.io"),
    ("list", "jobsets", "", "jobset.x-k8s.io"),
    ("list", "nodes", "", ""),
    ("list", "secrets", "kube-system", ""),
    ("patch", "clusterqueues", "", "kueue.x-k8s.io"),
]


def test_a_member_may_submit_and_follow_jobs_in_the_own_namespace_and_nothing_else(
    member: Members,
) -> None:
    """Beyond what everybody may who signs in, the rules are those of `gpu-cluster job`."""
    ada, ben, eve = member(ADA, "research"), member(BEN, "vision"), member(EVE, "research")
    everybody = eve.rules("research")
    assert not everybody & SUBMITTING
    assert ada.rules("research") - everybody == SUBMITTING == ben.rules("vision") - everybody
    for foreign in ("vision", "default", "kube-system", "kueue-system"):
        assert ada.rules(foreign) == everybody
    assert all(ada.may(verb, kind, "research", group) for group, kind, verb in SUBMITTING)
    assert [denied for denied in DENIED if ada.may(*denied)] == []


def test_a_stranger_and_a_member_of_another_team_are_turned_away(member: Members) -> None:
    """The command says so, and creates nothing."""
    for headers in (EVE, BEN):
        code, said = member(headers, "research").submit("theirs", nodes=1, queue="research")
        assert (code, "you are not allowed to read ConfigMap gpu-cluster" in said) == (
            ExitCode.UNKNOWN, True,
        )  # fmt: skip
    assert member(ADA, "research").run("list") == (
        ExitCode.OK,
        "no jobs in namespace research; --namespace names another one, "
        "--all-namespaces lists those of all\n",
    )


def test_a_member_cannot_change_what_jobs_are_checked_by(
    rehearsal: Rehearsal, member: Members
) -> None:
    """The ConfigMap says which of the host's directories jobs mount; other ConfigMaps are free."""
    members, admins = (
        kubernetes.client.CoreV1Api(client)
        for client in (
            member(ADA, "research").client,
            rehearsal.sandbox.control_plane.client(),
        )
    )
    change = {"data": {"settings": "{}"}}
    for refused in (
        lambda: members.patch_namespaced_config_map("gpu-cluster", "research", change),
        lambda: members.delete_namespaced_config_map("gpu-cluster", "research"),
    ):
        with pytest.raises(kubernetes.client.ApiException, match="is the stack's own"):
            refused()
    members.create_namespaced_config_map("research", {"metadata": {"name": "own"}})
    members.delete_namespaced_config_map("own", "research")
    note = {"metadata": {"annotations": {"note": "an administrator's"}}}
    admins.patch_namespaced_config_map("gpu-cluster", "research", note)


def test_a_job_past_the_queue_and_one_beyond_the_quota_are_refused(
    rehearsal: Rehearsal, member: Members
) -> None:
    """By the API server itself, whatever the job was submitted with; also an administrator's."""
    code, said = member(ADA, "research").submit("greedy", nodes=1, queue="vision")
    assert (code, "'vision' is not a queue" in said) == (ExitCode.UNKNOWN, True)
    custom = kubernetes.client.CustomObjectsApi(member(ADA, "research").client)
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"name": "w", "replicas": 1, "template": {"spec": {"template": template}}}
    bypassing = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "bypassing"},
        "spec": {"replicatedJobs": [job]},
    }
    with pytest.raises(kubernetes.client.ApiException) as refused:
        custom.create_namespaced_custom_object(
            "jobset.x-k8s.io", "v1alpha2", "research", "jobsets", bypassing
        )
    assert "wait in the queue of team research: set queue to research" in refused.value.body
    for labels, pod, reason in (
        ({}, {"priorityClassName": "system-node-critical"}, "set priority"),
        ({"kueue.x-k8s.io/priority-class": "urgent"}, {}, "not available to jobs of team vision"),
    ):
        queue = {"kueue.x-k8s.io/queue-name": "vision"}
        spec = {**template, "spec": {**template["spec"], **pod}}
        job = {"name": "w", "replicas": 1, "template": {"spec": {"template": spec}}}
        metadata = {"name": "bypassing", "labels": {**queue, **labels}}
        body = {**bypassing, "metadata": metadata, "spec": {"replicatedJobs": [job]}}
        custom = kubernetes.client.CustomObjectsApi(member(BEN, "vision").client)
        with pytest.raises(kubernetes.client.ApiException) as refused:
            custom.create_namespaced_custom_object(
                "jobset.x-k8s.io", "v1alpha2", "vision", "jobsets", body
            )
        assert reason in refused.value.body
    core = kubernetes.client.CoreV1Api(member({}, "vision").client)
    container["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    pod = {"metadata": {"name": "greedy"}, "spec": template["spec"]}
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.create_namespaced_pod("vision", pod)
    assert "exceeded quota: team, requested: requests.nvidia.com/gpu=2" in refused.value.body


def test_a_member_is_held_to_the_rules_of_the_policy_pack(member: Members) -> None:
    """Those that protect other teams; a job with GPUs of its own, and one without on other nodes,
    is admitted. Nothing is created: each request is a dry run."""
    client = member(ADA, "research").client
    custom = kubernetes.client.CustomObjectsApi(client)

    def submit(pod: dict[str, Any], container: dict[str, Any]) -> str:
        containers = [{"name": "c", "image": "i", **container}]
        template = {"spec": {"restartPolicy": "Never", "containers": containers, **pod}}
        job = {"name": "w", "replicas": 1, "template": {"spec": {"template": template}}}
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "mine", "labels": {"kueue.x-k8s.io/queue-name": "research"}},
            "spec": {"replicatedJobs": [job]},
        }
        try:
            custom.create_namespaced_custom_object(
                "jobset.x-k8s.io", "v1alpha2", "research", "jobsets", body, dry_run="All"
            )
        except kubernetes.client.ApiException as error:
            return str(error.body)
        return ""

    gpus = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    allowed = {"env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"}]}
    assert submit({"tolerations": [TOLERATION]}, gpus | allowed) == ""
    assert submit({"tolerations": [{"key": "team", "operator": "Exists"}]}, {}) == ""
    for rule, cases in REFUSED.items():
        for pod, container, reason in cases:
            assert reason in submit(pod, container), (rule, pod, container)
    data = {"NVIDIA_VISIBLE_DEVICES": "all"}
    with pytest.raises(kubernetes.client.ApiException) as refused:
        kubernetes.client.CoreV1Api(client).create_namespaced_config_map(
            "research", {"metadata": {"name": "mine"}, "data": data}, dry_run="All"
        )
    assert "keys of a ConfigMap: drop NVIDIA_VISIBLE_DEVICES; " in refused.value.body


def test_an_urgent_job_stops_another_one_of_the_team(rehearsal: Rehearsal, member: Members) -> None:
    """Of the team's own only: all GPUs are in use, and vision keeps its one. What was stopped
    starts again; the objects of the queues are also served in the former version."""
    ada, ben = member(ADA, "research"), member(BEN, "vision")
    code, said = ben.submit("first", nodes=1, queue="vision", priority="urgent")
    assert (code, "'urgent' is not a priority; allowed: later" in said) == (ExitCode.UNKNOWN, True)
    assert ben.submit("first", nodes=1, queue="vision")[0] == ExitCode.OK
    assert ada.submit("slow", nodes=1, queue="research", priority="later")[0] == ExitCode.OK
    until(lambda: ada.state("slow") == "running", "the slow job runs", SECONDS)
    assert ada.submit("now", nodes=1, queue="research", priority="urgent")[0] == ExitCode.OK
    until(lambda: ada.state("now") in ("running", "completed"), "the urgent job starts", SECONDS)
    events = rehearsal.sandbox.control_plane.api.items("/api/v1/namespaces/research/events")
    stopped = {
        one["involvedObject"]["name"]: one["message"]
        for one in events
        if one["reason"] == "Preempted" and "prioritization in the ClusterQueue" in one["message"]
    }
    assert [name for name in stopped if "slow" in name], events
    for who, job in ((ada, "slow"), (ada, "now"), (ben, "first")):
        until(lambda who=who, job=job: who.state(job) == "completed", f"{job} ends", SECONDS)
        assert who.run("cancel", job) == (ExitCode.OK, f"{job}: cancelled\n")
    former = rehearsal.sandbox.control_plane.api.get(
        "/apis/kueue.x-k8s.io/v1beta1/clusterqueues/research"
    )
    assert former["spec"]["cohort"] == "teams"


@pytest.mark.prove(reason="33 s of a processor")
def test_a_team_borrows_what_is_idle_and_gives_it_back(
    rehearsal: Rehearsal, member: Members
) -> None:
    """Research runs on both GPUs until a job of vision wants its own; then that one runs, and the
    other one waits, starts again and completes."""
    ada, ben = member(ADA, "research"), member(BEN, "vision")
    code, said = ben.submit("large", nodes=2, queue="vision")
    assert (code, "hands out 1 GPUs of pool train-gpu" in said) == (ExitCode.UNKNOWN, True)
    assert ada.submit("large", nodes=2, queue="research") == (ExitCode.OK, "large: submitted\n")
    until(lambda: ada.state("large") == "running", "research runs on both GPUs", SECONDS)
    assert ben.submit("small", nodes=1, queue="vision") == (ExitCode.OK, "small: submitted\n")
    until(lambda: ben.state("small") in ("running", "completed"), "vision's job starts", SECONDS)
    events = rehearsal.sandbox.control_plane.api.items("/api/v1/namespaces/research/events")
    preempted = [event["message"] for event in events if event["reason"] == "Preempted"]
    assert any("due to reclamation within the cohort" in message for message in preempted), (
        preempted
    )
    until(lambda: ben.state("small") == "completed", "vision's job completes", SECONDS)
    until(lambda: ada.state("large") == "completed", "research's job starts again", SECONDS)
    for who, job in ((ada, "large"), (ben, "small")):
        assert who.run("cancel", job) == (ExitCode.OK, f"{job}: cancelled\n")
