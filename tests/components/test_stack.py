"""A stack as a component of somebody else's program."""

import json
import re
import runpy
from collections.abc import Callable
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, get_type_hints

import pulumi
import pytest
import yaml

import gpu_cluster
from gpu_cluster import (
    EksClusterArgs,
    EksExistingClusterArgs,
    EksExistingNetworkArgs,
    EksGpuNodeGroupArgs,
    EksNetworkArgs,
    EksUserArgs,
    ExistingClusterArgs,
    ExistingGpuPoolArgs,
    GpuStack,
    GpuStackArgs,
    ThresholdsArgs,
    WorkloadArgs,
)
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.decode import camel, classes_in
from gpu_cluster.components.settings.blocks import BLOCKS
from gpu_cluster.components.stack import Block, Entries
from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.engine.urn import Urn
from tests.components.recording import Recording, answers_of, record
from tests.program.environments import ANSWERS, STACKS, recorded, values_of

TOKEN = "gpu-cluster:index:GpuStack"
KUBECONFIG = json.dumps({
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
})  # fmt: skip
PROVIDER = "pulumi:providers:kubernetes"


def declared(kubeconfig: Any, preview: bool = False) -> Recording:
    def program() -> None:
        stack = GpuStack(
            "gpus",
            GpuStackArgs(
                cluster=ExistingClusterArgs(name="shared", kubeconfig=kubeconfig()),
                gpu_pools={
                    "a100": ExistingGpuPoolArgs(node_selector={"gpu": "a100"}, gpus_per_node=8)
                },
                workloads={"hello": WorkloadArgs(kind="job", pool="a100", image="a.example/b:1")},
            ),
        )
        pulumi.export("gpuPools", stack.gpu_pools)
        pulumi.export("clusterName", stack.cluster_name)

    return record(program, preview=preview, config={"own-program:anything": "is not ours"})


@pytest.mark.parametrize(
    "kubeconfig",
    [
        lambda: KUBECONFIG,
        lambda: pulumi.Output.from_input(KUBECONFIG),
        lambda: pulumi.Output.secret(KUBECONFIG),
    ],
    ids=["plain", "output", "secret"],
)
def test_a_kubeconfig_may_be_an_output(kubeconfig: Callable[[], Any]) -> None:
    """The provider gets the context that counts, and everything is below the component."""
    found = declared(kubeconfig)
    assert json.loads(found.one(PROVIDER).inputs["kubeconfig"])["current-context"] == "here"
    below = [resource for resource in found.resources if resource.type != TOKEN]
    assert all(TOKEN in one.parent for one in below)
    assert found.outputs["clusterName"] == "shared"
    assert found.outputs["gpuPools"]["a100"]["gpusPerNode"] == 8
    job = found.one("kubernetes:batch/v1:Job")
    assert job.inputs["metadata"]["annotations"]["gpu-cluster/stack"] == "gpu-cluster/test"


def test_a_bad_kubeconfig_in_an_output_is_refused_in_one_line() -> None:
    """As a plain one is: not with the traceback of a callback."""
    unusable = KUBECONFIG.replace('"server"', '"certificate-authority": "/elsewhere/ca", "server"')
    assert unusable != KUBECONFIG
    for text in (unusable, "clusters: []"):
        with pytest.raises(pulumi.RunError, match=r"^gpu-cluster:cluster\.kubeconfig: [^\n]+$"):
            declared(lambda text=text: pulumi.Output.from_input(text))  # type: ignore[misc]


def test_an_unknown_kubeconfig_declares_the_same() -> None:
    """In a preview it may be that of a cluster which the program is about to create."""
    unknown = declared(lambda: pulumi.Output.from_input(pulumi.UNKNOWN), preview=True)
    known = declared(lambda: KUBECONFIG, preview=True)
    assert {resource.urn for resource in unknown.resources} == {one.urn for one in known.resources}
    assert unknown.one(PROVIDER).inputs["kubeconfig"] is None


