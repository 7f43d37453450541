"""A multi-node training job: a JobSet of `torchrun` workers that address the first one by name.

The workers listen without authentication (github.com/pytorch/pytorch/blob/main/SECURITY.md): a
NetworkPolicy blocks all other traffic, if the cluster enforces network policies.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.networking.v1 import NetworkPolicySpecArgsDict

from ..access.service_accounts import BucketDriver
from ..catalog import kubernetes as names
from ..cluster import Cluster, GpuPool
from ..gpu.auxiliary import ROOT, declare_files
from ..gpu.pod_parts import Contents, PodParts, contents_of, pod_parts
from ..gpu.prerequisites import Prerequisites
from ..gpu.running import annotation_paths, placed, staying
from . import jobset
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


def declare(jobs: Mapping[str, TrainingArgs], after: Prerequisites) -> None:
    """Declares each training job under its name."""
    for name, args in jobs.items():
        GpuTraining(
            name,
            args,
            cluster=after.cluster,
            after=after.queues,
            auxiliary=after.auxiliary,
            opts=after.cluster.component_options,
        )


class GpuTraining(pulumi.ComponentResource):
    """The JobSet. Its controller creates the headless Service of the same name."""

    def __init__(
        self,
        name: str,
        args: TrainingArgs,
        *,
        cluster: Cluster,
        after: Sequence[pulumi.Resource],
        auxiliary: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`after`: the controllers and queues, which must be created first and deleted last.
        `auxiliary`: the objects that pods with volumes or an account may name."""
        super().__init__("gpu-cluster:batch:Training", name, None, opts)
        contents = contents_of(args, ROOT)
        before = [
            *after,
            *(auxiliary if args.service_account or args.volumes else ()),
            *declare_files(name, args.namespace, contents, cluster=cluster, parent=self),
        ]
        policy = kubernetes.networking.v1.NetworkPolicy(
            name,
            metadata={"name": name, "namespace": args.namespace, "labels": {"app": name}},
            # The API's field names, which the SDK's types do not have.
            spec=cast(NetworkPolicySpecArgsDict, among_themselves(name)),
            opts=cluster.options(self),
        )
        if args.disruption_budget:
            before.append(self._budget(name, args, cluster))
        pool = cluster.pools[args.pool]
        job_set = spec(name, args, pool, contents, cluster.buckets)
        annotations = {**pool.job_annotations, **_awaited(args)}
        kubernetes.apiextensions.CustomResource(
            name,
            api_version=f"{jobset.GROUP}/{jobset.VERSION}",
            kind="JobSet",
            metadata={
                "name": name,
                "namespace": args.namespace,
                "labels": labels(name, args),
                **({"annotations": annotations} if annotations else {}),
            },
            spec=job_set,
            opts=pulumi.ResourceOptions.merge(
                cluster.options(
                    self,
                    delete_before_replace=True,
                    depends_on=[*before, policy],
                    holds_disk=bool(args.claims),
                ),
                # A JobSet cannot be changed once it has started.
                pulumi.ResourceOptions(
                    replace_on_changes=["spec"], ignore_changes=_annotation_paths(job_set)
                ),
            ),
        )
        self.register_outputs({})

    def _budget(self, name: str, args: TrainingArgs, cluster: Cluster) -> pulumi.Resource:
        return kubernetes.policy.v1.PodDisruptionBudget(
            name,
            metadata={"name": name, "namespace": args.namespace, "labels": {"app": name}},
            spec={
                # All of them, as a number: for pods of Jobs, which have no scale subresource, the
                # API accepts nothing else (kubernetes.io, "Specifying a Disruption Budget").
                "min_available": args.nodes,
                "unhealthy_pod_eviction_policy": "AlwaysAllow",
                "selector": {"match_labels": {names.JOB_SET_LABEL: name}},
            },
            opts=cluster.options(self),
        )


def labels(name: str, args: TrainingArgs) -> dict[str, str]:
    """The labels of the JobSet itself."""
    return {"app": name, **names.queue_labels(args.queue, args.priority)}


def among_themselves(name: str) -> dict[str, Any]:
    """A policy that lets only the workers of this training job reach its workers, on every port,
    because NCCL and Gloo choose ports freely. Outgoing traffic is not restricted."""
    workers = {"matchLabels": {names.JOB_SET_LABEL: name}}
    return {
        "podSelector": workers,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": workers}]}],
    }


