"""`python -m tests.program.declared`: writes what each environment declares, to review a change by.

`declared/<environment>.txt` has every input and option of every resource, sorted by path, so that a
new input moves no other line. `..._choices.txt` has what other settings
(`quality/faults/changes.yaml`, `effects.yaml`) add to that and remove. Long texts are
shown by their digest.
"""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from stacks.urn import Urn, of_reference
from tests.components.recording import Registration
from tests.program import effects
from tests.program.environments import STACKS, recorded, values_of

FOLDER = Path(__file__).parent / "declared"
QUEUES = Path(__file__).parents[1] / "rehearsal" / "queues.yaml"
OPTIONS = (
    "parent",
    "provider",
    "depends_on",
    "ignore_changes",
    "protect",
    "deleted_with",
    "delete_before_replace",
    "replace_on_changes",
    "secret_outputs",
    "update_timeout",
    "hooks",
)
LONGEST = 160
SHOWN = {"cluster", "gpuPools", "workloads", "namespaces", "serviceAccounts", "volumeClaims"}
"""Blocks whose changes each platform shows."""

Declared = Mapping[str, list[str]]
"""Type and name of a resource -> a line for each of its inputs and options."""


def declared(config: Mapping[str, Any]) -> Declared:
    """What the program declares with this config, and its outputs."""
    found = recorded(config)
    rows = {f"{each.type} {each.name}": list(_lines(each)) for each in found.resources}
    rows["outputs"] = [f"{name} {_shown(value)}" for name, value in _flat(found.outputs)]
    return dict(sorted(rows.items()))


def _lines(each: Registration) -> Iterator[str]:
    for option in OPTIONS:
        given = getattr(each, option)
        for value in sorted(given) if isinstance(given, frozenset | tuple) else [given]:
            if value:
                urn = of_reference(value)[0] if option == "provider" else value
                yield f"({option}) {_last(urn) if isinstance(urn, str) else urn}"
    if each.type.endswith(":CustomResourceDefinition"):
        yield _shown(json.dumps(each.inputs, sort_keys=True))
    else:
        for path, value in _flat(each.inputs):
            yield f"{path} {_shown(value)}"


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, Mapping) and value:
        for key, each in sorted(value.items()):
            yield from _flat(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for position, each in enumerate(value):
            yield from _flat(each, f"{path}[{position}]")
    else:
        yield path, value


def _shown(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    text = json.dumps(int(value) if whole else value)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text if len(text) <= LONGEST else f"{len(text)} characters, sha256 {digest}"


def _last(urn: str) -> str:
    """Type and name of a URN; anything else as it is."""
    return Urn.parse(urn).label if urn.startswith("urn:") else urn


def configs() -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]:
    """Each file's name, a config of it, and the one that it is a choice of."""
    for stack in STACKS:
        yield stack, values_of(stack), None
    for platform, stack in effects.STACK_OF.items():
        sample, *others = effects.starts(platform)
        for config in others:
            # Another name changes every line. Monitoring and checks are much the same everywhere,
            # and are shown once: `onprem_choices`, queues in `train_queues`.
            rooms = {key.partition(":")[2] for key in _difference(sample, config)}
            shown = rooms <= SHOWN or platform == "existing"
            shown |= config.get("gpu-cluster:monitoring", {}).get("source") == "managed"
            if "batch" not in rooms and shown and _name(config) == _name(sample):
                yield f"{stack}_choices", config, sample
    train = values_of("train")
    pools = {"train-gpu": {**train["gpu-cluster:gpuPools"]["train-gpu"], "maxNodes": 2}}
    queues = {"gpu-cluster:gpuPools": pools, **yaml.safe_load(QUEUES.read_text())}
    yield "train_queues", {**train, **queues}, train


def _name(config: Mapping[str, Any]) -> str:
    return str(config["gpu-cluster:cluster"]["name"])


def documents() -> Mapping[str, str]:
    """Each file's name and text."""
    found: dict[str, list[str]] = {}
    samples: dict[str, Declared] = {}
    shown: set[tuple[str, ...]] = set()
    for name, config, sample in configs():
        after, text = declared(config), found.setdefault(name, [])
        samples |= {name: after} if sample is None else {}
        before = samples[name.partition("_")[0]] if sample is not None else {}
        if sample is not None:
            text.append(f"\n== {json.dumps(_difference(sample, config), sort_keys=True)}")
        for resource in sorted({*before, *after}):
            new = after.get(resource, [])
            rows = _rows(before.get(resource, []), new)
            if resource not in before and (name, resource, *new) in shown:
                rows = ["  + all of it, as above"]
            shown.add((name, resource, *new))
            text += [resource, *rows] if rows else []
    return {name: "\n".join(text) + "\n" for name, text in found.items()}


def _rows(old: list[str], new: list[str]) -> list[str]:
    if not old:
        return [f"  {line}" for line in new]
    if not new:
        return ["  - all of it"]
    gone = [f"  - {line}" for line in old if line not in new]
    return gone + [f"  + {line}" for line in new if line not in old]


def _difference(sample: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if sample.get(key) != value}


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the settings' warnings, once for each of the files
    os.environ["KUBECONFIG"] = str(Path(__file__).with_name("kubeconfig.yaml"))
    FOLDER.mkdir(exist_ok=True)
    for name, text in documents().items():
        (FOLDER / f"{name}.txt").write_text(text)