@pytest.mark.parametrize("environment", STACKS)
def test_every_sample_is_declared_below_a_component(environment: str) -> None:
    """The same resources as at the root of the program, from maps as the stack file has them."""
    config = values_of(environment)
    given = {key: value for key, value in config.items() if key.startswith("gpu-cluster:")}
    args = {key.removeprefix("gpu-cluster:"): value for key, value in given.items()}
    flat = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in config.items()
        if key not in given
    }
    component = record(lambda: GpuStack("gpus", args), config=flat, outputs=ANSWERS)
    root = recorded(values_of(environment)).resources
    assert {resource.key for resource in component.resources} - {f"{TOKEN}::gpus"} == {
        one.key for one in root
    }
    for one in component.resources:
        assert one.type == TOKEN or Urn.parse(one.parent).type != "pulumi:pulumi:Stack", one.key


def test_every_block_has_the_type_of_its_args() -> None:
    """An editor offers its keys, and a type checker sees a wrong one; the package exports all of
    them, also those in fields of others."""
    rows = [row.settings for row in PLATFORMS.values()]
    every = {row.CLUSTER for row in rows} | {row.POOL for row in rows}
    every |= {block.args for block in BLOCKS.values()}
    listed = re.findall(r"\b(\w+) as \1\b", Path(gpu_cluster.__file__ or "").read_text())
    exported = {name: getattr(gpu_cluster, name) for name in listed}
    assert {*listed} <= {*dir(gpu_cluster)}
    args = {kind for block in every for kind in classes_in(block)}
    assert {*exported.values()} == {*args, GpuStack, GpuStackArgs}
    assert {EksNetworkArgs, EksExistingNetworkArgs, ThresholdsArgs} <= args - every
    types = {camel(key): kind for key, kind in get_type_hints(GpuStackArgs, None, exported).items()}
    assert types.pop("prefix") is str
    assert types == {
        "cluster": reduce(or_, [row.CLUSTER for row in rows]) | Block,
        "gpuPools": Entries[reduce(or_, [row.POOL for row in rows])],
    } | {
        key: (block.args | Block if block.names is None else Entries[block.args]) | None
        for key, block in BLOCKS.items()
    }


