"""A stack's file: where it is, and what the engine reads in it."""

import re
from pathlib import Path
from typing import Any

import yaml

from stacks.names import StackError, stack_name

SAMPLES = ("autopilot", "dev", "onprem", "train", "train-gke")
"""The environments that come with the program. Its own tests, faults and measurements take these:
what else has a file here is a user's, and changes nothing for them."""
PLACEHOLDER = "rehearsal-placeholder"
"""Stands for every encrypted value: nobody's passphrase or key is here."""


class EngineLoader(yaml.SafeLoader):
    """Reads what the engine reads: `yes` is text to it, and so is a date."""

    def date(self, node: yaml.ScalarNode) -> str:
        return f"{self.construct_yaml_timestamp(node):%Y-%m-%d %H:%M:%S} +0000 UTC"

    def text(self, node: yaml.ScalarNode) -> str:
        return str(node.value)


_TAG = "tag:yaml.org,2002"
EngineLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}:bool"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
EngineLoader.add_implicit_resolver(
    f"{_TAG}:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
EngineLoader.add_constructor(f"{_TAG}:timestamp", EngineLoader.date)
EngineLoader.add_constructor(f"{_TAG}:binary", EngineLoader.text)


def stacks(source: Path) -> list[str]:
    """The stacks that have a file in the program's folder."""
    files = source.glob("Pulumi.*.yaml")
    return sorted(file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files)


def stack_file(source: Path, stack: str) -> Path:
    """The stack's own file; raises StackError where it has none, or the name is no stack's."""
    file = source / f"Pulumi.{stack_name(stack)}.yaml"
    if not file.is_file():
        known = ", ".join(stacks(source)) or "none"
        raise StackError(f"there is no {file.name}: the stacks here are {known}")
    return file


def without_secrets(document: Any) -> Any:
    """A stack file's content with a placeholder for every encrypted value, and no key to them."""
    if isinstance(document, dict):
        if set(document) == {"secure"}:
            return PLACEHOLDER
        keys = ("encryptionsalt", "encryptedkey", "secretsprovider")
        return {key: without_secrets(value) for key, value in document.items() if key not in keys}
    if isinstance(document, list):
        return [without_secrets(value) for value in document]
    return document
