"""A stack: declares a cluster with everything that runs in it, from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pulumi

from .batch.declare import declare_batch
from .cluster import Cluster
from .gpu.auxiliary import declare_auxiliary, declare_namespaces
from .gpu.device_plugin import DevicePlugin
from .gpu.driver import DriverInstaller
from .gpu.prerequisites import Prerequisites
from .gpu.registry import use_registry
from .lifecycle import ownership
from .lifecycle.deletion_protection import DeletionProtection, recording
from .platforms import PLATFORMS
from .schema.decode import camel
from .settings import load
from .settings.blocks import RUNNING
from .settings.model import Settings

if TYPE_CHECKING:
    from .. import (
        BatchArgs,
        EksClusterArgs,
        EksExistingClusterArgs,
        EksGpuNodeGroupArgs,
        ExistingClusterArgs,
        ExistingGpuPoolArgs,
        GkeAutopilotArgs,
        GkeAutopilotPoolArgs,
        GkeClusterArgs,
        GkeExistingClusterArgs,
        GkeGpuNodePoolArgs,
        GpuTestArgs,
        ImagesArgs,
        MonitoringArgs,
        NamespaceArgs,
        ServiceAccountArgs,
        ServiceArgs,
        TeamArgs,
        TrainingArgs,
        VolumeClaimArgs,
        WorkloadArgs,
    )

Args = TypeVar("Args")
Resources = list[pulumi.Resource]
Block = Mapping[str, Any]
"""A block, or an entry of one, as in a stack file."""
Entries = Mapping[str, Args | Block]
"""Name of an entry -> its args."""


@dataclass(kw_only=True)
class GpuStackArgs:
    """The contents of a stack: the keys of a stack file, in snake_case.

    Values are args, or maps as in a stack file; docs/reference/config describes both.
    """

    cluster: (
        GkeClusterArgs
        | GkeExistingClusterArgs
        | GkeAutopilotArgs
        | EksClusterArgs
        | EksExistingClusterArgs
        | ExistingClusterArgs
        | Block
    )
    """The args of a platform, or a map with the key `platform`."""
    gpu_pools: Entries[
        GkeGpuNodePoolArgs | GkeAutopilotPoolArgs | EksGpuNodeGroupArgs | ExistingGpuPoolArgs
    ] = field(default_factory=dict)
    """The platform's pools, by name."""
    workloads: Entries[WorkloadArgs] | None = None
    namespaces: Entries[NamespaceArgs] | None = None
    service_accounts: Entries[ServiceAccountArgs] | None = None
    volume_claims: Entries[VolumeClaimArgs] | None = None
    batch: BatchArgs | Block | None = None
    teams: Entries[TeamArgs] | None = None
    training_jobs: Entries[TrainingArgs] | None = None
    services: Entries[ServiceArgs] | None = None
    images: ImagesArgs | Block | None = None
    monitoring: MonitoringArgs | Block | None = None
    gpu_test: GpuTestArgs | Block | None = None

    def blocks(self) -> dict[str, object]:
        """Key of a stack file -> the given block."""
        given = {camel(row.name): getattr(self, row.name) for row in fields(self)}
        return {key: block for key, block in given.items() if block is not None}


