"""Stands in for the engine: keeps a state, writes events, and at its n-th `up` or `destroy` does
what `plan.json` says. It creates a cluster first, then whatever else the config has."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import yaml

FOLDER = Path(os.environ["FAKE_ENGINE"])
STATE, CALLS, PLAN = (FOLDER / name for name in ("state.json", "calls", "plan.json"))
PREFIX = "urn:pulumi:dev::gpu-cluster::"
POOL = f"{PREFIX}gcp:container/nodePool:NodePool::train-gpu"


def row(urn: str) -> dict:
    kind = urn.split("::")[2]
    inputs = {"version": "10.2.0", "context": "gpu-dev"}
    return {"urn": urn, "type": kind, "custom": True, "inputs": inputs}


def wanted(config: dict) -> dict[str, str]:
    """URN -> what is declared there."""
    jobs = {**config["gpu-cluster:workloads"], "test": config.get("gpu-cluster:gpuTest")}
    found = {f"{PREFIX}{kind}::gpu-dev" for kind in
             ("pulumi:providers:gcp", "pulumi:providers:kubernetes",
              "gcp:container/cluster:Cluster")}  # fmt: skip
    return {
        **dict.fromkeys(found, ""),
        POOL: json.dumps(config["gpu-cluster:gpuPools"]),
        **{f"{PREFIX}kubernetes:batch/v1:Job::{n}": json.dumps(j) for n, j in jobs.items() if j},
    }


def end(operation: str, steps: list[tuple[str, str]], error: str = "") -> None:
    """Writes what was done, and ends."""
    events: list[dict] = [
        {"resOutputsEvent": {"metadata": {"op": op, "urn": urn}}} for op, urn in steps
    ]
    if error:
        events += [{"diagnosticEvent": {"severity": "error", "message": error, "urn": ""}}]
    changes = {op: [o for o, _ in steps].count(op) for op, _ in steps}
    events += [{"summaryEvent": {"resourceChanges": changes}}]
    file = Path(sys.argv[sys.argv.index("--event-log") + 1])
    file.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    sys.exit(255 if error else 0)


def operate(operation: str) -> None:
    """`up` or `destroy`."""
    with CALLS.open("a") as calls:
        calls.write(f"{operation} {' '.join(sys.argv[2:])}\n")
    number = sum(line.startswith(operation) for line in CALLS.read_text().splitlines())
    plan = json.loads(PLAN.read_text()).get(f"{operation} {number}", "")
    state = json.loads(STATE.read_text())
    config = yaml.safe_load(Path(sys.argv[sys.argv.index("--config-file") + 1]).read_text())
    after = wanted(config["config"]) if operation == "up" else {}
    steps = [("create" if urn not in state else "update", urn)
             for urn in after if after[urn] != state.get(urn)]  # fmt: skip
    steps += [("delete", urn) for urn in state if urn not in after]
    if plan.startswith("SIG") or plan == "wait":
        # The first resource exists when it is interrupted, and it finishes with that.
        asked: list[int] = []
        signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
        for name in filter(None, plan.removeprefix("wait").split()):
            os.kill(os.getppid(), getattr(signal, name))
            time.sleep(0.2)
        while not asked:
            time.sleep(0.05)
        steps = steps[:1] if operation == "up" else []
    if plan == "locked":  # by another command, which has finished when this one ends
        steps, state = [], json.loads((FOLDER / "theirs.json").read_text())
    if plan == "fail":
        steps = steps[:1] if operation == "up" else []
    for op, urn in steps:
        state.pop(urn) if op == "delete" else state.update({urn: after[urn]})
    STATE.write_text(json.dumps(state))
    if plan == "replace":
        steps = [*steps, ("replace", POOL)]
    end(operation, steps, "the cloud refuses it" if plan and plan != "replace" else "")


def main() -> None:
    state = json.loads(STATE.read_text())
    match sys.argv[1:]:
        case ["version", *_]:
            print("v3.0.0")
        case ["stack", "export", *_]:
            print(json.dumps({"deployment": {"resources": [row(urn) for urn in state]}}))
        case ["stack", "output", *_]:
            print(json.dumps({"kubeconfig": "{}"} if len(state) > 3 else {}))
        case [operation, *_]:
            operate(operation)


main()
