"""The comparison of the acceptance test with a program written for the GPU."""

import json

import pytest

from gpu_cluster.components.gpu.acceptance_program.report import MARKER
from quality.bench.gpu.__main__ import ENOUGH, RunError, result, side_by_side
from quality.docs.gpus import measured


def test_a_ratio_is_of_medians_over_the_rounds() -> None:
    """One disturbed round on either side does not decide."""
    gpus = [{"measures": {"copy": {"value": value}}} for value in (2900.0, 3000.0, 100.0)]
    tuned = [
        {"copy": {"value": value, "unit": "GB/s", "how": "so"}} for value in (3100.0, 1.0, 3000.0)
    ]
    row = side_by_side(gpus, tuned)["copy"]
    assert (row["workload"], row["handTuned"]) == (2900.0, 3000.0)
    assert row["ratio"] == pytest.approx(2900 / 3000)
    assert row["rounds"]["workload"] == [2900.0, 3000.0, 100.0]


def test_nothing_measured_is_said() -> None:
    """A GPU that could not be measured has no ratio."""
    with pytest.raises(RunError, match="printed no result"):
        result("")
    empty = {"gpus": [], "verdict": {"findings": ["no driver"]}}
    with pytest.raises(RunError, match="no driver"):
        result(MARKER + json.dumps(empty))


def test_the_workload_was_seen_to_be_good_enough() -> None:
    """On a measured GPU it reaches nine tenths of the hand-tuned program, in every measure."""
    (compared, *_) = [one["sideBySide"] for one in measured() if "sideBySide" in one]
    assert set(compared) == {"bf16", "fp32", "copy", "triad", "hostToDevice", "deviceToHost"}
    assert min(row["ratio"] for row in compared.values()) >= ENOUGH
