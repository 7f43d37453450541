"""`python -m tests.program.declared`: writes what each environment declares, to review a change by.

`declared/<environment>.txt` has every input and option of every resource, sorted by path, so that a
new input is one new line; elements of a list that have names are listed by them. `..._choices.txt`
has what other settings (`quality/tries.yaml`) change of that: `-` gone,
`+` new, `path old -> new`. `as NAME above` or `in FILE` means everything that this resource has,
under the new name and the new cluster's; what differs follows. `== and` changes the choice above
it. Long texts are shown by their digest.
"""

import itertools
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.platforms import PLATFORMS
from tests.components.recording import Registration
from tests.program import effects, everything
from tests.program.environments import STACKS, recorded, values_of
from tests.program.everything import EVERYTHING
from tests.program.listing import beside, differences, lines, named, wrapped
from tests.program.registered import options_of, tree, tree_of

FOLDER = Path(__file__).parent / "declared"
QUEUES = Path(__file__).parents[1] / "rehearsal" / "queues.yaml"
LONGEST_JSON = 100
"""Values of a JSON text that a choice shows one by one; a dashboard is one value there."""
SHOWN = {"cluster", "gpuPools"}
"""Blocks whose changes each platform shows; those of others are shown once, on `existing`."""

Declared = Mapping[str, Any]
"""Type and name of a resource -> its options, their names in parentheses, and its inputs."""
Shown = dict[str, tuple[str, str, Any]]
"""Type and name of a resource -> the file that has it in full, its cluster, and what it has."""


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
    inputs = named(tree_of(each, longest=longest))
    if each.type.endswith(":LastingSettings"):  # what is not set is null
        inputs = {"settings": {path: _set(value) for path, value in inputs["settings"].items()}}
    return {**options, **(inputs if isinstance(inputs, Mapping) else {"": inputs})}


def _set(value: Any) -> Any:
    given = isinstance(value, Mapping)
    return {key: each for key, each in value.items() if each is not None} if given else value


def configs() -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]:
    """Each file's name, a config of it, and the one that it is a choice of."""
    # Others refer to the first ones.
    for stack in sorted(STACKS, key=("dev", "train").__contains__, reverse=True):
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
    for platform, stacks in itertools.groupby(EVERYTHING, lambda stack: stack.partition("-")[0]):
        first, *others = map(everything.config_of, stacks)
        yield f"everything-{platform}", first, None
        for config in others:
            yield f"everything-{platform}_choices", config, first


def _name(config: Mapping[str, Any]) -> str:
    cluster = config["gpu-cluster:cluster"]
    return str(cluster.get("existing") or cluster["name"])


def documents() -> Mapping[str, str]:
    """Each file's name and text."""
    found: dict[str, list[str]] = {}
    latest: dict[str, tuple[Mapping[str, Any], Declared]] = {}
    full, first = Shown(), Shown()
    for name, config, sample in configs():
        text, cluster = found.setdefault(name, []), _name(config)
        after = declared(config, LONGEST_JSON)
        if sample is None:
            for resource, value in after.items():
                first.setdefault(resource, (name, cluster, value))
            for resource, value in declared(config).items():
                text += _new(resource, value, name, cluster, full, packed=False)
        else:
            starts = {"==": latest[name.partition("_")[0]]}
            if name in latest:
                starts["== and"] = latest[name]
            changes = []
            for word, (given, before) in starts.items():
                known = first.copy()
                rows = [f"{word} {line}" for line in differences(given, config)]
                rows += _choice(before, after, name, cluster, known)
                changes.append((rows, known))
            (rows, first), *following = changes
            if following and 2 * len(following[0][0]) <= len(rows):
                rows, first = following[0]
            text += ["", *rows]
        latest[name] = config, after
    return {name: "\n".join(text) + "\n" for name, text in found.items()}


def _choice(
    before: Declared, after: Declared, name: str, cluster: str, first: Shown
) -> Iterator[str]:
    """What a choice changes: resources that are gone by their types, changed ones, new ones."""
    gone = {*before} - {*after}
    types = itertools.groupby(sorted(gone), lambda resource: resource.partition(" ")[0])
    for kind, resources in types:
        yield from wrapped(f"- {kind}", (resource.partition(" ")[2] for resource in resources))
    same: dict[tuple[str, ...], list[str]] = {}
    for resource in sorted({*before} & {*after}):
        if rows := [*differences(_without(before[resource], gone), after[resource])]:
            kind, _, other = resource.partition(" ")
            same.setdefault((kind, *rows), []).append(other)
    for (kind, *changed), names in same.items():
        yield from beside(f"{kind} {', '.join(names)}".strip(), changed)
    for resource in sorted({*after} - {*before}):
        head, *others = _new(resource, after[resource], name, cluster, first, packed=True)
        yield from (f"+ {head}", *others)


def _new(
    resource: str, value: Any, file: str, cluster: str, shown: Shown, *, packed: bool
) -> list[str]:
    """A resource in full, or by what differs from one of its type that is shown in full."""
    kind, _, name = resource.partition(" ")
    head, rows = resource, [*lines(value, packed=packed)]
    most = len(rows) // 2
    for other, (where, of, earlier) in shown.items():
        if other.partition(" ")[0] == kind:
            like = other.partition(" ")[2]
            text = json.dumps(earlier).replace(like or name, name)
            text = re.sub(rf"{of}(?![:/])", cluster, text)  # gpu-cluster:gke:Cluster gpu-cluster
            if len(changed := [*differences(json.loads(text), value)]) <= most:
                place = "above" if where == file else f"in {where}.txt"
                head = f"{resource}, as {f'{like} ' if like != name else ''}{place}"
                rows, most = changed, len(changed) - 1
    if head == resource:
        shown.setdefault(resource, (file, cluster, value))
    return beside(head, rows)


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
