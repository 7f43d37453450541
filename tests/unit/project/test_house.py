"""The house's own rules: who imports whom, what the table of contents may hold."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = (
    "cli",
    "components",
    "plugins",
    "policy",
    "quality",
    "rehearsal",
    "simulators",
    "stacks",
    "tools",
)
PLATFORMS = {"gke", "eks", "existing", "existing_args"}
CHANGES = {"replacement", "recycling"}
ALLOWED = {
    "settings": {"environments", "cluster", "decode", "catalog", "gpu", "batch", *PLATFORMS},
    "environments": {"gpu", "batch", *PLATFORMS},
    "decode": set(),
    "addresses": set(),
    "replacement": {"decode"},
    "recycling": set(),
    "cluster": {"kube"},
    "kubeconfig": set(),
    "ownership": set(),
    "catalog": {"catalog"},
    "kube": {"kube", "catalog"},
    "gke": {
        "gke",
        "cluster",
        "kubeconfig",
        "ownership",
        "decode",
        "addresses",
        "catalog",
        "replacement",
        "recycling",
    },
    "eks": {
        "eks",
        "cluster",
        "kubeconfig",
        "ownership",
        "decode",
        "addresses",
        "catalog",
        "replacement",
        "recycling",
    },
    "existing": {"existing_args", "cluster"},
    "existing_args": {"cluster", "catalog"},
    "gpu": {"gpu", "cluster", "catalog", "kube"},
    "batch": {"batch", "gpu", "cluster", "decode", "catalog", "kube"},
}
"""Room of `components/` -> the rooms that it may import from."""

MODULES = sorted((ROOT / "components").rglob("*.py"))


def room(path: Path) -> str:
    """The file or folder right below `components/`."""
    return path.relative_to(ROOT / "components").parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Every module that the file imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "components":
                names |= {f"components.{alias.name}" for alias in node.names}
            else:
                names.add(node.module)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_room_imports_only_what_it_may(path: Path) -> None:
    """Platforms do not know each other, the GPU layer knows no platform, and so on."""
    if path.parent == ROOT / "components" and path.stem == "__init__":
        return
    rooms = {name.split(".")[1] for name in imported(path) if name.startswith("components.")}
    assert rooms <= ALLOWED[room(path)] | {room(path)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_declared_knows_of_rehearsals(path: Path) -> None:
    """The program is for real clouds: it imports neither rehearsals, checks, policies nor tools."""
    assert not (set(ROOMS) - {"components"}) & {name.split(".")[0] for name in imported(path)}


def test_facts_and_kubernetes_semantics_need_the_standard_library_alone() -> None:
    """Cloud facts, and what Kubernetes means, can be had without Pulumi or any SDK."""
    for path in MODULES:
        if room(path) in ("catalog", "kube", "kubeconfig"):
            roots = {name.split(".")[0] for name in imported(path)}
            assert roots <= {*sys.stdlib_module_names, "components"}, path


def test_kubernetes_semantics_are_written_once() -> None:
    """No other file has a parser of quantities or a map of the clouds' taint effects; the
    simulators spell the effects themselves, since they judge what the program spells."""
    spelling = re.compile(r"PREFER_NO_SCHEDULE")
    suffixes = re.compile(r"[kK]MGTPE|\"Mi\": 2|\"Ki\": 2")
    for folder in ROOMS:
        for path in (ROOT / folder).rglob("*.py"):
            text, name = path.read_text(), path.relative_to(ROOT).as_posix()
            if name != "components/kube/quantity.py":
                assert not suffixes.search(text), name
            if name != "components/kube/taints.py" and folder not in ("plugins", "simulators"):
                assert not spelling.search(text), name


def test_settings_load_no_cloud_sdk() -> None:
    """A bad config is refused before a large SDK is loaded."""
    for path in MODULES:
        if path.stem == "settings" or path.stem.endswith("_args"):
            assert not {"pulumi_gcp", "pulumi_aws"} & imported(path)


def test_the_program_is_a_table_of_contents() -> None:
    """`__main__.py` stays within 60 lines."""
    assert len((ROOT / "__main__.py").read_text().splitlines()) <= 60


def test_only_settings_read_the_config() -> None:
    """No component has a config key of its own."""
    for path in MODULES:
        if room(path) != "settings":
            assert "pulumi.Config(" not in path.read_text()
