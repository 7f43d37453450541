"""Karpenter for an EKS cluster: the controller that launches instances for the stack's pools.

Objects and permissions follow the chart of aws/karpenter-provider-aws 1.15.0 (charts/karpenter,
read 2026-11-30), without capacity buffers, which are off.
"""

from collections.abc import Collection, Mapping

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.apps.v1 import DeploymentSpecArgsDict
from pulumi_kubernetes.core.v1 import AffinityArgsDict, EnvVarArgsDict
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

from ..access import rights
from ..access.rights import READ, rule
from ..catalog import kubernetes as names
from ..cluster import Cluster
from ..crds import definitions
from ..schema.outputs import MaybeOutput
from .effective import once_effective
from .existing_cluster import AnyEksCluster
from .iam import EksRole, pod_trust, role_name
from .interruptions import EksInterruptions
from .karpenter_args import EksKarpenterArgs
from .karpenter_policy import policy

NAMESPACE = "kube-system"
NAME = "karpenter"
_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}
_GATES = (
    "ReservedCapacity", "SpotToSpotConsolidation", "NodeRepair", "NodeOverlay", "StaticCapacity",
    "CapacityBuffer", "TerminateFirstRepair",
)  # fmt: skip
CLAIMS = "DRANVIDIAGPU"
"""AWS's own gate, alpha in 1.15: Karpenter knows the devices that NVIDIA's DRA driver publishes on
an instance type (karpenter.sh/docs/tasks/dra, read 2026-11-30)."""
_METRICS, _HEALTH = 8080, 8081


