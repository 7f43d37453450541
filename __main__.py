"""GPUs on Kubernetes, as one stack: settings, cluster, GPU layer, workloads, outputs."""

import gc
from pathlib import Path

import pulumi

from components import owners, ownership
from components.batch.declare import declare_batch
from components.deletion_protection import DeletionProtection, recorded
from components.gpu.auxiliary import declare_auxiliary, declare_namespaces
from components.gpu.device_plugin import DevicePlugin
from components.gpu.driver import DriverInstaller
from components.gpu.prerequisites import Prerequisites
from components.gpu.registry import use_registry
from components.platforms import PLATFORMS
from components.settings import load as settings
from components.settings.blocks import RUNNING

# What is made here stays until the end: looking for garbage as often as Python does by
# itself takes a fifth of a preview, and of each further pool more than the last.
gc.set_threshold(100_000, 50, 100)
ownership.annotate_objects()
resources = recorded()
stack = settings.load()
owners.warn_of_shared(Path(__file__).parent)
use_registry(stack.images)
cluster = PLATFORMS[stack.platform].program.declare(stack.own, stack.runs)
cluster = declare_namespaces(stack.namespaces, cluster=cluster)

if any(pool.installer for pool in cluster.pools.values()):
    DriverInstaller("nvidia-driver-installer", cluster=cluster)
needed = any(pool.device_plugin for pool in cluster.pools.values())
plugins = [DevicePlugin("nvidia-device-plugin", cluster=cluster)] if needed else []
if stack.monitoring and stack.monitoring.source == "exporter":
    from components.gpu.monitoring import GpuMonitoring

    GpuMonitoring("gpu-monitoring", stack.monitoring, cluster=cluster)
auxiliary = declare_auxiliary(stack.auxiliary, cluster=cluster)
queues = declare_batch(stack.batch, cluster=cluster, auxiliary=stack.auxiliary)
after = Prerequisites(cluster=cluster, queues=queues, plugins=plugins, auxiliary=auxiliary)
for key, block in RUNNING.items():
    if stack.running[key]:
        block.declare(stack.running[key], after)
protect = getattr(stack.cluster, "deletion_protection", None)
if protect is not None:
    DeletionProtection("cluster.deletionProtection", protect, resources)
elif stack.batch and (stack.batch.job_set or stack.batch.queues):
    unprotected = stack.batch.deletion_protection is False
    DeletionProtection("batch.deletionProtection", not unprotected, resources)

pulumi.export("platform", cluster.platform)
pulumi.export("clusterName", cluster.name)
pulumi.export("kubeconfig", pulumi.Output.secret(cluster.kubeconfig))
pulumi.export("gpuPools", {name: pool.contract() for name, pool in cluster.pools.items()})
