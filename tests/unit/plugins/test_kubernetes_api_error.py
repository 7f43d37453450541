"""What an API server's refusal says, whoever asked."""

import json

import pytest

from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError

CONFLICT = {"kind": "Status", "reason": "Conflict", "message": "the object was modified"}


def test_kubernetes_own_words_come_first() -> None:
    error = ApiError.of(409, "Conflict", json.dumps(CONFLICT), request="PATCH /api/v1/nodes/a")
    assert str(error) == "PATCH /api/v1/nodes/a: the object was modified"
    assert (error.status, error.reason) == (409, "Conflict")
    assert str(ApiError.of(409, None, json.dumps(CONFLICT))) == "the object was modified"


@pytest.mark.parametrize("body", [b"", b"404 page not found", b"[]", b"\xff"])
def test_what_else_has_answered_is_said_by_its_status(body: bytes) -> None:
    """A proxy, or a path that is none."""
    error = ApiError.of(404, "Not Found", body, request="GET /x")
    assert (str(error), error.reason) == ("GET /x: HTTP 404 Not Found", "Not Found")


@pytest.mark.parametrize(
    ("status", "passing"), [(0, True), (429, True), (503, True), (403, False), (409, False)]
)
def test_what_may_pass_is_tried_again(status: int, passing: bool) -> None:
    assert ApiError(status, "", "").passing == passing