class Karpenter(pulumi.ComponentResource):
    """The definitions, the controller with its permissions, and the queue of interruptions."""

    ready: list[pulumi.Resource]
    """Resources that must exist before objects of these definitions, and must outlive them:
    Karpenter terminates their nodes."""

    def __init__(
        self,
        name: str,
        args: EksKarpenterArgs,
        *,
        cluster: Cluster,
        eks: AnyEksCluster,
        region: str,
        key: MaybeOutput | None,
        replicas: int,
        gates: Collection[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`key`: the ARN of the KMS key of the nodes' disks. `replicas`: default number of
        controllers. `gates`: feature gates to enable."""
        super().__init__("gpu-cluster:eks:Karpenter", name, None, opts)
        assert eks.node_role is not None
        child = pulumi.ResourceOptions(parent=self)
        interruptions = EksInterruptions(f"{cluster.name[:34]}-{name}", opts=child)
        rights = pulumi.Output.all(eks.node_role.arn, interruptions.queue.arn, key).apply(
            lambda known: policy(
                cluster.name, region, node_role=known[0], queue=known[1], key=known[2]
            )
        )
        role = EksRole(
            role_name(cluster.name, NAME),
            region=region,
            trust=pod_trust(cluster.name, namespace=NAMESPACE, service_account=NAME),
            inline=rights,
            opts=child,
        )
        identity = aws.eks.PodIdentityAssociation(
            name,
            cluster_name=eks.name,
            namespace=NAMESPACE,
            service_account=NAME,
            role_arn=role.arn,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=role.grants,
                deleted_with=eks.control_plane,
                hooks=once_effective(f"{name}-effective"),
            ),
        )
        kinds = definitions.declare(
            "karpenter-aws", cluster=cluster, parent=self, protected=False, conversions={}
        )
        permissions = self._permissions(name, cluster)
        environment = _environment(args, cluster.name, region, interruptions.queue.name, gates)
        deployment = kubernetes.apps.v1.Deployment(
            name,
            metadata=_metadata(),
            spec=_deployment(args, args.replicas or replicas, environment),
            # Pod Identity gives credentials only to pods that start after the association, and the
            # controller exits if a definition is missing.
            opts=cluster.options(
                self, depends_on=[identity, *kinds, *permissions, *interruptions.ready]
            ),
        )
        kubernetes.policy.v1.PodDisruptionBudget(
            name,
            metadata=_metadata(),
            spec={"max_unavailable": 1, "selector": {"match_labels": _LABELS}},
            opts=cluster.options(self),
        )
        self.ready = [deployment]
        self.register_outputs({})

    def _permissions(self, name: str, cluster: Cluster) -> list[pulumi.Resource]:
        options = cluster.options(self)
        return [
            kubernetes.core.v1.ServiceAccount(name, metadata=_metadata(), opts=options),
            *rights.declare(
                name,
                account=NAME,
                namespace=NAMESPACE,
                labels=_LABELS,
                cluster_rules=CLUSTER_RULES,
                own_rules=OWN_RULES,
                opts=options,
            ),
        ]


CLUSTER_RULES: list[PolicyRuleArgsDict] = [
    rule("karpenter.k8s.aws", ["ec2nodeclasses"], *READ),
    rule("karpenter.k8s.aws", ["ec2nodeclasses", "ec2nodeclasses/status"], "patch", "update"),
    rule("karpenter.sh", ["nodepools", "nodeclaims", "nodeoverlays"], *READ),
    rule(
        "karpenter.sh",
        ["nodeclaims", "nodeclaims/status"],
        "create", "delete", "update", "patch",
    ),
    rule(
        "karpenter.sh",
        ["nodepools", "nodepools/status", "nodeoverlays/status"],
        "update", "patch",
    ),
    rule(
        "",
        [
            "events", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods",
            "podtemplates", "replicationcontrollers",
        ],
        *READ,
    ),
    rule("apps", ["daemonsets", "deployments", "replicasets", "statefulsets"], *READ),
    rule("autoscaling.k8s.io", ["verticalpodautoscalers"], *READ),
    rule("policy", ["poddisruptionbudgets"], *READ),
    rule("resource.k8s.io", ["deviceclasses", "resourceclaims", "resourceslices"], *READ),
    rule("storage.k8s.io", ["csinodes", "storageclasses", "volumeattachments"], *READ),
    rule("", ["events"], "create", "patch"),
    rule("", ["nodes"], "patch", "delete", "update"),
    rule("", ["pods/eviction"], "create"),
    # Deletes pods that still run on a node after its terminationGracePeriod.
    rule("", ["pods"], "delete"),
]  # fmt: skip

OWN_RULES: list[PolicyRuleArgsDict] = [
    rule("coordination.k8s.io", ["leases"], "create", "get", "watch"),
    rule("coordination.k8s.io", ["leases"], "patch", "update", only=["karpenter-leader-election"]),
    # It reads the address of the cluster's DNS, which nodes need.
    rule("", ["services"], "get", only=["kube-dns"]),
]


def _metadata() -> ObjectMetaArgsDict:
    return {"name": NAME, "labels": _LABELS, "namespace": NAMESPACE}


def _environment(
    args: EksKarpenterArgs,
    cluster: str,
    region: str,
    queue: pulumi.Input[str],
    gates: Collection[str],
) -> list[EnvVarArgsDict]:
    on = {"ReservedCapacity", *gates}
    values: Mapping[str, pulumi.Input[str]] = {
        "CLUSTER_NAME": cluster,
        "INTERRUPTION_QUEUE": queue,
        # Pods cannot reach the instance metadata, which it would read otherwise.
        "AWS_REGION": region,
        "FEATURE_GATES": ",".join(f"{gate}={str(gate in on).lower()}" for gate in _GATES),
        # Its chart sets both together: by default, it ignores pods with claims.
        **(
            {"AWS_FEATURE_GATES": f"{CLAIMS}=true", "IGNORE_DRA_REQUESTS": "false"}
            if CLAIMS in on
            else {}
        ),
        "LOG_LEVEL": args.log_level,
        "METRICS_PORT": str(_METRICS),
        "HEALTH_PROBE_PORT": str(_HEALTH),
    }
    given: list[EnvVarArgsDict] = [{"name": name, "value": value} for name, value in values.items()]
    return given + _OF_THE_POD


def _deployment(
    args: EksKarpenterArgs, replicas: int, environment: list[EnvVarArgsDict]
) -> DeploymentSpecArgsDict:
    return {
        "replicas": replicas,
        "strategy": {"rolling_update": {"max_unavailable": 1}},
        "selector": {"match_labels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {
                "service_account_name": NAME,
                "priority_class_name": "system-cluster-critical",
                # The node's DNS: the cluster's own may be waiting for a node from Karpenter.
                "dns_policy": "Default",
                "security_context": {
                    "fs_group": 65532,
                    "seccomp_profile": {"type": "RuntimeDefault"},
                },
                "node_selector": {"kubernetes.io/os": "linux"},
                "affinity": _AFFINITY,
                "topology_spread_constraints": [
                    {
                        "max_skew": 1,
                        "topology_key": names.ZONE,
                        "when_unsatisfiable": "ScheduleAnyway",
                        "label_selector": {"match_labels": _LABELS},
                    }
                ],
                "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
                "containers": [
                    {
                        "name": "controller",
                        "image": args.image_for(),
                        "env": environment,
                        "ports": [
                            {"name": "http-metrics", "container_port": _METRICS},
                            {"name": "http", "container_port": _HEALTH},
                        ],
                        "liveness_probe": {
                            "http_get": {"path": "/healthz", "port": "http"},
                            "initial_delay_seconds": 30,
                            "timeout_seconds": 30,
                        },
                        "readiness_probe": {
                            "http_get": {"path": "/readyz", "port": "http"},
                            "initial_delay_seconds": 5,
                            "timeout_seconds": 30,
                        },
                        # Upstream's guide uses one core for clusters of any size.
                        "resources": {
                            "requests": {"cpu": "500m", "memory": "1Gi"},
                            "limits": {"memory": "1Gi"},
                        },
                        "security_context": {
                            "run_as_non_root": True,
                            "run_as_user": 65532,
                            "run_as_group": 65532,
                            "allow_privilege_escalation": False,
                            "read_only_root_filesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        },
    }


_AFFINITY: AffinityArgsDict = {
    # Not on a node that Karpenter manages, which it could remove together with itself.
    "node_affinity": {
        "required_during_scheduling_ignored_during_execution": {
            "node_selector_terms": [
                {
                    "match_expressions": [
                        {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
                    ]
                }
            ]
        }
    },
    "pod_anti_affinity": {
        "required_during_scheduling_ignored_during_execution": [
            {"topology_key": "kubernetes.io/hostname", "label_selector": {"match_labels": _LABELS}}
        ]
    },
}

_OF_THE_POD: list[EnvVarArgsDict] = [
    {
        "name": "SYSTEM_NAMESPACE",
        "value_from": {"field_ref": {"field_path": "metadata.namespace"}},
    },
    {
        "name": "CPU_REQUESTS",
        "value_from": {
            "resource_field_ref": {
                "container_name": "controller", "divisor": "1m", "resource": "requests.cpu",
            }
        },
    },
    {
        "name": "MEMORY_LIMIT",
        "value_from": {
            "resource_field_ref": {
                "container_name": "controller", "divisor": "0", "resource": "limits.memory",
            }
        },
    },
]  # fmt: skip
