"""What is wrong in a stack's file, each with its line; no engine, no cloud, no SDK.

Problems that may depend on another one are shown once that one is corrected. The program stops
after the errors that do not depend on each other; here, an invalid part is corrected or removed if
nothing else depends on it, and the rest is read again.
"""

import copy
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.catalog import kubernetes as names
from components.refusal import Refusal
from components.settings.blocks import RUNNING
from components.settings.load import from_config
from stacks.definition.files import (
    PLACEHOLDER,
    ROOT,
    NotYaml,
    composed,
    document_in,
    read_stack,
    stack_file,
    without_secrets,
)
from stacks.definition.names import StackError
from stacks.definition.owners import refuse_shared
from stacks.definition.positions import duplicates, position
from stacks.definition.settings import CLUSTER, NOWHERE, flat, with_kubeconfig
from stacks.outcome import Answer, ExitCode

_MOST = 100
"""The number of findings after which reading stops."""
_HINT = re.compile(
    r"there is no such key; did you mean '([^']+)'|: is only available on [^;]+; use (\S+) on"
)
_UNKNOWN = re.compile(r"there is no such key|is not available with existing|: is only available on")
_MOVED = re.compile(r"; rename the key to ([\w-]+:\w+)")
_NOBODYS = re.compile(r"nothing creates the namespace '([^']+)'")
_EXISTING = {"existing": True}
_NAMED = [key for key, block in RUNNING.items() if block.names is not None]
"""Blocks whose entries run pods."""
_DEPENDED_ON = (
    CLUSTER, "gpu-cluster:gpuPools", "gpu-cluster:batch", "gpu-cluster:serviceAccounts",
    "gpu-cluster:volumeClaims", "gpu-cluster:namespaces", "gpu-cluster:teams",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem and its position."""

    file: str
    line: int
    column: int
    message: str
    """The key's path, its value, what is allowed, what to do."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


def answer(stack: str) -> Answer:
    """The findings in a stack's file at the root, as a document and as text."""
    file, found = stack_file(ROOT, stack), findings(stack)
    text = "\n".join(map(str, found)) or f"{file.name}: no problems found"
    document = {"file": file.name, "findings": [asdict(finding) for finding in found]}
    return ExitCode.FINDING if found else ExitCode.OK, document, text


def findings(stack: str, source: Path = ROOT) -> list[Finding]:
    """What is wrong with the stack's file, ordered by line.

    Raises StackError if there is no such file, or if it cannot be read.
    """
    file = stack_file(source, stack)
    try:
        root = composed(file.read_bytes())
    except OSError as error:
        raise StackError(f"{file.name}: cannot be read: {error.strerror}") from None
    except NotYaml as error:
        said = f"is not YAML: {error.words}"
        return [Finding(file=file.name, line=error.line, column=error.column, message=said)]
    result = [
        Finding(
            file=file.name,
            line=line,
            column=column,
            message=f"{path.removeprefix('config.')}: is already set in line {first}; drop one of "
            "the two",
        )
        for path, (line, column), first in duplicates(root)
    ]
    for path, message in _wrong(source, stack, file):
        line, column = position(root, path)
        result.append(Finding(file=file.name, line=line, column=column, message=message))
    return sorted(result, key=lambda finding: (finding.line, finding.column))


def _wrong(source: Path, stack: str, file: Path) -> Iterator[tuple[str, str]]:
    """Path from the file's top, and message, of everything that is wrong with its content."""
    try:
        read_stack(source, stack)
    except StackError as error:
        message = str(error).removeprefix(f"{file.name}: ").removeprefix(f"{file.name} ")
        yield message.partition(": ")[0], message
    try:
        document = document_in(file.read_bytes(), file.name)
    except StackError:  # Already reported above.
        return
    config = without_secrets(document.get("config") or {})
    if not isinstance(config, dict):
        return
    messages = [*refusals(config, source)]
    if messages and document.get("environment"):
        yield (
            "environment",
            "environment: its values are in Pulumi ESC, which this command does not read, so that "
            "what follows may be set there; write gpu-cluster's blocks into the file, or check "
            "the stack with pulumi preview",
        )
    for message in messages:
        yield f"config.{message.partition(': ')[0]}", message
    try:
        refuse_shared(source, stack, config)
    except StackError as error:
        yield f"config.{CLUSTER}.name", f"{CLUSTER}.name: {error}"


def refusals(config: Mapping[str, Any], source: Path = ROOT) -> Iterator[str]:
    """The program's errors about the config, and about the rest after each has been corrected.
    `source`: the folder of the files that it names."""
    plain: dict[str, Any] = json.loads(json.dumps(config, default=str))
    rest: dict[str, Any] | None = (
        plain if _has_kubeconfig(plain) else with_kubeconfig(plain, NOWHERE)
    )
    guessed: set[str] = set()
    shown: set[str] = set()
    for _ in range(_MOST):
        if rest is None:
            return
        try:
            from_config(flat(rest), source)
            return
        except ValueError as error:
            before = copy.deepcopy(rest)
            for refusal in Refusal.of(error).every:
                # The value belongs to a guessed name, so an error in it means nothing.
                if refusal.at not in guessed and str(refusal) not in shown:
                    shown.add(str(refusal))
                    yield str(refusal)
                if rest is not None and not _removed(refusal.at, before, rest):
                    rest = _put_right(rest, str(refusal), guessed)


def _removed(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the block or the entry that contains the path is only in the config before."""
    block = path.partition(".")[0]
    if _entry(before.get(block), path, f"{block}.") is None:
        return block in before and block not in after
    return _entry(after.get(block), path, f"{block}.") is None


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


def _put_right(config: dict[str, Any], message: str, guessed: set[str]) -> dict[str, Any] | None:
    """The config without what the message is about; None if the rest depends on it. The paths of
    keys that were renamed by a guess are added to `guessed`."""
    path = message.partition(": ")[0]
    if nobodys := _NOBODYS.search(message):
        made = config.get("gpu-cluster:namespaces") or {}
        return {**config, "gpu-cluster:namespaces": {**made, nobodys[1]: _EXISTING}}
    if (moved := _MOVED.search(message)) or "nothing reads" in message:
        holder, key = _holder(config, path)
        value = holder.pop(key) if holder else None
        if moved and value and not config.get(moved[1]):
            config[moved[1]] = value
        return config
    if _UNKNOWN.search(message):
        return config if _rename(config, path, message, guessed) else None
    made = config.get("gpu-cluster:namespaces")
    name = _entry(made, path, "gpu-cluster:namespaces.")
    if name is not None and isinstance(made, dict):
        # References to this name are to a declared namespace; a wrong name has no references,
        # unless it is the name of a namespace that may exist.
        reserved = names.RESERVED_NAMESPACE.fullmatch(name)
        wrong_name = path.endswith(f".{name}") and isinstance(made.pop(name), dict) and not reserved
        made |= {} if wrong_name else {name: _EXISTING}
        return config
    for room in ("gpuPools", *_NAMED):
        name = _entry(config.get(f"gpu-cluster:{room}"), path, f"gpu-cluster:{room}.")
        if name is not None:
            return _without(config, room, name)
    batch = config.get("gpu-cluster:batch")
    queues = batch.get("queues") if isinstance(batch, dict) else None
    name = _entry(queues, path, "gpu-cluster:batch.queues.")
    if name is not None:
        return _without(config, "queues", name)
    block = path.partition(".")[0]
    if block.startswith("gpu-cluster:") and block in config and block not in _DEPENDED_ON:
        return {key: value for key, value in config.items() if key != block}
    return None


def _entry(entries: Any, path: str, prefix: str) -> str | None:
    """The name of the entry that contains the path; names may contain periods."""
    if not isinstance(entries, dict) or not path.startswith(prefix):
        return None
    rest = path.removeprefix(prefix)
    fitting = [name for name in map(str, entries) if rest == name or rest.startswith(f"{name}.")]
    return max(fitting, key=len, default=None)


def _rename(config: dict[str, Any], path: str, message: str, guessed: set[str]) -> bool:
    """Gives a misspelt key its likely name, or removes it; returns whether it was found."""
    holder, key = _holder(config, path)
    if holder is None:
        return False
    value = holder.pop(key)
    hint = _HINT.search(message)
    meant = hint and hint[hint.lastindex or 0]
    if meant and f"{key}".startswith("gpu-cluster:"):
        meant = f"gpu-cluster:{meant}"
    if meant and meant not in holder:
        holder[meant] = value
        guessed.add(f"{path.removesuffix(key)}{meant}")
    return True


def _holder(value: Any, path: str) -> tuple[dict[str, Any] | None, str]:
    """The map with the key at the end of the path, and the key."""
    while True:
        if isinstance(value, list) and path.startswith("["):
            number, _, path = path[1:].partition("]")
            value, path = value[int(number)], path.removeprefix(".")
            continue
        if not isinstance(value, dict):
            return None, ""
        if path in value:
            return value, path
        steps = [k for k in map(str, value) if path.startswith(k) and path[len(k) :][:1] in ".["]
        if not steps:
            return None, ""
        step = max(steps, key=len)
        value, path = value[step], path[len(step) :].removeprefix(".")


def _without(config: dict[str, Any], room: str, name: str) -> dict[str, Any]:
    """The config without an entry and without its users, which can no longer be checked."""
    rest = copy.deepcopy(config)
    batch = rest.get("gpu-cluster:batch")
    queues = batch.get("queues") if isinstance(batch, dict) else None
    queues = queues if isinstance(queues, dict) else {}
    (queues if room == "queues" else rest[f"gpu-cluster:{room}"]).pop(name)
    if room not in ("gpuPools", "queues"):
        return rest
    lost = {name} if room == "queues" else _drop(queues, lambda queue: name in queue["pools"])
    if room == "gpuPools":
        lost |= _without_share(rest, name)
    if isinstance(batch, dict) and not queues and not rest.get("gpu-cluster:teams"):
        batch.pop("priorities", None)  # Those of the lost queues.
    for kind in _NAMED:
        _drop(rest.get(f"gpu-cluster:{kind}"), lambda one: one.get("queue") in lost)
    if room == "gpuPools":
        for kind in _NAMED:
            _drop(rest.get(f"gpu-cluster:{kind}"), lambda one: one["pool"] == name)
        _drop(rest, lambda block: name in block["pools"])
    return rest


def _without_share(config: dict[str, Any], pool: str) -> set[str]:
    """Removes teams' shares of a pool, and teams with no other share; returns their names. Their
    namespaces stay, for what else is in them."""
    teams = config.get("gpu-cluster:teams")
    before = dict(teams) if isinstance(teams, dict) else {}

    def only(team: Any) -> bool:
        return bool(team["gpus"].pop(pool, None) is not None and not team["gpus"])

    lost = _drop(teams, only)
    created: dict[str, Any] = {
        f"{namespace}": {}
        for team in lost
        for namespace in before[team].get("namespaces") or [team]
    }
    if created:
        key = "gpu-cluster:namespaces"
        config[key] = {**created, **(config.get(key) or {})}
    return lost


def _drop(entries: Any, names_it: Callable[[Any], bool]) -> set[str]:
    """Removes the entries that name something, and returns their names; others are checked when the
    program reads them, whatever their form."""
    gone = set()
    for key, block in list(entries.items()) if isinstance(entries, dict) else ():
        try:
            named = names_it(block)
        except (AttributeError, KeyError, TypeError):
            continue
        if named:
            gone.add(key)
            del entries[key]
    return gone
