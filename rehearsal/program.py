"""The copy of the Pulumi program that a rehearsal runs: the committed files are never written."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

PLACEHOLDER = "rehearsal-placeholder"
"""Stands for every encrypted value: a rehearsal has nobody's passphrase or key."""

FILES = ("Pulumi.yaml", "__main__.py", "requirements.txt")
FOLDERS = ("components",)

Mutation = Callable[[Path], None]


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


class ProgramError(Exception):
    """The stack cannot be rehearsed; the message says what to do."""


def copy_program(source: Path, stack: str, target: Path, mutate: Mutation | None = None) -> None:
    """Copies the program and the stack's file; `mutate` may then change the copy."""
    file = stack_file(source, stack)
    target.mkdir(parents=True)
    for name in FILES:
        shutil.copy2(source / name, target / name)
    for name in FOLDERS:
        shutil.copytree(source / name, target / name)
    (target / ".venv").symlink_to(source / ".venv")
    shutil.copy2(file, target / file.name)
    if mutate is not None:
        mutate(target)
    _write_without_secrets(target / file.name)


def stack_file(source: Path, stack: str) -> Path:
    """The stack's own file; raises ProgramError where it has none."""
    file = source / f"Pulumi.{stack}.yaml"
    if not file.is_file():
        known = ", ".join(stacks(source)) or "none"
        raise ProgramError(f"there is no {file.name}: the stacks here are {known}")
    return file


def stacks(source: Path) -> list[str]:
    """The stacks that have a file."""
    files = source.glob("Pulumi.*.yaml")
    return sorted(file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files)


def _write_without_secrets(file: Path) -> None:
    document = yaml.load(file.read_text(), EngineLoader) or {}
    plain = without_secrets(document)
    if plain != document:
        file.write_text(yaml.safe_dump(plain, sort_keys=False))


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
