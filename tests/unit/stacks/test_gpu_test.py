"""What `gpu-cluster test-gpus` says of Jobs, pods and logs, and the table of measured GPUs."""

import copy
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_cluster.components.gpu.acceptance_args import GpuTestArgs
from gpu_cluster.components.gpu.acceptance_program.report import MARKER
from gpu_cluster.stacks.live.gpu_test import exit_code, newest, outcome, outcomes
from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.tools.sections import BENCHMARKS, between
from quality.docs.gpus import SECTION, documents_in, keep, markdown, measured
from tests.unit.stacks.served import kubeconfig_of, serving

JOB: dict[str, Any] = {"metadata": {"name": "gpu-test-p", "namespace": "lab"}}


def a_pod(phase: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "gpu-test-p-x", "creationTimestamp": "2026-11-21T05:00:00Z"},
        "status": {"phase": phase, **status},
    }


@pytest.mark.parametrize(
    ("job", "pods", "why"),
    [
        (None, [], "Job gpu-test-p does not exist: run pulumi up"),
        (JOB, [], "Job gpu-test-p has no pod: see kubectl describe job gpu-test-p "
         "--namespace lab"),
        (JOB | {"status": {"conditions": [{"type": "Complete"}]}}, [],
         "Job gpu-test-p has ended, and its pod was removed with its node: raise "
         "gpuTest.generation, run pulumi up, and ask again while the node is running"),
        (JOB, [a_pod("Pending", conditions=[{"message": "0/3 nodes are available"}])],
         "Job gpu-test-p is not done: its pod is Pending (0/3 nodes are available)"),
        (JOB, [a_pod("Running")], "Job gpu-test-p is not done: its pod is Running"),
        (JOB, [a_pod("Failed", message="Pod was active on the node longer than the deadline")],
         "Job gpu-test-p left no result: its pod is Failed (Pod was active on the node longer "
         "than the deadline)"),
        (JOB, [a_pod("Failed", containerStatuses=[
            {"state": {"terminated": {"reason": "StartError", "exitCode": 128}}}])],
         "Job gpu-test-p left no result: its pod is Failed (StartError, exit code 128)"),
        (JOB, [a_pod("Succeeded")], "Job gpu-test-p left no result: its pod is Succeeded"),
    ],
)  # fmt: skip
def test_what_left_no_result_says_why(job: Any, pods: list[Any], why: str) -> None:
    """Each ends with 2, since nothing is known of the GPUs."""
    assert outcome("p", job, pods, "no marker in this log") == {
        "pool": "p",
        "exit": 2,
        "result": None,
        "why": why,
    }


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_program_s_own_verdict_counts(code: int) -> None:
    """The log's document is taken as it is, with its exit code."""
    document = {"verdict": {"exit": code}}
    log = f"table\n{MARKER}{json.dumps(document)}\n"
    assert outcome("p", JOB, [a_pod("Failed")], log) == {
        "pool": "p",
        "exit": code,
        "result": document,
    }


@pytest.mark.parametrize(
    ("codes", "code"), [([0], 0), ([0, 0], 0), ([0, 2], 2), ([2, 1], 1), ([1, 0], 1)]
)
def test_the_worst_pool_decides(codes: list[int], code: int) -> None:
    """A broken GPU counts before one of which nothing is known."""
    assert exit_code([{"exit": one} for one in codes]) == code


def test_the_newest_pod_counts() -> None:
    """A Job that was replaced may have left its old pod behind for a moment."""
    older, newer = a_pod("Failed"), copy.deepcopy(a_pod("Succeeded"))
    newer["metadata"]["creationTimestamp"] = "2026-11-21T06:00:00Z"
    assert newest([newer, older]) == [newer]
    assert newest([]) == []


class ApiServer(http.server.BaseHTTPRequestHandler):
    """Answers as an API server does, its log endpoint included."""

    protocol_version = "HTTP/1.1"
    url: str
    answers: dict[str, tuple[int, bytes]]
    cut = False
    """Whether a log breaks off before its end."""
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path = self.path.partition("?")[0]
        status = {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}
        code, body = self.answers.get(path, (404, json.dumps(status).encode()))
        self.send_response(code)
        self.send_header("Content-Length", str(len(body) + (self.cut and path.endswith("/log"))))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def api() -> Iterator[type[ApiServer]]:
    """A cluster with the Job and its two pods, the later of which is done."""
    jobs, core = "/apis/batch/v1/namespaces/gpus/jobs", "/api/v1/namespaces/gpus/pods"
    older, newer = a_pod("Failed"), a_pod("Succeeded")
    newer["metadata"] = {"name": "newer", "creationTimestamp": "2026-11-21T06:00:00Z"}
    older["metadata"]["name"] = "older"
    log = f"table\n{MARKER}{json.dumps({'verdict': {'exit': 0}})}\n"

    class Handler(ApiServer):
        pass

    Handler.asked = []
    Handler.answers = {
        jobs: (200, json.dumps({"items": [JOB]}).encode()),
        core: (200, json.dumps({"items": [newer, older]}).encode()),
        f"{core}/newer/log": (200, log.encode()),
        f"{core}/older/log": (200, b"not this one"),
    }
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as Handler.url:
        yield Handler


