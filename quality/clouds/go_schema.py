"""Schemas of Google's provider that are written in Go, read as the fields of its definitions.

They are literals, so their parts are parsed and nothing is run: blocks, constants and functions
that return one. In templates, text for only the stable provider is skipped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TOKEN = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\])*" | `[^`]*` | [\w.]+ | \S""", re.VERBOSE | re.DOTALL
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_GROUPS = {
    "ConflictsWith": "conflicts",
    "ExactlyOneOf": "exactly_one_of",
    "AtLeastOneOf": "at_least_one_of",
}


@dataclass(frozen=True, slots=True)
class _Call:
    """A call, or a name if it has no arguments."""

    name: str
    arguments: Sequence[Any] = ()


class Source:
    """The Go files of one service."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Reads the files; raises OSError if one is missing."""
        self._text = "\n".join(_of_beta(file.read_text(encoding="utf-8")) for file in files)

    def fields(self, resource: str) -> list[dict[str, Any]]:
        """The fields of the resource that the function of this name returns."""
        return [
            self._field(name, given) for name, given in self._map(self._named(resource)["Schema"])
        ]

    def _field(self, name: str, given: Any) -> dict[str, Any]:
        found = self._value(given)
        given = found if isinstance(found, Mapping) else {}  # defined in another package
        computed, optional = given.get("Computed") is True, given.get("Optional") is True
        field: dict[str, Any] = {
            "name": name,
            "required": given.get("Required") is True,
            "output": computed and not optional,
            "default_from_api": computed and optional,
            "immutable": given.get("ForceNew") is True,
            "is_set": getattr(given.get("Type"), "name", "") == "schema.TypeSet",
        }
        field |= {
            ours: [self._value(entry) for entry in self._value(given[theirs])]
            for theirs, ours in _GROUPS.items()
            if theirs in given
        }
        if (default := self._value(given.get("Default"))) is not None:
            field["default_value"] = default
        if "MinItems" in given:
            field["min_size"] = given["MinItems"]
        field |= self._checked(given.get("ValidateFunc"))
        element = self._value(given.get("Elem"))
        if isinstance(element, Mapping):
            if "Schema" in element:
                field["properties"] = [
                    self._field(inner, row) for inner, row in self._map(element["Schema"])
                ]
            else:
                field["item_type"] = self._checked(element.get("ValidateFunc"))
        return field

    def _checked(self, function: Any) -> dict[str, Any]:
        """The values that a field's check allows: one of several texts, or a number in a range."""
        if not isinstance(function, _Call):
            return {}
        if function.name in ("validation.StringInSlice", "verify.ValidateEnum"):
            values = self._value(function.arguments[0])
            if isinstance(values, list):
                # An empty text is only allowed if it is listed.
                return {"type": "Enum", "enum_values": values, "required": True}
        numbers = ", ".join(str(number) for number in function.arguments if isinstance(number, int))
        return {"validation": {"function": f"{function.name}({numbers})"}}

    def _map(self, given: Any) -> list[tuple[str, Any]]:
        given = self._value(given)
        if isinstance(given, _Call) and given.name.endswith("MergeSchemas"):
            return [pair for argument in given.arguments for pair in self._map(argument)]
        return list(given.items())

    def _value(self, given: Any) -> Any:
        """The value of a name or a call without arguments, if it is in the files."""
        if isinstance(given, _Call) and not given.arguments:
            found = self._named(given.name)
            return given if found is None else self._value(found)
        return given

    def _named(self, name: str) -> Any:
        word = re.escape(name)
        start = re.search(
            rf"^(?:var )?\s*{word}\s*=\s*|^func {word}\(\)[^{{]*{{(?:.*?\n)?\s*return ",
            self._text,
            re.MULTILINE,
        )
        return None if start is None else _Reader(self._text, start.end()).expression()


class _Reader:
    """Parses one expression."""

    def __init__(self, text: str, start: int) -> None:
        found = (match[0] for match in _TOKEN.finditer(text, start))
        self._tokens = (token for token in found if not token.startswith(("//", "/*")))
        self._next = next(self._tokens)

    def expression(self) -> Any:
        """A text, number, boolean, list, map or block, or else a name or call."""
        token = self._take()
        if token in ("&", "*"):
            return self.expression()
        if token[0] in '"`':
            return token[1:-1]
        if re.fullmatch(r"\d+(\.0)?", token):
            return int(float(token))
        if token in ("true", "false"):
            return token == "true"
        if token == "func":
            self._skip_to("{")
            self._balanced(self._take())
            return _Call("func")
        if token in ("map", "["):
            self._skip_to("{")
        if token == "{":
            return self._block()
        if self._next == "{":
            self._take()
            return self._block()
        if self._next == "(":
            return _Call(token, tuple(self._arguments()))
        return _Call(token)

    def _block(self) -> Any:
        listed, keyed = [], {}
        while self._next != "}":
            value = self.expression()
            if self._next == ":":
                self._take()
                keyed[getattr(value, "name", value)] = self.expression()
            else:
                listed.append(value)
            if self._next == ",":
                self._take()
        self._take()
        return keyed or listed

    def _arguments(self) -> Iterator[Any]:
        self._take()
        while self._next != ")":
            yield self.expression()
            if self._next == ",":
                self._take()
        self._take()

    def _take(self) -> str:
        taken, self._next = self._next, next(self._tokens, "")
        return taken

    def _skip_to(self, token: str) -> None:
        while self._next != token:
            if self._next in _CLOSING and self._next != token:
                self._balanced(self._take())
            else:
                self._take()

    def _balanced(self, opening: str) -> None:
        while self._next != _CLOSING[opening]:
            inner = self._take()
            if inner in _CLOSING:
                self._balanced(inner)
        self._take()


def _of_beta(text: str) -> str:
    """The lines of a template that are in the beta provider."""
    kept: list[str] = []
    conditions: list[bool] = []
    for line in text.splitlines():
        statement = re.fullmatch(r"\s*{{-?\s*(if|else|end|/\*)(.*?)-?}}\s*", line)
        if not statement:
            if all(conditions):
                kept.append(line)
        elif statement[1] == "if":
            conditions.append("eq" not in statement[2] or "not" in statement[2])
        elif statement[1] == "else":
            conditions[-1] = not conditions[-1]
        elif statement[1] == "end":
            conditions.pop()
    return "\n".join(kept)
