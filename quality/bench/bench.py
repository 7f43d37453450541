"""Measures the program's cost in time and memory, and writes the results."""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence

from quality.bench import imports, makespan, overhead, page
from quality.bench.child import ROOT
from quality.bench.measure import Section, read
from stacks.definition.files import SAMPLES, stack_file, use_examples
from stacks.outcome import ExitCode
from tools.sections import BENCHMARKS, fill

FOLDER = ROOT / ".rehearsal" / "bench"
PARTS = ("a", "b", "c")


def bench(
    parts: Sequence[str], *, runs: int, stacks: Sequence[str], scale: float | None, docs: bool
) -> ExitCode:
    """Measures the parts, by default all; the others keep the results of an earlier run.

    `runs`: of each side of each comparison. `stacks`: by default the samples. `scale`: for part c;
    None: the default of each cloud. `docs`: whether to write the section of the benchmark page,
    if all parts are known.
    """
    if not stacks:
        use_examples()
    for stack in stacks:
        stack_file(ROOT, stack)
    measures: dict[str, Callable[[], Section]] = {
        "a": lambda: overhead.measure(stacks or SAMPLES, runs),
        "b": lambda: imports.measure(stacks, runs),
        "c": lambda: makespan.measure(stacks, scale),
    }
    known = _earlier()
    for letter in parts or measures:
        began = time.monotonic()
        known[letter] = measures[letter]()
        print(f"{letter}: measured in {time.monotonic() - began:.0f} s", flush=True)
    sections = [known[letter] for letter in sorted(known)]
    # Otherwise the page would lose the parts that this machine has never measured.
    _write(sections, docs=docs and known.keys() == measures.keys())
    print(f"\n{page.text(sections)}\n\n{FOLDER / 'bench.json'}")
    kept = all(row.ok for section in sections for row in section.rows)
    return ExitCode.OK if kept else ExitCode.FINDING


def _earlier() -> dict[str, Section]:
    """The results of an earlier run, by letter, for the parts that are not measured again."""
    file = FOLDER / "bench.json"
    documents = json.loads(file.read_text())["sections"] if file.is_file() else []
    return {document["letter"]: read(document) for document in documents}


def _write(sections: list[Section], *, docs: bool) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    document = {"machine": machine, "sections": [section.document() for section in sections]}
    (FOLDER / "bench.json").write_text(json.dumps(document, indent=1) + "\n")
    if docs:
        fill(BENCHMARKS, "bench", page.markdown(sections, machine))
