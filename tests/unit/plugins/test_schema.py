import pytest

from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.facts import Facts
from gpu_cluster.rehearsal.plugins.cloud.patterns import common_parent, given, values, within
from gpu_cluster.rehearsal.plugins.cloud.rules import breaches
from gpu_cluster.rehearsal.plugins.cloud.schema import (
    UNKNOWN,
    Block,
    Problem,
    UnknownTypeError,
    fit_block,
    property_at,
    resource_schema,
)
from gpu_cluster.rehearsal.plugins.cloud.wire import decode, encode, mark_secrets

POOL = "gcp:container/nodePool:NodePool"
CLUSTER = "gcp:container/cluster:Cluster"


def problems_of(token: str, inputs: dict[str, object]) -> list[str]:
    found: list[Problem] = []
    fit_block(inputs, resource_schema(token).inputs, "", found)
    return [breach.line for breach in found + breaches(inputs, facts.of(token))]


@pytest.mark.parametrize("token", [t for t in sorted(facts.types()) if t.startswith("gcp:")])
def test_every_path_of_the_data_exists_in_the_sdk(token: str) -> None:
    """The data names no property of a Google Cloud resource that the SDK in hand does not have."""
    known, inputs = facts.of(token), resource_schema(token).inputs
    groups = known.conflicts + known.exactly_one_of + known.at_least_one_of
    paths = {
        *known.immutable,
        *known.kept_when_removed,
        *known.auto_named,
        *known.defaults,
        *known.enums,
        *known.bounds,
        *known.required_nested,
        *(path for group in groups for path in group),
    }
    assert [p for p in paths if property_at(inputs, p.removesuffix(".*")) is None] == []


def test_the_schema_tells_inputs_from_outputs() -> None:
    """A node pool needs a cluster; its instance group URLs are only ever outputs."""
    schema = resource_schema(POOL)
    assert schema.inputs.required == {"cluster"}
    assert "instanceGroupUrls" in schema.output_only
    assert "nodeCount" not in schema.output_only


