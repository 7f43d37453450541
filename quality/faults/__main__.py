"""`python -m quality.faults [STACK-WORK ...] [--minutes N]`: every fault in every environment.

Work is `kills`, `errors` or `changes`; left out, all of it. What is not named stays as the last run
left it. The pages are written once everything has been done.
"""

import sys
import time

from quality.faults import workers
from quality.faults.table import document, markdown, read, replacements, summary
from quality.faults.workers import Part, parts_of
from rehearsal.sandbox import ROOT
from stacks import command as commands
from stacks.files import SAMPLES, use_examples
from tools.sections import IMMUTABLE, RELIABILITY, fill

FILE = ROOT / ".rehearsal" / "prove" / "faults.json"


def main() -> int:
    """Parses the command line; returns 0 where nothing was lost."""
    use_examples()
    parser = commands.Parser(prog="prove", description=__doc__)
    every = [part for stack in SAMPLES for part in parts_of(stack)]
    names = list(dict.fromkeys(map(_name, every)))
    parser.add_argument(
        "work", nargs="*", metavar="STACK-WORK", help=f"left out, all: {', '.join(names)}"
    )
    parser.add_argument(
        "--minutes", type=float, default=45.0,
        help="no new fault after that: `make prove` has tests for another quarter of an hour",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, default=4, help="sandboxes at a time")
    args = parser.parse_args()
    if unknown := set(args.work) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: no such work; there is {', '.join(names)}")
    parts = [part for part in every if _name(part) in (args.work or names)]
    earlier, minutes = read(FILE.read_text()) if args.work and FILE.is_file() else ([], 0.0)
    began = time.monotonic()
    latest = workers.run(
        parts, FILE.parent, workers=args.workers, until=began + args.minutes * 60, log=_log
    )
    minutes += (time.monotonic() - began) / 60
    results = [*(result for result in earlier if result.part not in parts), *latest]
    results.sort(key=lambda result: (result.part.stack, result.part.number))
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(document(results, minutes))
    sections = {
        "faults": (RELIABILITY, markdown(results, minutes)),
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
    return 1 if wrong else 0


def _name(part: Part) -> str:
    return f"{part.stack}-{part.work}"


_began = time.monotonic()


def _log(line: str) -> None:
    print(f"{time.monotonic() - _began:7.1f} s  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(commands.run(main))
