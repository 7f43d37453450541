"""The table of blocks: a new kind of workload is a row, its args and what declares it."""

import json
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from gpu_cluster.components.settings.blocks import BLOCKS, RUNNING
from gpu_cluster.stacks.definition.files import ROOT
from tests.toy import BLOCK, PLATFORM, Session, python, tree

IMAGE = "example.com/web:1.0"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """In the tree with a toy block on the toy platform. A block takes five files at most: args,
    what declares it, its row, and an environment that has one."""
    copy = tree(tmp_path_factory.mktemp("toy-block"))
    PLATFORM.add(copy)
    new, changed = BLOCK.add(copy)
    assert changed == ["components/settings/blocks.py"]
    assert len([*new, *changed]) <= 5
    with closing(Session(copy)) as session:
        yield session


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("pool: bricks", ""),
        ("pool: brick", "sites.web.pool: 'brick' is not a pool; did you mean 'bricks'?"),
        ("replicas: none, pool: bricks", "sites.web.replicas: 'none'"),
        ("namespace: team, pool: bricks", "sites.web.namespace: nothing creates the namespace"),
    ],
)
def test_it_is_loaded(toy: Session, given: str, says: str) -> None:
    """By its own class and `read`, with the key's path in front of what is refused."""
    file = toy.copy / "Pulumi.serving.yaml"
    text = file.read_text()
    file.write_text(text.replace("pool: bricks, image", f"{given}, image"))
    code, printed, said = toy.run(["validate", "serving"])
    file.write_text(text)
    assert bool(code) == bool(says), printed + said
    assert says in printed


def test_its_images_are_listed(toy: Session) -> None:
    """With those of the stack's own registry."""
    code, printed, said = toy.run(["images", "serving", "--json"])
    assert code == 0, said
    assert IMAGE in [row["image"] for row in json.loads(printed)["images"]]


def test_its_pods_are_counted(toy: Session) -> None:
    """What counts GPUs, claims and namespaces reads its pods as those of any other block."""
    code = """
from gpu_cluster.stacks.definition.settings import config_of, settings_of
pods = settings_of("serving", config_of("serving")).pod_groups
print([(one.path, one.pool, one.count, one.gpus) for one in pods])
"""
    _, printed, said = toy.run(code)
    assert "('gpu-cluster:sites.web', 'bricks', 1, 1)" in printed, said


def test_its_keys_are_documented(toy: Session) -> None:
    """On the page that the row names and in its index, in the schema, and as a named block."""
    code = """
import json
from quality import keys
from quality.docs import stack_schema
from quality.faults.changes import NAMED
schema = stack_schema.schema()["properties"]["config"]["properties"]
pages = keys.shared_blocks() + keys.pages()["workloads"]
print(json.dumps([pages, schema["gpu-cluster:sites"], NAMED]))
"""
    _, printed, _ = toy.run(code)
    page, schema, named = json.loads(printed)
    assert page.count("`gpu-cluster:sites.<name>`") == 2
    assert "replicas" in schema["additionalProperties"]["properties"]
    assert "sites" in named


EFFECTS = """
from gpu_cluster.stacks.definition.files import SAMPLES
from tests.program.effects import leaves
from tests.program.test_effects import test_a_setting_has_an_effect_or_a_reason as has_an_effect
from tests.unit.quality.test_changes import test_every_setting_is_changed_or_has_a_reason as changed

sites = [setting for key, setting in leaves("existing").items() if key.startswith("sites.")]
for setting in sites:
    # Its pool has neither devices nor claims in any start.
    if not setting.key.startswith(("sites.extended", "sites.gpuSelector", "sites.sharedGpus")):
        has_an_effect("existing", setting)
for stack in SAMPLES:
    changed(stack)
print(*(setting.key for setting in sites))
"""


def test_its_keys_are_changed(tmp_path: Path) -> None:
    """By the test that each has an effect, and by the fault injection, of which no file says
    anything of the block."""
    copy = tree(tmp_path)
    BLOCK.add(copy)
    for name in ("examples", "tests"):
        (copy / name).symlink_to(ROOT / name)
    done = python(copy, "-c", EFFECTS, seconds=150)
    assert done.returncode == 0, done.stderr
    assert {"sites.pool", "sites.replicas", "sites.volumes.<name>.claim"} <= {*done.stdout.split()}


@pytest.mark.parametrize("key", RUNNING)
def test_every_block_that_runs_pods_says_which(key: str) -> None:
    """Its class has `pod_groups`, and its module is there to declare it."""
    assert callable(RUNNING[key].args.pod_groups)
    assert callable(import_module(RUNNING[key].module).declare)
    assert BLOCKS[key] is RUNNING[key]
