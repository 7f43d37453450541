"""`make change`: what follows from the code is written again, and what the diff concerns is tested.

The whole of `make test` runs in continuous integration.
"""

import ast
import copy
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import yaml

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.decode import camel, type_hints
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.stacks.definition.files import EXAMPLES, INSTEAD, ROOT, SAMPLES
from gpu_cluster.stacks.definition.settings import NOWHERE, flat, platform_of, with_kubeconfig
from quality.faults.changes import MADE, apply_changes, table
from quality.keys import blocks, nested

_AWS = "tests/simulators/test_aws_"
TESTS: Mapping[str, Sequence[str]] = {
    "components/*_args.py": (
        "tests/program/test_removals.py",
        "tests/unit/components/test_scaler.py", "tests/unit/components/test_settings*.py",
        "tests/unit/quality/test_changes.py", "tests/facts/test_facts.py",
        "tests/facts/test_replacement.py",
    ),
    "components/s[ce]*/*": (  # schema and settings
        "tests/unit/components/test_settings*.py", "tests/unit/components/test_limits.py",
    ),
    "components/catalog/*": ("tests/unit/components/test_catalog*.py", "tests/facts/test_facts.py"),
    "components/catalog/charts_and_alerts.py": ("tests/unit/components/test_metrics.py",),
    "components/catalog/*_prices.py": ("tests/unit/stacks/test_cost.py",),
    "components/eks*": ("tests/components/test_eks*.py",),
    "components/gke*": (
        "tests/components/test_gke*.py", "tests/components/test_compute_classes.py",
    ),
    "components/gpu/*": ("tests/components/test_gpu_layer.py", "tests/components/test_pods.py"),
    "components/batch/*": ("tests/components/test_batch.py",),
    "components/scalers.py": (
        "tests/program/test_effects.py", "tests/program/test_everything.py",
        "tests/unit/components/test_scaler.py",
    ),
    "gpu_cluster/clouds/rows/aws.*": ("tests/unit/plugins/test_aws_rows.py", f"{_AWS}lives.py"),
    "gpu_cluster/clouds/rows/google.*": (
        "tests/unit/plugins/test_google_rows.py", "tests/unit/plugins/test_official_requests.py",
    ),
    "gpu_cluster/clouds/*": ("tests/facts/test_facts.py", "tests/facts/test_overrides.py"),
    "gpu_cluster/rehearsal/simulators/aws/*": (
        f"{_AWS}api.py", f"{_AWS}changes.py", f"{_AWS}lives.py",
    ),
    "gpu_cluster/rehearsal/simulators/google/*": ("tests/unit/simulators/test_google_*.py",),
    "gpu_cluster/rehearsal/plugins/gcp/*": ("tests/unit/plugins/test_google_*.py",),
    "tests/unit/components/refused_*": ("tests/unit/components/test_settings*.py",),
    "gpu_cluster/policy/*": ("tests/policy",),
    "quality/tries.*": ("tests/unit/quality/test_changes.py",),
    "*.md": ("tests/unit/project/test_docs.py", "tests/unit/project/test_commands_in_docs.py"),
}  # fmt: skip
"""Pattern of a path -> files and folders of tests, beside those that import the module."""
_NOISE = re.compile(
    r"(?ms)\A.*?(?=^=+ [A-Z]+ =+$)|^=+ by folder =.*?(?=^=+ short|\Z)|@(?:tests/\S+|program\b)"
)
"""In pytest's output: what is before the first failure, the table of folders, groups of tests."""


def base() -> str:
    """The commit at which the branch left main; the last one if there is no main."""
    for branch in ("origin/main", "main"):
        found = _git("merge-base", "HEAD", branch, check=False)
        if found:
            return found
    return "HEAD"


