"""What keeps the repository current: updates, hooks, the dev container, templates, coverage."""

import ast
import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.catalog import images as catalog
from gpu_cluster.tools.sections import ROOT
from tests.tree import sources

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
    for path in sources():
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
    assert (
        f"v{versions.pop()}" in (ROOT / "gpu_cluster" / "tools" / "pulumi" / "go.mod").read_text()
    )


def test_hooks_run_the_repository_s_own_programs() -> None:
    """In the versions of the lock, and nothing is downloaded."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    entries = [hook["entry"] for hook in hooks[0]["hooks"]]
    assert all(entry.startswith(".venv/bin/") for entry in entries)
    assert ".venv/bin/ruff check --fix" in entries


def test_coverage_has_a_floor_and_is_measured_in_continuous_integration() -> None:
    """A figure that falls fails a pull request."""
    coverage = PROJECT["tool"]["coverage"]
    assert coverage["report"]["fail_under"] >= 74
    assert coverage["run"]["branch"] is True
    assert coverage["run"]["source_pkgs"] == PROJECT["tool"]["mypy"]["packages"]
    for name in ("main", "tests"):
        text = (ROOT / ".github" / "workflows" / f"{name}.yaml").read_text()
        assert "run: make coverage" in text


def test_what_is_vendored_comes_with_its_licence() -> None:
    """The notice names the folder, and the licence's text lies beside the files."""
    notice = (ROOT / "NOTICE").read_text()
    for path in re.findall(r"(?:components|gpu_cluster)/[\w/.-]*\w", notice):
        assert (ROOT / path).exists(), path
    folder = ROOT / "components" / "crds"
    text = (folder / "LICENSE-APACHE").read_text()
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in text
    assert (ROOT / "LICENSE").read_text() == text
    assert "components/crds/LICENSE-APACHE" in notice
    # Section 4 of the Apache License: a word of what was changed.
    assert "Changed by" in (folder / "NOTICE").read_text()
