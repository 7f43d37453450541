"""Writes the generated pages, and the figures of the last rehearsal and tests."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_cluster.tools.sections import BENCHMARKS, DOCS, README, REHEARSE, ROOT, fill
from quality import keys
from quality.docs import (
    ai_conformance,
    alerts,
    commands,
    outputs,
    package_schema,
    policies,
    stack_schema,
    support_matrix,
)

PAGES: Mapping[Path, Callable[[], str]] = {
    ai_conformance.PAGE: ai_conformance.markdown,
    alerts.PAGE: alerts.markdown,
    commands.PAGE: commands.markdown,
    outputs.PAGE: outputs.markdown,
    package_schema.FILE: package_schema.package_schema_text,
    policies.PAGE: policies.markdown,
    stack_schema.FILE: stack_schema.stack_schema_text,
    support_matrix.PAGE: support_matrix.markdown,
}
"""Page -> the function that returns its text; the pages of config keys are written in addition."""
SHOWN = ("pulumi up", "pulumi destroy")
"""Steps of a rehearsal that the README shows."""


def write_pages() -> None:
    """Writes the pages that are generated from code."""
    keys.write_keys()
    for page, markdown in PAGES.items():
        page.write_text(markdown())


def write_figures() -> None:
    """Writes the results of the last rehearsal of dev and of the last tests, if there are any."""
    folder = ROOT / ".rehearsal" / "dev"
    file = folder / "report.json"
    report = json.loads(file.read_text()) if file.is_file() else {}
    # A kept rehearsal has not been destroyed.
    if report.get("ok") and {step["name"] for step in report["steps"]}.issuperset(SHOWN):
        text = (folder / "report.txt").read_text().strip()
        fill(REHEARSE, "report", f"```text\n{text}\n```")
        fill(README, "rehearse", "\n".join(["```text", *shown(report), "```"]))
        shutil.copy(folder / "timeline.svg", DOCS / "timeline.svg")
    else:
        sys.stderr.write("no whole rehearsal of dev that passed: run `gpu-cluster rehearse dev`\n")
    tests = ROOT / ".rehearsal" / "test.txt"
    if tests.is_file():
        fill(BENCHMARKS, "test", f"```text\n{tests.read_text().strip()}\n```")
    else:
        sys.stderr.write("no report of the tests: run `make test` first\n")


def shown(report: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a rehearsal's report that the README shows: steps, GPU nodes and the result."""
    up, destroy = (_step(report, name) for name in SHOWN)
    counts = " -> ".join(f"{count} at {at:.1f} s" for at, count in report["gpu_nodes"])
    verdict = "passed" if report["ok"] else "failed"
    yield up
    yield f"GPU nodes: {counts}"
    yield destroy
    yield f"rehearsal of {report['stack']}: {verdict} in {report['seconds']:.1f} s"


def _step(report: Mapping[str, Any], name: str) -> str:
    (step,) = (step_ for step_ in report["steps"] if step_["name"] == name)
    return f"ok  {name}  {step['seconds']:.1f} s  {step['detail']}"
