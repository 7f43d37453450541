"""`python -m tests.program.declared`: writes what each environment declares, to review a change by.

`declared/<environment>.txt` has every input and option of every resource, sorted by path, so that a
new input moves no other line. `..._choices.txt` has what other settings
(`quality/faults/changes.yaml`, `effects.yaml`) add to that and remove; a resource that several of
them add is shown once, and then how it differs. Long texts are shown by their digest.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from components.platforms import PLATFORMS
from tests.components.recording import Registration
from tests.program import effects
from tests.program.environments import STACKS, recorded, values_of
from tests.program.registered import flat, inputs_of

FOLDER = Path(__file__).parent / "declared"
QUEUES = Path(__file__).parents[1] / "rehearsal" / "queues.yaml"
LONGEST = 160
"""Characters of a value that is shown; a longer one is shown by its digest."""
LONGEST_JSON = 100
"""Values of a JSON text that a choice shows one by one; a dashboard is one value there."""
SHOWN = {"cluster", "gpuPools"}
"""Blocks whose changes each platform shows; those of others are shown once, on `existing`."""

Declared = Mapping[str, list[str]]
"""Type and name of a resource -> a line for each of its inputs and options."""


def declared(config: Mapping[str, Any], longest: float = float("inf")) -> Declared:
    """What the program declares with this config, and its outputs. A JSON text of more than
    `longest` values is one value."""
    found = recorded(config)
    rows = {f"{each.type} {each.name}": list(_lines(each, longest)) for each in found.resources}
    rows["outputs"] = [f"{name} {_shown(value)}" for name, value in flat(found.outputs)]
    return dict(sorted(rows.items()))


def _lines(each: Registration, longest: float) -> Iterator[str]:
    for path, value in inputs_of(each, longest=longest):
        shown = value if path.startswith("(") else _shown(value)
        yield f"{path} {shown}".strip()


def _shown(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    text = json.dumps(int(value) if whole else value)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text if len(text) <= LONGEST else f"{len(text)} characters, sha256 {digest}"


def configs() -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]:
    """Each file's name, a config of it, and the one that it is a choice of."""
    for stack in STACKS:
        yield stack, values_of(stack), None
    train = values_of("train")
    pools = {"train-gpu": {**train["gpu-cluster:gpuPools"]["train-gpu"], "maxNodes": 2}}
    queues = {"gpu-cluster:gpuPools": pools, **yaml.safe_load(QUEUES.read_text())}
    yield "train_queues", {**train, **queues}, train
    for platform, stack in effects.STACK_OF.items():
        if PLATFORMS[platform].added:
            continue  # pools are those of the platform, the rest is in test_..._existing
        sample, *others = effects.starts(platform)
        for config in others:
            # Another name changes every line. Queues are shown in `train_queues`.
            rooms = {key.partition(":")[2] for key in _difference(sample, config)}
            shown = rooms <= SHOWN or platform == "existing"
            shown |= config.get("gpu-cluster:monitoring", {}).get("source") == "managed"
            if "batch" not in rooms and shown and _name(config) == _name(sample):
                yield f"{stack}_choices", config, sample


def _name(config: Mapping[str, Any]) -> str:
    cluster = config["gpu-cluster:cluster"]
    return str(cluster.get("existing") or cluster["name"])


def documents() -> Mapping[str, str]:
    """Each file's name and text."""
    found: dict[str, list[str]] = {}
    samples: dict[str, Declared] = {}
    shown: dict[str, tuple[str, list[str]]] = {}
    for name, config, sample in configs():
        after, text = declared(config), found.setdefault(name, [])
        before: Declared = {}
        if sample is None:
            samples[name] = declared(config, LONGEST_JSON)
        else:
            after, before = declared(config, LONGEST_JSON), samples[name.partition("_")[0]]
        if sample is not None:
            text.append(f"\n== {json.dumps(_difference(sample, config), sort_keys=True)}")
        for resource in sorted({*before, *after}):
            new = after.get(resource, [])
            rows = _rows(before.get(resource, []), new)
            if resource not in before:
                where, first = shown.setdefault(resource, (name, new))
                difference = [] if first == new else _rows(first, new)
                if sample is not None and first is not new and len(difference) < len(rows):
                    file = "above" if where == name else f"in {where}.txt"
                    rows = [f"  + all of it, as first {file}", *difference]
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
