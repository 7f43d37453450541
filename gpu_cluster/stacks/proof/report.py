"""The report of a proof, for the repository's issue form: JSON and Markdown without secrets."""

import json
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.stacks.cost.bill import Bill
from gpu_cluster.stacks.cost.cost_text import money
from gpu_cluster.stacks.definition.names import IN_CHECKOUT, ROOT
from gpu_cluster.stacks.proof.proof import Proof
from gpu_cluster.stacks.proof.redaction import Redaction

_SAME = {"pulumi up": "pulumi up", "second up": "idempotency", "pulumi destroy": "pulumi destroy"}
"""Step of a proof -> the step of a rehearsal that does the same."""
_FURTHEST = {
    "pulumi up": "pulumi up",
    "GPU job": "a pod ran on a GPU",
    "0 to 1 to 0 nodes": "scale-down to the minimum",
    "change in place": "a later change",
    "pulumi destroy": "pulumi destroy",
}
"""Step -> the answer of the form's question for the last step that worked."""
_VERDICTS = {
    0: "everything worked, and the state is empty",
    1: "a step failed; the state is empty",
    2: "nothing failed, but a step could not tell",
    3: "it was stopped; the state is empty",
    4: "something is left in the cloud",
}


def document(
    proof: Proof, bill: Bill, rehearsal: Path, file: Path, *, simulated: bool = False
) -> dict[str, Any]:
    """The report's content. `rehearsal`: the report of a rehearsal, which may not exist; `file`:
    the stack's file; `simulated`: whether the cloud was."""
    config, row = proof.document["config"], PLATFORMS[proof.settings.platform]
    cluster = proof.settings.cluster
    found = {
        "stack": proof.stack,
        "simulated": simulated,
        "exit": proof.code,
        "verdict": _VERDICTS[proof.code],
        "platform": proof.settings.platform,
        "place": getattr(cluster, "location", None) or config.get("aws:region"),
        "machines": {item.name: item.what for item in bill.items},
        "seconds": round(proof.seconds),
        "cost": {
            "hourly": round(proof.limits.hourly, 4),
            "atMost": round(proof.limits.spent(proof.seconds), 2),
            "limit": proof.limits.cost,
        },
        "minutes": proof.limits.minutes,
        "versions": {
            "gpu-cluster": " ".join(filter(None, [version("gpu-cluster"), _revision()])),
            "Python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            **proof.versions,
        },
        "cloud": row.cloud,
        "gpuNodes": proof.gpu_nodes,
        "steps": [
            {key: getattr(step, key) for key in ("name", "state", "began", "seconds", "detail")}
            for step in proof.steps
        ],
        "resources": proof.created,
        "warnings": proof.warnings,
        "left": proof.left,
    }
    found["rehearsal"] = compared(found, rehearsal, file)
    secrets = {**config, "environment": proof.document.get("environment")}
    redacted: dict[str, Any] = Redaction({**secrets, **proof.providers}).document(found)
    return redacted


def _revision() -> str:
    """The last commit of the components; empty without a checkout of them."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", "components"]
    done = subprocess.run(command, capture_output=True, text=True) if IN_CHECKOUT else None
    return done.stdout.strip() if done else ""


def compared(proof: Mapping[str, Any], report: Path, file: Path) -> dict[str, Any]:
    """How a proof differs from the rehearsal of the same stack; `file`: the stack's file."""
    try:
        rehearsed = json.loads(report.read_text())
        older = report.stat().st_mtime < file.stat().st_mtime
    except (OSError, ValueError):
        return {"found": False, "differences": [], "seconds": {}}
    lines = ["the stack's file has changed since the rehearsal"] if older else []
    failures = {step["name"]: step for step in rehearsed["steps"] if not step["ok"]}
    seconds = {}
    for step in proof["steps"]:
        for row in rehearsed["steps"]:
            if row["name"] == _SAME.get(step["name"]):
                seconds[step["name"]] = row["seconds"]
        if step["state"] in ("failed", "stopped", "unknown") and step["name"] not in failures:
            lines.append(f"{step['name']}: {step['state']}: {step['detail']}")
    if failures and not any(step["state"] == "failed" for step in proof["steps"]):
        lines.append(f"only the rehearsal failed: {', '.join(failures)}")
    if proof["resources"]:
        lines += _counts(proof["resources"], rehearsed["resources"])
    lines += [
        f"{name}: {proof['versions'][name]} instead of {rehearsed['versions'][name]}"
        for name in ("pulumi", "Kubernetes")
        if proof["versions"].get(name) and name in rehearsed["versions"]
        and proof["versions"][name] != rehearsed["versions"][name]
    ]  # fmt: skip
    lines += [f"warning: {line}" for line in proof["warnings"] if line not in rehearsed["warnings"]]
    return {"found": True, "differences": lines, "seconds": seconds}


