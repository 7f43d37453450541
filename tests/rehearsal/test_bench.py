"""`python -m quality bench` measures every part, each on its smallest case."""

import json
from pathlib import Path
from typing import Any

import pytest

from quality.bench import bench
from quality.bench.bench import BENCHMARKS
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
    monkeypatch.setattr(bench, "BENCHMARKS", copied := folder / "benchmarks.md")
    copied.write_text(written := BENCHMARKS.read_text())
    code = bench.bench(parts, runs=1, stacks=[stack], scale=scale, docs=True)
    # What some parts of the page measured is not lost.
    assert copied.read_text() == written
    # A limit that is not kept says more of this machine's load than of the program.
    assert code in (ExitCode.OK, ExitCode.FINDING)
    sections = json.loads((folder / "bench.json").read_text())["sections"]
    return {section["letter"]: section["rows"] for section in sections}


def test_programs_and_imports_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program imports its SDKs itself, as a user's does: the fork server's would be ready in
    less time than the imports alone take."""
    found = rows(monkeypatch, tmp_path, "a", "b", stack="onprem")
    times = [row for row in found["a"] if row["unit"] == "s"]
    assert [row["what"] for row in times] == ["onprem: preview, time", "onprem: up, time"]
    assert [len(row["ours"]) for row in found["a"]] == [1] * 4
    (imports,) = found["b"]
    assert min(row["ours"][0] for row in times) > imports["ours"][0]


@pytest.mark.prove  # it waits for a simulated cloud twice, half a minute
def test_an_up_at_a_cloud_s_pace_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Against the longest chain and the common order, with a row for each."""
    found = rows(monkeypatch, tmp_path, "c", stack="dev", scale=100)
    assert len(found["c"]) == 2
