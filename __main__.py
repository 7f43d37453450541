"""GPUs on Kubernetes, as one stack: settings, cluster, GPU layer, workloads, outputs."""

import pulumi

from components import settings
from components.batch.declare import declare_batch
from components.gpu.check import GpuCheck
from components.gpu.device_plugin import DevicePlugin
from components.gpu.driver import DriverInstaller
from components.gpu.workload import GpuWorkload

environment = settings.load()
# What only some stacks use is imported only there: SDKs are large.
match environment.platform:
    case "gke":
        from components.gke.standard import standard

        cluster = standard(
            environment.cluster,
            environment.pools,
            project=environment.project,
            monitoring=environment.google_monitoring,
        )
    case "gke-autopilot":
        from components.gke.autopilot import autopilot

        cluster = autopilot(
            environment.cluster,
            environment.pools,
            project=environment.project,
            monitoring=environment.google_monitoring,
        )
    case "eks":
        from components.eks.declare import declare

        cluster = declare(environment.cluster, environment.pools, provider=environment.provider)
    case "existing":
        from components.existing import existing

        cluster = existing(environment.cluster, environment.pools, environment.kubeconfig)

if any(pool.installer for pool in cluster.pools.values()):
    DriverInstaller("nvidia-driver-installer", cluster=cluster)
needed = any(pool.device_plugin for pool in cluster.pools.values())
plugins = [DevicePlugin("nvidia-device-plugin", cluster=cluster)] if needed else []
if environment.monitoring and environment.monitoring.source == "exporter":
    from components.gpu.monitoring import GpuMonitoring

    GpuMonitoring("gpu-monitoring", environment.monitoring, cluster=cluster)
batch = declare_batch(environment.batch, environment.training_jobs, cluster=cluster)
for name, workload in environment.workloads.items():
    GpuWorkload(name, workload, cluster=cluster, queues=batch, plugins=plugins)
if environment.check:
    GpuCheck("gpu-check", environment.check, cluster=cluster)

pulumi.export("platform", cluster.platform)
pulumi.export("clusterName", cluster.name)
pulumi.export("kubeconfig", pulumi.Output.secret(cluster.kubeconfig))
pulumi.export("gpuPools", {name: pool.contract() for name, pool in cluster.pools.items()})
