"""The program that measures GPUs: its arithmetic and its verdict, on a measured H100's document.

No PyTorch and no GPU are needed; the document is one that `docs/measured` keeps.
"""

import copy
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gpu_cluster.components.catalog.data_sheets import DATA_SHEETS
from gpu_cluster.components.gpu.acceptance_program import measures
from gpu_cluster.components.gpu.acceptance_program.all_reduce import bus_bandwidth
from gpu_cluster.components.gpu.acceptance_program.nvml import kernel_log_xids
from gpu_cluster.components.gpu.acceptance_program.report import MARKER, result_in, text
from gpu_cluster.components.gpu.acceptance_program.verdict import (
    BAD,
    GOOD,
    UNMEASURED,
    judge,
    sheet_of,
)
from gpu_cluster.components.gpu.acceptance_request import ThresholdsArgs, request

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

ROOT = Path(__file__).parents[3]
H100 = ROOT / "docs" / "measured" / "1-nvidia-h100-80gb-hbm3-580.159.04.json"
SHEETS = request(pool="p", gpus=1, expected=[DATA_SHEETS["H100"]], thresholds=ThresholdsArgs())[
    "sheets"
]


@pytest.fixture
def document() -> dict[str, Any]:
    """The H100's, without its verdict."""
    measured: dict[str, Any] = json.loads(H100.read_text())
    del measured["verdict"]
    return measured


def gpu_of(document: dict[str, Any]) -> dict[str, Any]:
    gpu: dict[str, Any] = document["gpus"][0]
    return gpu


def test_the_measured_card_is_good(document: dict[str, Any]) -> None:
    """Every figure is compared with the data sheet's, and the exit code is 0."""
    verdict = judge(document)
    assert verdict["exit"] == GOOD
    assert verdict["findings"] == []
    assert [(row["measure"], row["sheet"], row["verdict"]) for row in verdict["rows"]] == [
        ("bf16", 989.5, "good"),
        ("fp32", 67, "good"),
        ("copy", 3350, "good"),
        ("triad", 3350, "good"),
        ("hostToDevice", 64, "good"),
        ("deviceToHost", 64, "good"),
    ]
    matrix = verdict["rows"][0]
    assert matrix["share"] == pytest.approx(gpu_of(document)["measures"]["bf16"]["value"] / 989.5)


def test_a_figure_below_its_threshold_is_slow(document: dict[str, Any]) -> None:
    """The exit code is 1, and the line says what was measured, promised and wanted."""
    gpu_of(document)["measures"]["copy"]["value"] = 2000.0
    verdict = judge(document)
    assert verdict["exit"] == BAD
    assert verdict["findings"] == [
        {
            "gpu": 0,
            "kind": "slow",
            "message": "copy 2000 GB/s are 60% of the data sheet's 3350, and at least 80% is "
            "required",
        }
    ]


def test_a_threshold_is_met_when_it_is_reached(document: dict[str, Any]) -> None:
    """Exactly the least share is good, a little less is slow."""
    for value, code in ((0.8 * 3350, GOOD), (0.799 * 3350, BAD)):
        gpu_of(document)["measures"]["copy"]["value"] = value
        assert judge(document)["exit"] == code


@pytest.mark.parametrize(
    ("path", "value", "kind", "says"), TABLE["test_what_is_wrong_with_a_gpu_is_said"]
)
def test_what_is_wrong_with_a_gpu_is_said(
    document: dict[str, Any], path: str, value: object, kind: str, says: str
) -> None:
    """What breaks a GPU ends with 1, what hides it with 2, what is only worth knowing with 0."""
    *parents, last = path.split(".")
    place = gpu_of(document)
    for parent in parents:
        place = place[parent]
    place[last] = value
    verdict = judge(document)
    assert {"gpu": 0, "kind": kind, "message": says} in verdict["findings"]
    assert verdict["exit"] == {"unmeasured": UNMEASURED, "note": GOOD}.get(kind, BAD)


def test_the_power_cap_is_no_fault(document: dict[str, Any]) -> None:
    """A GPU that multiplies works at its power limit."""
    assert gpu_of(document)["load"]["throttling"].keys() == {"power cap"}
    assert judge(document)["findings"] == []


