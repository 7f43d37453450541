"""What keeps the repository current: updates, hooks, the dev container, templates, coverage."""

import ast
import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.catalog import images as catalog
from tests.conftest import folders, workers
from tools.sections import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def without_comments(path: Path) -> str:
    """The text of a JSON5 file without the lines that are comments."""
    lines = path.read_text().splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith("//"))


def renovate() -> dict[str, Any]:
    """The configuration of Renovate; what is left without its comments is JSON."""
    document: dict[str, Any] = json.loads(without_comments(ROOT / "renovate.json5"))
    return document


def matched(manager: dict[str, Any]) -> list[re.Match[str]]:
    """What a manager finds in the files that it reads."""
    (pattern,) = manager["managerFilePatterns"]
    (expression,) = manager["matchStrings"]
    files = [
        path
        for folder in (".github/workflows", "components/catalog")
        for path in sorted((ROOT / folder).iterdir())
        if path.is_file() and re.search(pattern.strip("/"), path.relative_to(ROOT).as_posix())
    ]
    assert files
    # JavaScript's groups with names are written without Python's P.
    python = expression.replace("(?<", "(?P<")
    return [found for path in files for found in re.finditer(python, path.read_text())]


@cache
def texts() -> list[tuple[Path, str]]:
    """Every text of the programs, without docstrings; `{}` for what is filled in."""
    found = []
    rooms = PROJECT["tool"]["importlinter"]["root_packages"]
    for path in sorted(file for room in rooms for file in (ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text())
        nodes = list(ast.walk(tree))
        filled = [node for node in nodes if isinstance(node, ast.JoinedStr)]
        inner = {id(part) for node in filled for part in node.values}
        docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
                found.append((path, "".join(map(str, parts))))
            elif isinstance(node, ast.Constant) and id(node) not in inner | docs:
                found.append((path, str(node.value)))
    return found


def test_no_message_says_that_something_is_no_such_thing() -> None:
    """It is not a valid one: `is no zone` is no sentence that an engineer would write."""
    odd = re.compile(r"(?<![Tt]here )\b(is|are) (no(?! longer)|none of)\b")
    assert [(path.name, text) for path, text in texts() if odd.search(text)] == []


def test_every_image_that_has_a_registry_is_kept_current() -> None:
    """Those without a tag of their own, and those on GKE's own nodes, have no newer one to find."""
    images, _ = renovate()["customManagers"]
    found = {match["depName"]: match for match in matched(images)}
    pinned = [image for image in vars(catalog).values() if isinstance(image, catalog.Image)]
    for image in pinned:
        if not image.preloaded and image.tag is not None:
            assert found[image.repository]["currentValue"] == image.tag
            assert found[image.repository]["currentDigest"] == image.digest
    assert len(found) == sum(not i.preloaded and i.tag is not None for i in pinned)


def test_the_engine_of_the_workflows_is_kept_current() -> None:
    """In one change with the engine that rehearsals build."""
    _, engine = renovate()["customManagers"]
    versions = {match["currentValue"] for match in matched(engine)}
    assert len(versions) == 1
    assert f"v{versions.pop()}" in (ROOT / "tools" / "pulumi" / "go.mod").read_text()


@pytest.mark.parametrize(
    ("manager", "files"),
    [
        ("pip_requirements", ["requirements.txt", "requirements-dev.txt"]),
        ("gomod", ["tools/control-plane/go.mod", "tools/pulumi/go.mod"]),
        ("github-actions", [".github/workflows/main.yaml"]),
        ("devcontainer", [".devcontainer/devcontainer.json"]),
    ],
)
def test_what_renovate_reads_is_there(manager: str, files: list[str]) -> None:
    """Python packages, Go modules, actions and the container."""
    assert manager in renovate()["enabledManagers"]
    assert all((ROOT / file).is_file() for file in files)


def test_hooks_run_the_repository_s_own_programs() -> None:
    """In the versions of the lock, and nothing is downloaded."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    entries = [hook["entry"] for hook in hooks[0]["hooks"]]
    assert all(entry.startswith(".venv/bin/") for entry in entries)
    assert ".venv/bin/ruff check --fix" in entries


def test_the_dev_container_runs_what_the_documents_say() -> None:
    """A supported Python, and the same setup as anywhere else."""
    container = json.loads(without_comments(ROOT / ".devcontainer" / "devcontainer.json"))
    assert container["postCreateCommand"] == "make setup"
    assert re.search(r":3\.(11|12|13)-", container["image"])


def test_issue_forms_ask_for_what_is_needed() -> None:
    """Each has fields, and no field is asked for twice."""
    for form in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yaml")):
        fields = [part["id"] for part in yaml.safe_load(form.read_text())["body"] if "id" in part]
        assert fields, form
        assert len(fields) == len(set(fields)), form


def test_coverage_has_a_floor_and_is_measured_in_continuous_integration() -> None:
    """A figure that falls fails a pull request."""
    coverage = PROJECT["tool"]["coverage"]
    assert coverage["report"]["fail_under"] >= 74
    assert coverage["run"]["branch"] is True
    assert coverage["run"]["source_pkgs"] == PROJECT["tool"]["mypy"]["packages"]
    for name in ("main", "pull-request"):
        text = (ROOT / ".github" / "workflows" / f"{name}.yaml").read_text()
        assert "run: make coverage" in text


def test_what_is_vendored_comes_with_its_licence() -> None:
    """The notice names the folder, and the licence's text lies beside the files."""
    notice = (ROOT / "NOTICE").read_text()
    for path in re.findall(r"(?:components|rehearsal|tools)/[\w/.-]*\w", notice):
        assert (ROOT / path).exists(), path
    text = (ROOT / "components" / "crds" / "LICENSE-APACHE").read_text()
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in text
    assert "components/crds/LICENSE-APACHE" in notice


def test_the_tests_of_a_file_go_to_one_worker(request: pytest.FixtureRequest) -> None:
    """Else each worker starts what they share. xdist writes their group into a test's ID."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("only with --dist loadgroup, as make test has it")
    assert request.node.nodeid.endswith("@tests/unit/project/test_habits.py")


def test_a_run_of_all_folders_is_known_as_one() -> None:
    """Its table goes to the documents: also those count whose tests are one level deeper."""
    assert {"components", "facts", "policy", "program", "rehearsal", "unit"} <= folders()


@pytest.mark.parametrize(
    ("cores", "gigabytes", "expected"), [(2, 16, 6), (4, 64, 12), (8, 9, 4), (1, 1, 2)]
)
def test_there_are_more_tests_at_once_than_cores(cores: int, gigabytes: int, expected: int) -> None:
    """They wait for most of their time; and where memory is short there are fewer, never one."""
    assert workers(cores, gigabytes << 30) == expected
