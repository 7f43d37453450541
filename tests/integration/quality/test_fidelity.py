"""The comparison of plugins: its questions, and what counts as a difference."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, cast

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2_grpc

from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.server import Provider, ProviderSettings
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.stacks.outcome import CheckError
from quality.fidelity import fidelity
from quality.fidelity.behind import Nothing
from quality.fidelity.cases import Case, all_cases
from quality.fidelity.compare import Answer, Verdict, compared
from quality.fidelity.declared import Declared, declared
from quality.fidelity.packages import PACKAGES
from quality.fidelity.questions import Checked, Plugin, Refused, Step

GCP = PACKAGES["gcp"]
NETWORK = "gcp:compute/network:Network"


@pytest.fixture(scope="module")
def resources() -> list[Declared]:
    """Of Google's, as the samples declare them."""
    return declared("gcp")


@pytest.fixture(scope="module")
def network(resources: list[Declared]) -> list[Case]:
    """All cases of the network."""
    return list(all_cases(GCP, [resource for resource in resources if resource.token == NETWORK]))


@pytest.fixture
def plugins() -> Iterator[tuple[Plugin, Plugin]]:
    """The offline plugin in both places."""
    with GCP.offline() as one, GCP.offline() as other:
        both = Plugin(one, GCP.config), Plugin(other, GCP.config)
        yield both
        for each in both:
            each.close()


def test_every_resource_type_is_asked_about(resources: list[Declared]) -> None:
    """With more questions than the issue wants, of every kind, each once."""
    cases = list(all_cases(GCP, resources))
    assert {case.of.token for case in cases} == set(server_types())
    assert len(cases) > 300
    assert max(Counter(case.label for case in cases).values()) == 1
    kinds = {"add", "change", "remove", "reorder", "unknown", "empty", "wrong", "name"}
    assert kinds <= {case.kind for case in cases}


def server_types() -> list[str]:
    return [token for token in facts.types() if token.startswith("gcp:")]


def test_kubernetes_has_its_questions_as_well() -> None:
    some = [each for each in declared("kubernetes") if each.token.endswith(("Job", "ConfigMap"))]
    cases = list(all_cases(PACKAGES["kubernetes"], some))
    assert len(cases) > 60
    assert any(case.path == "spec.template.spec.containers[].image" for case in cases)


def test_a_plugin_does_not_differ_from_itself(
    network: list[Case], plugins: tuple[Plugin, Plugin]
) -> None:
    found = list(compared(GCP, fidelity.spread(network, 60), *plugins, Nothing()))
    assert len(found) == 60
    assert not [answer.case.label for answer in found if answer.differs]
    assert {answer.offline.step.what for answer in found if answer.offline.step} == {
        "same", "update", "replace"
    }  # fmt: skip


def test_what_one_of_the_two_does_not_know_is_found(
    network: list[Case], plugins: tuple[Plugin, Plugin], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An input that replaces, an enum, an output that the preview knows: one plugin is broken."""
    none: frozenset[str] = frozenset()
    right = facts.of(NETWORK)
    broken = replace(right, immutable=none, enums={}, foreseen={}, kept_when_removed=none)
    expected = {
        ("change", "description"): ("diff",),
        ("wrong value", "routingMode"): ("check",),
        ("remove", "routingMode"): ("diff",),
        ("declared", ""): ("outputs",),
        ("add", "description"): ("diff", "outputs"),
    }
    answers = []
    for case in network:
        if (case.kind, case.path) not in expected:
            continue
        official = next(iter(compared(GCP, [case], *plugins, Nothing()))).official
        with monkeypatch.context() as patch:
            patch.setattr(facts, "of", {NETWORK: broken}.__getitem__)
            offline = next(iter(compared(GCP, [case], *plugins, Nothing()))).offline
        answers.append(Answer(case=case, offline=offline, official=official))
    assert {(a.case.kind, a.case.path): a.differs for a in answers} == expected


def test_a_reason_that_nothing_needs_is_stale(
    network: list[Case], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And a difference without a reason has none."""
    rows = tmp_path_factory.mktemp("reasons") / "reasons.yaml"
    rows.write_text(
        "gcp:\n"
        "- { type: compute/network:Network, kinds: [add], paths: [mtu], reason: why }\n"
        "- { type: compute/network:Network, kinds: [remove], paths: [mtu], reason: gone }\n"
    )
    monkeypatch.setattr(fidelity, "REASONS", rows)
    asked = {(case.kind, case.path): case for case in network}
    yes, no = Verdict(check="accepted"), Verdict(check="refused")
    answers = [
        Answer(case=asked["add", "mtu"], offline=yes, official=no),
        Answer(case=asked["remove", "mtu"], offline=yes, official=yes),
        Answer(case=asked["add", "description"], offline=no, official=yes),
    ]
    found, stale = fidelity.judged("gcp", answers)
    assert [(each.answer.case.path, each.reason) for each in found] == [
        ("mtu", "why"), ("description", "")
    ]  # fmt: skip
    assert stale == ["compute/network:Network: mtu"]


def test_a_sample_has_every_type_and_kind(network: list[Case]) -> None:
    some = fidelity.spread(network, 60)
    assert len(some) == 60
    assert {case.kind for case in some} == {case.kind for case in network}
    assert some == fidelity.spread(network, 60)


class _Crashing(Provider):
    """Ends at a question as a plugin that panics does, to the one who asks."""

    def __init__(self, why: grpc.StatusCode) -> None:
        super().__init__(ProviderSettings(package="gcp", handlers={}))
        self._why = why

    def Check(self, request: Any, context: Any) -> Any:
        context.abort(self._why, "gone")


@pytest.mark.parametrize(
    ("crashes", "refused"), [(1, []), (2, ["the plugin crashed"])], ids=["once", "again"]
)
def test_a_plugin_that_crashes_is_started_and_asked_again(crashes: int, refused: list[str]) -> None:
    """One that crashes twice has refused, as the official Kubernetes plugin where `metadata` is a
    list; a connection that is lost once says nothing."""
    with ExitStack() as running:
        why = grpc.StatusCode.UNAVAILABLE
        servers = [running.enter_context(serving(_Crashing(why))) for _ in range(crashes)]
        ports = iter([*servers, running.enter_context(GCP.offline())])
        plugin = Plugin(next(ports), GCP.config, lambda: next(ports))
        inputs = {"autoCreateSubnetworks": False}
        assert plugin.check(NETWORK, "net", inputs, {}).refused == refused
        assert not plugin.check(NETWORK, "net", inputs, {}).refused
        plugin.close()


def test_no_answer_is_no_refusal() -> None:
    """On a machine that is too busy the comparison ends."""
    with serving(_Crashing(grpc.StatusCode.DEADLINE_EXCEEDED)) as port:
        plugin = Plugin(port, GCP.config)
        with pytest.raises(CheckError, match="has not answered for 600 seconds"):
            plugin.check(NETWORK, "net", {}, {})
        plugin.close()


@contextmanager
def serving(provider: Provider) -> Iterator[int]:
    """A plugin on a port."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None)


class _Served:
    """What stands behind the plugins below: it has what it is told to make, until it forgets."""

    dry_runs = True
    config: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.there: list[Mapping[str, Any]] = []

    def prepare(self, of: Declared) -> None:
        """Nothing is needed."""

    def state(
        self, token: str, inputs: Mapping[str, Any], preview: Callable[[], Mapping[str, Any]]
    ) -> dict[str, Any]:
        if inputs.get("a") == "bad":
            raise ApiError(422, "Invalid", "bad")
        self.there.append(inputs)
        return {**inputs, "id": "x"}

    def forget(self) -> None:
        self.there.clear()


class _Asked:
    """A plugin that takes all inputs, plans what it is told to, and lets an API server decide."""

    def __init__(self, behind: _Served, what: str) -> None:
        self._behind, self._what = behind, what

    def check(self, token: str, name: str, inputs: Any, old: Any) -> Checked:
        return Checked(inputs, [])

    def diff(self, token: str, name: str, *, state: Any, old: Any, new: Any) -> Step:
        return Step(what="same" if old == new else self._what)

    def update(self, token: str, name: str, *, state: Any, new: Any) -> None:
        assert self._behind.there, "there is nothing to update"
        self.preview(token, name, new)

    def preview(self, token: str, name: str, inputs: Any) -> Mapping[str, Any]:
        if inputs.get("a") == "bad":
            raise Refused("the dry run says no")
        return dict(inputs)


@pytest.mark.parametrize(
    ("before", "after", "what", "expected"),
    [
        ({"a": "1"}, {"a": "1"}, "update", "same"),
        ({"a": "1"}, {"a": "2"}, "update", "update"),
        ({"a": "1"}, {"a": "2"}, "replace", "replace"),
        ({"a": "1"}, {"a": "bad"}, "update", "refused"),
        ({"a": "1"}, {"a": "bad"}, "replace", "refused"),
        ({"a": "bad"}, {"a": "1"}, "update", "refused"),
        (None, {"a": "1"}, "update", "accepted"),
        (None, {"a": "bad"}, "update", "refused"),
    ],
)
def test_a_dry_run_has_its_say(
    before: dict[str, Any] | None, after: dict[str, Any], what: str, expected: str
) -> None:
    """Of a change against an object that is there, and gone once both plugins have answered."""
    behind = _Served()
    of = Declared(stack="", token="kubernetes:core/v1:ConfigMap", name="x", inputs={})
    case = Case(of=of, kind="change", path="a", before=before, after=after)
    plugin = cast(Plugin, _Asked(behind, what))
    (answer,) = compared(PACKAGES["kubernetes"], [case], plugin, plugin, behind)
    assert (answer.offline.short, answer.official.short) == (expected, expected)
    assert behind.there == []
