"""A version, a taint: each is one constant, and a change of it is a change of one file."""

import ast
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from gpu_cluster.components.catalog.images import DEVICE_PLUGIN
from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.components.settings.blocks import BLOCKS
from gpu_cluster.stacks.definition.files import ROOT
from tests.toy import python
from tests.tree import sources

TESTS = (
    "tests/components/test_batch.py",
    "tests/components/test_compute_classes.py",
    "tests/components/test_device_plugin.py",
    "tests/components/test_eks_node_group.py",
    "tests/components/test_eks_nodes.py",
    "tests/components/test_gke.py",
    "tests/components/test_gpu_layer.py",
    "tests/policy",
    "tests/unit/components/test_catalog.py",
    "tests/unit/components/test_catalog_kubernetes.py",
    "tests/unit/simulators/test_inventory.py",
    "tests/unit/stacks/test_gpu_survey.py",
)
"""Those that see the device plugin's image, or the taint of GPU nodes, on any platform."""


@pytest.mark.prove(reason="the tests that it runs in the copy take half a minute")
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("components/cluster.py", f'value="{GPU_TAINT.value}"', 'value="reserved"'),
        ("components/catalog/images.py", f'tag="{DEVICE_PLUGIN.tag}"', 'tag="v1.2.3"'),
    ],
)
def test_one_file_changes(tmp_path: Path, file: str, old: str, new: str) -> None:
    """The tests of the area pass in a copy of the tree where only this file is changed."""
    copy = tmp_path / "tree"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    (copy / ".venv").symlink_to(ROOT / ".venv")
    text = (copy / file).read_text()
    assert text.count(old) == 1
    (copy / file).write_text(text.replace(old, new))
    done = python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, seconds=600)
    assert done.returncode == 0, done.stdout[-3000:]


def test_no_other_file_names_the_device_plugins_version() -> None:
    """Docstrings name the constant; the program that a rehearsal builds has its own version."""
    assert DEVICE_PLUGIN.tag is not None
    version = DEVICE_PLUGIN.tag.removeprefix("v")
    found = [
        path.relative_to(ROOT)
        for path in sources()
        if f"device-plugin {version}" in " ".join(path.read_text().split())
    ]
    assert found == []


def test_no_component_writes_the_label_of_a_zone_again() -> None:
    """Simulated clouds do: they share no protocol strings with the program."""
    paths = (ROOT / "components").rglob("*.py")
    assert [path.name for path in paths if f'"{ZONE}"' in path.read_text()] == ["kubernetes.py"]


_NAMED: Mapping[str, tuple[str, Mapping[str, object], str]] = {
    # Limits of settings, like NotWith; the pools of one scaler; tests, each with one.
    "scaler": ("scaler", SCALERS, "eks/pool_args existing/pool_args gke/compute_class "
               "gke/node_identity gke/pool_args gke_autopilot/pool_args docs/scaler_table"),
    "platform": ("platform", PLATFORMS, "docs/supported"),  # Pools of each.
    # The type of the only block that others ask for; what is left without a namespace, and without
    # an account or a claim.
    "block": ("block|running", BLOCKS, "settings/model settings/remaining settings/remaining"),
}  # fmt: skip
"""Table -> words for its rows, its keys, and the files that name one, as often as they do."""
_TABLES = ["components/platforms", "components/scalers", "settings/blocks"]


def _named(code: str, words: str, keys: Collection[str]) -> int:
    """How often the code compares something with keys, looks one up, passes one to a function or
    has a table by them. A key that is also a common word counts only next to one of `words`."""
    count = 0
    for node in ast.walk(ast.parse(code)):
        values, near = list[ast.expr](), list[ast.AST]([node])
        match node:
            case ast.Call(func=ast.Name(id="NotWith" | "never" | "only")):
                pass  # An annotation of a setting.
            case ast.Call():
                by_name = [item for item in node.keywords if re.search(words, item.arg or "")]
                # The first argument of a component is its own name.
                component = re.fullmatch("[A-Z][A-Za-z]+[a-z]", ast.unparse(node.func))
                values = [*node.args[bool(component) :], *(item.value for item in by_name)]
                near = [node.func, *by_name]
            case ast.Subscript():
                values, near = [node.slice], [node.value]
            case ast.Compare():
                values = [node.left, *node.comparators]
            case ast.Dict():
                table = {getattr(key, "value", None) for key in node.keys}
                count += len(table) > 1 and table <= keys
        parts = [part for value in values for part in getattr(value, "elts", [value])]
        named = [key for part in parts if (key := getattr(part, "value", None)) in keys]
        if named:
            about = re.sub("'.*?'", "", " ".join(map(ast.unparse, near))).lower()
            rare = not isinstance(node, ast.Subscript) and re.search("[-A-Z]", " ".join(named))
            count += bool(rare or re.search(words, about))
    return count


@pytest.mark.parametrize("table", _NAMED)
def test_no_row_is_named_outside_its_table(table: str) -> None:
    """A feature that asks for a name forgets the other rows. A platform's folder names its own."""
    words, rows, expected = _NAMED[table]
    found = []
    for path in sources():
        own = {key for key, row in PLATFORMS.items() if row.folder == path.parent.name}
        count = _named(path.read_text(), words, rows.keys() - own)
        found += [f"{path.parent.name}/{path.stem}"] * count
    assert [file for file in found if file not in _TABLES] == expected.split()


@pytest.mark.parametrize(
    ("count", "code"),
    [
        (3, 'scaler == "karpenter" or "auto-mode" in (old, new) or scaler in ("karpenter", "")'),
        (3, 'SCALERS["karpenter"], SCALERS.get("karpenter"), {"karpenter": 1, "auto-mode": 2}'),
        (2, 'pool.local_disks("auto-mode"), nodes(pool, scaler="karpenter")'),
        (0, 'NotWith("auto-mode", "why"), Literal["auto-mode"], never(scaler="auto-mode")("why")'),
        (0, 'options["karpenter"], {"autopilot": 1}, name == "karpenter", Karpenter("auto-mode")'),
    ],
)
def test_a_row_is_named_by_whatever_depends_on_it(count: int, code: str) -> None:
    """Settings, and other things of the same name, do not."""
    assert _named(code, "scaler", SCALERS.keys()) == count
