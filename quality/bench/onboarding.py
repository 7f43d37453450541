"""How long onboarding takes: from a clone with an empty home to the result of a rehearsal.

Each revision is cloned and measured on two cores, with only PATH from the environment.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stacks.definition.names import StackError
from stacks.outcome import ExitCode
from tools.sections import BENCHMARKS, ROOT, fill, table

FILE = ROOT / ".rehearsal" / "bench" / "onboarding.json"
PASSED_ON = ("PATH", "LANG", "SSL_CERT_FILE", "PIP_CERT", "PIP_INDEX_URL", "GOPROXY", "GOSUMDB")
CACHES = (".cache/gpu-cluster", ".cache/go-build", "go")
"""Folders of a home directory that a first run fills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A timed command. Commands run in order, and find what earlier ones have left."""

    name: str
    command: str
    limit: float
    """The limit in seconds."""
    afresh: bool = False
    """Whether it starts with a new clone and home, with only the first one's built programs."""


STEPS = (
    Step(name="`make rehearse` from a clone", command="make rehearse", limit=480),
    Step(name="`make rehearse` once set up", command="make rehearse", limit=25),
    Step(name="the type check, first", command=".venv/bin/python -m mypy", limit=60),
    Step(
        name="what only tests need, built",
        command=".venv/bin/python -m tools build actionlint jobset kueue",
        limit=300,
    ),
    Step(name="`make test` once set up", command="make test", limit=360),
    Step(
        name="`make rehearse` from a clone, programs built",
        command="make rehearse",
        limit=120,
        afresh=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """The elapsed and the processor seconds of one step."""

    seconds: float
    cpu: float


def measure(revision: str, python: str) -> dict[str, Took]:
    """Measures the steps, and prints what the first run leaves behind; returns step -> result."""
    took: dict[str, Took] = {}
    with tempfile.TemporaryDirectory(prefix="onboarding-") as name:
        first, other = Path(name, "first"), Path(name, "other")
        for step in STEPS:
            where = other if step.afresh else first
            if not where.exists():
                _clone(revision, where)
            env = _environment(where / "home")
            if step.afresh:
                env["GPU_CLUSTER_CACHE"] = str(first / "home" / CACHES[0])
            took[step.name] = _time(step, where / "clone", env, python)
            if step is STEPS[0]:
                _print_left(first / "home")
    return took


def _clone(revision: str, where: Path) -> None:
    (where / "home").mkdir(parents=True)
    clone = where / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", revision], cwd=clone, check=True)


def _environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return kept | {"HOME": str(home), "MYPY_CACHE_DIR": str(home / CACHES[0] / "mypy")}


def _time(step: Step, folder: Path, env: Mapping[str, str], python: str) -> Took:
    before, began = _cpu(), time.monotonic()
    _run(step.command, folder, env, python)
    took = Took(seconds=time.monotonic() - began, cpu=_cpu() - before)
    print(f"{step.name}: {took.seconds:.0f} s, {took.cpu:.0f} s of processors", flush=True)
    return took


def _run(command: str, folder: Path, env: Mapping[str, str], python: str) -> None:
    words = [*command.split(), *([f"PYTHON={python}"] if command.startswith("make") else [])]
    log = folder.parent / "log"
    with log.open("wb") as output:
        done = subprocess.run(words, cwd=folder, env=env, stdout=output, stderr=output)
    if done.returncode:
        raise StackError(f"{command} failed:\n{log.read_text(errors='replace')[-3000:]}")


def _cpu() -> float:
    """Processor seconds of all ended processes, without those that a rehearsal kills unreaped."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _print_left(home: Path) -> None:
    for folder in CACHES:
        files = [path for path in (home / folder).rglob("*") if path.is_file()]
        size = sum(path.lstat().st_size for path in files)
        print(f"left in ~/{folder}: {size / 1e6:.0f} MB", flush=True)


def page(measured: Mapping[str, Mapping[str, Took]]) -> str:
    """A Markdown table: a row for each step, a column for each revision."""
    rows = [
        (
            step.name,
            f"{step.limit:.0f} s",
            *(_cell(steps.get(step.name)) for steps in measured.values()),
        )
        for step in STEPS
    ]
    return "\n".join(table(("", "limit", *measured), rows))


def _cell(took: Took | None) -> str:
    return f"{took.seconds:.0f} s ({took.cpu:.0f} s)" if took else ""


def bench(revisions: Sequence[str], *, docs: bool) -> ExitCode:
    """Measures the revisions, by default HEAD, and writes one table of all measured revisions.

    `docs`: also in the benchmark page. A finding: the last revision exceeds a limit.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    python = getattr(sys, "_base_executable", sys.executable)
    known = json.loads(FILE.read_text()) if FILE.is_file() else {}
    measured = {
        revision: {name: Took(**took) for name, took in steps.items()}
        for revision, steps in known.items()
    }
    for revision in revisions or ["HEAD"]:
        asked = ["git", "rev-parse", "--short", f"{revision}^{{commit}}"]
        commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
        if commit.returncode:
            raise StackError(f"there is no revision {revision} here: see git log --oneline --all")
        name = commit.stdout.strip()
        measured.pop(name, None)
        measured[name] = measure(name, python)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    document = {
        revision: {name: asdict(took) for name, took in steps.items()}
        for revision, steps in measured.items()
    }
    FILE.write_text(json.dumps(document, indent=1) + "\n")
    text = page(measured)
    if docs:
        fill(BENCHMARKS, "onboarding", text)
    print(f"\n{text}\n\n{FILE}")
    last = measured[next(reversed(measured))]
    kept = all(last[step.name].seconds <= step.limit for step in STEPS)
    return ExitCode.OK if kept else ExitCode.FINDING
