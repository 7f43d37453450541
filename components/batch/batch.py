"""The job controllers that a stack runs, and its queues."""

import hashlib
import json
from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

from ..access.rights import rule
from ..catalog import kubernetes as names
from ..cluster import AllAtOnce, Cluster, GpuPool
from ..gpu.admission import admission_policy
from ..gpu.pod_args import Auxiliary
from . import kueue, published
from .batch_args import BatchArgs, QueueArgs
from .jobset import job_set
from .team_args import WITHIN_QUEUE, TeamQueue
from .team_limits import TeamLimits


class Batch(pulumi.ComponentResource):
    """JobSet and Kueue, if enabled, and for each queue a resource flavor per pool."""

    def __init__(
        self,
        name: str,
        args: BatchArgs,
        *,
        cluster: Cluster,
        auxiliary: Auxiliary | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`auxiliary`: the objects that jobs may name, published for those who submit jobs."""
        super().__init__("gpu-cluster:batch:Batch", name, None, opts)
        protected = args.deletion_protection is not False
        if args.job_set:
            job_set(protected=protected, cluster=cluster, parent=self)
        if args.queues:
            pools = [cluster.pools[name] for queue in args.queues.values() for name in queue.pools]
            controller = kueue.kueue(
                job_set=args.job_set,
                fair_sharing=any(queue.sharing for queue in args.queues.values()),
                topology=any(pool.topology for pool in pools),
                claimed=any(pool.device_class for pool in pools),
                pods_ready_minutes=args.pods_ready_minutes,
                protected=protected,
                cluster=cluster,
                parent=self,
            )
            # Their parent waits for the controller, and not each of them: `recording` in
            # ../deletion_protection.py says why.
            self._queues = pulumi.ComponentResource(
                "gpu-cluster:batch:Queues",
                "queues",
                None,
                pulumi.ResourceOptions(parent=self, depends_on=[controller]),
            )
            self._flavors: dict[str, pulumi.Resource] = {}
            self._checks: dict[str, pulumi.Resource] = {}
            for priority, value in args.priorities.items():
                self._priority(priority, value, cluster)
            for queue, queue_args in args.queues.items():
                self._queue(queue, queue_args, args, cluster)
                if isinstance(queue_args, TeamQueue):
                    TeamLimits(
                        queue,
                        queue_args,
                        cluster=cluster,
                        opts=pulumi.ResourceOptions(parent=self._queues),
                    )
            self._queues.register_outputs({})
        if args.job_set:
            self._publish(args, auxiliary or Auxiliary(), cluster)
        self.register_outputs({})

    def _publish(self, args: BatchArgs, auxiliary: Auxiliary, cluster: Cluster) -> None:
        for namespace in published.namespaces(args):
            text = published.Published(
                pools=cluster.pools,
                batch=published.batch_of(args, namespace),
                beside=auxiliary,
                buckets=cluster.buckets,
            ).text()
            kubernetes.core.v1.ConfigMap(
                f"published-{namespace}",
                metadata={"name": published.CONFIG_MAP, "namespace": namespace},
                data={published.KEY: text},
                opts=cluster.options(self),
            )
            submitters = sorted(
                {
                    submitter
                    for queue in args.queues.values()
                    if namespace in queue.namespaces
                    for submitter in queue.submitters
                }
            )
            if submitters:
                self._submitters(namespace, submitters, cluster)

    def _submitters(
        self, namespace: str, submitters: Sequence[tuple[str, str]], cluster: Cluster
    ) -> None:
        """Lets these people submit jobs in the namespace: any pod that the namespace admits, with
        any of its service accounts, Secrets and claims."""
        metadata: ObjectMetaArgsDict = {"name": published.SUBMIT_ROLE, "namespace": namespace}
        claimed = any(
            pool.device_class or (pool.fabric and pool.fabric.claimed)
            for pool in cluster.pools.values()
        )
        kubernetes.rbac.v1.Role(
            f"submit-jobs-{namespace}",
            metadata=metadata,
            rules=[
                rule(group, resources, *verbs)
                for group, resources, verbs in [
                    *published.SUBMIT,
                    *([published.CLAIM] if claimed else []),
                ]
            ],
            opts=cluster.options(self),
        )
        api = "rbac.authorization.k8s.io"
        kubernetes.rbac.v1.RoleBinding(
            f"submit-jobs-{namespace}",
            metadata=metadata,
            role_ref={"api_group": api, "kind": "Role", "name": published.SUBMIT_ROLE},
            subjects=[{"api_group": api, "kind": kind, "name": name} for kind, name in submitters],
            opts=cluster.options(self),
        )
        # RBAC cannot exclude one object, and the ConfigMap says what everybody's jobs mount.
        admission_policy(
            f"published-{namespace}",
            namespaces=[namespace],
            rule=published.PROTECTED,
            validations=[published.protection(namespace)],
            cluster=cluster,
            parent=self,
        )

    def _priority(self, name: str, value: int, cluster: Cluster) -> None:
        api, kind = f"{kueue.GROUP}/{kueue.VERSION}", "WorkloadPriorityClass"
        # The value is a top-level field, but the SDK's generic class accepts only `spec`.
        pulumi.CustomResource(
            f"kubernetes:{api}:{kind}",
            f"priority-{name}",
            {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "value": value},
            self._queueing(cluster),
        )

    def _queue(self, name: str, args: QueueArgs, batch: BatchArgs, cluster: Cluster) -> None:
        api = f"{kueue.GROUP}/{kueue.VERSION}"
        pools = [cluster.pools[pool] for pool in args.pools]
        # Kueue keeps objects that are still in use, so each is deleted before those it refers to.
        for pool in pools:
            if pool.name not in self._flavors:
                self._flavors[pool.name] = kubernetes.apiextensions.CustomResource(
                    f"flavor-{flavor_name(pool)}",
                    api_version=api,
                    kind="ResourceFlavor",
                    metadata={"name": flavor_name(pool)},
                    spec=flavor(pool),
                    opts=self._queueing(cluster, *self._topology(pool, cluster)),
                )
                if pool.all_at_once is not None:
                    self._checks[pool.name] = self._check(pool, pool.all_at_once, cluster)
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
                # A large job at the head of the queue blocks smaller ones behind it; otherwise it
                # may never start.
                "queueingStrategy": "StrictFIFO",
                "resourceGroups": [
                    {
                        "coveredResources": [pools[0].resource],
                        "flavors": [
                            {
                                "name": flavor_name(pool),
                                "resources": [{"name": pool.resource, **args.resource_quota(pool)}],
                            }
                            for pool in pools
                        ],
                    }
                ],
                **({"preemption": WITHIN_QUEUE} if batch.priorities else {}),
                **args.sharing,
                **_strategy(pools),
            },
            opts=self._queueing(
                cluster,
                *(self._flavors[name] for name in args.pools),
                *(self._checks[name] for name in args.pools if name in self._checks),
            ),
        )
        for namespace in args.namespaces:
            kubernetes.apiextensions.CustomResource(
                f"queue-{name}-{namespace}",
                api_version=api,
                kind="LocalQueue",
                metadata={"name": name, "namespace": namespace},
                spec={"clusterQueue": name},
                opts=self._queueing(cluster, cluster_queue),
            )

    def _topology(self, pool: GpuPool, cluster: Cluster) -> list[pulumi.Resource]:
        """Where the pool's nodes can be, if its flavor has to wait for that."""
        if pool.topology is None:
            return []
        levels = [*pool.topology, names.HOSTNAME]
        topology = kubernetes.apiextensions.CustomResource(
            f"topology-{pool.name}",
            api_version=f"{kueue.GROUP}/{kueue.VERSION}",
            kind="Topology",
            metadata={"name": pool.name},
            spec={"levels": [{"nodeLabel": level} for level in levels]},
            opts=self._queueing(cluster),
        )
        return [topology]

    def _check(self, pool: GpuPool, asks: AllAtOnce, cluster: Cluster) -> pulumi.Resource:
        """The admission check that lets a job of the pool start once it has all of its nodes.

        kueue.sigs.k8s.io, "Provisioning Admission Check Controller", and GKE's behaviour:
        GoogleCloudPlatform/cluster-autoscaler 7d250507, pkg/provisioningrequests, scaleup and
        reconciler (2026-11-24).
        """
        api, kind = f"{kueue.GROUP}/{kueue.VERSION}", "ProvisioningRequestConfig"
        labels = [
            {"key": key, "valueFromProvisioningClassDetail": detail}
            for key, detail in asks.node_labels.items()
        ]
        config = kubernetes.apiextensions.CustomResource(
            f"all-at-once-{pool.name}",
            api_version=api,
            kind=kind,
            metadata={"name": pool.name},
            spec={
                "provisioningClassName": asks.provisioning_class,
                "managedResources": [pool.resource],
                # GKE fails a request 2 minutes after its creation if the nodes of the previous job
                # still fill the pool; it removes those after about 10 minutes.
                "retryStrategy": {
                    "backoffLimitCount": 10,
                    "backoffBaseSeconds": 60,
                    "backoffMaxSeconds": 600,
                },
                # GKE may fail a request with more than one pod set.
                "podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements",
                **({"podSetUpdates": {"nodeSelector": labels}} if labels else {}),
            },
            opts=self._queueing(cluster),
        )
        return kubernetes.apiextensions.CustomResource(
            f"check-{pool.name}",
            api_version=api,
            kind="AdmissionCheck",
            metadata={"name": pool.name},
            spec={
                "controllerName": f"{kueue.GROUP}/provisioning-request",
                "parameters": {"apiGroup": kueue.GROUP, "kind": kind, "name": pool.name},
            },
            opts=self._queueing(cluster, config),
        )

    def _queueing(self, cluster: Cluster, *depends_on: pulumi.Resource) -> pulumi.ResourceOptions:
        return cluster.options(self._queues, depends_on=depends_on)


def _strategy(pools: Sequence[GpuPool]) -> dict[str, object]:
    checks = [
        {"name": pool.name, "onFlavors": [flavor_name(pool)]} for pool in pools if pool.all_at_once
    ]
    return {"admissionChecksStrategy": {"admissionChecks": checks}} if checks else {}


def flavor(pool: GpuPool) -> dict[str, object]:
    """The ResourceFlavor that directs pods to the pool. Kueue adds what a job's pods lack of it."""
    return {
        "nodeLabels": dict(pool.node_selector),
        "nodeTaints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in pool.taints
            if taint.effect != "PreferNoSchedule"
        ],
        # Exactly those of this stack's own workloads, so that Kueue changes nothing in them.
        "tolerations": [dict(toleration.manifest()) for toleration in pool.tolerations],
        **({"topologyName": pool.name} if pool.topology is not None else {}),
    }


def flavor_name(pool: GpuPool) -> str:
    """One with a topology never changes, and none goes that a queue still names: another content
    has another name (apis/kueue/v1beta2/resourceflavor_types.go of 0.16.2)."""
    if pool.topology is None:
        return pool.name
    content = json.dumps(flavor(pool), sort_keys=True).encode()
    return f"{pool.name}-{hashlib.sha256(content).hexdigest()[:6]}"
