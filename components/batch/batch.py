"""The controllers that a stack runs for jobs, and its queues."""

import dataclasses

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

from ..cluster import Cluster, GpuPool
from ..gpu.pod_args import Auxiliary
from . import kueue, published
from .batch_args import BatchArgs, QueueArgs
from .jobset import job_set


class Batch(pulumi.ComponentResource):
    """JobSet and Kueue, as far as they are asked for; with each queue a flavor for each pool."""

    def __init__(
        self,
        name: str,
        args: BatchArgs,
        *,
        cluster: Cluster,
        auxiliary: Auxiliary | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`auxiliary`: what jobs may name, and is published for those who submit some."""
        super().__init__("gpu-cluster:batch:Batch", name, None, opts)
        protected = args.deletion_protection is not False
        if args.job_set:
            job_set(protected=protected, cluster=cluster, parent=self)
        if args.queues:
            controller = kueue.kueue(
                job_set=args.job_set, protected=protected, cluster=cluster, parent=self
            )
            for queue, queue_args in args.queues.items():
                self._queue(queue, queue_args, cluster, controller)
        if args.job_set:
            self._publish(args, auxiliary or Auxiliary(), cluster)
        self.register_outputs({})

    def _publish(self, args: BatchArgs, auxiliary: Auxiliary, cluster: Cluster) -> None:
        # Of no interest to those who submit jobs, and unknown to their older commands.
        batch = dataclasses.replace(args, deletion_protection=None)
        text = published.Published(
            pools=cluster.pools, batch=batch, beside=auxiliary, buckets=cluster.buckets
        ).text()
        for namespace in published.namespaces(args):
            kubernetes.core.v1.ConfigMap(
                f"published-{namespace}",
                metadata={"name": published.CONFIG_MAP, "namespace": namespace},
                data={published.KEY: text},
                opts=cluster.options(self),
            )
            groups = sorted(
                {
                    group
                    for queue in args.queues.values()
                    if namespace in queue.namespaces
                    for group in queue.groups
                }
            )
            if groups:
                self._submitters(namespace, groups, cluster)

    def _submitters(self, namespace: str, groups: list[str], cluster: Cluster) -> None:
        """Lets these groups submit jobs in the namespace: any pod that the namespace admits, with
        any of its service accounts, Secrets and claims."""
        metadata: ObjectMetaArgsDict = {"name": published.SUBMIT_ROLE, "namespace": namespace}
        kubernetes.rbac.v1.Role(
            f"submit-jobs-{namespace}",
            metadata=metadata,
            rules=[
                {"api_groups": [group], "resources": list(resources), "verbs": list(verbs)}
                for group, resources, verbs in published.SUBMIT
            ],
            opts=cluster.options(self),
        )
        api = "rbac.authorization.k8s.io"
        kubernetes.rbac.v1.RoleBinding(
            f"submit-jobs-{namespace}",
            metadata=metadata,
            role_ref={"api_group": api, "kind": "Role", "name": published.SUBMIT_ROLE},
            subjects=[{"api_group": api, "kind": "Group", "name": group} for group in groups],
            opts=cluster.options(self),
        )

    def _queue(
        self, name: str, args: QueueArgs, cluster: Cluster, controller: pulumi.Resource
    ) -> None:
        api = f"{kueue.GROUP}/{kueue.VERSION}"
        pools = [cluster.pools[pool] for pool in args.pools]
        # Kueue lets nothing go that is still used: each is deleted before what it refers to.
        flavors = [
            kubernetes.apiextensions.CustomResource(
                f"flavor-{pool.name}",
                api_version=api,
                kind="ResourceFlavor",
                metadata={"name": pool.name},
                spec=flavor(pool),
                opts=cluster.options(self, depends_on=[controller]),
            )
            for pool in pools
        ]
        cluster_queue = kubernetes.apiextensions.CustomResource(
            f"cluster-queue-{name}",
            api_version=api,
            kind="ClusterQueue",
            metadata={"name": name},
            spec={
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "In",
                            "values": list(args.namespaces),
                        }
                    ]
                },
                # A large job at the front holds back the small ones behind it, or it never starts.
                "queueingStrategy": "StrictFIFO",
                "resourceGroups": [
                    {
                        "coveredResources": [pools[0].resource],
                        "flavors": [_quota(pool, args) for pool in pools],
                    }
                ],
            },
            opts=cluster.options(self, depends_on=flavors),
        )
        for namespace in args.namespaces:
            kubernetes.apiextensions.CustomResource(
                f"queue-{name}-{namespace}",
                api_version=api,
                kind="LocalQueue",
                metadata={"name": name, "namespace": namespace},
                spec={"clusterQueue": name},
                opts=cluster.options(self, depends_on=[cluster_queue]),
            )


def flavor(pool: GpuPool) -> dict[str, object]:
    """What brings a pod to the pool. Kueue adds what a job's pods lack of it."""
    return {
        "nodeLabels": dict(pool.node_selector),
        "nodeTaints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in pool.taints
            if taint.effect != "PreferNoSchedule"
        ],
        # To the letter those of this stack's own workloads: Kueue then changes nothing in them.
        "tolerations": [dict(toleration.manifest()) for toleration in pool.tolerations],
    }


def _quota(pool: GpuPool, args: QueueArgs) -> dict[str, object]:
    # As text: the API server gives it back as text.
    return {
        "name": pool.name,
        "resources": [{"name": pool.resource, "nominalQuota": str(args.quota(pool))}],
    }
