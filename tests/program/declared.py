"""`python -m tests.program.declared`: writes what each environment declares, to review a change by.

`declared/<environment>.txt` has every input and option of every resource, sorted by path, so that a
new input is one new line. `..._choices.txt` has what other settings (`quality/faults/changes.yaml`,
`effects.yaml`) change of that: `-` what is gone, `+` what is new, `path old -> new`, and `as first
above` for what an earlier choice declares too. Long texts are shown by their digest.
"""

import itertools
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
from tests.program.listing import beside, differences, lines, wrapped
from tests.program.registered import options_of, tree, tree_of

FOLDER = Path(__file__).parent / "declared"
QUEUES = Path(__file__).parents[1] / "rehearsal" / "queues.yaml"
LONGEST_JSON = 100
"""Values of a JSON text that a choice shows one by one; a dashboard is one value there."""
SHOWN = {"cluster", "gpuPools"}
"""Blocks whose changes each platform shows; those of others are shown once, on `existing`."""

Declared = Mapping[str, Any]
"""Type and name of a resource -> its options, their names in parentheses, and its inputs."""


def declared(
    config: Mapping[str, Any], longest: float = float("inf"), *, again: bool = False
) -> Declared:
    """What the program declares with this config, and its outputs. A JSON text of more than
    `longest` values is one value; `again` runs the program if it has run with this config."""
    found = recorded(config, again=again)
    rows = {f"{each.type} {each.name}": _of(each, longest) for each in found.resources}
    rows["outputs"] = tree(found.outputs)
    return dict(sorted(rows.items()))


def _of(each: Registration, longest: float) -> Any:
    options: dict[str, Any] = {}
    for name, value in options_of(each):
        several = isinstance(getattr(each, name.strip("()")), frozenset | tuple)
        options[name] = [*options.get(name, []), value] if several else value
    inputs = tree_of(each, longest=longest)
    if each.type.endswith(":LastingSettings"):  # what is not set is null
        inputs = {"settings": {path: _set(value) for path, value in inputs["settings"].items()}}
    return {**options, **(inputs if isinstance(inputs, Mapping) else {"": inputs})}


def _set(value: Any) -> Any:
    given = isinstance(value, Mapping)
    return {key: each for key, each in value.items() if each is not None} if given else value


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
            rooms = {key.partition(":")[2] for key in config if config[key] != sample.get(key)}
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
    first: dict[str, tuple[str, Any]] = {}
    for name, config, sample in configs():
        text = found.setdefault(name, [])
        if sample is None:
            samples[name] = declared(config, LONGEST_JSON)
            for resource, value in samples[name].items():
                first.setdefault(resource, (f"in {name}.txt", value))
            for resource, value in declared(config).items():
                text += beside(resource, [*lines(value)])
        else:
            text += ["", *(f"== {line}" for line in differences(sample, config))]
            after = declared(config, LONGEST_JSON)
            text += _choice(samples[name.partition("_")[0]], after, name, first)
    return {name: "\n".join(text) + "\n" for name, text in found.items()}


def _choice(
    before: Declared, after: Declared, name: str, first: dict[str, tuple[str, Any]]
) -> Iterator[str]:
    """What a choice changes: resources that are gone by their types, changed ones, new ones."""
    gone = {*before} - {*after}
    types = itertools.groupby(sorted(gone), lambda resource: resource.partition(" ")[0])
    for kind, resources in types:
        yield from wrapped(f"- {kind}", (resource.partition(" ")[2] for resource in resources))
    for resource in sorted({*before} & {*after}):
        if rows := [*differences(_without(before[resource], gone), after[resource])]:
            yield from beside(resource, rows)
    new = sorted({*after} - {*before})
    for position, resource in enumerate(new):
        value = after[resource]
        where, earlier = first.get(resource, ("", None))
        like = {f"as first {'above' if where == name else where}": earlier} if earlier else {}
        kind = resource.partition(" ")[0] + " "
        like |= {
            f"as {each.removeprefix(kind)}": after[each]
            for each in new[:position]
            if each.startswith(kind)
        }
        rows = [*lines(value, packed=True)]
        head = f"+ {resource}"
        for said, other in like.items():
            if len(changed := [*differences(other, value)]) < len(rows):
                head, rows = f"+ {resource}, {said}", changed
        first.setdefault(resource, (name, value))
        yield from beside(head, rows)


def _without(declared: Any, gone: set[str]) -> Any:
    """Nothing waits for what is gone: that goes without saying."""
    waits = [each for each in declared.get("(depends_on)", ()) if each not in gone]
    return {
        **{name: value for name, value in declared.items() if name != "(depends_on)"},
        **({"(depends_on)": waits} if waits else {}),
    }


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the settings' warnings, once for each of the files
    os.environ["KUBECONFIG"] = str(Path(__file__).with_name("kubeconfig.yaml"))
    FOLDER.mkdir(exist_ok=True)
    for name, text in documents().items():
        (FOLDER / f"{name}.txt").write_text(text)
