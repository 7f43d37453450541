"""`python -m quality.bench [a b c d e] [--runs N]`: measures, and writes what it finds.

Exit code 0: every limit is kept. 1: one is not. With --docs, the section of the benchmark page too.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

from quality.bench import growth, idle, imports, makespan, overhead, page
from quality.bench.child import ROOT
from quality.bench.measure import Section, read
from stacks import command as commands
from stacks.files import SAMPLES, stack_file, use_examples
from stacks.names import StackError
from tools.sections import BENCHMARKS, IMAGES, fill

FOLDER = ROOT / ".rehearsal" / "bench"
CAPTIONS = {
    "bench": "Each ratio as a bar, with a mark at its limit",
    "gantt-dev": "An up of dev at the clouds' pace, each resource as a bar in time",
    "gantt-train": "An up of train at the clouds' pace, each resource as a bar in time",
}
"""Picture -> what it shows, for whoever does not see it."""


def main() -> int:
    """Parses the command line; returns the exit code."""
    parser = commands.Parser(prog="bench", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="part",
        help="a b c d e, the others stay as they were; left out, all",
    )
    parser.add_argument("--runs", type=int, default=5, help="of each side of each comparison")
    parser.add_argument(
        "--stacks", nargs="*", type=commands.stack, default=[], help="left out, every sample"
    )
    parser.add_argument("--scale", type=float, help="of d; left out, as it suits each cloud")
    parser.add_argument(
        "--docs", action="store_true", help="write the section of the benchmark page"
    )
    args = parser.parse_args()
    chosen: list[str] = args.stacks
    if not chosen:
        use_examples()
    try:
        for stack in chosen:
            stack_file(ROOT, stack)
    except StackError as error:
        parser.error(str(error))
    measures: dict[str, Callable[[], Section]] = {
        "a": lambda: overhead.measure(chosen or SAMPLES, args.runs),
        "b": lambda: growth.measure(chosen, args.runs),
        "c": lambda: imports.measure(chosen, args.runs),
        "d": lambda: makespan.measure(chosen, args.scale),
        "e": lambda: idle.measure(chosen),
    }
    if unknown := set(args.parts) - set(measures):
        parser.error(f"{', '.join(sorted(unknown))}: no such part; there are {', '.join(measures)}")
    known = _earlier()
    for letter in args.parts or measures:
        began = time.monotonic()
        known[letter] = measures[letter]()
        print(f"{letter}: measured in {time.monotonic() - began:.0f} s", flush=True)
    sections = [known[letter] for letter in sorted(known)]
    _write(sections, docs=args.docs)
    print(f"\n{page.text(sections)}\n\n{FOLDER / 'bench.json'}")
    return 0 if all(row.ok for section in sections for row in section.rows) else 1


def _earlier() -> dict[str, Section]:
    """What an earlier run measured, by letter: where only some parts are measured anew."""
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


if __name__ == "__main__":
    sys.exit(commands.run(main))