def found_by(api: Any, nodes: int = 1) -> dict[str, Any]:
    """What `gpu-cluster test-gpus` says of the last node of this cluster's one pool."""
    args = GpuTestArgs(pools=["p"], image="pytorch:1", namespace="gpus", nodes=nodes)
    found = outcomes(args, kubeconfig_of(api.url))
    assert len(found) == nodes
    return found[-1]


LOG = "/api/v1/namespaces/gpus/pods/newer/log"
PODS = (
    "/api/v1/namespaces/gpus/pods?labelSelector=job-name%3Dgpu-test-p"
    "%2Cbatch.kubernetes.io%2Fjob-completion-index%3D"
)


def test_the_end_of_the_newest_pod_s_log_is_read(api: type[ApiServer]) -> None:
    """Of all that the API server has, the Job's name selects the Job and its pods."""
    assert found_by(api)["exit"] == 0
    assert api.asked == [
        "/apis/batch/v1/namespaces/gpus/jobs?fieldSelector=metadata.name%3Dgpu-test-p",
        f"{PODS}0",
        f"{LOG}?tailLines=2000",
    ]


def test_every_node_has_a_result(api: type[ApiServer]) -> None:
    """A Job over two nodes has two pods, each asked for by its number."""
    assert found_by(api, nodes=2)["exit"] == 0
    asked = [path for path in api.asked if path.startswith("/api/v1/namespaces/gpus/pods?")]
    assert asked == [f"{PODS}0", f"{PODS}1"]


@pytest.mark.parametrize(
    ("code", "cut", "why"),
    [
        (403, False, "the cluster returned not allowed to look: HTTP 403 Forbidden"),
        (404, False, "the cluster returned HTTP 404 Not Found"),
        (200, True, "the cluster does not respond: ('Connection broken: IncompleteRead("),
    ],
)
def test_a_log_that_cannot_be_read_is_not_an_empty_one(
    api: type[ApiServer], code: int, cut: bool, why: str
) -> None:
    """Who may not read it, or comes when the pod is gone, or loses the connection, is told so."""
    api.answers[LOG] = (code, b"some of it")
    api.cut = cut
    found = found_by(api)
    assert (found["exit"], found["result"]) == (2, None)
    assert found["why"].startswith(f"Job gpu-test-p: its log cannot be read ({why}")
    assert found["why"].endswith("and its pod is Succeeded")


def test_a_mute_cluster_is_asked_twice() -> None:
    """Not four times, as is urllib3's way: where packets are dropped, each try takes 5 seconds."""
    tries = 0
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            nonlocal tries
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return
                tries += 1

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(CheckError, match="the cluster does not respond"):
            found_by(SimpleNamespace(url=f"http://127.0.0.1:{server.getsockname()[1]}"))
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert tries == 2


def test_who_may_not_list_is_told_so(api: type[ApiServer]) -> None:
    """In one line, as by the other checks, with what the API server says is missing."""
    status = b'{"message": "User \\"a\\" cannot list resource \\"pods\\""}'
    api.answers["/api/v1/namespaces/gpus/pods"] = (403, status)
    with pytest.raises(
        CheckError, match='HTTP 403 Forbidden: User "a" cannot list resource "pods"'
    ):
        found_by(api)


def test_the_benchmark_page_shows_every_gpu_that_was_measured() -> None:
    """The table is what `make docs` writes from docs/measured."""
    assert measured()
    assert between(BENCHMARKS.read_text(), SECTION).strip() == markdown(measured()).strip()


def test_a_kept_document_does_not_name_the_machine(tmp_path: Path) -> None:
    """Node and UUID go, figures stay; a stack's result is taken apart by pool."""
    (document, *_) = measured()
    named = copy.deepcopy(dict(document))
    named["node"] = "ip-10-0-0-1"
    named["gpus"][0]["uuid"] = "GPU-1"
    (found,) = documents_in({"pools": [{"result": named}, {"result": None}]})
    path = keep(found, tmp_path)
    text = path.read_text()
    assert "ip-10-0-0-1" not in text
    assert "GPU-1" not in text
    assert json.loads(text)["gpus"][0]["measures"] == document["gpus"][0]["measures"]
    assert markdown([json.loads(text)]) == markdown([document])
