"""The objects of a training job as the API spells them, for stacks and for submitted jobs.

It loads no SDK of Pulumi, which users who submit jobs do not have.
"""

from collections.abc import Sequence
from typing import Any

from ..access.service_accounts import BucketDriver
from ..catalog import kubernetes as names
from ..cluster import GpuPool
from ..gpu import gpu_claims
from ..gpu.fabric import NetworkParts, network_parts, with_variables
from ..gpu.pod_parts import Contents, PodParts, pod_parts
from ..gpu.running import one_pod_a_node, placed, staying
from .training_args import TrainingArgs

WORKERS = "workers"
MASTER_PORT = 29500
"""torchrun's default port."""
_DISRUPTIONS_FAIL = {
    "rules": [
        {
            "action": "FailJob",
            "onPodConditions": [{"type": names.DISRUPTION_TARGET, "status": "True"}],
        }
    ]
}
"""An evicted worker fails the Job of all workers, with a distinct reason."""


def labels(name: str, args: TrainingArgs) -> dict[str, str]:
    """The labels of the JobSet itself."""
    return {"app": name, **names.queue_labels(args.queue, args.priority)}


def claims(name: str, args: TrainingArgs, pool: GpuPool) -> list[gpu_claims.Claim]:
    """The devices that each of its workers claims."""
    gpus, fabric = args.worker_gpus(pool), args.claimed(pool)
    return list(gpu_claims.claims(name, pool, gpus, selectors=args.selectors, fabric=fabric))


def spec(
    name: str, args: TrainingArgs, pool: GpuPool, contents: Contents, buckets: BucketDriver | None
) -> dict[str, Any]:
    """The JobSet's spec, without `suspend`, which its queue sets."""
    parts = pod_parts(name, args, contents, buckets)
    network = network_parts(args.claimed(pool))
    place = placed(pool, args.queue, args.required_topology, args.preferred_topology)
    annotations = {**staying(pool), **place, **network.annotations, **parts.annotations}
    return {
        "network": {"enableDNSHostnames": True, "subdomain": name},
        # A single worker cannot continue, so all restart. Only failures of a worker itself count
        # against the limit: jobset.sigs.k8s.io/docs/tasks, "Configuring JobSet Failure Policy".
        "failurePolicy": {
            "maxRestarts": args.max_restarts,
            "rules": [
                {
                    "name": "disruption",
                    "action": "RestartJobSetAndIgnoreMaxRestarts",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                }
            ],
        },
        "replicatedJobs": [
            {
                "name": WORKERS,
                "replicas": 1,
                "template": {
                    "spec": {
                        "completionMode": "Indexed",
                        "completions": args.nodes,
                        "parallelism": args.nodes,
                        "backoffLimit": 0,
                        "podFailurePolicy": _DISRUPTIONS_FAIL,
                        "template": {
                            "metadata": {
                                "labels": _pod_labels(name, pool),
                                # No empty values in a custom resource, see `_worker`.
                                **({"annotations": annotations} if annotations else {}),
                            },
                            "spec": _pod(name, args, pool, parts, network),
                        },
                    }
                },
            }
        ],
    }


def _pod_labels(name: str, pool: GpuPool) -> dict[str, str]:
    # JobSet adds its label to pods itself. An autoscaler that creates pods from the template to
    # count nodes would not see that the topology spread constraint selects them.
    return {"app": name, **({names.JOB_SET_LABEL: name} if pool.all_at_once else {})}


def _pod(
    name: str, args: TrainingArgs, pool: GpuPool, parts: PodParts, network: NetworkParts
) -> dict[str, Any]:
    claimed = claims(name, args, pool)
    spec: dict[str, Any] = {
        **parts.spec,
        **network.spec,
        "nodeSelector": dict(pool.node_selector),
        "restartPolicy": "Never",
        "containers": [_worker(name, args, pool, parts, network, claimed)],
        # NCCL and data loaders pass tensors through it; a container's default has 64 MiB.
        "volumes": [
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
            *parts.volumes,
            *network.volumes,
        ],
    }
    if args.nodes > 1:
        spec["topologySpreadConstraints"] = [
            one_pod_a_node({names.JOB_SET_LABEL: name}, args.nodes)
        ]
    if pool.driver_libraries is not None:
        libraries = {"path": pool.driver_libraries, "type": "Directory"}
        spec["volumes"].append({"name": "driver", "hostPath": libraries})
    if claimed:
        spec["resourceClaims"] = [claim.entry for claim in claimed]
    if tolerations := [dict(toleration.manifest()) for toleration in pool.tolerations]:
        spec["tolerations"] = tolerations
    if pool.runtime_class is not None:
        spec["runtimeClassName"] = pool.runtime_class
    return spec


def _worker(
    name: str,
    args: TrainingArgs,
    pool: GpuPool,
    parts: PodParts,
    network: NetworkParts,
    claimed: Sequence[gpu_claims.Claim],
) -> dict[str, Any]:
    gpus = args.worker_gpus(pool)
    # JobSet's name for the pod of index 0 of the first job.
    env = {"MASTER_ADDR": f"{name}-{WORKERS}-0-0.{name}", "MASTER_PORT": str(MASTER_PORT)}
    mounts = [
        {"name": "shared-memory", "mountPath": "/dev/shm"},
        *parts.mounts,
        *network.mounts,
    ]
    extended, search = args.extended(pool)
    if pool.driver_libraries is not None:
        mounts.append({"name": "driver", "mountPath": names.DRIVER_MOUNT, "readOnly": True})
        search["LD_LIBRARY_PATH"] = names.DRIVER_SEARCH_PATH
    resources: dict[str, Any] = {}
    if limits := {**args.limits.quantities(), **gpu_claims.limits(pool, gpus), **extended}:
        resources["limits"] = limits
    if claimed:
        resources["claims"] = gpu_claims.of_container(claimed)
    command = [
        "torchrun",
        f"--nnodes={args.nodes}",
        f"--nproc-per-node={gpus}",
        # Kubernetes sets it on each pod of an indexed Job.
        "--node-rank=$(JOB_COMPLETION_INDEX)",
        "--master-addr=$(MASTER_ADDR)",
        "--master-port=$(MASTER_PORT)",
        *args.command,
    ]
    if requests := args.requests.quantities():
        # No empty values in a custom resource: Kueue drops them on update, which looks like a
        # change.
        resources["requests"] = requests
    return {
        **parts.container,
        "name": "worker",
        "image": args.image,
        "command": with_variables(args.claimed(pool), command, args.env),
        "env": [
            *(
                {"name": key, "value": value}
                for key, value in {**args.variables(search), **env}.items()
            ),
            *parts.env,
        ],
        "ports": [{"name": "rendezvous", "containerPort": MASTER_PORT}],
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": mounts,
    }
