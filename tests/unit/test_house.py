"""The house's own rules: who imports whom, what the table of contents may hold."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLATFORMS = {"gke", "eks", "existing", "existing_args"}
ALLOWED = {
    "settings": {"environments", "cluster", "decode", "catalog", "gpu", "batch", *PLATFORMS},
    "environments": {"gpu", "batch", *PLATFORMS},
    "decode": set(),
    "addresses": set(),
    "replacement": {"decode"},
    "cluster": set(),
    "kubeconfig": set(),
    "catalog": {"catalog"},
    "gke": {"gke", "cluster", "kubeconfig", "decode", "addresses", "catalog", "replacement"},
    "eks": {"eks", "cluster", "kubeconfig", "decode", "addresses", "catalog", "replacement"},
    "existing": {"existing_args", "cluster"},
    "existing_args": {"cluster", "catalog"},
    "gpu": {"gpu", "cluster", "catalog"},
    "batch": {"batch", "gpu", "cluster", "decode", "catalog"},
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
    assert not {"rehearsal", "checks", "policy", "stacks", "tools"} & {
        name.split(".")[0] for name in imported(path)
    }


def test_catalog_and_kubeconfig_need_the_standard_library_alone() -> None:
    """Cloud facts can be read without Pulumi or any SDK."""
    for path in MODULES:
        if room(path) in ("catalog", "kubeconfig"):
            assert not {"pulumi", "pulumi_gcp", "pulumi_aws", "pulumi_kubernetes", "yaml"} & {
                name.split(".")[0] for name in imported(path)
            }


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