REFUSED = {
    "cluster: 3": "gpu-cluster:cluster: 3 is not the args class of a platform; give",
    "cluster: {name: x}": "gpu-cluster:cluster.platform: is missing; allowed: ",
    "cluster: {platform: existing, name: x}\nworklods: {}": "gpu-cluster:worklods: there is no",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_stack_file_may_not_say_is_refused(text: str) -> None:
    """In the same words, before anything is registered."""
    given = yaml.safe_load(text)
    with pytest.raises(pulumi.RunError) as refusal:
        record(lambda: GpuStack("gpus", given))
    assert str(refusal.value).startswith(REFUSED[text])


def test_every_mistake_of_a_program_has_a_line() -> None:
    """`GpuStack` shows all in maps, each with its path; args, which check themselves where they are
    created, show theirs below that line of the program, as notes of the traceback."""
    given = {
        "cluster": {"platform": "existing", "name": "x", "kubeconfig": KUBECONFIG},
        "gpuPools": {"a": {"nodeSelector": {"g": "a"}, "gpusPerNode": 8}},
        "workloads": {"b": {"kind": "job", "pool": "c", "image": "x:1"}, "d": {"image": "x"}},
        "bacth": {},
    }
    with pytest.raises(pulumi.RunError) as refusal:
        record(lambda: GpuStack("gpus", given))
    lines = sorted(line.partition(": ")[0] for line in str(refusal.value).splitlines())
    keys = ["bacth", "workloads.b.pool", "workloads.d.kind", "workloads.d.pool"]
    assert lines == [f"gpu-cluster:{key}" for key in keys]
    with pytest.raises(ValueError, match="instanceTypes") as created:
        EksGpuNodeGroupArgs(instance_types=["g4dn.xlrge"], max_nodes=0)
    assert created.value.__notes__ == ["maxNodes: 0 is out of range; allowed: 1 to 100000"]


def test_a_pool_is_refused_beside_a_cluster_of_an_args_class() -> None:
    """What its scaler cannot do is looked up in either form of the cluster."""
    cluster = EksClusterArgs(
        name="x",
        network=EksNetworkArgs(zones=["us-east-1a", "us-east-1b"]),
        admins=["arn:aws:iam::210987654321:role/pulumi"],
        private_endpoint=True,
    )
    pools = {"a": {"instanceTypes": ["g5.xlarge"], "maxNodes": -1}}
    with pytest.raises(pulumi.RunError) as refusal:
        record(lambda: GpuStack("gpus", GpuStackArgs(cluster=cluster, gpu_pools=pools)))
    assert "gpu-cluster:gpuPools.a.maxNodes: -1 is out of range" in str(refusal.value)


def test_an_output_that_decides_what_is_declared_is_refused() -> None:
    """Its value may only be known during an update."""

    def program() -> None:
        count = pulumi.Output.from_input(8)
        pools = {"a": {"nodeSelector": {"g": "a"}, "gpusPerNode": count}}
        cluster = {"platform": "existing", "name": "x", "kubeconfig": KUBECONFIG}
        GpuStack("gpus", GpuStackArgs(cluster=cluster, gpu_pools=pools))

    with pytest.raises(pulumi.RunError) as refusal:
        record(program)
    assert str(refusal.value).startswith("gpu-cluster:gpuPools.a.gpusPerNode: is an output, whose")


ADMIN = "arn:aws:iam::210987654321:role/pulumi"


def first_args(**blocks: Any) -> GpuStackArgs:
    cluster = EksClusterArgs(
        name="shared",
        network=EksNetworkArgs(subnet_ids=SUBNETS),
        admins=[ADMIN],
        private_endpoint=True,
    )
    pools = {"gpus": EksGpuNodeGroupArgs(instance_types=["g6.xlarge"])}
    return GpuStackArgs(cluster=cluster, gpu_pools=pools, **blocks)


def first(name: str = "first", **blocks: Any) -> GpuStack:
    return GpuStack(name, first_args(**blocks))


def on_the_cluster_of(stack: GpuStack, prefix: str, users: Any = None, **blocks: Any) -> GpuStack:
    cluster = EksExistingClusterArgs(
        existing="shared",
        version="1.35",
        endpoint=stack.endpoint,
        certificate_authority=stack.certificate_authority,
        network=EksExistingNetworkArgs(subnet_ids=SUBNETS),
        users=users or {},
    )
    pools = {"further": EksGpuNodeGroupArgs(instance_types=["g5.xlarge"])}
    args: dict[str, Any] = {"cluster": cluster, "gpu_pools": pools, **blocks}
    return GpuStack("second", GpuStackArgs(prefix=prefix, **args))


SUBNETS = ["subnet-0aaaaaaaaaaaaaaa1", "subnet-0aaaaaaaaaaaaaaa2"]
EKS = {"config": {"aws:region": "us-east-1"}, "outputs": ANSWERS}


def urn(_: object, parent: str, kind: str, name: str) -> str:
    """As the engine's: with the types of all parents, of which the SDK's mock has one."""
    above = Urn.parse(parent) if parent else None
    types = (*above.parents, above.type) if above and above.type != "pulumi:pulumi:Stack" else ()
    return str(Urn(stack="test", project="gpu-cluster", parents=types, type=kind, name=name))


def test_a_second_stack_may_be_on_the_cluster_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is as it is without the second. No two resources have one URN, no two objects one
    name in the cluster, no two hooks one name, and the first's cluster is deleted last."""
    monkeypatch.setattr("tests.components.recording.Recorder.make_urn", urn)
    alone = record(first, **EKS)  # type: ignore[arg-type]
    both = record(lambda: on_the_cluster_of(first(), "more"), **EKS)  # type: ignore[arg-type]
    mine = [row for row in both.resources if "gpu-cluster:more:GpuStack" not in row.parent]
    second = [row for row in both.resources if row not in mine and row.name != "second"]
    assert {row.urn: row for row in alone.resources} == {
        row.urn: row for row in mine if row.name != "second"
    }
    assert len({urn(0, row.parent, row.type, row.name) for row in both.resources}) == len(
        both.resources
    )
    objects = [
        (row.type, meta.get("namespace"), meta["name"])
        for row in both.resources
        if (meta := row.inputs.get("metadata"))
    ]
    assert len(set(objects)) == len(objects)
    assert not {hook for row in mine for hook in row.hooks} & {
        hook for row in second for hook in row.hooks
    }
    assert {row.inputs["clusterName"] for row in both.of("aws:eks/nodeGroup:NodeGroup")} == {
        "shared"
    }
    (group,) = [row for row in second if row.type == "aws:eks/nodeGroup:NodeGroup"]
    assert "aws:eks/cluster:Cluster::shared" in both.before(group)
    assert {"aws:eks/nodeGroup:NodeGroup::shared-system"} <= both.before(group)


class Team(pulumi.ComponentResource):
    """A component of the program's own, with providers."""

    def __init__(self, *providers: pulumi.ProviderResource) -> None:
        options = pulumi.ResourceOptions(providers=providers)
        super().__init__("own:index:Team", "team", None, options)


@pytest.mark.parametrize("given", ["provider", "providers", "by package", "parent"])
def test_a_provider_of_the_cloud_is_refused(given: str) -> None:
    """Its region would be that of the cluster; the kubeconfig has that of the config."""

    def program() -> None:
        aws = pulumi.ProviderResource("aws", "eu", {"region": "eu-west-1"})
        options = {
            "provider": lambda: pulumi.ResourceOptions(provider=aws),
            "providers": lambda: pulumi.ResourceOptions(providers=[aws]),
            "by package": lambda: pulumi.ResourceOptions(providers={"aws": aws}),
            "parent": lambda: pulumi.ResourceOptions(parent=Team(aws)),
        }
        GpuStack("gpus", first_args(), options[given]())

    with pytest.raises(pulumi.RunError, match=r"^GpuStack gpus: has a provider of aws [^\n]+$"):
        record(program, **EKS)  # type: ignore[arg-type]


def test_a_provider_of_something_else_is_accepted() -> None:
    """A parent may have some for resources of its own."""

    def program() -> None:
        other = pulumi.ProviderResource("random", "other", {})
        GpuStack("gpus", first_args(), pulumi.ResourceOptions(parent=Team(other)))

    assert record(program, **EKS).of("aws:eks/cluster:Cluster")  # type: ignore[arg-type]


@pytest.mark.parametrize("prefix", ["", "More", "a" * 17])
def test_two_stacks_need_two_prefixes(prefix: str) -> None:
    """Otherwise the engine would refuse the second in the middle of a preview."""
    with pytest.raises(pulumi.RunError, match=r": .* (is not the prefix|is that of another) "):
        record(lambda: on_the_cluster_of(first(), prefix), **EKS)  # type: ignore[arg-type]


ONCE: dict[str, tuple[dict[str, Any], str]] = {
    "pools of one name": (
        {"gpu_pools": {"gpus": {"instanceTypes": ["g5.xlarge"]}}},
        "gpu-cluster:gpuPools.gpus: is a pool of GpuStack first in the same cluster, and",
    ),
    "a namespace": (
        {"namespaces": {"apps": {}}},
        "gpu-cluster:prefix: 'more' creates Namespace apps for namespaces, as GpuStack first does",
    ),
    "monitoring": (
        {"monitoring": {"enabled": True}},
        "gpu-cluster:prefix: 'more' creates Namespace gpu-monitoring-system for gpu-monitoring, as",
    ),
    "JobSet": (
        {"batch": {"jobSet": True}},
        "gpu-cluster:prefix: 'more' creates CustomResourceDefinition",
    ),
}
"""What a cluster has only once -> the second stack's blocks, and how the refusal begins."""


@pytest.mark.parametrize("what", ONCE)
def test_what_a_cluster_has_once_is_refused_in_a_second_stack(what: str) -> None:
    """In one line that names both stacks; the first is as it is alone."""
    blocks, says = ONCE[what]
    alike = {key: block for key, block in blocks.items() if key != "gpu_pools"}
    with pytest.raises(pulumi.RunError) as refusal:
        record(lambda: on_the_cluster_of(first(**alike), "more", **blocks), **EKS)  # type: ignore[arg-type]
    assert str(refusal.value).startswith(says)
    assert len(str(refusal.value).splitlines()) == 1


def test_an_access_entry_is_refused_in_a_second_stack() -> None:
    """EKS has one for each identity; the first stack's admin has it already."""
    users = {"readers": EksUserArgs(principals=[ADMIN])}
    with pytest.raises(pulumi.RunError, match=r"^gpu-cluster:prefix: 'more' creates AccessEntry "):
        record(lambda: on_the_cluster_of(first(), "more", users), **EKS)  # type: ignore[arg-type]


def test_a_kubeconfig_of_the_first_identifies_its_cluster() -> None:
    """The output itself; of one that is computed from it, only `up` knows the cluster."""

    def program(kubeconfig: Callable[[GpuStack], Any]) -> None:
        cluster = ExistingClusterArgs(name="guests", kubeconfig=kubeconfig(first(namespaces=apps)))
        GpuStack("second", GpuStackArgs(prefix="more", cluster=cluster, namespaces=apps))

    apps: Any = {"apps": {}}
    with pytest.raises(pulumi.RunError, match="creates Namespace apps for namespaces, as GpuStack"):
        record(lambda: program(lambda stack: stack.kubeconfig), **EKS)  # type: ignore[arg-type]
    record(lambda: program(lambda stack: stack.kubeconfig.apply(str)), **EKS)  # type: ignore[arg-type]


def test_two_stacks_of_existing_clusters_are_told_apart_by_their_servers() -> None:
    """The same kubeconfig, in two stacks, is the same cluster; another is not."""

    def program(second: str) -> None:
        for name, text in (("first", KUBECONFIG), ("second", second)):
            cluster = ExistingClusterArgs(name=name, kubeconfig=text)
            namespaces: Any = {"apps": {}}
            GpuStack(name, GpuStackArgs(prefix=name, cluster=cluster, namespaces=namespaces))

    record(lambda: program(KUBECONFIG.replace("192.0.2.1", "192.0.2.2")))
    with pytest.raises(pulumi.RunError, match="creates Namespace apps"):
        record(lambda: program(KUBECONFIG))


def test_two_stacks_do_not_create_one_cluster() -> None:
    """The cloud would refuse the second in the middle of `up`."""

    def program() -> None:
        first()
        first("second", prefix="more")

    with pytest.raises(pulumi.RunError) as refusal:
        record(program, **EKS)  # type: ignore[arg-type]
    assert str(refusal.value).splitlines()[0] == (
        "gpu-cluster:cluster.name: 'shared' is the cluster that GpuStack first creates; name "
        "another, or give the args of an existing cluster"
    )


def test_the_pages_program_declares_two_stacks_on_one_cluster() -> None:
    """The Python block of docs/how-to/use-the-package.md, word for word."""
    page = (ROOT / "docs" / "how-to" / "use-the-package.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    found = record(lambda: exec(block, {}), **EKS)  # type: ignore[arg-type]
    groups = {row.name for row in found.of("aws:eks/nodeGroup:NodeGroup")}
    assert {"train", "serve"} <= groups


def test_the_example_puts_its_pools_into_subnets_that_it_creates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each pool is in one, and waits for its way out to the internet, as the system pool does."""
    program = ROOT / "examples" / "own-vpc" / "__main__.py"
    config = {
        "aws:region": "us-east-1",
        "gpu-cluster:admin": "arn:aws:iam::210987654321:role/pulumi",
        "gpu-cluster:office": "198.18.0.0/24",
    }

    def answered(outputs: Any, request: Any) -> dict[str, Any]:
        associated = request.type == "aws:ec2/routeTableAssociation:RouteTableAssociation"
        subnet = {"subnetId": SUBNETS[request.name.endswith("-b")]} if associated else {}
        return answers_of(outputs, request) | subnet

    monkeypatch.setattr("tests.components.recording.answers_of", answered)
    found = record(lambda: runpy.run_path(str(program)), config=config, outputs=ANSWERS)
    groups = {row.name: row for row in found.of("aws:eks/nodeGroup:NodeGroup")}
    numbers = {name: len(row.inputs["subnetIds"]) for name, row in groups.items()}
    assert numbers == {"train": 1, "serve": 1, "own-vpc-system": 2}
    assert all("aws:ec2/route:Route::private" in found.before(row) for row in groups.values())
