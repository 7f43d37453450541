"""The rows of `aws.yaml`, whose header explains the keys."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpu_cluster.clouds.read import read_facts

PLACEHOLDER = re.compile(r"\{([A-Za-z][\w.]*)\}")
Names = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The request that describes a resource."""

    call: str
    at: str
    by: Names = field(default_factory=dict)
    filters: Names = field(default_factory=dict)
    pending: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ready: Names = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One request of an update."""

    call: str
    by: Names = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    one_by_one: tuple[str, ...] = ()
    changed: bool = False
    anyway: bool = False
    empty: Mapping[str, Any] = field(default_factory=dict)
    undo: str = ""
    on_create: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """The request that deletes a resource."""

    call: str
    by: Names = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """How a resource is tagged."""

    spec: str = ""
    tag: str = "TagResource"
    untag: str = "UntagResource"
    read: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class More:
    """An additional request that describes a part of a resource."""

    call: str
    outputs: Names
    by: Names = field(default_factory=dict)
    always: Mapping[str, Any] = field(default_factory=dict)
    filters: Names = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One resource type. The fields are the keys of `aws.yaml`."""

    api: str
    id: str
    create: str
    read: Read
    delete: Delete
    update: tuple[Update, ...] = ()
    tags: Tags | None = None
    always: Mapping[str, Any] = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    inside: str = ""
    outputs: Names = field(default_factory=dict)
    more: tuple[More, ...] = ()
    documents: tuple[str, ...] = ()
    provider_own: tuple[str, ...] = ()
    unsimulated: tuple[str, ...] = ()
    found_by: Names | None = None
    framework: bool = False
    provider: Mapping[str, Any] = field(default_factory=dict)


@cache
def rows() -> Mapping[str, Row]:
    """Resource type token -> its row.

    Raises ValueError for a row with an unknown key, or without a required one.
    """
    return {token: _row(token, words) for token, words in read_facts("rows/aws").items()}


def filled(text: str, values: Mapping[str, Any]) -> str:
    """A text of a row with its placeholders replaced: paths such as `tag.key`.

    Raises KeyError for a missing value.
    """
    return PLACEHOLDER.sub(lambda found: str(at(values, found[1])), text)


def at(values: Any, path: str) -> Any:
    """The value at a path of names; raises KeyError."""
    for name in path.split("."):
        values = values[name]
    return values


def _row(token: str, words: Mapping[str, Any]) -> Row:
    try:
        return Row(
            **{
                **words,
                "read": Read(**_call(words["read"])),
                "delete": Delete(**_call(words["delete"])),
                "update": tuple(Update(**_call(entry)) for entry in words.get("update", ())),
                "more": tuple(More(**row) for row in words.get("more", ())),
                "tags": Tags(**words["tags"]) if "tags" in words else None,
            }
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"gpu_cluster/clouds/rows/aws.yaml: {token}: {error}") from None


def _call(words: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """A request that needs only its name can be written as the name."""
    return {"call": words} if isinstance(words, str) else words
