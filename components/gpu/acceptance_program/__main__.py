"""`python3 -m gpu_test [REQUEST]`: measures every GPU of this node and judges each of them.

REQUEST is a JSON file: pool, GPUs requested, nodes, data sheets with thresholds; by default,
`request.json` next to it. Prints tables and, as the last line, `gpu-test-result` and everything as
JSON. Exit code 0: good. 1: a GPU is broken or slow. 2: something could not be measured.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import all_reduce, measures
from .nvml import Driver, Gpu
from .report import MARKER, text
from .verdict import judge, sheet_of

_GPU_SECONDS = 300


def main() -> int:
    """Parses the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gpu_test", description=__doc__)
    parser.add_argument("request", nargs="?", type=Path)
    # The program calls itself this way: one process per GPU, so that only a process that hangs is
    # killed.
    parser.add_argument("--one", metavar="MATRIX", help=argparse.SUPPRESS)
    parser.add_argument("--all-reduce", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        return _answer(lambda: _one(args.one))
    if args.all_reduce:
        return _answer(all_reduce.worker)
    request = json.loads((args.request or Path(__file__).with_name("request.json")).read_text())
    document = check(request)
    print(f"{text(document)}\n\n{MARKER}{json.dumps(document)}", flush=True)
    return int(document["verdict"]["exit"])


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Measures all GPUs in turn, then their links, then the network to the other nodes; returns the
    document with its verdict."""
    nodes = request["nodes"]
    document: dict[str, Any] = {
        "node": os.environ.get("NODE_NAME"),
        "pool": request["pool"],
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "driver": None,
        "gpusAsked": request["gpus"],
        "gpus": [],
        "allReduce": None,
        "nodes": nodes,
        "network": None,
        "networkSheet": request["network"],
    }
    try:
        driver = Driver()
    except OSError as error:
        document["unmeasured"] = f"the NVIDIA driver cannot be queried: {error}"
        return {**document, "verdict": judge(document)}
    document["driver"] = driver.version
    gpus = driver.gpus()
    for index, gpu in enumerate(gpus):
        document["gpus"].append(_checked(index, gpu, request))
    uuids = [gpu.uuid for gpu in gpus if gpu.uuid]
    if len(uuids) > 1 and all("measures" in gpu for gpu in document["gpus"]):
        print(f"all-reduce over {len(uuids)} GPUs ...", file=sys.stderr, flush=True)
        printed = all_reduce.run(uuids, _self("--all-reduce"))
        document["allReduce"] = json.loads(printed.splitlines()[-1]) if printed else {}
    if nodes > 1:  # Even if a GPU is broken: the other nodes would wait for this one.
        print(f"all-reduce over {nodes} nodes ...", file=sys.stderr, flush=True)
        whole = len(uuids) == request["gpus"]  # Otherwise its ranks would be others' too.
        printed = all_reduce.run(uuids, _self("--all-reduce"), nodes) if whole else None
        document["network"] = json.loads(printed.splitlines()[-1]) if printed else {}
    return {**document, "verdict": judge(document)}


def _checked(index: int, gpu: Gpu, request: dict[str, Any]) -> dict[str, Any]:
    name = gpu.name
    print(f"GPU {index}, {name} ...", file=sys.stderr, flush=True)
    sheet = sheet_of(name, request["sheets"])
    found: dict[str, Any] = {"index": index, "name": name, "uuid": gpu.uuid, "sheet": sheet}
    if sheet is not None and sheet["model"] not in request["expected"]:
        found["wrongModel"] = " or ".join(request["expected"])
    if gpu.partitioned:
        return {**found, "unmeasured": "MIG is on, so this is a part of a GPU"}
    found["otherPrograms"] = gpu.programs
    matrix = (sheet["matrixType"] or "none") if sheet else "?"
    found |= _measured(gpu.uuid, _self("--one", matrix))
    return {**found, "limits": gpu.limits(), "errors": gpu.errors()}


def _measured(uuid: str | None, command: Sequence[str]) -> dict[str, Any]:
    """The result of the process for one GPU."""
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": uuid} if uuid else {})}
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, timeout=_GPU_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"broken": f"it did not finish in {_GPU_SECONDS} s"}
    lines = done.stdout.splitlines()
    if done.returncode == -signal.SIGKILL:
        # A GPU fault ends a process in other ways; SIGKILL comes from the kernel if memory is
        # short.
        return {"unmeasured": "its process was killed, perhaps for lack of memory: request more"}
    if done.returncode < 0:
        return {"broken": f"its process was ended by signal {-done.returncode}"}
    if done.returncode or not lines:
        return {"unmeasured": f"its process ended with {done.returncode}; see the log above"}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def _one(matrix: str) -> dict[str, Any]:
    """Measures the GPU that `CUDA_VISIBLE_DEVICES` names by its UUID."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = Driver().gpus()
    gpu = next((gpu for gpu in gpus if gpu.uuid == wanted), gpus[0])
    return measures.main(None if matrix == "none" else matrix, gpu)


def _answer(measure: Callable[[], dict[str, Any]]) -> int:
    """Prints the JSON of what it returns, alone on standard output: what libraries print there,
    such as NCCL with NCCL_DEBUG, goes to the log."""
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with open(output, "w", encoding="utf-8") as answer:
        json.dump(measure(), answer)
    return 0


def _self(*arguments: str) -> list[str]:
    return [sys.executable, "-m", __package__ or "gpu_test", *arguments]


if __name__ == "__main__":
    sys.exit(main())