def changed_lines(since: str) -> Mapping[str, set[int]]:
    """Path of a file that differs from the commit, or is new -> the numbers of its new lines."""
    found: dict[str, set[int]] = {}
    for line in _git("diff", "--unified=0", "--no-renames", since).splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
            found.setdefault(path, set())
        elif hunk := re.match(r"@@ .* \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found[path].update(range(first, first + max(count, 1)))
    for path in _git("ls-files", "--others", "--exclude-standard").splitlines():
        found[path] = set(range(1, len((ROOT / path).read_bytes().splitlines()) + 1))
    return {path: lines for path, lines in found.items() if (ROOT / path).is_file()}


def tests(paths: Sequence[str]) -> list[str]:
    """The files and folders of tests that concern changed files."""
    patterns = {test for path in paths for p in TESTS if fnmatch(path, p) for test in TESTS[p]}
    found = {file.relative_to(ROOT).as_posix() for p in patterns for file in ROOT.glob(p)}
    found |= {path for path in paths if re.fullmatch(r"tests/(.*/)?test_\w+\.py", path)}
    modules = [
        re.sub(r"^components\.", "gpu_cluster.components.", path[:-3].replace("/", "."))
        for path in paths
        if path.endswith(".py")
    ]
    imports = [
        rf"from {module} import|import {module}\b|from {parent} import .*\b{last}\b"
        for module in modules
        for parent, dot, last in [module.rpartition(".")]
        if dot
    ]
    if imports:
        word = re.compile("|".join(imports))
        for file in (ROOT / "tests" / "unit").rglob("test_*.py"):
            if word.search(file.read_text()):
                found.add(file.relative_to(ROOT).as_posix())
    return sorted(found)


def keys(lines: Mapping[str, set[int]]) -> Mapping[str, list[str]]:
    """Platform -> the settings whose fields have changed lines."""
    fields = set()
    for path, numbers in lines.items():
        if fnmatch(path, "components/*_args.py"):
            for kind in ast.walk(ast.parse((ROOT / path).read_text())):
                if isinstance(kind, ast.ClassDef):
                    fields |= {(kind.name, name) for name in _fields(kind, numbers)}
    return {
        platform: found
        for platform in PLATFORMS
        if (found := [*dict.fromkeys(_keys_of(platform, fields))])
    }


def _fields(kind: ast.ClassDef, numbers: set[int]) -> Iterator[str]:
    for field in kind.body:
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and numbers & {*range(field.lineno, (field.end_lineno or field.lineno) + 1)}
        ):
            yield field.target.id


def _keys_of(platform: str, fields: set[tuple[str, str]]) -> Iterator[str]:
    def walk(kind: type, prefix: str) -> Iterator[str]:
        names, hints = {base.__name__ for base in kind.__mro__}, type_hints(kind)
        for field in dataclasses.fields(kind):
            key = prefix + camel(field.name)
            inner, suffix = nested(hints[field.name])
            if any((name, field.name) in fields for name in names):
                yield key
            elif inner is not None:
                yield from walk(inner, f"{key}{suffix}.")

    for block, kind in blocks(platform).items():
        yield from walk(kind, f"{block}.")


def stack_with(platform: str, changed_keys: Sequence[str], folder: Path) -> tuple[str, list[str]]:
    """Writes the platform's sample with new values of the settings; returns its name and the
    settings that it has."""
    documents = {
        sample: yaml.safe_load((EXAMPLES / f"Pulumi.{sample}.yaml").read_text())
        for sample in SAMPLES
    }
    stack = next(s for s in SAMPLES if platform_of(documents[s]["config"]) == platform)
    document = documents[stack]
    have = []
    for change in table(platform, stack).changes:
        if change.key in changed_keys:
            after = copy.deepcopy(document["config"])
            apply_changes(after, copy.deepcopy(dict(change.whole)))
            try:
                from_config(flat(with_kubeconfig(after, NOWHERE)), ROOT)
            except ValueError:
                continue  # not together with the ones before
            document["config"] = after
            have.append(change.key)
    (folder / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))
    return stack, have


