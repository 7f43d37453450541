"""Before each node that Karpenter adds the API server asks whether its pool has room."""

import json
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.pki import Pki, make_pki
from gpu_cluster.rehearsal.nodes.autoscaler import Autoscaler
from gpu_cluster.rehearsal.nodes.bounds import POOL, Bounds
from gpu_cluster.rehearsal.processes import Processes
from tests.unit.rehearsal.rehearsed import group
from tests.unit.rehearsal.test_autoscaler import Written


class Claims:
    """An API server that shows node claims a while after they were made."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []
        self.created: list[Any] = []

    def items(self, path: str) -> list[dict[str, Any]]:
        return list(self.shown)

    def create(self, path: str, body: Any) -> Any:
        self.created.append(body)
        return body


def claim(number: int, pool: str = "train-gpu") -> dict[str, Any]:
    return {"metadata": {"name": f"{pool}-{number}", "labels": {POOL: pool}}}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def bounds(pki: Pki) -> Iterator[Bounds]:
    made = Bounds(pki)
    try:
        yield made
    finally:
        made.stop()


def test_claims_that_nobody_has_seen_yet_count(bounds: Bounds) -> None:
    """Five at once, of which three fit: the other two are refused before they are anywhere."""
    api = Claims()
    bounds.install(cast("Api", api))
    bounds.limits = {"train-gpu": 3}
    refused: list[str | None] = []
    threads = [
        threading.Thread(target=lambda n=n: refused.append(bounds.refusal(claim(n))))
        for n in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused.count(None) == 3
    assert set(refused) - {None} == {"pool train-gpu is at its maximum of 3 autoscaled nodes"}
    assert bounds.refusal(claim(1, "other")) == "pool other is at its maximum of 0 autoscaled nodes"


def test_a_node_that_has_gone_makes_room(bounds: Bounds) -> None:
    """A claim counts while it is there, once, whether it was seen or only let in."""
    api = Claims()
    bounds.install(cast("Api", api))
    bounds.limits = {"train-gpu": 1}
    assert bounds.refusal(claim(1)) is None
    api.shown = [claim(1)]
    assert bounds.refusal(claim(2)) is not None
    api.shown = []
    assert bounds.refusal(claim(3)) is None


def test_the_api_server_gets_its_answer_over_tls(bounds: Bounds, pki: Pki) -> None:
    """The webhook that is registered is the one that answers, under the rehearsal's own CA."""
    api = Claims()
    bounds.install(cast("Api", api))
    bounds.limits = {"train-gpu": 1}
    (webhook,) = api.created[0]["webhooks"]
    assert webhook["rules"][0]["resources"] == ["nodeclaims"]
    trusted = ssl.create_default_context(cadata=pki.ca_certificate.decode())
    answers = []
    for number in (1, 2):
        review = {"request": {"uid": str(number), "object": claim(number)}}
        request = urllib.request.Request(
            webhook["clientConfig"]["url"], json.dumps(review).encode(), method="POST"
        )
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )
        with opener.open(request) as answer:
            answers.append(json.load(answer)["response"])
    assert answers[0] == {"uid": "1", "allowed": True}
    assert not answers[1]["allowed"]
    assert answers[1]["status"]["code"] == 403


def test_the_bounds_are_those_of_the_groups(tmp_path: Path, bounds: Bounds) -> None:
    """What the cloud keeps by itself does not count; a refusal freezes a group where it is."""
    autoscaler = Autoscaler(tmp_path, Processes(tmp_path, "test"), bounds=bounds, idle=True)
    groups = [group("a", max_nodes=3), group("b", max_nodes=3, target_nodes=1)]
    written: Any = Written()
    autoscaler.sync(written, tmp_path / "kubeconfig", groups, {})
    assert bounds.limits == {"a": 3, "b": 2}
    autoscaler.sync(written, tmp_path / "kubeconfig", groups, {"a": 1})
    assert bounds.limits == {"a": 1, "b": 2}
