"""Tests marked `prove` take minutes together: they run with `-m prove` or `PROVE=1`."""

import atexit
import gc
import logging
import os
import re
import sys
import time
import zlib
from collections import Counter, defaultdict
from datetime import date
from functools import cache
from pathlib import Path

import botocore.loaders
import hypothesis
import psutil
import pytest
import yaml

from gpu_cluster.clouds.read import long_yaml
from gpu_cluster.components.catalog import dates
from gpu_cluster.rehearsal.engine.fork_server import SHARED, launcher
from gpu_cluster.stacks.definition.files import use_examples

# How long one example takes says more of the machine's load than of the code.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


class Read(date):
    """A day on which all tables of the catalog hold, so that no test fails only with time."""

    @classmethod
    def today(cls) -> "Read":
        return cls(2026, 11, 28)


dates.date = Read

# Each client of AWS would read its service's model again: EC2's has megabytes.
botocore.loaders.create_loader = cache(botocore.loaders.create_loader)
# libyaml reads tables of tests in a tenth of the time, which every worker reads.
yaml.safe_load = long_yaml

# Neither a user's stack files, settings of the policy pack nor kubeconfig change anything for the
# program's own tests; the kubeconfig reaches nothing.
use_examples()
os.environ["GPU_CLUSTER_POLICY_SETTINGS"] = str(Path(__file__).parent / "policy" / "config.json")
os.environ["KUBECONFIG"] = str(Path(__file__).parent / "program" / "kubeconfig.yaml")
# The engine and the control planes are Go programs that end soon: with less looking for garbage
# they take an eighth less of the processors, and half as much memory again.
os.environ.setdefault("GOGC", "400")
# A server with one thread does not look for work for others: a control plane takes a tenth less.
os.environ.setdefault("GOMAXPROCS", "1")

SLICE = 20
"""Minutes in which a slow test of a slice may begin; the last ones then take some minutes more."""

BEGAN = time.monotonic()
ROOT = Path(__file__).parents[1]
REPORT = ROOT / ".rehearsal" / "test.txt"
"""The table of the last whole run; `make docs FIGURES=1` takes it from there."""


TOGETHER = {
    "tests/facts/": "program",
    "tests/integration/stacks/test_aws_": "aws",
    "tests/integration/stacks/test_capacity": "aws",
    "tests/program/": "program",
    "tests/rehearsal/test_changes_applied": "faults",
    "tests/rehearsal/test_faults": "faults",
    "tests/rehearsal/test_mutations_eks": "eks",
    "tests/rehearsal/test_mutations_sharing": "eks",
    "tests/rehearsal/test_reservations": "eks",
    "tests/rehearsal/test_simulated_aws": "aws",
    "tests/simulators/test_aws_": "aws",
    "tests/unit/project/test_commands": "tests/unit/project/test_habits.py",
}
"""How a path begins -> the group of its tests. AWS' models, the SDKs, what the program declares and
all texts of the source take seconds to load, which one worker does for all of a group."""

LONGEST = (
    "program",
    "eks",
    "tests/rehearsal/test_sandbox.py",
    "running",
    "aws",
    "faults",
    "tests/rehearsal/test_storage_and_operator.py",
    "previews",
    "tests/rehearsal/test_batch.py",
    "plane",
    "tests/rehearsal/test_mutations.py",
)
"""Groups of tests that take longest, the longest first: the workers then end together."""


WORKER_BYTES = 2 << 30
"""What a worker and a rehearsal's cluster, engine and simulated cloud take together."""