def test_what_the_driver_does_not_tell_is_neither_good_nor_bad(document: dict[str, Any]) -> None:
    """Unknown counters make no finding, and are shown as unknown."""
    gpu = gpu_of(document)
    gpu["errors"] = dict.fromkeys(gpu["errors"])
    gpu |= {"xids": None, "load": measures.summary([])}
    document["verdict"] = judge(document)
    assert document["verdict"]["exit"] == GOOD
    (row,) = [line for line in text(document).splitlines() if line.startswith("0    NVIDIA")]
    assert row.split()[-5:] == ["unknown"] * 5


def test_a_missing_gpu_is_a_finding(document: dict[str, Any]) -> None:
    """A pod that sees fewer GPUs than it asked for is on a node that lost one."""
    document["gpusAsked"] = 2
    verdict = judge(document)
    assert verdict["exit"] == BAD
    assert verdict["findings"][0]["message"] == "the pod requested 2 GPUs and sees 1"


@pytest.mark.parametrize(
    ("figure", "code", "says"),
    [
        ({"value": 360.0, "unit": "GB/s", "right": True}, GOOD, None),
        (
            {"value": 200.0, "unit": "GB/s", "right": True},
            BAD,
            "allReduce 200 GB/s are 44% of the data sheet's 450, and at least 60% is required",
        ),
        ({"value": 360.0, "unit": "GB/s", "right": False}, BAD, "the all-reduce gave a wrong sum"),
        ({}, BAD, "the all-reduce over all GPUs failed or hung; see the log above"),
    ],
)
def test_links_are_judged_by_one_direction_of_nvlink(
    document: dict[str, Any], figure: dict[str, Any], code: int, says: str | None
) -> None:
    """An all-reduce on two H100 is compared with 450 of the 900 GB/s of the data sheet."""
    document["gpus"].append({**copy.deepcopy(gpu_of(document)), "index": 1})
    document |= {"gpusAsked": 2, "allReduce": figure}
    verdict = judge(document)
    assert verdict["exit"] == code
    assert [finding["message"] for finding in verdict["findings"]] == ([says] if says else [])


