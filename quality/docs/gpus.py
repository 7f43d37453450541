"""The table of measured GPUs on the benchmark page.

A measurement is the output of `gpu-cluster test-gpus STACK --json` or of `python -m
quality.bench.gpu --out`, or the log of the test's pod. Measurements are stored in `docs/measured/`,
without anything that identifies the machine, and the table shows all of them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_cluster.components.gpu.acceptance_program.report import result_in
from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.tools.sections import BENCHMARKS, DOCS, fill, table

MEASURED = DOCS / "measured"
SECTION = "gpus"
_PRIVATE = ("node", "uuid")
_COLUMNS = {
    "bf16, TFLOP/s": ("bf16", "fp16"),
    "fp32, TFLOP/s": ("fp32",),
    "memory, GB/s": ("copy",),
    "host to GPU, GB/s": ("hostToDevice",),
    "GPU to host, GB/s": ("deviceToHost",),
    "all-reduce, GB/s": ("allReduce",),
}
"""Heading -> the measures that may be in that column."""


def write_measurements(files: Sequence[Path]) -> None:
    """Stores the measurements in the files, then fills the section. Raises CheckError if a file is
    not a measurement; then none is stored."""
    for document in [document for file in files for document in _read(file)]:
        keep(document)
    fill(BENCHMARKS, SECTION, markdown(measured()))


def _read(file: Path) -> list[Mapping[str, Any]]:
    """The measurements in a file; raises CheckError if there is none."""
    try:
        content = file.read_text()
        documents = documents_in(result_in(content) or json.loads(content))
        # Read as `keep` and the table read them, to refuse an invalid one before any is stored.
        markdown(documents)
    except OSError as error:
        raise CheckError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise CheckError(
            f"{file}: is not a measurement: give what `gpu-cluster test-gpus STACK --json` "
            "printed, or the log of the test's pod"
        ) from None
    return documents


def documents_in(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The programs' documents: one, or one for each pool of a stack."""
    if "pools" in given:
        return [pool["result"] for pool in given["pools"] if pool["result"] is not None]
    return [given]


def keep(document: Mapping[str, Any], folder: Path = MEASURED) -> Path:
    """Writes a document to a file named after its GPU, number of GPUs and driver."""
    gpus = document["gpus"]
    words = f"{len(gpus)} {_name(document)} {document['driver']}"
    name = re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-")
    path = folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_without(document), indent=1) + "\n")
    return path


def measured(folder: Path = MEASURED) -> list[Mapping[str, Any]]:
    """All stored documents, ordered by file name."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def markdown(documents: Sequence[Mapping[str, Any]]) -> str:
    """A row for each measured node, with its slowest GPU."""
    head = ["GPU", "driver", "date", *_COLUMNS, "of a CUDA program's, at least", "verdict"]
    return "\n".join(table(head, map(_cells, documents)))


def _cells(document: Mapping[str, Any]) -> list[str]:
    count = len(document["gpus"])
    ratios = [row["ratio"] for row in document.get("sideBySide", {}).values()]
    return [
        (f"{count} " if count > 1 else "") + _name(document),
        str(document["driver"]),
        document["date"][:10],
        *(_figure(document, measures) for measures in _COLUMNS.values()),
        f"{min(ratios):.0%}" if ratios else "",
        ("good", "broken or slow", "not measured")[document["verdict"]["exit"]],
    ]


def _figure(document: Mapping[str, Any], measures: Sequence[str]) -> str:
    rows = [row for row in document["verdict"]["rows"] if row["measure"] in measures]
    if not rows:
        return ""
    row = min(rows, key=lambda row_: row_["value"])
    digits = 0 if row["value"] >= 100 else 1
    share = f" ({row['share']:.0%})" if row["share"] is not None else ""
    kind = " fp16" if row["measure"] == "fp16" else ""
    return f"{row['value']:,.{digits}f}{kind}{share}"


def _name(document: Mapping[str, Any]) -> str:
    names = [gpu["name"] for gpu in document["gpus"]] or ["no GPU"]
    return " and ".join(dict.fromkeys(names))


def _without(value: Any) -> Any:
    """The value without anything that identifies a machine, at any depth."""
    if isinstance(value, dict):
        return {key: None if key in _PRIVATE else _without(item) for key, item in value.items()}
    return [_without(item) for item in value] if isinstance(value, list) else value
