"""The comparison of plugins: its questions, and what counts as a difference."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from plugins.cloud import server
from plugins.cloud.immutable import facts
from quality.fidelity import fidelity
from quality.fidelity.cases import Case, all_cases
from quality.fidelity.compare import Answer, Verdict, compared
from quality.fidelity.declared import Declared, declared
from quality.fidelity.packages import PACKAGES
from quality.fidelity.questions import Plugin

GCP = PACKAGES["gcp"]
NETWORK = "gcp:compute/network:Network"


@pytest.fixture(scope="module")
def resources() -> list[Declared]:
    """Of Google's, as the samples declare them."""
    return declared("gcp")


@pytest.fixture(scope="module")
def network(resources: list[Declared]) -> list[Case]:
    """All cases of the network."""
    return list(all_cases(GCP, [each for each in resources if each.token == NETWORK]))


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
    return [token for token in facts() if token.startswith("gcp:")]


def test_kubernetes_has_its_questions_as_well() -> None:
    some = [each for each in declared("kubernetes") if each.token.endswith(("Job", "ConfigMap"))]
    cases = list(all_cases(PACKAGES["kubernetes"], some))
    assert len(cases) > 60
    assert any(case.path == "spec.template.spec.containers[].image" for case in cases)


def test_a_plugin_does_not_differ_from_itself(
    network: list[Case], plugins: tuple[Plugin, Plugin]
) -> None:
    found = list(compared(GCP, fidelity.spread(network, 60), *plugins))
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
    right = facts()[NETWORK]
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
        official = next(iter(compared(GCP, [case], *plugins))).official
        with monkeypatch.context() as patch:
            patch.setattr(server, "facts", lambda: {**facts(), NETWORK: broken})
            offline = next(iter(compared(GCP, [case], *plugins))).offline
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


def test_a_plugin_that_crashes_has_refused_and_is_started_again() -> None:
    """As the official Kubernetes plugin where `metadata` is a list."""
    with ExitStack() as ends, GCP.offline() as other:
        crashing = ends.enter_context(GCP.offline())
        plugin = Plugin(crashing, GCP.config, lambda: other)
        inputs = {"autoCreateSubnetworks": False}
        assert not plugin.check(NETWORK, "net", inputs, {}).refused
        ends.close()
        assert plugin.check(NETWORK, "net", inputs, {}).refused == ["the plugin crashed"]
        assert not plugin.check(NETWORK, "net", inputs, {}).refused
        plugin.close()