@pytest.mark.parametrize(
    ("network", "kind", "says"),
    [
        ({}, "broken", "the all-reduce over 2 nodes failed, or another node did not join in; see "
         "the logs of all pods"),
        ({"value": 300.0, "unit": "GB/s", "right": False}, "broken",
         "the all-reduce over 2 nodes gave a wrong sum"),
        ({"value": 150.0, "unit": "GB/s", "right": True}, "slow",
         "network 150 GB/s are 38% of the data sheet's 400, and at least 50% is required"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_network_is_said(
    document: dict[str, Any], network: dict[str, Any], kind: str, says: str
) -> None:
    """Each ends with 1, although every GPU is good."""
    sheet = {**gpu_of(document)["sheet"], "least": SHEETS[0]["least"]}
    gpu_of(document)["sheet"] = sheet
    verdict = judge({**document, "nodes": 2, "network": network, "networkSheet": 400.0})
    assert verdict["findings"] == [{"gpu": "all", "kind": kind, "message": says}]
    assert verdict["exit"] == BAD


def test_bus_bandwidth_counts_what_each_link_carries() -> None:
    """1 GB in 10 ms is 100 GB/s over the links of two GPUs, and 175 over those of eight."""
    assert bus_bandwidth(10**9, 0.01, 2) == pytest.approx(100)
    assert bus_bandwidth(10**9, 0.01, 8) == pytest.approx(175)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("Tesla T4", "T4"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H200 NVL", None),
    ],
)
def test_a_card_in_another_form_has_no_data_sheet(name: str, model: str | None) -> None:
    """Names are compared whole: the PCIe GPU of a model is another one than its SXM module."""
    sheet = sheet_of(name, SHEETS)
    assert (sheet and sheet["model"]) == model


def test_windows_give_their_median_and_how_far_they_differ() -> None:
    """One window that was disturbed does not move the figure."""
    assert measures.figure([100.0, 98.0, 20.0], "GB/s") == {
        "value": 98.0,
        "best": 100.0,
        "spread": pytest.approx(80 / 98),
        "unit": "GB/s",
    }


class FakeTorch:
    """A GPU on which every piece of work takes the same time, by its own clock."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.runs = 0
        torch = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                self.at = 0.0

            def record(self) -> None:
                self.at = torch.now

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, end: "Event") -> float:
                return (end.at - self.at) * 1000

        self.cuda = SimpleNamespace(Event=Event, synchronize=lambda: None)

    def work(self) -> None:
        self.now += self.seconds
        self.runs += 1


def test_a_rate_is_work_over_time() -> None:
    """3 GB in 1 ms are 3000 GB/s, over windows of some 0.3 s each."""
    torch = FakeTorch(0.001)
    found = measures._windows(torch, torch.work, 3.0, "GB/s")
    assert found["value"] == pytest.approx(3000)
    per_window = (torch.runs - 102) / measures.WINDOWS
    assert per_window == pytest.approx(measures.WINDOW_SECONDS / 0.001, rel=0.02)


def test_clocks_are_those_of_the_samples() -> None:
    """Lowest, median and highest of what was sampled; a reason's share of all samples."""
    sample = {"smMhz": 1000, "memoryMhz": None, "watts": 500.0, "celsius": 50}
    found = measures.summary(
        [
            {**sample, "throttling": ["power cap"]},
            {**sample, "smMhz": 1980, "throttling": []},
            {**sample, "smMhz": 1400, "throttling": []},
            {**sample, "smMhz": 1400, "throttling": None},
        ]
    )
    assert found["samples"] == 4
    assert found["smMhz"] == {"least": 1000, "median": 1400, "most": 1980}
    assert found["memoryMhz"] is None
    assert found["throttling"] == {"power cap": pytest.approx(1 / 3)}


class OutOfMemory(RuntimeError):
    """As PyTorch's own."""


@pytest.mark.parametrize(
    ("error", "key"),
    [
        (RuntimeError("CUDA error: 719"), "broken"),
        (OutOfMemory(""), "unmeasured"),
        # A V100 with PyTorch's wheels for CUDA 12.8, which have nothing for Volta.
        (RuntimeError("CUDA error: no kernel image is available for execution on the device\n..."),
         "unmeasured"),
    ],
)  # fmt: skip
def test_an_error_of_the_gpu_is_not_one_of_its_surroundings(
    monkeypatch: pytest.MonkeyPatch, error: Exception, key: str
) -> None:
    """A CUDA error breaks the GPU; memory that others hold only hides it, as does an image for
    other GPUs."""

    def fail(*_: object) -> None:
        raise error

    torch = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: True, OutOfMemoryError=OutOfMemory),
        version=SimpleNamespace(cuda="12.8"),
        __version__="2.9.1",
    )
    monkeypatch.setattr(measures, "measure", fail)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    gpu: Any = SimpleNamespace(listen=lambda: None, xids=list)
    assert key in measures.main("bf16", gpu)


def test_an_image_without_pytorch_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is the image's fault, not the GPU's."""
    monkeypatch.setitem(sys.modules, "torch", None)
    gpu: Any = None
    assert "no PyTorch" in measures.main("bf16", gpu)["unmeasured"]


@pytest.mark.parametrize(
    ("log", "address", "xids"),
    [
        (
            "NVRM: Xid (PCI:0000:0f:00): 79, pid=1, GPU has fallen off the bus.\n"
            "NVRM: Xid (PCI:0000:10:00): 31, pid=2\nNVRM: loaded",
            "00000000:0F:00.0",
            [79],
        ),
        ("quiet", "00000000:0F:00.0", []),
        (None, "00000000:0F:00.0", None),
        ("quiet", None, None),
    ],
)
def test_the_kernel_s_log_tells_of_this_gpu_alone(
    log: str | None, address: str | None, xids: list[int] | None
) -> None:
    """Another GPU's XIDs do not count; a log that cannot be read is unknown, not empty."""
    assert kernel_log_xids(log, address) == xids


def test_the_last_result_of_a_log_counts() -> None:
    """What libraries print around it does not matter."""
    log = f'noise\n{MARKER}{{"a": 1}}\n{MARKER}{{"a": 2}}\nNCCL says goodbye'
    assert result_in(log) == {"a": 2}
    assert result_in("killed") is None


def test_a_result_that_is_still_being_written_is_none() -> None:
    """The line is longer than what the container's runtime writes at once."""
    assert result_in(f'table\n{MARKER}{{"a": [1, ') is None
