"""What the tests cost, by folder: processor seconds and control planes started, and their limits.

`tests/budget.yaml` has the limits. Its processor seconds are those of a machine on which
`reference()` takes the time that the file names; on another machine they count in proportion.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

FILE = Path(__file__).with_suffix(".yaml")
SLACK = 1.2
"""How far above its row a folder may be: the same run varies by a tenth."""
_PLANE = "rehearsal.control_plane.local_control_plane"


@dataclass(frozen=True, slots=True)
class Cost:
    """What tests have cost."""

    cpu: float = 0.0
    """Seconds of processors, of the tests' own process and of the children that it waited for."""
    planes: int = 0
    """Control planes started."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu + other.cpu, self.planes + other.planes)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu - other.cpu, self.planes - other.planes)


def so_far() -> Cost:
    """What this process has cost."""
    times = os.times()
    module = sys.modules.get(_PLANE)
    return Cost(
        times.user + times.system + times.children_user + times.children_system,
        getattr(module, "started", 0),
    )


class Meter:
    """A plugin that writes into each report what its phase has cost."""

    def __init__(self) -> None:
        self._before = so_far()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report: Any = yield
        now = so_far()
        spent, self._before = now - self._before, now
        report.cost = [spent.cpu, spent.planes]  # plain, so that xdist hands it on
        return report


def reference() -> float:
    """Processor seconds of a fixed piece of work, the best of three: how fast this machine is."""
    return min(_work() for _ in range(3))


def _work() -> float:
    began = time.process_time()
    table: dict[str, int] = {}
    for number in range(300_000):
        key = f"{number % 5000:x}"
        table[key] = table.get(key, 0) + number
    return time.process_time() - began


def limits() -> Mapping[str, Any]:
    """The content of `tests/budget.yaml`."""
    found: Mapping[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def over(spent: Mapping[str, Cost], limits: Mapping[str, Any], *, reference: float) -> list[str]:
    """A line for each folder that costs more than its row allows, or that has no row."""
    speed = reference / limits["reference"]
    lines = []
    for folder, cost in sorted(spent.items()):
        row = limits["folders"].get(folder)
        if row is None:
            lines.append(f"tests/{folder} has no row in tests/budget.yaml")
            continue
        if cost.cpu > SLACK * speed * row["cpu"]:
            lines.append(
                f"tests/{folder} took {cost.cpu:.0f} s of the processors; its row in "
                f"tests/budget.yaml is {row['cpu']} s, {speed * row['cpu']:.0f} s on this machine"
            )
        if cost.planes > row["planes"]:
            lines.append(
                f"tests/{folder} started {cost.planes} control planes; its row in "
                f"tests/budget.yaml is {row['planes']}"
            )
    return lines
