"""Measures what the program costs in time and memory, and writes what it finds."""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from quality.bench import growth, idle, imports, makespan, overhead, page
from quality.bench.child import ROOT
from quality.bench.measure import Section, read
from stacks.definition.files import SAMPLES, stack_file, use_examples
from stacks.outcome import ExitCode
from tools.sections import BENCHMARKS, IMAGES, fill

FOLDER = ROOT / ".rehearsal" / "bench"
PARTS = ("a", "b", "c", "d", "e")
CAPTIONS = {
    "bench": "Each ratio as a bar, with a mark at its limit",
    "gantt-dev": "An up of dev at the clouds' pace, each resource as a bar in time",
    "gantt-train": "An up of train at the clouds' pace, each resource as a bar in time",
}
"""Picture -> what it shows, for whoever does not see it."""


def bench(
    parts: Sequence[str], *, runs: int, stacks: Sequence[str], scale: float | None, docs: bool
) -> ExitCode:
    """Measures the parts, all if none is named; the others stay as an earlier run measured them.

    `runs`: of each side of each comparison. `stacks`: the samples if none is named. `scale`: of the
    part d; None: as it suits each cloud. `docs`: the section of the benchmark page is written.
    """
    if not stacks:
        use_examples()
    for stack in stacks:
        stack_file(ROOT, stack)
    measures: dict[str, Callable[[], Section]] = {
        "a": lambda: overhead.measure(stacks or SAMPLES, runs),
        "b": lambda: growth.measure(stacks, runs),
        "c": lambda: imports.measure(stacks, runs),
        "d": lambda: makespan.measure(stacks, scale),
        "e": lambda: idle.measure(stacks),
    }
    known = _earlier()
    for letter in parts or measures:
        began = time.monotonic()
        known[letter] = measures[letter]()
        print(f"{letter}: measured in {time.monotonic() - began:.0f} s", flush=True)
    sections = [known[letter] for letter in sorted(known)]
    _write(sections, docs=docs)
    print(f"\n{page.text(sections)}\n\n{FOLDER / 'bench.json'}")
    kept = all(row.ok for section in sections for row in section.rows)
    return ExitCode.OK if kept else ExitCode.FINDING


def _earlier() -> dict[str, Section]:
    """What an earlier run measured, by letter: where only some parts are measured again."""
    file = FOLDER / "bench.json"
    documents = json.loads(file.read_text())["sections"] if file.is_file() else []
    return {document["letter"]: read(document) for document in documents}


def _write(sections: list[Section], *, docs: bool) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    pictures = {"bench.svg": page.picture(sections)}
    for section in sections:
        pictures |= section.pictures
    document = {"machine": machine, "sections": [section.document() for section in sections]}
    (FOLDER / "bench.json").write_text(json.dumps(document, indent=1) + "\n")
    for folder in (FOLDER, IMAGES) if docs else (FOLDER,):
        for name, svg in pictures.items():
            (folder / name).write_text(svg)
    if docs:
        names = ["bench.svg", *sorted(file.name for file in IMAGES.glob("gantt-*.svg"))]
        shown = "".join(f"![{CAPTIONS[Path(name).stem]}](../images/{name})\n\n" for name in names)
        fill(BENCHMARKS, "bench", f"{page.markdown(sections, machine)}\n{shown}")