class GpuStack(pulumi.ComponentResource):
    """A stack as a component of another program, which can have only one."""

    platform: pulumi.Output[str]
    """Key of the platform, such as `eks`."""
    cluster_name: pulumi.Output[str]
    """The cluster's name."""
    kubeconfig: pulumi.Output[str]
    """A kubeconfig of the cluster; a secret."""
    gpu_pools: pulumi.Output[dict[str, Any]]
    """Name of a GPU pool -> what pods on it need: node selector, tolerations, resource."""

    TOKEN = "gpu-cluster:index:GpuStack"

    def __init__(
        self,
        name: str,
        args: GpuStackArgs | Mapping[str, object],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`args`: also the blocks of a stack file, by key. Raises `pulumi.RunError` with a line
        for each refused setting."""
        blocks = args.blocks() if isinstance(args, GpuStackArgs) else args
        settings = load.load_args(blocks)
        resources: Resources = []
        own = pulumi.ResourceOptions(
            transformations=[*_transformations(settings, resources), _from_the_root]
        )
        super().__init__(self.TOKEN, name, None, pulumi.ResourceOptions.merge(opts, own))
        # The transformation was also called for the component itself.
        resources.clear()
        cluster = _declare(settings, resources, self)
        outputs = exports(cluster)
        self.platform = pulumi.Output.from_input(cluster.platform)
        self.cluster_name = pulumi.Output.from_input(cluster.name)
        self.kubeconfig = outputs["kubeconfig"]
        self.gpu_pools = pulumi.Output.from_input(outputs["gpuPools"])
        self.register_outputs(outputs)


def declare(settings: Settings[Any]) -> Cluster:
    """Declares everything at the root of the program, like the program of this repository."""
    resources: Resources = []
    for transformation in _transformations(settings, resources):
        pulumi.runtime.register_stack_transformation(transformation)
    return _declare(settings, resources, None)


def exports(cluster: Cluster) -> dict[str, Any]:
    """The outputs of a stack."""
    return {
        "platform": cluster.platform,
        "clusterName": cluster.name,
        "kubeconfig": pulumi.Output.secret(cluster.kubeconfig),
        "gpuPools": {name: pool.contract() for name, pool in cluster.pools.items()},
    }


def _declare(stack: Settings[Any], resources: Resources, parent: pulumi.Resource | None) -> Cluster:
    program = PLATFORMS[stack.platform].program
    cluster = program.declare(stack.own, replace(stack.runs, parent=parent))
    cluster = declare_namespaces(stack.namespaces, cluster=cluster)
    options = cluster.component_options
    if any(pool.installer for pool in cluster.pools.values()):
        DriverInstaller("nvidia-driver-installer", cluster=cluster, opts=options)
    needed = any(pool.device_plugin for pool in cluster.pools.values())
    plugins = (
        [DevicePlugin("nvidia-device-plugin", cluster=cluster, opts=options)] if needed else []
    )
    if stack.monitoring and stack.monitoring.source == "exporter":
        from .gpu.monitoring import GpuMonitoring

        GpuMonitoring("gpu-monitoring", stack.monitoring, cluster=cluster, opts=options)
    auxiliary = declare_auxiliary(stack.auxiliary, cluster=cluster)
    queues = declare_batch(stack.batch, cluster=cluster, auxiliary=stack.auxiliary)
    after = Prerequisites(cluster=cluster, queues=queues, plugins=plugins, auxiliary=auxiliary)
    for key, block in RUNNING.items():
        if stack.running[key]:
            block.declare(stack.running[key], after)
    protect = getattr(stack.cluster, "deletion_protection", None)
    if protect is not None:
        DeletionProtection("cluster.deletionProtection", protect, resources, parent)
    elif stack.batch and (stack.batch.job_set or stack.batch.queues):
        unprotected = stack.batch.deletion_protection is False
        DeletionProtection("batch.deletionProtection", not unprotected, resources, parent)
    return cluster


def _transformations(
    settings: Settings[Any], resources: Resources
) -> list[pulumi.ResourceTransformation]:
    """Transformations for all resources: objects are marked with their stack and use one image
    registry; `resources` collects all resources."""
    moved = [use_registry(settings.images)] if settings.images.registry else []
    return [ownership.annotated, recording(resources), *moved]


def _from_the_root(
    args: pulumi.ResourceTransformationArgs,
) -> pulumi.ResourceTransformationResult | None:
    """Lets a stack that the program of this repository declared become a component: a resource at
    the root of the program is the same one as below the component."""
    if not isinstance(args.opts.parent, GpuStack):
        return None
    aliases = pulumi.ResourceOptions(aliases=[pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)])
    options = pulumi.ResourceOptions.merge(args.opts, aliases)
    return pulumi.ResourceTransformationResult(args.props, options)
