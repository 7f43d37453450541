"""The rows of `google.yaml`: how each resource type is reached."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from clouds.read import read

Names = Mapping[str, str | None]
"""Path of a property, with `[]` for elements -> the API's field; None for a property without one,
`a.b` for a field in a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of an update: a PATCH, unless it has a `verb`. It is sent if one of its fields
    differs."""

    fields: tuple[str, ...] = ()
    """Of the body, in the provider's order. Without any, every difference counts, and the whole
    body is sent."""
    verb: str = ""
    """A POST to this method of the resource."""
    mask: bool = False
    """Whether `updateMask` names the fields that differ."""
    whole: bool = False
    """Whether the whole body is sent, and not only `fields`."""
    without: tuple[str, ...] = ()
    """Fields that the whole body does not have."""
    empty: Mapping[str, Any] = field(default_factory=dict)
    """What is sent for a field that has no value."""
    sparse: bool = False
    """Whether false, 0 and what is empty are left out."""
    fingerprint: bool = False
    """Whether the resource's present fingerprint is sent with it."""
    ends_partial: bool = False
    """Whether the provider's `d.Partial(false)` is in front of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One resource type."""

    token: str
    service: str
    """As the variable of its endpoint names it, e.g. `COMPUTE`."""
    api: tuple[str, str] = ("", "")
    """The document that the provider speaks, e.g. `("compute", "beta")`."""
    schema: str
    """The resource's message in that document; the last part of the token if the row has none."""
    noun: str
    """As the provider's errors have it; `schema` if the row has none."""
    base: str = ""
    """What paths begin with below the endpoint, e.g. `v3/`."""
    place: str = ""
    """Its collection, e.g. `projects/{project}/regions/{region}/subnetworks`."""
    key: str = "name"
    """The property that is the last part of its path."""
    id: str = ""
    """The provider's id; the place and the key if the row has none, empty if the API or the
    provider's code makes it."""
    named_by_api: bool = False
    """Whether the API chooses the name, and so the id."""
    query: str = ""
    """The parameter of a create's query that has the key."""
    names: Names = field(default_factory=dict)
    """What the API calls otherwise. A `name` without a field is the last part of the API's."""
    inside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A block of the API that the provider flattens -> the properties in it."""
    blocks: Mapping[str, Names] = field(default_factory=dict)
    """A block -> what is called otherwise in it."""
    own: tuple[str, ...] = ()
    """GKE: the provider's own properties, and those that it puts together by hand: no field."""
    by_hand: tuple[str, ...] = ()
    """GKE: properties with a field that the provider reads and sends by hand."""
    kept: tuple[str, ...] = ()
    """Properties that a state has from the inputs."""
    unset: Mapping[str, Any] = field(default_factory=dict)
    """What a state has for properties that the API leaves out."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Property that names another resource -> the collection of a bare name."""
    labels: bool = False
    """Whether `labels` come with the provider's own, as `pulumiLabels` and `effectiveLabels`."""
    keyed: Mapping[str, str] = field(default_factory=dict)
    """A list that the API has as a map -> the property that is the key."""
    upper: tuple[str, ...] = ()
    """Properties that the API has in capitals."""
    partial: bool = False
    """Whether the provider's update begins with `d.Partial(true)`. After one that failed the state
    is mostly the old one then, and for other types the one that was planned."""
    update: tuple[Request, ...] = ()
    """Requests of an update, in the provider's order."""
    provider: Mapping[str, Any] = field(default_factory=dict)
    """What the provider replaces, fills in and refuses of this type alone, in the words of
    `clouds/overrides.yaml` and with its `why`, `source` and `read`; unless the SDK or
    `clouds/generated` has it."""

    @property
    def in_path(self) -> list[str]:
        """The properties that are part of the path."""
        return [*re.findall(r"{(\w+)}", self.place), self.key]


@cache
def rows() -> Mapping[str, Row]:
    """Resource type token -> its row."""
    return {token: _row(token, row) for token, row in read("rows/google").items()}


def _row(token: str, row: Mapping[str, Any]) -> Row:
    schema = row.get("schema", token.rpartition(":")[2])
    update = tuple(Request(**_words(request)) for request in row.get("update", ()))
    words = {"noun": schema, **_words(row), "schema": schema, "update": update}
    if "place" in row and not row.get("named_by_api"):
        words.setdefault("id", f"{row['place']}/{{{row.get('key', 'name')}}}")
    return Row(token=token, **words)


def _words(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(word) if isinstance(word, list) else word for name, word in row.items()}
