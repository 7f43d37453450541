"""Whatever a cluster answers to `gpu-cluster job`, it is one line, and no half of a job stays."""

import json
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gpu_cluster.stacks.jobs.cluster import JobCluster, row
from gpu_cluster.stacks.jobs.startup import answer as startup
from gpu_cluster.stacks.jobs.submitted import Job
from gpu_cluster.stacks.outcome import CheckError
from tests.unit.stacks.served import kubeconfig_of, serving

POLICIES = "networking.k8s.io/v1/namespaces/default/networkpolicies"
CONFIG_MAPS, PODS = "v1/namespaces/default/configmaps", "v1/namespaces/default/pods"
JOB_SETS = "jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
WORKLOADS = "kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
EVERYWHERE = "jobset.x-k8s.io/v1alpha2/jobsets"
MARK = {"gpu-cluster/submitted": "true"}


def stands_before(kind: str, version: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "first", "labels": MARK}}


JOB = Job(
    name="first",
    namespace="default",
    before=[
        stands_before("NetworkPolicy", "networking.k8s.io/v1"),
        stands_before("ConfigMap", "v1"),
    ],
    job_set={
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "first", "labels": MARK},
    },
)  # fmt: skip
WORKER = {
    "metadata": {
        "name": "first", "creationTimestamp": "2026-11-22T00:00:00Z",
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
    },
    "spec": {"nodeName": "gpu-1"},
}  # fmt: skip
EVERYTHING = [POLICIES, CONFIG_MAPS, JOB_SETS]


class Server(ThreadingHTTPServer):
    """Keeps objects by their path, and refuses what it is told to."""

    url: str

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.refused: dict[tuple[str, str], int] = {}
        """(verb of HTTP, collection) -> status; 0: the connection breaks."""
        super().__init__(("127.0.0.1", 0), Handler)

    def names(self) -> list[str]:
        return sorted(path.rpartition("/")[0] for path in self.objects)

    def owners(self) -> list[Any]:
        return [
            each["metadata"].get("ownerReferences")
            for path, each in self.objects.items()
            if JOB_SETS not in path
        ]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or "{}")
        path = self.path.partition("?")[0].removeprefix("/apis/").removeprefix("/api/")
        kept = self.server.objects
        collection = path if path.endswith("s") else path.rpartition("/")[0]
        status = self.server.refused.get((self.command, path if path in kept else collection), 200)
        answer: Any = {}
        if status == 0:
            self.connection.close()
            return
        if status != 200:
            answer = {"message": "not today"}
        elif self.command == "POST" and f"{path}/first" in kept:
            status, answer = 409, {"message": "already exists"}
        elif self.command == "POST":
            status, kept[f"{path}/first"] = 201, body
            answer = body
            body["metadata"]["uid"] = "u"
        elif self.command == "PATCH":
            answer = kept[path]
            answer["metadata"] |= body["metadata"]
        elif self.command == "DELETE":
            answer = kept.pop(path)
        elif path.endswith("/log"):
            answer = "step 1"
        elif path == collection:
            rows = [each for at, each in kept.items() if at.startswith(f"{path}/")]
            answer = {"items": rows}
        else:
            answer = kept[path]
        broken = path.endswith("/log") and status == 200
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text) * (2 if broken else 1)))
        self.end_headers()
        self.wfile.write(text)
        if broken:
            self.close_connection = True  # in the middle of it

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *arguments: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    with serving(server) as server.url:
        yield server


@pytest.fixture
def kubeconfig(server: Server) -> str:
    return kubeconfig_of(server.url)


@pytest.fixture
def cluster(kubeconfig: str) -> JobCluster:
    return JobCluster(kubeconfig, "default")


def test_a_job_owns_what_stands_before_it(server: Server, cluster: JobCluster) -> None:
    """So that it goes with the job."""
    cluster.submit(JOB)
    assert server.names() == sorted(EVERYTHING)
    assert [[owner["uid"] for owner in owners] for owners in server.owners()] == [["u"], ["u"]]


def test_a_name_that_is_taken_is_refused_before_anything_is_made(
    server: Server, cluster: JobCluster
) -> None:
    """In a dry run with the words of a submit."""
    cluster.check_free(JOB)
    assert not server.names()
    cluster.submit(JOB)
    for ask in (cluster.check_free, cluster.submit):
        with pytest.raises(CheckError, match="first: namespace default already has a job"):
            ask(JOB)


