"""Injects every fault in every environment.

Work is `kills`, `errors` or `changes`; by default all of it. Work that is not named keeps the
results of the last run. The pages are written once everything has been done.
"""

import sys
import time
from collections.abc import Collection

from gpu_cluster.rehearsal.engine.provider_plugins import Choice
from gpu_cluster.rehearsal.sandbox import ROOT
from gpu_cluster.stacks.definition.files import SAMPLES, use_examples
from gpu_cluster.stacks.outcome import ExitCode
from gpu_cluster.tools.sections import IMMUTABLE, RELIABILITY, fill
from quality.faults.changes import MORE
from quality.faults.table import document, markdown, parse_results, replacements, summary
from quality.faults.workers import Part, parts_of, run_parts

FILE = ROOT / ".rehearsal" / "prove" / "faults.json"


def works() -> list[str]:
    """The names of the work, such as `dev-kills`."""
    return list(dict.fromkeys(map(_name, _every())))


def inject(
    work: Collection[str], *, minutes: float, workers: int, plugins: Choice = "auto"
) -> ExitCode:
    """Injects the faults of the chosen work, by default all, and writes the results.

    Starts no fault after this many minutes; `workers` sandboxes run at a time.
    """
    every = _every()
    parts = [part for part in every if not work or _name(part) in work]
    earlier, spent = parse_results(FILE.read_text()) if work and FILE.is_file() else ([], 0.0)
    began = time.monotonic()
    latest = run_parts(
        parts, FILE.parent, plugins=plugins, workers=workers, until=began + minutes * 60, log=_log
    )
    spent += (time.monotonic() - began) / 60
    results = [*(result for result in earlier if result.part not in parts), *latest]
    results.sort(key=lambda result: (result.part.stack, result.part.number))
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(document(results, spent))
    sections = {
        "faults": (RELIABILITY, markdown(results, spent)),
        "changes": (IMMUTABLE, replacements(results)),
    }
    for section, (page, content) in sections.items():
        if len(results) == len(every):
            fill(page, section, content)
        print(f"\n{content}")
    print(FILE, flush=True)
    wrong = summary(results)
    for line in wrong:
        print(line, file=sys.stderr)
    return ExitCode.FINDING if wrong else ExitCode.OK


def _every() -> list[Part]:
    use_examples()
    parts = [part for stack in SAMPLES for part in parts_of(stack)]
    return [*parts, *(Part(stack=stack, work="changes") for stack in MORE)]


def _name(part: Part) -> str:
    return f"{part.stack}-{part.work}"


_began = time.monotonic()


def _log(line: str) -> None:
    print(f"{time.monotonic() - _began:7.1f} s  {line}", flush=True)