def _counts(real: Mapping[str, int], rehearsed: Mapping[str, int]) -> Iterator[str]:
    for kind in sorted({*real, *rehearsed}):
        if real.get(kind, 0) != rehearsed.get(kind, 0):
            yield f"{kind}: {real.get(kind, 0)} created instead of {rehearsed.get(kind, 0)}"


def markdown(report: Mapping[str, Any]) -> str:
    """The report under the questions of the form."""
    steps, cost, rehearsal = report["steps"], report["cost"], report["rehearsal"]
    passed = [step["name"] for step in steps if step["state"] == "passed"]
    furthest = [answer for name, answer in _FURTHEST.items() if name in passed]
    # The destroy counts only after everything else: it also ends a run that failed early.
    furthest = furthest if report["exit"] in (0, 2) else [a for a in furthest if "destroy" not in a]
    rows = [
        [step["name"], step["state"], f"{step['seconds']:.0f} s", _rehearsed(rehearsal, step)]
        for step in steps
    ]
    nodes = [
        [*(str(node[key] or "-") for key in ("pool", "machine", "model", "driver")),
         ", ".join(f"{n} {name}" for name, n in node["gpus"].items()),
         str(node["kubeletVersion"]), str(node["osImage"])]
        for node in report["gpuNodes"]
    ]  # fmt: skip
    different = rehearsal["differences"] if rehearsal["found"] else [
        *(f"{step['name']}: {step['state']}: {step['detail']}" for step in steps
          if step["state"] in ("failed", "stopped", "unknown")),
        "there is no report of a rehearsal to compare with",
    ]  # fmt: skip
    cloud = "simulated" if report["simulated"] else "real"
    parts = [
        f"# A run of {report['stack']} on a {cloud} cloud: {report['verdict']}",
        f"It took {report['seconds'] / 60:.0f} min and cost at most {money(cost['atMost'])} "
        f"({money(cost['hourly'])} an hour with every pool full), without what is billed by use.",
        "## Platform", str(report["platform"]),
        "## Region, GPU and machine types",
        _bullets([str(report["place"]), *(f"{k}: {v}" for k, v in report["machines"].items())]),
        "## Versions and GPUs",
        _bullets(f"{name} {number}" for name, number in report["versions"].items()),
        _table(["pool", "machine", "GPU", "driver", "allocatable", "kubelet", "system"], nodes),
        "## What was the last step that worked?", furthest[-1] if furthest else "none",
        _table(["step", "result", "duration", "in the rehearsal"], rows),
        "## What was different from the rehearsal or the documents?",
        _bullets(different) or "Nothing.",
        *(["## Left in the cloud", _bullets(report["left"])] if report["left"] else []),
        "## What the steps showed",
        *(f"{step['name']}:\n\n```text\n{step['detail']}\n```" for step in steps if step["detail"]),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _rehearsed(rehearsal: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    seconds = rehearsal["seconds"].get(step["name"])
    return "-" if seconds is None else f"{seconds:.0f} s"


def _bullets(lines: Sequence[str] | Iterator[str]) -> str:
    return "\n".join("- " + line.replace("\n", "\n  ") for line in lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *([cell.replace("|", "/") for cell in r] for r in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells) if rows else ""