@pytest.mark.parametrize(
    "refused",
    [
        ("POST", POLICIES),
        ("POST", CONFIG_MAPS),
        ("POST", JOB_SETS),
        ("PATCH", f"{POLICIES}/first"),
        ("PATCH", f"{CONFIG_MAPS}/first"),
    ],
)
def test_a_refused_job_leaves_nothing(
    server: Server, cluster: JobCluster, refused: tuple[str, str]
) -> None:
    """Whatever of it a user may not do."""
    server.refused = {refused: 403}
    with pytest.raises(CheckError) as said:
        cluster.submit(JOB)
    assert str(said.value) == (
        "first: you are not allowed to submit it: HTTP 403; ask the cluster's administrators"
    )
    assert server.objects == {}


def test_the_first_refusal_is_told(server: Server, cluster: JobCluster) -> None:
    """Not that what was made may not be deleted either."""
    server.refused = {("POST", JOB_SETS): 422, ("DELETE", f"{POLICIES}/first"): 500}
    with pytest.raises(CheckError, match=r"^first: the cluster refuses it: not today$"):
        cluster.submit(JOB)
    assert server.names() == [POLICIES]


def test_what_a_killed_submit_left_is_taken_over(server: Server, cluster: JobCluster) -> None:
    """The name is not blocked for ever: nothing can be cancelled that has no job."""
    server.objects[f"{POLICIES}/first"] = stands_before("NetworkPolicy", "networking.k8s.io/v1")
    cluster.submit(JOB)
    assert server.names() == sorted(EVERYTHING)
    assert all(server.owners())


@pytest.mark.parametrize(
    "metadata",
    [{"labels": {}}, {"labels": MARK, "ownerReferences": [
        {"apiVersion": "a", "kind": "JobSet", "name": "first", "uid": "old"}]}],
)  # fmt: skip
def test_what_is_anybody_elses_is_left_alone(
    server: Server, cluster: JobCluster, metadata: dict[str, Any]
) -> None:
    """A policy of the user's own, and that of a job that is ending."""
    policy = {"metadata": {"name": "first", **metadata}}
    server.objects[f"{POLICIES}/first"] = policy
    with pytest.raises(CheckError, match="already has a job of that name; cancel it"):
        cluster.submit(JOB)
    assert server.objects == {f"{POLICIES}/first": policy}


def test_a_cluster_that_is_gone_is_one_line(server: Server, cluster: JobCluster) -> None:
    """On submitting, on cancelling, and in the middle of a log."""
    server.refused = {("POST", POLICIES): 0}
    with pytest.raises(CheckError, match=r"^first: the cluster does not respond: "):
        cluster.submit(JOB)
    server.refused = {("DELETE", f"{JOB_SETS}/first"): 0}
    server.objects[f"{JOB_SETS}/first"] = dict(JOB.job_set)
    with pytest.raises(CheckError, match=r"^first: the cluster does not respond: "):
        cluster.cancel("first")
    server.objects[f"{PODS}/first"] = WORKER
    with pytest.raises(CheckError, match=r"^first: the cluster does not respond: "):
        list(cluster.log("first", 0, follow=True))


@pytest.mark.parametrize(
    ("collection", "status", "ask", "says"),
    [
        pytest.param(
            CONFIG_MAPS, 403, JobCluster.published,
            "^you are not allowed to read ConfigMap gpu-cluster in namespace default, which may "
            "not exist: HTTP 403; give --namespace, that of your queue, or ask the cluster's "
            "administrators$",
            # To a user without rights in all namespaces the API server says no more than that.
            id="a namespace without rights may not exist",
        ),
        pytest.param(
            JOB_SETS, 404, JobCluster.jobs, r"has no JobSet, .* set batch\.jobSet: true",
            id="a cluster without JobSet, of which the API server says only 404",
        ),
        pytest.param(
            JOB_SETS, 403, JobCluster.jobs,
            r"HTTP 403 .* in namespace default; give --namespace",
            id="rights in the namespace of a queue, and none in default",
        ),
        pytest.param(
            EVERYWHERE, 403, partial(JobCluster.jobs, everywhere=True),
            r"HTTP 403 .* in all namespaces; give --namespace",
            id="no rights in all namespaces",
        ),
    ],
)  # fmt: skip
def test_who_may_not_read_is_told_what_to_do(
    server: Server, cluster: JobCluster, collection: str, status: int, ask: Any, says: str
) -> None:
    """Most people have rights in one namespace, which they are told to name."""
    server.refused = {("GET", collection): status}
    with pytest.raises(CheckError, match=says):
        ask(cluster)


