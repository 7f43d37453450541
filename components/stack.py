"""A stack: declares a cluster with everything that runs in it, from its settings."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pulumi
import yaml

from .batch.declare import declare_batch
from .catalog.clouds import CLOUDS
from .cluster import Cluster
from .gpu.auxiliary import declare_auxiliary, declare_namespaces
from .gpu.device_plugin import DevicePlugin
from .gpu.driver import DriverInstaller
from .gpu.prerequisites import Prerequisites
from .gpu.registry import use_registry
from .lifecycle import ownership
from .lifecycle.deletion_protection import DeletionProtection, recording
from .lifecycle.prefix import prefixed
from .platforms import PLATFORMS
from .schema.decode import camel
from .schema.refusal import refuse
from .settings import load, owners
from .settings.blocks import RUNNING
from .settings.model import Settings
from .siblings import siblings

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

    Values are args, or maps as in a stack file; docs/reference/configuration describes both.
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
    prefix: str = ""
    """For every `GpuStack` of a program but one: its resources' place in the state, and the
    beginning of names that are fixed in a cluster. At most 16 lowercase letters, digits and `-`."""

    def blocks(self) -> dict[str, object]:
        """Key of a stack file, or `prefix` -> what is given for it."""
        given = {camel(row.name): getattr(self, row.name) for row in fields(self)}
        return {key: block for key, block in given.items() if block not in (None, "")}


class GpuStack(pulumi.ComponentResource):
    """A stack as a component of another program. If that has several, all but one need a prefix."""

    platform: pulumi.Output[str]
    """Key of the platform, such as `eks`."""
    cluster_name: pulumi.Output[str]
    """The cluster's name."""
    kubeconfig: pulumi.Output[str]
    """A kubeconfig of the cluster, once it can run pods; a secret. What uses it is deleted before
    the cluster."""
    gpu_pools: pulumi.Output[dict[str, Any]]
    """Name of a GPU pool -> what pods on it need: node selector, tolerations, resource."""
    endpoint: pulumi.Output[str]
    """The address of the control plane, as the args of an existing cluster take it; like
    `kubeconfig`, once the cluster can run pods."""
    certificate_authority: pulumi.Output[str | None]
    """Its certificate authority in base64; None if a public one issued its certificate."""

    TOKEN = "gpu-cluster:index:GpuStack"

    def __init__(
        self,
        name: str,
        args: GpuStackArgs | Mapping[str, object],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`args`: also the blocks of a stack file, by key. Raises `pulumi.RunError` with a line
        for each refused setting."""
        blocks = dict(args.blocks() if isinstance(args, GpuStackArgs) else args)
        others = siblings()
        prefix = others.take_prefix(blocks.pop("prefix", ""))
        settings = load.load_args(blocks)
        _refuse_provider(name, PLATFORMS[settings.platform].cloud, opts)
        home = others.take_cluster(settings, name)
        resources: Resources = []
        own = pulumi.ResourceOptions(
            transformations=[
                *_transformations(settings, resources), others.guard(home, name, prefix),
                *([] if prefix else [_from_the_root]),
            ]
        )  # fmt: skip
        super().__init__(self.TOKEN, name, None, pulumi.ResourceOptions.merge(opts, own))
        parent: pulumi.Resource = self
        if prefix:
            # A URN has the types of the parents, not their names.
            kind, below = f"gpu-cluster:{prefix}:GpuStack", pulumi.ResourceOptions(parent=self)
            parent = pulumi.ComponentResource(kind, name, None, below)
        # The transformation was also called for the components themselves.
        resources.clear()
        with prefixed(prefix):
            cluster = _declare(settings, resources, parent)
        outputs = exports(cluster)
        # Before that, a cluster may not yet accept the identity that runs Pulumi.
        kubeconfig = pulumi.Output.all(
            pulumi.Output.unsecret(cluster.kubeconfig), *(ready.urn for ready in cluster.ready)
        ).apply(lambda known: known[0])
        reached = kubeconfig.apply(_reached)
        bare = PLATFORMS[settings.platform].cloud == "google"
        self.endpoint = reached.apply(lambda at: at[0].removeprefix("https://" if bare else ""))
        self.certificate_authority = reached.apply(lambda at: at[1])
        self.platform = pulumi.Output.from_input(cluster.platform)
        self.cluster_name = pulumi.Output.from_input(cluster.name)
        self.kubeconfig = pulumi.Output.secret(kubeconfig)
        others.add_kubeconfig(self.kubeconfig, home)
        self.gpu_pools = pulumi.Output.from_input(outputs["gpuPools"])
        self.register_outputs(outputs)


def _refuse_provider(name: str, cloud: str | None, opts: pulumi.ResourceOptions | None) -> None:
    """Refuses a provider of the stack's cloud among the options, or of the parent among them."""
    if opts is None or cloud is None:
        return
    package, several = CLOUDS[cloud].package, opts.providers or ()
    given = [opts.provider, *(several.values() if isinstance(several, Mapping) else several)]
    given.append(opts.parent and opts.parent.get_provider(f"{package}:index:Provider"))
    if any(provider.package == package for provider in given if provider):
        key = "aws:region" if package == "aws" else "gcp:project"
        raise pulumi.RunError(str(refuse(f"GpuStack {name}")(
            f"has a provider of {package} in its options or its parent's, and its kubeconfig and "
            f"what it checks follow from the config of Pulumi's stack, such as {key}",
            remedy="drop the provider; for two regions, accounts or projects, give the program two "
            "stacks of Pulumi, each with its own config",
        )))  # fmt: skip


def _reached(kubeconfig: str) -> tuple[str, str | None]:
    """URL and certificate authority of the only cluster of a kubeconfig, or of its first."""
    cluster = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]
    return cluster["server"], cluster.get("certificate-authority-data")


def from_file(folder: Path) -> Cluster:
    """Declares what the stack's file says, at the root of the program, whose folder is given.

    Raises pulumi.RunError, with a line for each setting that is refused.
    """
    # The objects created here live until the end: looking for garbage as often as Python does by
    # itself takes a fifth of a preview, and of each further pool more than the last.
    gc.set_threshold(100_000, 50, 100)
    settings = load.load()
    owners.warn_of_shared(folder)
    return declare(settings)


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
    needed = any(pool.device_plugin or pool.device_class for pool in cluster.pools.values())
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