def spec(
    name: str, args: TrainingArgs, pool: GpuPool, contents: Contents, buckets: BucketDriver | None
) -> dict[str, Any]:
    """The JobSet's spec, without `suspend`, which its queue sets."""
    parts = pod_parts(name, args, contents, buckets)
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
                                **_annotations(args, pool, parts),
                            },
                            "spec": _pod(name, args, pool, parts),
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


def _annotations(args: TrainingArgs, pool: GpuPool, parts: PodParts) -> dict[str, dict[str, str]]:
    # No empty values in a custom resource, see `_worker`.
    place = placed(pool, args.queue, args.required_topology, args.preferred_topology)
    annotations = {**staying(pool), **place, **parts.annotations}
    return {"annotations": annotations} if annotations else {}


def _annotation_paths(job_set: Mapping[str, Any]) -> list[str]:
    """The paths of the workers' annotations that do not replace a running training job: all but
    those that say where its workers must be."""
    (workers,) = job_set["replicatedJobs"]
    metadata = workers["template"]["spec"]["template"]["metadata"]
    return annotation_paths(
        "spec.replicatedJobs[0].template.spec.template",
        [key for key in metadata.get("annotations", {}) if "-topology" not in key],
    )


def _awaited(args: TrainingArgs) -> dict[str, str]:
    if not args.wait:
        return {}
    return {"pulumi.com/waitFor": "condition=Completed", "pulumi.com/timeoutSeconds": "7200"}


def _pod(name: str, args: TrainingArgs, pool: GpuPool, parts: PodParts) -> dict[str, Any]:
    spec: dict[str, Any] = {
        **parts.spec,
        "nodeSelector": dict(pool.node_selector),
        "restartPolicy": "Never",
        "containers": [_worker(name, args, pool, parts)],
        # NCCL and data loaders pass tensors through it; a container's default has 64 MiB.
        "volumes": [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}, *parts.volumes],
    }
    if args.nodes > 1:
        spec["topologySpreadConstraints"] = [_one_a_node(name, args.nodes)]
    if pool.driver_libraries is not None:
        libraries = {"path": pool.driver_libraries, "type": "Directory"}
        spec["volumes"].append({"name": "driver", "hostPath": libraries})
    if tolerations := [dict(toleration.manifest()) for toleration in pool.tolerations]:
        spec["tolerations"] = tolerations
    if pool.runtime_class is not None:
        spec["runtimeClassName"] = pool.runtime_class
    return spec


def _one_a_node(name: str, nodes: int) -> dict[str, Any]:
    """At most one worker per node: with fewer nodes than `minDomains`, the minimum counts as 0.

    Unlike pod anti-affinity, it does not wait for the pods of an earlier attempt to end.
    """
    return {
        "topologyKey": names.HOSTNAME,
        "maxSkew": 1,
        "minDomains": nodes,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {names.JOB_SET_LABEL: name}},
    }


def _worker(name: str, args: TrainingArgs, pool: GpuPool, parts: PodParts) -> dict[str, Any]:
    gpus = args.worker_gpus(pool)
    # JobSet's name for the pod of index 0 of the first job.
    env = {"MASTER_ADDR": f"{name}-{WORKERS}-0-0.{name}", "MASTER_PORT": str(MASTER_PORT)}
    mounts = [{"name": "shared-memory", "mountPath": "/dev/shm"}, *parts.mounts]
    search: dict[str, str] = {}
    if pool.driver_libraries is not None:
        mounts.append({"name": "driver", "mountPath": names.DRIVER_MOUNT, "readOnly": True})
        search = {"LD_LIBRARY_PATH": names.DRIVER_SEARCH_PATH}
    resources = {"limits": {**args.limits.quantities(), pool.resource: str(gpus)}}
    if requests := args.requests.quantities():
        # No empty values in a custom resource: Kueue drops them on update, which looks like a
        # change.
        resources["requests"] = requests
    return {
        **parts.container,
        "name": "worker",
        "image": args.image,
        "command": [
            "torchrun",
            f"--nnodes={args.nodes}",
            f"--nproc-per-node={gpus}",
            # Kubernetes sets it on each pod of an indexed Job.
            "--node-rank=$(JOB_COMPLETION_INDEX)",
            "--master-addr=$(MASTER_ADDR)",
            "--master-port=$(MASTER_PORT)",
            *args.command,
        ],
        "env": [
            *(
                {"name": key, "value": value}
                for key, value in {**search, **args.env, **env}.items()
            ),
            *parts.env,
        ],
        "ports": [{"name": "rendezvous", "containerPort": MASTER_PORT}],
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": mounts,
    }