def test_jobs_of_all_namespaces_are_listed(server: Server, cluster: JobCluster) -> None:
    """Each with its namespace."""
    metadata = {"name": "a", "namespace": "team-a"}
    server.objects = {f"{EVERYWHERE}/a": {"metadata": metadata, "spec": {"replicatedJobs": []}}}
    assert [row(job)["namespace"] for job in cluster.jobs(everywhere=True)] == ["team-a"]


def test_a_job_of_another_namespace_is_looked_for_there(
    server: Server, cluster: JobCluster
) -> None:
    """Left out, --namespace is `default`, where few people have a queue."""
    server.objects = {}
    for ask in (
        lambda: list(cluster.log("first", 0, follow=False)),
        lambda: cluster.cancel("first"),
    ):
        with pytest.raises(CheckError) as said:
            ask()
        assert str(said.value) == (
            "namespace default has no job first; its jobs: none; give --namespace if it is in "
            "another"
        )


def test_the_start_of_a_job_is_told_without_rights_beyond_its_namespace(
    server: Server, cluster: JobCluster
) -> None:
    """Members of a team may not read nodes; what they cannot see is named, with the reason."""
    with pytest.raises(CheckError, match="namespace default has no pods of first: it has ended,"):
        startup(cluster, "first")
    pod = WORKER | {
        "metadata": WORKER["metadata"]
        | {
            "namespace": "default",
            "uid": "u",
            "labels": {"jobset.sigs.k8s.io/jobset-name": "first"},
        },
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main"}]},
    }
    workload = {
        "metadata": WORKER["metadata"] | {"ownerReferences": [{"name": "first"}]},
        "status": {"conditions": [{"type": "QuotaReserved", "status": "True",
                                   "lastTransitionTime": "2026-11-22T00:00:07Z"}]},
    }  # fmt: skip
    server.objects = {f"{PODS}/first": pod, f"{WORKLOADS}/first": workload}
    server.refused = {("GET", "v1/nodes"): 403, ("GET", f"{PODS}/first"): 404}
    code, document, text = startup(cluster, "first")
    assert (code, document["queue"]) == (0, {"quota": 7, "checks": None})
    assert text.splitlines()[0] == (
        "in its queue, before its pods: quota 7 s, admission checks still waiting"
    )
    assert "unknown: nodes (the cluster returned not allowed to look: HTTP 403" in text
    assert "unknown: images" not in text
    # A cluster with neither Karpenter nor Kueue has no such kinds, and nothing is unknown for that.
    server.refused = {("GET", "karpenter.sh/v1/nodeclaims"): 404, ("GET", WORKLOADS): 404}
    server.objects["v1/nodes/gpu-1"] = {"metadata": WORKER["metadata"]}
    code, document, text = startup(cluster, "first")
    assert (code, document["queue"], document["unknown"]) == (0, None, [])


GONE = (
    "first: node gpu-1 has no log of worker 0, pod first{}; nodes that no longer exist "
    "and nodes of a rehearsal, on which no program runs, have no logs"
)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (404, GONE.format("")),
        (500, GONE.format(": not today")),
        (
            403,
            "first: you are not allowed to read its log: HTTP 403; "
            "ask the cluster's administrators",
        ),
    ],
)
def test_a_node_without_a_log_is_named(
    server: Server, cluster: JobCluster, status: int, says: str
) -> None:
    """One that is gone or does not answer; the rights are the user's own."""
    server.objects = {f"{JOB_SETS}/first": dict(JOB.job_set), f"{PODS}/first": WORKER}
    server.refused = {("GET", f"{PODS}/first"): status}
    with pytest.raises(CheckError) as said:
        list(cluster.log("first", 0, follow=False))
    assert str(said.value) == says
