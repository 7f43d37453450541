"""The table of platforms: a new one is a folder, a row and its modules."""

import ast
import json
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module

import pytest

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.environments.new_stack import environment_of
from tests.toy import PLATFORM, Session, tree


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """In the tree with a toy platform: its row and its cloud's changed, all else is new. The design
    allows eight."""
    copy = tree(tmp_path_factory.mktemp("toy"))
    changed = PLATFORM.add(copy)[1]
    assert changed == ["components/platforms.py", "components/catalog/clouds.py"]
    with closing(Session(copy)) as session:
        yield session


def test_its_stack_file_is_validated(toy: Session) -> None:
    """By the settings module that the row names; the toy cloud's own settings are known too."""
    file = toy.copy / "Pulumi.toy.yaml"
    text = file.read_text()
    for change, finding in (
        ("  toy:account: mine\n", ""),
        ("  joy:account: mine\n", "rename the key to toy:account"),
    ):
        file.write_text(text.replace("config:\n", f"config:\n{change}"))
        code, printed, said = toy.run(["validate", "toy"])
        file.write_text(text)
        assert bool(code) == bool(finding), printed + said
        assert finding in printed


def test_a_new_stack_can_be_on_it(toy: Session) -> None:
    """`gpu-cluster new` writes a file that the program takes."""
    code, printed, said = toy.run(["new", "fresh", "--platform", "toy", "--yes", "--json"])
    assert code == 0, said
    config = json.loads(printed)["config"]
    assert config["toy:account"] == "mine"
    assert config["gpu-cluster:gpuPools"] == {"gpus": {"machines": 2}}


def test_a_change_of_its_cluster_is_a_loss(toy: Session) -> None:
    """By the type that the cloud's row names."""
    code = """
from gpu_cluster.stacks.engine.plan import Change
urn = "urn:pulumi:s::p::{}::n"
print(*(Change(urn=urn.format(f"toy:index:{kind}"), verb="replace").loss
        for kind in ("Cluster", "Pool", "Disk")), sep=", ")
"""
    assert toy.run(code)[1] == "cluster, system pool, None\n"


def test_its_pools_keep_the_policies(toy: Session) -> None:
    """By its module of `policy/`: in rules that hold in every cloud, and in its part of one."""
    code = """
from gpu_cluster.policy.pack import RULES
from gpu_cluster.policy.reading import Resource
pool = Resource(type="toy:index:Pool", name="bricks", props={"machines": 2, "public": True},
                urn="urn:pulumi:lab::p::toy:index:Pool::bricks")
rules = {rule.name: rule for rule in RULES}
print(*rules["nodes-private"].check(pool))
print(*rules["gpu-pool-minimum"].check(pool, stacks=[]))
print(*rules["monthly-ceiling"].check([pool], dollars=100, stacks={}))
"""
    private, minimum, ceiling = toy.run(code)[1].splitlines()
    assert private == "pool bricks is public"
    assert minimum.startswith("GPU pool bricks keeps 2 nodes running in stack lab")
    assert "$1,460 a month" in ceiling


def test_its_failed_cluster_is_recovered(toy: Session) -> None:
    """By the module that the cloud's row names."""
    code = """
from gpu_cluster.stacks.recovery.failed import failed
cluster = {"type": "toy:index:Cluster", "urn": "u", "id": "c"}
print(*failed({"deployment": {"resources": [cluster]}}, None))
"""
    assert toy.run(code)[1] == "('u', 'c is broken')\n"


def test_a_kubeconfig_of_its_clusters_is_used(toy: Session) -> None:
    """With the cloud's command, which may only print a token, and with what to do if it is not
    installed."""
    code = """
import json
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.kube.credentials import unsafe
from gpu_cluster.components.access.kubeconfig import document
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.stacks.live.cluster import client_of
from gpu_cluster.stacks.outcome import CheckError
for words in (["token"], ["sell"]):
    text = document(CLOUDS["toy"], "c", {"server": "https://c"}, args=words)
    print(unsafe(json.loads(text)["users"][0]["user"]))
try:
    client_of(text)
except CheckError as error:
    print(error)
"""
    token, sell, missing = toy.run(code)[1].splitlines()
    assert (token, sell) == ("None", "runs toyctl sell; allowed: toyctl token")
    assert missing.endswith("toyctl, which is not on PATH; buy toyctl")


def test_its_keys_are_documented(toy: Session) -> None:
    """On a page of its own, and in the schema that editors read."""
    code = """
import json
from quality import keys
from quality.docs import stack_schema
schema = stack_schema.schema()["properties"]["config"]["properties"]
platform = schema["gpu-cluster:cluster"]["properties"]["platform"]
print(json.dumps([keys.pages()["toy"], keys.platforms(), platform]))
"""
    page, index, platform = json.loads(toy.run(code)[1])
    assert "`machines`" in page
    assert "[Toy](toy.md)" in index
    assert "toy" in platform["enum"]


def test_its_quota_is_asked_for(toy: Session) -> None:
    """Two machines, of three that the toy cloud allows."""
    code, printed, said = toy.run(["capacity", "toy", "--json"])
    assert code == 0, said
    (quota,) = json.loads(printed)["quotas"]
    assert (quota["quota"], quota["need"], quota["limit"]) == ("TOYS", 2, 3)


def test_its_bill_is_written(toy: Session) -> None:
    """Two machines at a dollar an hour."""
    code, printed, said = toy.run(["cost", "toy", "--json"])
    assert code == 0, said
    assert json.loads(printed)["totals"]["configured"]["full"]["hour"] == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{ machines: 2 }", ""),
        ("{ machines: 0 }", "gpuPools.bricks.machines: 0 is too small; allowed: 1 or more"),
        ("{ maschines: 2 }", "did you mean 'machines'?"),
    ],
)
def test_its_settings_are_read(toy: Session, given: str, says: str) -> None:
    """By the folder's own classes, with the key's path."""
    file = toy.copy / "Pulumi.toy.yaml"
    text = file.read_text()
    file.write_text(text.replace("{ machines: 2 }", given))
    code, printed, said = toy.run(["cost", "toy"])
    file.write_text(text)
    assert bool(code) == bool(says)
    assert says in said + printed


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


@pytest.mark.parametrize("room", ["gpu", "batch"])
def test_what_runs_on_nodes_asks_for_no_platform(room: str) -> None:
    """Pool and cluster say what nodes have; which platform made them is no question there."""
    for file in (ROOT / "components" / room).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            assert not (isinstance(node, ast.Attribute) and node.attr == "platform"), file
            if isinstance(node, ast.Compare | ast.Match):
                words = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
                assert not words & set(PLATFORMS), file