def workers(cores: int, memory: int) -> int:
    """More than there are cores, for a test waits for what it starts, most of the time; no more
    than there are bytes of memory for."""
    return max(2, min(3 * cores, memory // WORKER_BYTES))


def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means."""
    return workers(len(os.sched_getaffinity(0)), psutil.virtual_memory().available)


def pytest_configure(config: pytest.Config) -> None:
    """To look for garbage takes a fifth of the time that imports take, and finds none.

    All workers use one fork server, which then imports the SDKs once.
    """
    gc.disable()
    # What the program logs under the SDK's mocks would bury the sentence with which a test fails.
    logging.getLogger().addFilter(lambda record: record.filename != "mocks.py")
    if config.getoption("numprocesses", None):
        os.environ[SHARED] = str(launcher())


def pytest_collection_finish() -> None:
    """What was imported stays: tests' garbage is looked for among what they make, seldom, since
    there is little. As often as Python does by itself takes a fifth of the processor time."""
    gc.set_threshold(100_000, 50, 100)
    gc.enable()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing looks for garbage once more in the hundreds of megabytes that tests have cached."""
    gc.disable()
    gc.freeze()
    if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
        show_once(reporter.stats.get("failed", []))


def show_once(failures: list[pytest.TestReport]) -> None:
    """Leaves one traceback of cases that fail with the same sentence, but for the case's own words
    such as its platform, and names the others below it."""
    alike: defaultdict[tuple[str, str], list[pytest.TestReport]] = defaultdict(list)
    for failure in failures:
        function, _, case = failure.nodeid.partition("@")[0].partition("[")
        crash = getattr(failure.longrepr, "reprcrash", None)
        message = crash.message if crash else failure.longreprtext
        for word in filter(None, case.rstrip("]").split("-")):
            message = re.sub(rf"\b{re.escape(word)}\b", "...", message)
        alike[function, message].append(failure)
    for first, *others in alike.values():
        if others:
            cases = ", ".join(other.nodeid.partition("[")[2].partition("]")[0] for other in others)
            first.sections.append(("the same failure", cases))
        for other in others:
            other.longrepr, other.sections = f"as {first.nodeid}", []


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """A worker has sent its results and ends: to free its objects first takes seconds."""
    if hasattr(config, "workerinput"):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--slice`, which `make slice` passes."""
    words = f"the slow tests in this commit's own order, as many as begin in {SLICE} minutes"
    parser.addoption("--slice", metavar="COMMIT", default="", help=words)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what a slice has no time for."""
    if item.config.getoption("slice") and time.monotonic() - BEGAN > SLICE * 60:
        pytest.skip(f"the slice's {SLICE} minutes are over; another commit's slice begins with it")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups where it is asked the same
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Orders the groups, a file each unless tests say otherwise, and skips what is slow."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and (
            not item.get_closest_marker("prove") or _shares(item)
        ):
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    commit = config.getoption("slice")
    items.sort(key=(lambda item: _place_in(commit, item)) if commit else _place)
    if os.environ.get("PROVE") or "prove" in config.getoption("markexpr"):
        return
    skipped = pytest.mark.skip(reason="slow; run make inject-faults, or set PROVE=1")
    for item in items:
        if item.get_closest_marker("prove"):
            item.add_marker(skipped)


def _shares(item: pytest.Item) -> bool:
    """Whether a test uses what the tests of its file have in common: one worker runs them all."""
    known = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
    return any(fixture.scope == "module" for (*_, fixture) in known)


def _group(item: pytest.Item) -> str:
    """That of its path in `TOGETHER`, or its file's own."""
    path = item.path.relative_to(ROOT).as_posix()
    return next((group for start, group in TOGETHER.items() if path.startswith(start)), path)


def in_commit(commit: str, group: str) -> int:
    """The place of a group of tests in a commit's slice."""
    return zlib.crc32(f"{commit} {group}".encode())


def _place_in(commit: str, item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    return in_commit(commit, mark.args[0] if mark else item.nodeid)


def _place(item: pytest.Item) -> int:
    """What starts nothing comes last: it fills what is left of the time."""
    mark = item.get_closest_marker("xdist_group")
    if mark is not None and mark.args[0] in LONGEST:
        return LONGEST.index(mark.args[0])
    return len(LONGEST) + (not item.nodeid.startswith("tests/rehearsal/"))


def folders() -> set[str]:
    """Those of this folder that have tests, at whatever depth."""
    here = Path(__file__).parent
    return {file.relative_to(here).parts[0] for file in here.rglob("test_*.py")}


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Tests and their time per folder; kept if the run was of all folders."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            room = report.nodeid.split("/")[1]
            counts[room][outcome] += 1
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.split("/")[1]] += report.duration
    columns = f"{'passed':>8}{'failed':>8}{'skipped':>9}   test time"
    rows = [f"{'tests':12}{columns}"]
    for room, count in sorted(counts.items()):
        failed = count["failed"] + count["error"]
        rows.append(
            f"{room:12}{count['passed']:>8}{failed:>8}{count['skipped']:>9}{seconds[room]:>10.0f} s"
        )
    rows.append(f"in {time.monotonic() - BEGAN:.0f} s on {os.cpu_count()} cores")
    terminalreporter.section("by folder")
    terminalreporter.write_line("\n".join(rows))
    if set(counts) == folders():
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text("\n".join(rows) + "\n")
