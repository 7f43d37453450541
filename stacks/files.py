"""A stack's file: where it is, and what the engine reads in it."""

import difflib
import os
import re
from pathlib import Path
from typing import Any

import yaml

from stacks.names import StackError, stack_name

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ("autopilot", "dev", "onprem", "train", "train-gke")
"""The environments that come with the program. Its own tests, faults and measurements take these,
as `examples/stacks` has them: what has a file at the root is a user's, to edit in place, and
changes nothing for them."""
EXAMPLES = ROOT / "examples" / "stacks"
INSTEAD = "GPU_CLUSTER_STACKS"
"""Names a folder whose stack files take the place of those at the root."""
KEYS = ("config", "environment", "encryptionsalt", "encryptedkey", "secretsprovider")
"""What the engine knows in a stack's file: `ProjectStack` in sdk/go/common/workspace/project.go of
pulumi v3.259.0, read on 2026-11-21. It ignores everything else."""
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


def use_examples() -> None:
    """From here on this process and what it starts read the samples, not a user's files."""
    use_instead(EXAMPLES)


def use_instead(folder: Path) -> None:
    """From here on this process and what it starts read the stack files of that folder."""
    os.environ[INSTEAD] = str(folder)


def folder_of(source: Path) -> Path:
    """Where the stack files of a program's folder are."""
    return Path(os.environ.get(INSTEAD) or source) if source == ROOT else source


def project_name(source: Path) -> str:
    """The name in `Pulumi.yaml`."""
    return str(yaml.safe_load((source / "Pulumi.yaml").read_text())["name"])


def stacks(source: Path) -> list[str]:
    """The stacks that have a file in the program's folder."""
    files = folder_of(source).glob("Pulumi.*.yaml")
    return sorted(file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files)


def stack_file(source: Path, stack: str) -> Path:
    """The stack's own file; raises StackError where it has none, or the name is no stack's."""
    file = folder_of(source) / f"Pulumi.{stack_name(stack)}.yaml"
    if not file.is_file():
        known = ", ".join(stacks(source)) or "none"
        raise StackError(f"there is no {file.name}: the stacks here are {known}")
    return file


def read_stack(source: Path, stack: str) -> dict[str, Any]:
    """The stack's file, as the engine reads it.

    Raises StackError where there is none, it is no YAML, or has a key beside `config` that the
    engine would ignore without a word.
    """
    file = stack_file(source, stack)
    try:
        document = document_in(file.read_bytes(), file.name)
    except OSError as error:
        raise StackError(f"{file.name}: cannot be read: {error.strerror}") from None
    for key in document:
        if key not in KEYS:
            raise StackError(f"{file.name}: {key}: {_misplaced(str(key))}")
    if not isinstance(document.get("config") or {}, dict):
        raise StackError(f"{file.name} has no config: see Pulumi.dev.yaml for an example")
    return document


def document_in(text: bytes, name: str) -> dict[str, Any]:
    """What a stack file's text says, whatever its keys; raises StackError where it is no YAML."""
    try:
        document = yaml.load(text, EngineLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise StackError(f"{name} is not YAML: {place}{error.problem or error}") from None
    except yaml.YAMLError as error:
        raise StackError(f"{name} is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise StackError(f"{name} is nested too deeply: see Pulumi.dev.yaml for one") from None
    if not isinstance(document, dict):
        raise StackError(f"{name} has no config: see Pulumi.dev.yaml for an example")
    return document


def _misplaced(key: str) -> str:
    """What is wrong with a key beside `config`."""
    if ":" in key:
        return "stands beside config, where the engine ignores it: indent it, below config"
    near = difflib.get_close_matches(key, KEYS, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"there is no such key, and the engine ignores it; {meant}allowed: {', '.join(KEYS)}"


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
