"""`python -m quality bench` measures every part, each on its smallest case."""

import json
from pathlib import Path
from typing import Any

import pytest

from quality.bench import bench, growth
from stacks.outcome import ExitCode


def rows(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *parts: str,
    stack: str,
    scale: float | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Part -> what it measured, with one run of each side."""
    monkeypatch.setattr(bench, "FOLDER", folder)
    code = bench.bench(parts, runs=1, stacks=[stack], scale=scale, docs=False)
    # A limit that is not kept says more of this machine's load than of the program.
    assert code in (ExitCode.OK, ExitCode.FINDING)
    sections = json.loads((folder / "bench.json").read_text())["sections"]
    return {section["letter"]: section["rows"] for section in sections}


def test_programs_imports_and_cost_are_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program imports its SDKs itself, as a user's does: the fork server's would be ready in
    less time than the imports alone take."""
    found = rows(monkeypatch, tmp_path, "a", "c", "e", stack="onprem")
    times = [row for row in found["a"] if row["unit"] == "s"]
    assert [row["what"] for row in times] == ["onprem: preview, time", "onprem: up, time"]
    assert [len(row["ours"]) for row in found["a"]] == [1] * 4
    (imports,) = found["c"]
    assert min(row["ours"][0] for row in times) > imports["ours"][0]
    assert found["e"] == []  # an existing cluster is on somebody else's bill


@pytest.mark.prove  # four processes that each run the program thirty times, half a minute
def test_what_a_further_pool_costs_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In time and in memory, for each size."""
    monkeypatch.setattr(growth, "SIZES", (2,))
    monkeypatch.setattr(growth, "REFERENCE", 2)
    found = rows(monkeypatch, tmp_path, "b", stack="train")
    assert [row["unit"] for row in found["b"]] == ["ms", "KiB"]


@pytest.mark.prove  # it waits for a simulated cloud twice, half a minute
def test_an_up_at_a_cloud_s_pace_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Against the longest chain and the common order, with a picture."""
    found = rows(monkeypatch, tmp_path, "d", stack="dev", scale=100)
    assert len(found["d"]) == 2
    assert (tmp_path / "gantt-dev.svg").is_file()
