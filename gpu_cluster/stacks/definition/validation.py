"""What is wrong in a stack's file, each with its line; no engine, no cloud, no SDK."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_cluster.components.schema.refusal import Refusal, refuse
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.stacks.definition.files import (
    IN_ESC,
    NO_CONFIG,
    PLACEHOLDER,
    ROOT,
    NotYaml,
    misplaced,
    parsed,
    read_stack,
    stack_file,
    without_secrets,
)
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.owners import refuse_shared
from gpu_cluster.stacks.definition.positions import duplicates, position
from gpu_cluster.stacks.definition.settings import (
    CLUSTER,
    NOWHERE,
    flat,
    refuse_other_program,
    with_kubeconfig,
)
from gpu_cluster.stacks.outcome import Answer, ExitCode


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its position."""

    file: str
    line: int
    column: int
    problem: Refusal | str

    @property
    def message(self) -> str:
        """The key's path, its value, what is allowed, what to do."""
        return str(self.problem)

    @property
    def document(self) -> dict[str, Any]:
        """The finding as JSON."""
        fields = self.problem.fields if isinstance(self.problem, Refusal) else {}
        place = {"file": self.file, "line": self.line, "column": self.column}
        return {**place, "message": self.message, **fields}

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


def answer(stack: str) -> Answer:
    """The findings in a stack's file at the root, as a document and as text."""
    file, found = stack_file(ROOT, stack), file_findings(stack)
    checked = f"{file.name}: no problems found"
    if not found and read_stack(ROOT, stack).get("environment"):
        checked += " without what environment adds from Pulumi ESC, which is not read"
    text = "\n".join(map(str, found)) or checked
    document = {"file": file.name, "findings": [finding.document for finding in found]}
    return ExitCode.FINDING if found else ExitCode.OK, document, text


def file_findings(stack: str, source: Path = ROOT) -> list[Finding]:
    """What is wrong with the stack's file, ordered by line.

    Raises StackError if there is no such file, if it cannot be read, or if it is another program's.
    """
    file = stack_file(source, stack)
    try:
        root, document = parsed(file.read_bytes())
    except OSError as error:
        raise StackError(f"{file.name}: cannot be read: {error.strerror}") from None
    except NotYaml as error:
        reason = f"is not YAML: {error.words}"
        return [Finding(file.name, error.line, error.column, reason)]
    result = list[Finding]()
    for path, place, first in duplicates(root):
        reason = f"is already set in line {first}"
        refused = refuse(path.removeprefix("config."))(reason, remedy="drop one of the two")
        result.append(Finding(file.name, *place, refused))
    for path, problem in _wrong(source, stack, document):
        result.append(Finding(file.name, *position(root, path), problem))
    return sorted(result, key=lambda finding: (finding.line, finding.column))


def _wrong(source: Path, stack: str, document: Any) -> Iterator[tuple[str, Refusal | str]]:
    """Path from the file's top, and refusal or message, of all that is wrong with its content."""
    top = document if isinstance(document, dict) else {"config": NO_CONFIG}
    for refusal in misplaced(top):
        yield refusal.at, refusal
    config = without_secrets(top.get("config") or {})
    if not isinstance(config, dict):
        yield "", NO_CONFIG
        return
    if not top.get("environment"):
        refuse_other_program(stack, config, source)
    refused = refusals(config, source)
    if refused and top.get("environment"):
        yield "environment", f"{IN_ESC}. What follows may be set there"
    for refusal in refused:
        yield f"config.{refusal.at}", refusal
    try:
        refuse_shared(source, stack, config)
    except StackError as error:
        yield f"config.{CLUSTER}.name", f"{CLUSTER}.name: {error}"


def refusals(config: Mapping[str, Any], source: Path = ROOT) -> Sequence[Refusal]:
    """What the program refuses of the config. `source`: the folder of the files that it names."""
    plain: dict[str, Any] = json.loads(json.dumps(config, default=str))
    if not _has_kubeconfig(plain):
        plain = with_kubeconfig(plain, NOWHERE)
    try:
        from_config(flat(plain), source)
    except Refusal as refusal:
        return refusal.every
    return ()


def _has_kubeconfig(config: Mapping[str, Any]) -> bool:
    """Whether the kubeconfig comes from the stack's file, so that it can be checked as well."""
    cluster = config.get(CLUSTER)
    if not isinstance(cluster, dict):
        return False
    text, file = cluster.get("kubeconfig"), cluster.get("kubeconfigFile")
    if isinstance(text, str):
        return text != PLACEHOLDER
    # The functions of os.path raise nothing for a path that cannot exist.
    path = Path(os.path.realpath(os.path.expanduser(file))) if isinstance(file, str) else Path("/")
    return path.is_relative_to(Path.cwd()) and os.path.isfile(path)
