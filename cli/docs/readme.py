"""`python -m cli.docs.readme`: writes into the README what commands print, between its markers."""

import json
import shutil
import sys
from pathlib import Path

from cli.docs import keys, policy_docs
from tools.sections import README, filled

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Config keys and policies always; the last rehearsal of dev and the last tests where there
    were any."""
    policy_docs.main()
    text = filled(README.read_text(), "keys", f"\n{keys.markdown()}\n")
    folder = ROOT / ".rehearsal" / "dev"
    if (folder / "report.txt").is_file() and json.loads((folder / "report.json").read_text())["ok"]:
        report = (folder / "report.txt").read_text().strip()
        text = filled(text, "rehearse", f"\n```text\n{report}\n```\n\n")
        shutil.copy(folder / "timeline.svg", ROOT / "docs" / "timeline.svg")
    else:
        sys.stderr.write("no report of dev: run `make rehearse` first for its section\n")
    tests = ROOT / ".rehearsal" / "test.txt"
    if tests.is_file():
        text = filled(text, "test", f"\n```text\n{tests.read_text().strip()}\n```\n\n")
    else:
        sys.stderr.write("no report of the tests: run `make test` first for its section\n")
    README.write_text(text)


if __name__ == "__main__":
    main()
