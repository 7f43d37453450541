"""URNs and states are taken apart in one place, and that place does it right."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


NAMES_OF_TESTS = (
    "quality/docs/ai_conformance.py",
    "tests/unit/quality/test_ai_conformance.py",
    "tests/program/test_everything.py",
    "tests/unit/project/test_commands_in_docs.py",
    "tests/unit/simulators/test_caveats.py",
)
"""Take apart names of tests, which have `::` too."""
ALONE = "tests/integration/stacks/fake_engine.py"
"""Runs in the engine's place, without the program."""
SPLITS = re.compile(r"""(split|partition)\(\s*["'](::|\$)["']""")


def test_nobody_else_takes_a_urn_apart() -> None:
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "*.py"], check=True, capture_output=True, text=True
    )
    found = [
        f"{name}:{number}"
        for name in listed.stdout.split()
        if name
        not in (
            "gpu_cluster/stacks/engine/urn.py",
            "tests/unit/stacks/test_urn.py",
            *NAMES_OF_TESTS,
            ALONE,
        )
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if SPLITS.search(line)
    ]
    assert found == [], "use gpu_cluster.stacks.engine.urn.Urn"
