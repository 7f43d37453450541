"""`python -m prove [--stack S] [--minutes N]`: every fault in every environment, and the table."""

import argparse
import sys
import time

from checks.readme import README, filled
from prove import shards
from prove.table import document, markdown, replacements, summary
from rehearsal.program import stacks
from rehearsal.stage import ROOT

FOLDER = ROOT / ".rehearsal" / "prove"


def main() -> int:
    """Parses the command line; returns 0 where nothing was lost."""
    parser = argparse.ArgumentParser(prog="prove", description=__doc__)
    parser.add_argument("--stack", help="this one alone; the README then stays as it is")
    parser.add_argument(
        "--minutes", type=float, default=45.0,
        help="no new fault after that: `make prove` has tests for another quarter of an hour",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, default=3, help="stages at a time")
    args = parser.parse_args()
    chosen = [args.stack] if args.stack else stacks(ROOT)
    began = time.monotonic()
    results = shards.run(
        chosen, FOLDER, workers=args.workers, until=began + args.minutes * 60, say=_say
    )
    minutes = (time.monotonic() - began) / 60
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "faults.json").write_text(document(results, minutes))
    sections = {"faults": markdown(results, minutes), "changes": replacements(results)}
    if not args.stack:
        text = README.read_text()
        for section, content in sections.items():
            text = filled(text, section, f"\n{content}\n")
        README.write_text(text)
    for content in sections.values():
        print(f"\n{content}")
    print(FOLDER / "faults.json", flush=True)
    wrong = summary(results)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


_began = time.monotonic()


def _say(line: str) -> None:
    print(f"{time.monotonic() - _began:7.1f} s  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
