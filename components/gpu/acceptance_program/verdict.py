"""Judges measured GPUs: figures against data sheets, and what the driver reports.

Pure functions on the document that `__main__` creates; nothing here depends on PyTorch or a driver.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .report import number, numbers

GOOD, BAD, UNMEASURED = 0, 1, 2
"""Exit codes: nothing is wrong; a GPU is broken or slow; something could not be measured."""

MATRIX, FP32, MEMORY, HOST, ALL_REDUCE, NETWORK = (
    "matrix", "fp32", "memory", "host", "allReduce", "network",
)  # fmt: skip
"""The measures for which data sheets have figures and settings have thresholds."""

_JUDGED = {
    "bf16": MATRIX,
    "fp16": MATRIX,
    "fp32": FP32,
    "copy": MEMORY,
    "triad": MEMORY,
    "hostToDevice": HOST,
    "deviceToHost": HOST,
}
WRONG = {"bf16": 1e-2, "fp16": 1e-2, "fp32": 1e-5}
"""The error, relative to the exact product, from which a result counts as wrong: rounding causes at
most a tenth of it, and TF32 instead of fp32 3e-4."""
_HARDWARE = ("hardware slowdown", "hardware thermal slowdown", "power brake")

Document = Mapping[str, Any]


def sheet_of(name: str, sheets: Sequence[Document]) -> Document | None:
    """The data sheet of a GPU, by the driver's name for it."""
    short = name.removeprefix("NVIDIA ").removeprefix("Tesla ")
    return next((sheet for sheet in sheets if short in sheet["names"]), None)


def judge(document: Document) -> dict[str, Any]:
    """Rows (one per figure), findings, and the resulting exit code."""
    rows = list(_rows(document))
    findings = [
        {
            "gpu": row["gpu"],
            "kind": "slow",
            "message": f"{row['measure']} {number(row['value'])} {row['unit']} are "
            f"{row['share']:.0%} of the data sheet's {number(row['sheet'])}, and at "
            f"least {row['least']:.0%} is required",
        }
        for row in rows
        if row["verdict"] == "slow"
    ]
    findings += [
        {"gpu": gpu, "kind": kind, "message": message} for gpu, kind, message in _found(document)
    ]
    kinds = {finding["kind"] for finding in findings}
    code = BAD if kinds - {"unmeasured", "note"} else UNMEASURED if "unmeasured" in kinds else GOOD
    return {"exit": code, "rows": rows, "findings": findings}


def _rows(document: Document) -> Iterator[dict[str, Any]]:
    for gpu in document["gpus"]:
        sheet = gpu.get("sheet")
        for measure, figure in gpu.get("measures", {}).items():
            kind = _JUDGED[measure]
            promised, least = (sheet[kind], sheet["least"][kind]) if sheet else (None, None)
            yield _row(gpu["index"], measure, figure, promised, least)
    figure = document.get("allReduce")
    if figure and "value" in figure:
        # A data sheet's NVLink figure is for both directions, the bus bandwidth for one.
        sheet = document["gpus"][0].get("sheet")
        link = sheet["nvlink"] / 2 if sheet and sheet["nvlink"] else None
        yield _row("all", "allReduce", figure, link, sheet and sheet["least"][ALL_REDUCE])
    figure = document.get("network")
    if figure and "value" in figure:
        sheet = document["gpus"][0].get("sheet")
        least = sheet and sheet["least"][NETWORK]
        yield _row("all", "network", figure, document["networkSheet"], least)


def _row(
    gpu: int | str, measure: str, figure: Document, promised: float | None, least: float | None
) -> dict[str, Any]:
    row: dict[str, Any] = {"gpu": gpu, "measure": measure, "value": figure["value"]}
    row |= {"unit": figure["unit"], "sheet": promised, "share": None, "least": None}
    if not promised or least is None:
        return {**row, "verdict": "not compared"}
    share = figure["value"] / promised
    return {**row, "share": share, "least": least, "verdict": "good" if share >= least else "slow"}


def _found(document: Document) -> Iterator[tuple[int | str, str, str]]:
    gpus, asked = document["gpus"], document["gpusAsked"]
    if "unmeasured" in document:
        yield "all", "unmeasured", document["unmeasured"]
    elif len(gpus) < asked:
        yield "all", "missing", f"the pod requested {asked} GPUs and sees {len(gpus)}"
    for gpu in gpus:
        index = gpu["index"]
        for kind, message in (*_measuring(gpu), *_errors(gpu), *_load(gpu)):
            yield index, kind, message
    figure = document.get("allReduce")
    if len(gpus) > 1 and figure is not None:
        if "value" not in figure:
            yield "all", "broken", "the all-reduce over all GPUs failed or hung; see the log above"
        elif not figure["right"]:
            yield "all", "broken", "the all-reduce gave a wrong sum"
    figure, nodes = document.get("network"), document.get("nodes")
    if figure is not None:
        if "value" not in figure:
            message = f"the all-reduce over {nodes} nodes failed, or another node did not join in"
            yield "all", "broken", f"{message}; see the logs of all pods"
        elif not figure["right"]:
            yield "all", "broken", f"the all-reduce over {nodes} nodes gave a wrong sum"


def _measuring(gpu: Document) -> Iterator[tuple[str, str]]:
    if gpu.get("wrongModel"):
        yield "wrong GPU model", f"it is a {gpu['name']}, and the pool has {gpu['wrongModel']}"
    elif gpu.get("sheet") is None:
        yield "unmeasured", f"no data sheet of {gpu['name']} is known, so nothing is compared"
    if gpu.get("otherPrograms"):
        yield "note", f"{gpu['otherPrograms']} other programs used it when the test began"
    if "unmeasured" in gpu:
        yield "unmeasured", gpu["unmeasured"]
    if "broken" in gpu:
        yield "broken", gpu["broken"]
    for name, product in gpu.get("products", {}).items():
        if product["error"] is None:
            yield "broken", f"its {name} product is not a number"
        elif product["error"] >= WRONG[name]:
            yield "broken", f"its {name} product is wrong by {product['error']:.1e}"
        if not product["repeats"]:
            yield "broken", f"the same {name} product gave two results"


def _errors(gpu: Document) -> Iterator[tuple[str, str]]:
    errors = gpu.get("errors", {})
    if errors.get("uncorrectedSinceBoot"):
        count = errors["uncorrectedSinceBoot"]
        yield "broken", f"{count} uncorrected memory errors since its driver was loaded"
    if errors.get("rowsRemapFailed"):
        yield "broken", "a bad memory row could not be replaced: have the GPU replaced"
    if errors.get("rowsRemapPending") or errors.get("pagesPending"):
        yield "broken", "bad memory has not been remapped yet: reset the GPU, or restart the node"
    if errors.get("uncorrectedEver"):
        yield "note", f"{errors['uncorrectedEver']} uncorrected memory errors in its life"
    if gpu.get("xids"):
        yield "broken", f"XID errors during the measurement: {numbers(gpu['xids'])}"
    if errors.get("xidsInKernelLog"):
        xids = numbers(errors["xidsInKernelLog"])
        yield "note", f"XID errors in the node's kernel log, also of other programs: {xids}"


def _load(gpu: Document) -> Iterator[tuple[str, str]]:
    reasons = gpu.get("load", {}).get("throttling") or {}
    for word, share in reasons.items():
        if word in _HARDWARE:
            yield "broken", f"{word} in {share:.0%} of the samples under load"
        elif word != "power cap":  # Every GPU runs at its power limit.
            yield "note", f"{word} in {share:.0%} of the samples under load"