def test_an_unknown_resource_type_is_refused() -> None:
    """A type that the SDK does not have is named in the error."""
    with pytest.raises(UnknownTypeError, match="no resource type gcp:container/nodePol:NodePol"):
        resource_schema("gcp:container/nodePol:NodePol")


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        ({"nodeConfg": {}}, "unknown property 'nodeConfg': did you mean 'nodeConfig'?"),
        ({"nodeConfig": {"machine_type": "x"}},
            "unknown property 'nodeConfig.machine_type': did you mean 'machineType'?"),
        ({"nodeConfig": {"guestAccelerators": [{"type": "x", "count": "1"}]}},
            "nodeConfig.guestAccelerators[0].count: expected an integer, got '1'"),
        ({"initialNodeCount": True}, "initialNodeCount: expected an integer, got True"),
        ({"initialNodeCount": 1.5}, "initialNodeCount: expected an integer, got 1.5"),
        ({"nodeConfig": {"spot": "true"}}, "nodeConfig.spot: expected true or false, got 'true'"),
        ({"nodeConfig": "x"}, "nodeConfig: expected an object, got 'x'"),
        ({"nodeLocations": {"a": "b"}}, "nodeLocations: expected a list, got an object"),
        ({"nodeConfig": {"labels": ["a"]}}, "nodeConfig.labels: expected a map, got a list"),
        ({"nodeConfig": {"taints": [{"key": "a", "effect": "NO_SCHEDULE"}]}},
            "missing required property 'nodeConfig.taints[0].value'"),
        ({"nodeConfig": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}},
            "expected nodeConfig.taints[0].effect to be one of NO_SCHEDULE, PREFER_NO_SCHEDULE, "
            "NO_EXECUTE, got 'NoSchedule'"),
        ({"nodeCount": -1}, "expected nodeCount to be at least 0, got -1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_by_its_path(inputs: dict[str, object], line: str) -> None:
    """A wrong name, type, enum value or bound is one line with the property's full path."""
    assert line in problems_of(POOL, {"cluster": "c", **inputs})


def test_a_missing_required_property_is_named() -> None:
    """A node pool without its cluster is refused, once."""
    assert problems_of(POOL, {}) == ["missing required property 'cluster'"]


def test_unknown_values_fit_everywhere() -> None:
    """What a preview cannot know passes as any type, enum or bound."""
    inputs = {"cluster": UNKNOWN, "nodeConfig": UNKNOWN, "nodeCount": UNKNOWN}
    assert problems_of(POOL, inputs) == []
    assert problems_of(CLUSTER, {"releaseChannel": {"channel": UNKNOWN}}) == []


def test_numbers_and_booleans_become_strings_where_one_is_due() -> None:
    """As in the official bridge, a label may be given as 5 or true."""
    found: list[Problem] = []
    shape = Block(properties={"a": str, "b": str, "c": int}, required=frozenset())
    assert fit_block({"a": 5, "b": True, "c": 5}, shape, "", found) == {
        "a": "5",
        "b": "true",
        "c": 5,
    }
    assert found == []


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        ({"enableAutopilot": True, "removeDefaultNodePool": True},
            "'enableAutopilot', 'removeDefaultNodePool' exclude each other: give only one of them"),
        ({"maintenancePolicy": {}}, "exactly one of 'maintenancePolicy.dailyMaintenanceWindow', "
            "'maintenancePolicy.recurringMaintenanceWindow', 'maintenancePolicy.recurringWindow' "
            "must be given"),
        ({"addonsConfig": {"gcsFuseCsiDriverConfig": {}}},
            "missing required property 'addonsConfig.gcsFuseCsiDriverConfig.enabled'"),
        ({"nodeConfig": {"loggingVariant": "LOUD"}},
            "expected nodeConfig.loggingVariant to be one of DEFAULT, MAX_THROUGHPUT, got 'LOUD'"),
    ],
)  # fmt: skip
def test_exclusions_are_refused(inputs: dict[str, object], line: str) -> None:
    """The provider's rules between properties hold, and a cluster's nodeConfig has a pool's."""
    assert line in problems_of(CLUSTER, inputs)


def test_required_with_names_what_is_lacking() -> None:
    """A property that needs another one says which."""
    known = Facts(required_with={"a": ("b",)})
    assert [breach.line for breach in breaches({"a": 1}, known)] == ["'a' needs 'b' as well"]
    assert breaches({"a": 1, "b": 2}, known) == []


def test_immutable_entries_cover_what_the_data_says() -> None:
    """`x.*` is x and all beneath it; a bare path is that property alone."""
    known = Facts(immutable=frozenset({"a[].*", "b"}))
    assert all(known.replaces(path) for path in ("a[]", "a[].c", "a[].c.d", "b"))
    assert not any(known.replaces(path) for path in ("a", "ab", "b.c"))
    assert within("a.b", "a")
    assert not within("ab", "a")


def test_paths_find_their_values() -> None:
    """`[]` visits every element and shows its index; an empty list counts as not given."""
    tree = {"a": [{"b": 1}, {"c": 2}, {"b": 3}], "empty": [], "no": False}
    assert list(values(tree, "a[].b")) == [("a[0].b", 1), ("a[2].b", 3)]
    assert not given(tree, "empty[]")
    assert given(tree, "no")
    assert common_parent(("a.b.c", "a.b.d")) == "a.b"
    assert common_parent(("a", "b.c")) == ""


def test_the_wire_keeps_values_and_unwraps_secrets() -> None:
    """Whole numbers come back as int, secrets as their value, None is left out."""
    properties = {"a": 1, "b": 1.5, "c": [True, "x"], "d": {"e": None, "f": 2}, "g": None}
    assert decode(encode(properties)) == {"a": 1, "b": 1.5, "c": [True, "x"], "d": {"f": 2}}
    marked = mark_secrets({"auth": {"key": "k"}, "other": 1}, ["auth.key", "missing"])
    assert marked["auth"]["key"] != "k"
    assert decode(encode(marked)) == {"auth": {"key": "k"}, "other": 1}
