"""URNs and states are taken apart in one place, and that place does it right."""

from dataclasses import replace

import pytest

from gpu_cluster.stacks.engine import state
from gpu_cluster.stacks.engine.urn import Urn, of_reference, reference

POOL = "urn:pulumi:dev::shop::acme:gke:Cluster$acme:gke:GpuNodePool$gcp:container/nodePool:NodePool"


def test_a_urn_has_its_parts() -> None:
    urn = Urn.parse(f"{POOL}::train")
    assert (urn.stack, urn.project, urn.name) == ("dev", "shop", "train")
    assert urn.parents == ("acme:gke:Cluster", "acme:gke:GpuNodePool")
    assert (urn.type, urn.package) == ("gcp:container/nodePool:NodePool", "gcp")
    assert urn.label == "gcp:container/nodePool:NodePool train"


@pytest.mark.parametrize(
    "text", [f"{POOL}::train", f"{POOL}::a::b$c", "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"]
)
def test_a_urn_is_the_same_text_again(text: str) -> None:
    assert str(Urn.parse(text)) == text


def test_a_name_may_contain_what_divides_the_parts() -> None:
    assert Urn.parse(f"{POOL}::a::b$c").name == "a::b$c"


@pytest.mark.parametrize("text", ["", "dev::shop::a:b:C::n", "urn:pulumi:dev::shop::a:b:C"])
def test_what_is_no_urn_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"not a valid URN: urn:pulumi:STACK::PROJECT::TYPE::NAME$"
    ):
        Urn.parse(text)


def test_a_resource_without_its_parents() -> None:
    flat = str(replace(Urn.parse(f"{POOL}::train"), parents=()))
    assert flat == "urn:pulumi:dev::shop::gcp:container/nodePool:NodePool::train"


def test_a_provider_is_named_by_urn_and_id() -> None:
    provider = "urn:pulumi:dev::shop::pulumi:providers:gcp::default"
    assert reference(provider, "04da6b54") == f"{provider}::04da6b54"
    assert of_reference(f"{provider}::04da6b54") == (provider, "04da6b54")
    assert of_reference("")[0] == ""


def test_a_resource_needs_its_parent_provider_and_dependencies() -> None:
    row = {"urn": "u", "parent": "p", "provider": "gcp::id", "dependencies": ["d"]}
    assert state.needs(row) == {"p", "gcp", "d"}
    assert state.waits_for(row) == ["d", "gcp"]
    assert state.needs({"urn": "u"}) == set()


def test_a_state_without_resources_is_empty() -> None:
    """As the engine writes one before the first `up`, and as it writes none."""
    for body in ({}, {"resources": None, "pending_operations": None}):
        assert state.resources({"deployment": body}) == state.pending({"deployment": body}) == []
