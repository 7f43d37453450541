"""A run of all tests fails in CI if a folder costs more than its budget."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import budget
from tests.budget import Cost

LIMITS = {"reference": 0.1, "folders": {"unit": {"cpu": 100, "planes": 2}}}


@pytest.mark.parametrize(
    ("cost", "reference", "says"),
    [
        (Cost(119, 2), 0.1, []),
        (Cost(121, 2), 0.1, ["tests/unit took 121 s of the processors"]),
        (Cost(239, 2), 0.2, []),
        (Cost(241, 2), 0.2, ["is 100 s, 200 s on this machine"]),
        (Cost(1, 3), 0.1, ["tests/unit started 3 control planes"]),
    ],
)
def test_a_fifth_more_than_its_row_is_too_much(
    cost: Cost, reference: float, says: list[str]
) -> None:
    """Processor seconds count in proportion to the machine, control planes do not."""
    lines = budget.over({"unit": cost}, LIMITS, reference=reference)
    assert len(lines) == len(says)
    assert all(words in line for words, line in zip(says, lines, strict=True))


def test_a_folder_without_a_row_is_named() -> None:
    """A new folder of tests says what it may cost."""
    lines = budget.over({"new": Cost()}, LIMITS, reference=0.1)
    assert lines == ["tests/new has no row in tests/budget.yaml"]


def test_every_folder_has_a_row() -> None:
    """And no row is left of one that is gone."""
    from tests.conftest import folders

    assert set(budget.limits()["folders"]) == folders()


def test_a_phase_is_charged_with_its_children(tmp_path: Path) -> None:
    """The report of a test has what its own process and its children took."""
    work = "sum(range(60_000_000))"
    (tmp_path / "test_it.py").write_text(
        "import subprocess, sys\n"
        "def test_own(): sum(range(60_000_000))\n"
        f"def test_child(): subprocess.run([sys.executable, '-c', '{work}'])\n"
        "def test_nothing(): pass\n"
    )
    (tmp_path / "conftest.py").write_text(
        "from tests.budget import Meter\n"
        "def pytest_configure(config): config.pluginmanager.register(Meter())\n"
        "def pytest_runtest_logreport(report):\n"
        "    if report.when == 'call': print('COST', report.location[2], report.cost[0] > 0.1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(budget.__file__).parents[1])},
    )
    said = [line.split("COST ")[1] for line in done.stdout.splitlines() if "COST " in line]
    assert said == ["test_own True", "test_child True", "test_nothing False"]
