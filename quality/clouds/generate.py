"""`python -m quality clouds`: writes facts about resource types from others' data to
`gpu_cluster/clouds/generated`.

Each source has its own row for a type. Facts that a better source has are removed from the other
rows: an official plugin's schema wins over the provider's definitions, these win over models of the
API, and these win over facts that were recorded by hand or by querying a plugin.
"""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.clouds import read
from gpu_cluster.rehearsal.plugins import official
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.stacks.outcome import CheckError
from quality.clouds import aws_models, aws_provider, definitions, plugin_schema

FOLDER = Path(read.__file__).with_name("generated")
SOURCES: Mapping[str, frozenset[str]] = {
    "recorded": frozenset(),
    "models": frozenset({"immutable", "enums", "bounds"}),
    "provider": frozenset({"sets", "arns", "networks", "patterns", "only_with"}),
    "definitions": definitions.WORDS,
    "schema": frozenset({"immutable"}),
}
"""A source -> the kinds of facts that it has for all its types; a later source wins."""
_HEAD = """\
# Written by `python -m quality clouds`, not by hand: what is wrong or missing here is in
# ../overrides.yaml, which says what the words mean.
"""


def models() -> list[str]:
    """Reads the installed models of AWS's APIs, and what its provider adds; returns a line for
    each change."""
    rows = {token: aws_models.row(token) for token in aws_models.names_of()}
    changes = update_facts("aws", "models", aws_models.source(), rows)
    known_ = {token: aws_provider.row(token) for token in aws_provider.arguments()}
    return changes + update_facts("aws", "provider", aws_provider.SOURCE, known_)


def of_definitions(folder: Path) -> list[str]:
    """Like `models`, for the definitions of Google's provider in a checkout. Raises CheckError."""
    about = definitions.source(folder)
    found = {token: definitions.row(folder, token) for token in _types("gcp")}
    rows = {token: row for token, row in found.items() if row is not None}
    return update_facts("google", "definitions", about, rows)


def of_plugin(package: str) -> list[str]:
    """Like `models`, for the schema of an official plugin. Raises CheckError if none is usable."""
    found = official.installed(package)
    if found.program is None:
        raise CheckError(found.why)
    schema = plugin_schema.ask_schema(found.program)
    rows = {token: plugin_schema.row(schema, token) for token in _types(package)}
    return update_facts(facts.FILES[package], "schema", plugin_schema.source(schema), rows)


def _types(package: str) -> list[str]:
    return [token for token in sorted(facts.types()) if token.startswith(f"{package}:")]


def update_facts(
    cloud: str,
    source: str,
    about: str,
    rows: Mapping[str, Mapping[str, Any]],
    folder: Path = FOLDER,
) -> list[str]:
    """Writes the facts of `source` to the file of a cloud; returns a line for each change."""
    file = folder / f"{cloud}.yaml"
    before = yaml.safe_load(file.read_text(encoding="utf-8"))
    after = with_source(before["types"], source, rows)
    changes = [
        f"{token} {word}"
        for token, row in after.items()
        for word in sorted(_words(row) | _words(before["types"].get(token, {})))
        if _fact(row, word) != _fact(before["types"].get(token, {}), word)
    ]
    if changes or before["sources"].get(source, {}).get("source") != about:
        read_on = {"source": about, "read": date.today()}
        present = {name for row in after.values() for name in row}
        sources = {
            name: entry
            for name, entry in {**before["sources"], source: read_on}.items()
            if name in present
        }
        text = yaml.dump(
            {"sources": sources, "types": after},
            Dumper=_Dumper, default_flow_style=None, sort_keys=False, width=100,
        )  # fmt: skip
        file.write_text(_HEAD + text, encoding="utf-8")
    return changes


def with_source(
    types: Mapping[str, Mapping[str, Any]], source: str, rows: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The types of a file with the new rows of one source."""
    ranks = list(SOURCES)
    found: dict[str, dict[str, Any]] = {}
    for token in sorted(types.keys() | rows.keys()):
        have = {**types.get(token, {})}
        if token in rows:
            better = {name for name in have if ranks.index(name) > ranks.index(source)}
            less = frozenset[str]().union(*(SOURCES[name] for name in better))
            have[source] = {word: value for word, value in rows[token].items() if word not in less}
        for name in list(have):
            if token in rows and ranks.index(name) < ranks.index(source):
                kept = {w: item for w, item in have[name].items() if w not in SOURCES[source]}
                have[name] = kept
        found[token] = {name: have[name] for name in ranks if have.get(name)}
    return found


def _words(row: Mapping[str, Mapping[str, Any]]) -> set[str]:
    return {word for source in row.values() for word in source}


def _fact(row: Mapping[str, Mapping[str, Any]], word: str) -> list[Any]:
    return [source[word] for source in row.values() if word in source]


class _Dumper(yaml.SafeDumper):
    """Repeats a value that occurs twice, instead of writing a reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