def _rehearsed(by_platform: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The platforms whose settings of cluster and pools changed; an existing cluster's pools are
    those of its platform. Workloads are not rehearsed: new ones may wait for what no sample has."""
    for platform, changed_keys in by_platform.items():
        own = [key for key in changed_keys if key.partition(".")[0] in MADE]
        like = by_platform.get(platform.removesuffix("-existing"), ())
        if own and not (PLATFORMS[platform].added and {*own} <= {*like}):
            yield platform


def check_change(since: str, *, rehearse: bool) -> bool:
    """Runs every step, prints a line for each and what is wrong; whether nothing is."""
    paths, python = [*changed_lines(since)], [sys.executable, "-m"]
    if not paths:
        print(f"nothing differs from {since}")
        return True
    right, sources = True, [path for path in paths if path.endswith(".py")]
    if sources:
        right &= _step("ruff", [*python, "ruff", "check", "--quiet", *sources])
        right &= _step("ruff format", [*python, "ruff", "format", "--check", *sources])
        contracts = str(Path(sys.executable).with_name("lint-imports"))
        right &= _step("import contracts", [contracts, "--no-cache", "--no-logo"])
        right &= _step("mypy", [*python, "mypy"])  # of the whole: with its cache, two seconds
    if not right:
        return False
    if any(path.startswith("gpu_cluster/clouds/") and path.endswith(".yaml") for path in paths):
        right &= _step("gpu_cluster/clouds/generated", [*python, "quality", "clouds"])
    if any(
        path.startswith(("components/", "gpu_cluster/clouds/", "quality/", "gpu_cluster/cli/"))
        for path in paths
    ):
        right &= _step("generated pages", [*python, "quality", "docs"])
    lines = changed_lines(since)  # with what was written just now
    pytest = [*python, "pytest", "-q", "--no-header", "--tb=short", "--show-capture=no",
              "-p", "no:cacheprovider", "-n", "auto", "--dist", "loadgroup"]  # fmt: skip
    concerned = tests([*lines])
    if concerned:
        right &= _step(f"{len(concerned)} files of tests", [*pytest, *concerned])
    by_platform = keys(lines)
    changed_keys = {
        f"{platform}-{key}" for platform in by_platform for key in by_platform[platform]
    }
    if changed_keys:
        words = " or ".join(sorted({key.rpartition(".")[2] for key in changed_keys}))
        effects = [*pytest, "tests/program/test_effects.py", "-k", words]
        right &= _step(f"effects of {words}", effects, PROVE="1")
    if any(path.startswith("components/") for path in paths):  # last of the tests: it takes minutes
        right &= _step("tests/program/declared", [*python, "tests.program.declared"])
        for name in _git("diff", "--name-only", since, "--", "tests/program/declared").split():
            print(f"  {name} differs from {since[:8]}: review it")
    platforms = [*_rehearsed(by_platform)] if rehearse else []
    if not platforms:
        why = f"no setting of {' or '.join(MADE)} differs" if rehearse else "--no-rehearsal is set"
        print(f"rehearsal: none, since {why}")
    for platform in platforms:
        with tempfile.TemporaryDirectory() as folder:
            stack, have = stack_with(platform, by_platform[platform], Path(folder))
            if have:
                run = [*python, "gpu_cluster.cli", "rehearse", stack]
                title = f"rehearsal of {stack} with {', '.join(have)}"
                right &= _step(title, run, **{INSTEAD: folder})
            else:
                print(f"rehearsal of {stack}: none, since its settings take none of the new values")
    return right


def _step(title: str, command: Sequence[str], **environment: str) -> bool:
    began = time.monotonic()
    print(f"{title} ", end="", flush=True)
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, text=True, check=False,
        capture_output=True,
    )  # fmt: skip
    right = done.returncode in (0, 5)  # 5: pytest has no test for these words
    print(f"{'ok' if right else 'WRONG'}, {time.monotonic() - began:.0f} s", flush=True)
    if not right:
        # What tests that pass print to stderr would hide the failure.
        tested = "pytest" in command and _NOISE.sub("", done.stdout)
        print((tested or done.stdout + done.stderr).strip(), flush=True)
    return right


def _git(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=check
    )
    return done.stdout.strip()
