"""The output: tables for people, and one line with everything for machines."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

MARKER = "gpu-test-result "
"""The prefix of the log's last line, which contains the whole document as JSON."""

_VERDICTS = ("good", "a GPU is broken or slow", "could not be measured")
"""Verdict by exit code."""
_FIGURES = ["GPU", "MEASURE", "VALUE", "", "DATA SHEET", "SHARE", "AT LEAST", "VERDICT"]
_STATES = [
    "GPU", "MODEL", "SM MHz", "OF", "MEMORY MHz", "WATTS", "OF", "CELSIUS", "THROTTLING", "ECC",
    "UNCORRECTED", "XIDS NOW", "XIDS IN LOG",
]  # fmt: skip

Document = Mapping[str, Any]


def result_in(log: str) -> dict[str, Any] | None:
    """The document in a log; None if the program did not get that far."""
    lines = [line for line in log.splitlines() if line.startswith(MARKER)]
    if not lines:
        return None
    try:
        document: dict[str, Any] = json.loads(lines[-1].removeprefix(MARKER))
    except ValueError:  # The line is long, and its end has not been written yet, or never was.
        return None
    return document


def text(document: Document) -> str:
    """A row for each figure, a row for each GPU under load, the findings, the verdict."""
    verdict = document["verdict"]
    head = (
        f"node {document['node'] or 'unknown'}  pool {document['pool'] or '-'}  "
        f"driver {document['driver'] or 'unknown'}  {document['date']}"
    )
    blocks = [head]
    if document["gpus"]:
        blocks.append(_table(_FIGURES, [_figure(row) for row in verdict["rows"]]))
        blocks.append(_table(_STATES, [_state(gpu) for gpu in document["gpus"]]))
    if verdict["findings"]:
        blocks.append("\n".join(_finding(finding) for finding in verdict["findings"]))
    return "\n\n".join([*blocks, f"verdict: {_VERDICTS[verdict['exit']]}"])


def number(value: float | None) -> str:
    """The number without decimals from 100 on, otherwise with one; `-` for None."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}"


def numbers(values: Sequence[int] | None) -> str:
    """Each number once; None differs from an empty list."""
    if values is None:
        return "unknown"
    return " ".join(map(str, sorted(set(values)))) or "none"


def _figure(row: Document) -> list[str]:
    return [
        str(row["gpu"]),
        row["measure"] + (" (no TF32)" if row["measure"] == "fp32" else ""),
        number(row["value"]),
        row["unit"],
        number(row["sheet"]),
        *("-" if row[key] is None else f"{row[key]:.0%}" for key in ("share", "least")),
        row["verdict"],
    ]


def _state(gpu: Document) -> list[str]:
    load, limits, errors = (gpu.get(key) or {} for key in ("load", "limits", "errors"))
    reasons, ecc = load.get("throttling"), errors.get("ecc")
    return [
        str(gpu["index"]),
        gpu["name"],
        _median(load.get("smMhz")),
        _known(limits.get("smMhz")),
        _median(load.get("memoryMhz")),
        _median(load.get("watts")),
        _known(limits.get("watts")),
        _median(load.get("celsius")),
        "unknown"
        if reasons is None
        else ", ".join(f"{word} {share:.0%}" for word, share in reasons.items()) or "none",
        "unknown" if ecc is None else "on" if ecc else "off",
        _known(errors.get("uncorrectedSinceBoot")),
        numbers(gpu.get("xids")),
        numbers(errors.get("xidsInKernelLog")),
    ]


def _finding(finding: Document) -> str:
    which = "all GPUs" if finding["gpu"] == "all" else f"GPU {finding['gpu']}"
    return f"{which}: {finding['kind']}: {finding['message']}"


def _median(values: Document | None) -> str:
    return "unknown" if values is None else number(values["median"])


def _known(value: float | None) -> str:
    return "unknown" if value is None else number(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )
