"""What `make check` makes of Jobs, pods and logs, and the README's table of measured cards."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from checks.check import exit_code, newest, outcome
from checks.check_cards import SECTION, documents_in, keep, markdown, measured
from checks.readme import README, between
from components.gpu.check_program.report import MARKER

JOB: dict[str, Any] = {"metadata": {"name": "gpu-check-p"}}


def a_pod(phase: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "gpu-check-p-x", "creationTimestamp": "2026-11-21T05:00:00Z"},
        "status": {"phase": phase, **status},
    }


@pytest.mark.parametrize(
    ("job", "pods", "why"),
    [
        (None, [], "there is no Job gpu-check-p: run pulumi up"),
        (JOB, [], "Job gpu-check-p has no pod: kubectl describe job gpu-check-p says why"),
        (JOB, [a_pod("Pending", conditions=[{"message": "0/3 nodes are available"}])],
         "Job gpu-check-p is not done: its pod is Pending (0/3 nodes are available)"),
        (JOB, [a_pod("Running")], "Job gpu-check-p is not done: its pod is Running"),
        (JOB, [a_pod("Failed", message="Pod was active on the node longer than the deadline")],
         "Job gpu-check-p left no result: its pod is Failed (Pod was active on the node longer "
         "than the deadline)"),
        (JOB, [a_pod("Failed", containerStatuses=[
            {"state": {"terminated": {"reason": "StartError", "exitCode": 128}}}])],
         "Job gpu-check-p left no result: its pod is Failed (StartError, exit code 128)"),
        (JOB, [a_pod("Succeeded")], "Job gpu-check-p left no result: its pod is Succeeded"),
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


def test_the_readme_shows_every_card_that_was_measured() -> None:
    """The table is what `make cards` writes from docs/measured."""
    assert measured()
    assert between(README.read_text(), SECTION).strip() == markdown(measured()).strip()


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
