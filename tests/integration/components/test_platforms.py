"""The table of platforms: a new one is a folder, a row and its modules."""

import ast
import json
from importlib import import_module
from pathlib import Path

import pytest

from components.platforms import PLATFORMS
from quality.platforms import measured
from stacks.definition.files import ROOT
from stacks.environments.new_stack import environment_of
from tests.toy import PLATFORM, python, tree


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The tree with a toy platform, and which of its files changed for it."""
    copy = tree(tmp_path_factory.mktemp("toy"))
    return copy, PLATFORM.add(copy)[1]


def test_a_platform_changes_two_files(toy: tuple[Path, list[str]]) -> None:
    """Its row and its cloud's; all else is new. The design allows eight."""
    assert toy[1] == ["components/platforms.py", "components/catalog/clouds.py"]


def test_its_stack_file_is_validated(toy: tuple[Path, list[str]]) -> None:
    """By the settings module that the row names; the toy cloud's own settings are known too."""
    file = toy[0] / "Pulumi.toy.yaml"
    text = file.read_text()
    for change, finding in (
        ("  toy:account: mine\n", ""),
        ("  joy:account: mine\n", "rename the key to toy:account"),
    ):
        file.write_text(text.replace("config:\n", f"config:\n{change}"))
        done = python(toy[0], "-m", "cli", "validate", "toy")
        file.write_text(text)
        assert bool(done.returncode) == bool(finding), done.stdout + done.stderr
        assert finding in done.stdout


def test_a_new_stack_can_be_on_it(toy: tuple[Path, list[str]]) -> None:
    """`gpu-cluster new` writes a file that the program takes."""
    done = python(toy[0], "-m", "cli", "new", "fresh", "--platform", "toy", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    config = json.loads(done.stdout)["config"]
    assert config["toy:account"] == "mine"
    assert config["gpu-cluster:gpuPools"] == {"gpus": {"machines": 2}}


def test_a_change_of_its_cluster_is_a_loss(toy: tuple[Path, list[str]]) -> None:
    """By the type that the cloud's row names."""
    code = """
from stacks.engine.plan import Change
urn = "urn:pulumi:s::p::{}::n"
print(*(Change(urn=urn.format(f"toy:index:{kind}"), verb="replace").loss
        for kind in ("Cluster", "Pool", "Disk")), sep=", ")
"""
    done = python(toy[0], "-c", code)
    assert done.stdout == "cluster, system pool, None\n", done.stderr


def test_its_keys_are_documented(toy: tuple[Path, list[str]]) -> None:
    """On a page of its own, and in the schema that editors read."""
    code = """
import json
from quality.docs import keys, stack_schema
schema = stack_schema.schema()["properties"]["config"]["properties"]
print(json.dumps([keys.pages()["toy"], schema["gpu-cluster:cluster"]["properties"]["platform"]]))
"""
    done = python(toy[0], "-c", code)
    assert done.returncode == 0, done.stderr
    page, platform = json.loads(done.stdout)
    assert "`machines`" in page
    assert "toy" in platform["enum"]


def test_its_quota_is_asked_for(toy: tuple[Path, list[str]]) -> None:
    """Two machines, of three that the toy cloud allows."""
    done = python(toy[0], "-m", "cli", "capacity", "toy", "--json")
    assert done.returncode == 0, done.stderr
    (quota,) = json.loads(done.stdout)["quotas"]
    assert (quota["quota"], quota["need"], quota["limit"]) == ("TOYS", 2, 3)


def test_its_bill_is_written(toy: tuple[Path, list[str]]) -> None:
    """Two machines at a dollar an hour."""
    done = python(toy[0], "-m", "cli", "cost", "toy", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["totals"]["configured"]["full"]["hour"] == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{ machines: 2 }", ""),
        ("{ machines: 0 }", "gpuPools.bricks.machines: 0 is too small; allowed: 1 or more"),
        ("{ maschines: 2 }", "did you mean 'machines'?"),
    ],
)
def test_its_settings_are_read(toy: tuple[Path, list[str]], given: str, says: str) -> None:
    """By the folder's own classes, with the key's path."""
    file = toy[0] / "Pulumi.toy.yaml"
    text = file.read_text()
    file.write_text(text.replace("{ machines: 2 }", given))
    done = python(toy[0], "-m", "cli", "cost", "toy")
    file.write_text(text)
    assert bool(done.returncode) == bool(says)
    assert says in done.stderr + done.stdout


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_row_leads_to_modules_with_what_they_must_have(name: str) -> None:
    """Settings and program in the folder; cost and quota where there is a cloud; a simulator."""
    row = PLATFORMS[name]
    assert row.settings.CLUSTER
    assert row.settings.POOL
    assert callable(row.settings.resolve)
    assert callable(row.program.declare)
    assert bool(row.cloud) == bool(row.cost) == bool(row.capacity)
    if row.cloud:
        assert callable(import_module(row.cost).bill)
        assert callable(import_module(row.capacity).questions)
    assert callable(import_module(row.rehearsal).serve)
    if row.environment:
        assert callable(environment_of(name).parts)
    assert bool(row.gpu_pool) == bool(row.measures)
    if row.measures:
        known = measured(name)
        assert known is not None
        assert known.ORDER


@pytest.mark.parametrize("room", ["gpu", "batch"])
def test_what_runs_on_nodes_asks_for_no_platform(room: str) -> None:
    """Pool and cluster say what nodes have; which platform made them is no question there."""
    for file in (ROOT / "components" / room).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            assert not (isinstance(node, ast.Attribute) and node.attr == "platform"), file
            if isinstance(node, ast.Compare | ast.Match):
                words = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
                assert not words & set(PLATFORMS), file
