"""The rows of `google.yaml`: how to reach each resource type."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpu_cluster.clouds.read import read_facts

Names = Mapping[str, str | None]
"""Path of a property, with `[]` for elements -> the API's field; None for a property without one,
`a.b` for a field in a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of an update: a PATCH, unless it has a `verb`. It is sent if one of its fields
    differs."""

    fields: tuple[str, ...] = ()
    """Fields of the body, in the provider's order. If empty, every difference counts, and the whole
    body is sent."""
    verb: str = ""
    """A method of the resource, to which a POST is sent."""
    mask: bool = False
    """Whether `updateMask` lists the fields that differ."""
    whole: bool = False
    """Whether the whole body is sent, not only `fields`."""
    without: tuple[str, ...] = ()
    """Fields that are removed from the whole body."""
    empty: Mapping[str, Any] = field(default_factory=dict)
    """The values that are sent for fields without a value."""
    sparse: bool = False
    """Whether false, 0 and empty values are omitted."""
    fingerprint: bool = False
    """Whether the resource's current fingerprint is sent with it."""
    ends_partial: bool = False
    """Whether the provider calls `d.Partial(false)` before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One resource type."""

    token: str
    service: str
    """The service in the variable of its endpoint, e.g. `COMPUTE`."""
    api: tuple[str, str] = ("", "")
    """The API document that the provider uses, e.g. `("compute", "beta")`."""
    schema: str
    """The resource's message in that document; the last part of the token if the row has none."""
    noun: str
    """Its name in the provider's errors; `schema` if the row has none."""
    base: str = ""
    """The prefix of paths below the endpoint, e.g. `v3/`."""
    place: str = ""
    """Its collection, e.g. `projects/{project}/regions/{region}/subnetworks`."""
    key: str = "name"
    """The property that is the last part of its path."""
    id: str = ""
    """The provider's id; place and key if the row has none, empty if the API or the provider's code
    generates it."""
    named_by_api: bool = False
    """Whether the API chooses the name, and thus the id."""
    query: str = ""
    """The query parameter of a create request that has the key."""
    names: Names = field(default_factory=dict)
    """Properties with other names in the API. A `name` without a field is the end of the API's."""
    inside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A block of the API that the provider flattens -> its properties."""
    blocks: Mapping[str, Names] = field(default_factory=dict)
    """A block -> its properties with other names in the API."""
    own: tuple[str, ...] = ()
    """GKE: the provider's own properties, and those that its code composes, without a field."""
    by_hand: tuple[str, ...] = ()
    """GKE: properties with a field that the provider's code reads and sends."""
    kept: tuple[str, ...] = ()
    """Properties that the state copies from the inputs."""
    unset: Mapping[str, Any] = field(default_factory=dict)
    """The state's values for properties that the API omits."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Property that refers to another resource -> the collection for a bare name."""
    labels: bool = False
    """Whether `labels` include the provider's own, as `pulumiLabels` and `effectiveLabels`."""
    keyed: Mapping[str, str] = field(default_factory=dict)
    """A list that is a map in the API -> the property that is the key."""
    upper: tuple[str, ...] = ()
    """Properties that are uppercase in the API."""
    partial: bool = False
    """Whether the provider's update begins with `d.Partial(true)`. After a failure, the state is
    then mostly the old one, and for other types the planned one."""
    update: tuple[Request, ...] = ()
    """Requests of an update, in the provider's order."""
    provider: Mapping[str, Any] = field(default_factory=dict)
    """What the provider replaces, fills in and refuses only for this type, in the terms of
    `gpu_cluster/clouds/overrides.yaml` and with its `why`, `source` and `read`; unless the SDK or
    `gpu_cluster/clouds/generated` has it."""

    @property
    def in_path(self) -> list[str]:
        """The properties that are part of the path."""
        return [*re.findall(r"{(\w+)}", self.place), self.key]


@cache
def rows() -> Mapping[str, Row]:
    """Resource type token -> its row.

    Raises ValueError for a row with an unknown key.
    """
    return {token: _row(token, row) for token, row in read_facts("rows/google").items()}


def _row(token: str, row: Mapping[str, Any]) -> Row:
    schema = row.get("schema", token.rpartition(":")[2])
    words = {"noun": schema, **_words(row), "schema": schema}
    if "place" in row and not row.get("named_by_api"):
        words.setdefault("id", f"{row['place']}/{{{row.get('key', 'name')}}}")
    try:
        words["update"] = tuple(Request(**_words(request)) for request in row.get("update", ()))
        return Row(token=token, **words)
    except TypeError as error:
        raise ValueError(f"gpu_cluster/clouds/rows/google.yaml: {token}: {error}") from None


def _words(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(word) if isinstance(word, list) else word for name, word in row.items()}
