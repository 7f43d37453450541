"""A stack as a component of somebody else's program."""

import json
import re
from collections.abc import Callable
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, get_type_hints

import pulumi
import pytest
import yaml

import gpu_cluster
from gpu_cluster import ExistingClusterArgs, ExistingGpuPoolArgs, GpuStack, GpuStackArgs
from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.components.eks.network_args import EksNetworkArgs
from gpu_cluster.components.gpu.workload_args import WorkloadArgs
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.decode import camel
from gpu_cluster.components.settings.blocks import BLOCKS
from gpu_cluster.components.stack import Block, Entries
from gpu_cluster.stacks.engine.urn import Urn
from tests.components.recording import Recording, record
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
    """An editor offers its keys, and a type checker sees a wrong one."""
    rows = [row.settings for row in PLATFORMS.values()]
    every = {row.CLUSTER for row in rows} | {row.POOL for row in rows}
    every |= {block.args for block in BLOCKS.values()}
    exported = {args.__name__: getattr(gpu_cluster, args.__name__) for args in every}
    assert set(exported.values()) == every
    listed = re.findall(r"import \w+ as (\w+)", Path(gpu_cluster.__file__ or "").read_text())
    assert {*listed} == {*exported, "GpuStack", "GpuStackArgs"}
    types = {camel(key): kind for key, kind in get_type_hints(GpuStackArgs, None, exported).items()}
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
