"""A GPU job on another stack's cluster, reached only through that stack's outputs.

What is declared follows from this project's config; what the outputs say, only flows through.
"""

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

config = pulumi.Config()
pool_name = config.require("pool")
gpus = config.require_int("gpus")

cluster = pulumi.StackReference(config.require("cluster"))


def the_pool(pools: dict[str, Any]) -> dict[str, Any]:
    """This job's pool among the stack's, checked: it exists and carries such pods."""
    if pool_name not in pools:
        raise pulumi.RunError(
            f"gpu-consumer:pool: {pool_name!r} is not a pool of {config.require('cluster')}; "
            f"allowed: {', '.join(sorted(pools)) or 'it has none'}"
        )
    if gpus not in (allowed := [int(count) for count in pools[pool_name]["gpusPerPod"]]):
        raise pulumi.RunError(
            f"gpu-consumer:gpus: {gpus} is not possible for a pod on pool {pool_name}; allowed: "
            f"{', '.join(map(str, allowed))}"
        )
    return pools[pool_name]


def driver(given: dict[str, Any], part: dict[str, Any]) -> list[Any] | None:
    """A part that the pod needs if nothing else gives it the driver's libraries."""
    return [{"name": "driver", **part}] if given.get("driverLibraries") else None


pool = cluster.require_output("gpuPools").apply(the_pool)

provider = kubernetes.Provider(
    "cluster", kubeconfig=pulumi.Output.secret(cluster.require_output("kubeconfig"))
)

job = kubernetes.batch.v1.Job(
    "vectoradd",
    metadata={
        "namespace": config.require("namespace"),
        # `up` waits for the job, and a pool at zero first needs a node, a driver and an image.
        "annotations": {"pulumi.com/timeoutSeconds": "1800"},
    },
    spec={
        "backoff_limit": 3,
        "template": {
            "spec": {
                "restart_policy": "Never",
                "automount_service_account_token": False,
                "node_selector": pool["nodeSelector"],
                "tolerations": pool["tolerations"],
                # A stack's outputs keep no null: a pool that needs no RuntimeClass has no such key.
                "runtime_class_name": pool.apply(lambda given: given.get("runtimeClass")),
                "host_ipc": pool["hostIPC"],
                "volumes": pool.apply(
                    lambda given: driver(
                        given, {"host_path": {"path": given.get("driverLibraries")}}
                    )
                ),
                "containers": [
                    {
                        "name": "vectoradd",
                        "image": config.require("image"),
                        "resources": {
                            "limits": pool.apply(lambda given: {given["resource"]: str(gpus)})
                        },
                        "security_context": {"allow_privilege_escalation": False},
                        "volume_mounts": pool.apply(
                            lambda given: driver(
                                given, {"mount_path": "/usr/local/nvidia", "read_only": True}
                            )
                        ),
                    }
                ],
            }
        },
    },
    opts=pulumi.ResourceOptions(provider=provider),
)

pulumi.export("job", job.metadata["name"])
pulumi.export("accelerator", pool["accelerator"])
