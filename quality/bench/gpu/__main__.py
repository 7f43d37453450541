"""`python3 -m quality.bench.gpu [--rounds N] [--out FILE]`: the acceptance test and
a tuned CUDA program, alternately on the same GPU, with the ratio of each figure.

Needs a GPU, PyTorch and nvcc. Exit code 0: each figure is at least 0.9 of the hand-tuned one.
1: one is not, or the acceptance test finds the GPU broken or slow. 2: could not be run.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_cluster.components.catalog.data_sheets import DATA_SHEETS
from gpu_cluster.components.gpu.acceptance_program.report import result_in
from gpu_cluster.components.gpu.acceptance_request import ThresholdsArgs, request

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).with_name("gpu.cu")
ENOUGH = 0.9


class RunError(Exception):
    """One of the two programs could not be run; one line."""


def main() -> int:
    """Parses the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="quality.bench.gpu", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each program")
    parser.add_argument("--architecture", default="sm_90", help="for nvcc")
    parser.add_argument("--out", type=Path, help="where the JSON goes as well")
    args = parser.parse_args()
    try:
        document = run_rounds(args.rounds, args.architecture)
    except RunError as error:
        print(f"quality.bench.gpu: {error}", file=sys.stderr)
        return 2
    if args.out:
        args.out.write_text(json.dumps(document, indent=1) + "\n")
    print(comparison_text(document))
    slow = any(row["ratio"] < ENOUGH for row in document["sideBySide"].values())
    return int(document["verdict"]["exit"]) or int(slow)


def run_rounds(rounds: int, architecture: str) -> dict[str, Any]:
    """The acceptance test's result from the last round, with `sideBySide` for all rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "gpu"
        _output(
            ["nvcc", "-O3", "-std=c++20", f"-arch={architecture}", str(SOURCE), "-o", str(program),
             "-lcublasLt"]
        )  # fmt: skip
        asked = request(
            pool=None, gpus=1, expected=DATA_SHEETS.values(), thresholds=ThresholdsArgs()
        )
        (folder / "request.json").write_text(json.dumps(asked))
        workload = [sys.executable, "-m", "gpu_cluster.components.gpu.acceptance_program"]
        documents, tuned = [], []
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            printed = _output([*workload, str(folder / "request.json")], fine=(0, 1, 2))
            documents.append(result(printed))
            tuned.append(json.loads(_output([str(program)])))
    document = documents[-1]
    return {**document, "sideBySide": side_by_side([d["gpus"][0] for d in documents], tuned)}


def result(printed: str) -> dict[str, Any]:
    """The result in the acceptance test's output. Raises RunError if there is none."""
    document = result_in(printed)
    if document is None:
        raise RunError("the acceptance test printed no result")
    if not document["gpus"] or "measures" not in document["gpus"][0]:
        raise RunError(f"nothing was measured: {document['verdict']['findings']}")
    return document


def side_by_side(
    gpus: Sequence[Mapping[str, Any]], tuned: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Measure -> both programs' medians over the rounds, and their ratio."""
    rows: dict[str, dict[str, Any]] = {}
    for measure, first in tuned[0].items():
        ours = [gpu["measures"][measure]["value"] for gpu in gpus]
        theirs = [item[measure]["value"] for item in tuned]
        rows[measure] = {
            "workload": statistics.median(ours),
            "handTuned": statistics.median(theirs),
            "ratio": statistics.median(ours) / statistics.median(theirs),
            "unit": first["unit"],
            "rounds": {"workload": ours, "handTuned": theirs},
            "how": tuned[-1][measure]["how"],
        }
    return rows


def comparison_text(document: Mapping[str, Any]) -> str:
    """The comparison as text, a line for each measure."""
    gpu = document["gpus"][0]
    lines = [f"{gpu['name']}, driver {document['driver']}, {document['date']}", ""]
    lines.append(f"{'MEASURE':14}{'WORKLOAD':>12}{'HAND-TUNED':>12}  {'':8}{'RATIO':>6}  HOW")
    for measure, row in document["sideBySide"].items():
        lines.append(
            f"{measure:14}{row['workload']:12.1f}{row['handTuned']:12.1f}  {row['unit']:8}"
            f"{row['ratio']:6.3f}  {row['how']}"
        )
    return "\n".join(lines)


def _output(command: Sequence[str], fine: Sequence[int] = (0,)) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise RunError(f"{command[0]} is not here") from None
    if done.returncode not in fine:
        raise RunError(f"{Path(command[0]).name} ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
