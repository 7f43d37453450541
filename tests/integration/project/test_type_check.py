"""The type check reads of the clouds' SDKs what the program uses, and all of that."""

import ast
import importlib.util
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MYPY = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
SDKS = ("pulumi_aws", "pulumi_gcp", "pulumi_kubernetes")
READ = [
    pattern
    for override in MYPY["overrides"]
    if override.get("follow_imports") == "normal"
    for pattern in override["module"]
]
FILES = [
    ROOT / "__main__.py",
    *(f for room in MYPY["packages"] for f in (ROOT / room).rglob("*.py")),
]


def modules(source: str) -> Iterator[str]:
    """The modules of the SDKs that a program names, `aws.eks` in `aws.eks.Cluster` among them."""
    tree, aliases = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _module(name.name)
                if name.name.startswith(SDKS):
                    aliases[name.asname or name.name.partition(".")[0]] = (
                        name.name if name.asname else name.name.partition(".")[0]
                    )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                yield from _module(f"{node.module}.{name.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            if root in aliases:
                yield from _module(f"{aliases[root]}.{rest}")


def _module(name: str) -> Iterator[str]:
    """The longest beginning of a dotted name that is a module of an SDK."""
    package, *parts = name.split(".")
    if package not in SDKS:
        return
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    folder, found = Path(spec.submodule_search_locations[0]), package
    for part in parts:
        if not (folder / part).is_dir() and not (folder / f"{part}.py").is_file():
            break
        folder, found = folder / part, f"{found}.{part}"
    yield found


def is_read(module: str) -> bool:
    """Whether a pattern of the type check's configuration names the module."""
    return any(
        fnmatchcase(module, pattern) or module == pattern.removesuffix(".*") for pattern in READ
    )


def test_every_module_of_an_sdk_that_is_used_is_read() -> None:
    """A module that is not listed would be Any: a misspelt argument of its classes would pass."""
    used = {name: file for file in FILES for name in modules(file.read_text())}
    assert len(used) > 15
    missing = [f"{name} ({used[name].relative_to(ROOT)})" for name in used if not is_read(name)]
    assert missing == [], "add them to follow_imports = 'normal' in pyproject.toml"


def test_no_module_is_read_for_nothing() -> None:
    """What the program no longer uses is no longer listed."""
    used = {name for file in FILES for name in modules(file.read_text())}
    shared = {"_enums", "_inputs", "_utilities", "outputs", "provider", "CustomResource"}
    listed = {pattern.removesuffix(".*") for pattern in READ}
    needed = {name for name in listed if name.rpartition(".")[2] not in shared}
    assert [
        n for n in sorted(needed) if not any(u == n or u.startswith(f"{n}.") for u in used)
    ] == []


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import pulumi_aws as aws\naws.rds.Instance('a')", "pulumi_aws.rds"),
        ("from pulumi_gcp import sql", "pulumi_gcp.sql"),
        ("from pulumi_gcp.sql import Database", "pulumi_gcp.sql"),
        (
            "import pulumi_kubernetes\npulumi_kubernetes.scheduling.v1.Foo",
            "pulumi_kubernetes.scheduling.v1",
        ),
    ],
)
def test_another_module_is_found(source: str, named: str) -> None:
    """However it is imported."""
    assert named in set(modules(source))
    assert not is_read(named)
