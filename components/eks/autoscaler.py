"""Cluster Autoscaler for an EKS cluster: it finds its groups by tag and may change only those.

AWS permissions are from kubernetes/autoscaler cloudprovider/aws/README.md, those in the cluster
from cloudprovider/aws/examples, charts/cluster-autoscaler and issue 8678 there (read 2026-11-21).
Leases and ConfigMaps are restricted to its own namespace.
"""

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.apps.v1 import DeploymentSpecArgsDict
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

from ..access import rights
from ..access.rights import READ, rule
from ..cluster import Cluster
from . import regions
from .autoscaler_args import EksAutoscalerArgs
from .effective import once_effective
from .existing_cluster import AnyEksCluster
from .iam import EksRole, document, pod_trust, role_name

NAMESPACE = "kube-system"
NAME = "cluster-autoscaler"
PRIORITIES = f"{NAME}-priority-expander"
_OTHERS = "^[^_]*$"
_LABELS = {"app": NAME}


class ClusterAutoscaler(pulumi.ComponentResource):
    """Cluster Autoscaler in the release for the cluster's Kubernetes minor."""

    deployment: kubernetes.apps.v1.Deployment

    def __init__(
        self,
        name: str,
        options: EksAutoscalerArgs,
        *,
        cluster: Cluster,
        eks: AnyEksCluster,
        version: str,
        region: str,
        startup_taints: Sequence[str] = (),
        orders: Sequence[Sequence[str]] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`version`: the cluster's Kubernetes minor.
        `startup_taints`: keys of taints that nodes have at startup and that other software removes.
        `orders`: for each pool, the names of node groups of which the first that can grow does."""
        super().__init__("gpu-cluster:eks:ClusterAutoscaler", name, None, opts)
        role = EksRole(
            role_name(cluster.name, "autoscaler"),
            region=region,
            trust=pod_trust(cluster.name, namespace=NAMESPACE, service_account=NAME),
            inline=policy(cluster.name, region),
            opts=pulumi.ResourceOptions(parent=self),
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
                # In a cluster that the stack creates, its first nodes take longer than this delay.
                hooks=None if eks.control_plane else once_effective(f"{name}-effective"),
            ),
        )
        account = kubernetes.core.v1.ServiceAccount(
            name, metadata=_metadata(), opts=cluster.options(self)
        )
        before: list[pulumi.Resource] = self._permissions(name, cluster)
        if orders:
            # Without it, the expander lets every group through, and the next expander decides.
            before.append(
                kubernetes.core.v1.ConfigMap(
                    f"{name}-priorities",
                    metadata={**_metadata(), "name": PRIORITIES},
                    data={"priorities": priorities(orders)},
                    opts=cluster.options(self),
                )
            )
        self.deployment = kubernetes.apps.v1.Deployment(
            name,
            metadata=_metadata(),
            spec=_deployment(
                options, cluster.name, version, region, startup_taints, ordered=bool(orders)
            ),
            # Pod Identity gives credentials only to pods that start after the association.
            opts=cluster.options(self, depends_on=[identity, account, *before]),
        )
        self.register_outputs({})

    def _permissions(self, name: str, cluster: Cluster) -> list[pulumi.Resource]:
        return rights.declare(
            name,
            account=NAME,
            namespace=NAMESPACE,
            labels=_LABELS,
            cluster_rules=CLUSTER_RULES,
            own_rules=OWN_RULES,
            opts=cluster.options(self),
        )


def priorities(orders: Sequence[Sequence[str]]) -> str:
    """The value of `priorities`: priority -> regular expressions that match names of Auto Scaling
    groups; the highest priority is tried first. EKS names the group of a node group
    `eks-NODEGROUP-UUID`. A group that matches always comes before those that match nothing, so all
    other groups have the highest priority: of the stack's groups, only those in an order have an
    underscore in their names. Among groups with the same priority, the next expander decides.

    cluster-autoscaler/expander/priority of kubernetes/autoscaler, read 2026-11-24.
    """
    longest = max(map(len, orders))
    lines = [f"{longest + 1}:", f"  - {_OTHERS}"]
    for rank in range(longest):
        lines.append(f"{longest - rank}:")
        lines += [f"  - ^eks-{order[rank]}-" for order in orders if rank < len(order)]
    return "\n".join(lines) + "\n"


def policy(cluster: str, region: str) -> str:
    """Its AWS permissions: read everything in the region, change its own cluster's groups."""
    partition = regions.partition(region)
    return document(
        {
            "Sid": "Look",
            "Effect": "Allow",
            "Action": [
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeAutoScalingInstances",
                "autoscaling:DescribeLaunchConfigurations",
                # If EC2 has no capacity left, it backs off at once, instead of waiting
                # maxNodeProvisionTime for a GPU that will not come.
                "autoscaling:DescribeScalingActivities",
                "ec2:DescribeImages",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
                "ec2:GetInstanceTypesFromInstanceRequirements",
            ],
            # None of these supports resource-level permissions.
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:RequestedRegion": region}},
        },
        {
            "Sid": "LookAtNodeGroups",
            "Effect": "Allow",
            "Action": "eks:DescribeNodegroup",
            "Resource": f"arn:{partition}:eks:{region}:*:nodegroup/{cluster}/*/*",
        },
        {
            "Sid": "Scale",
            "Effect": "Allow",
            "Action": [
                "autoscaling:SetDesiredCapacity",
                "autoscaling:TerminateInstanceInAutoScalingGroup",
            ],
            "Resource": f"arn:{partition}:autoscaling:{region}:*:autoScalingGroup:*",
            # EKS sets this tag on the groups of its managed node groups.
            "Condition": {
                "StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{cluster}": "owned"}
            },
        },
    )


CLUSTER_RULES: list[PolicyRuleArgsDict] = [
    # It waits until it has listed every one of these kinds before it scales anything: if it may not
    # read one of them, it stays healthy but idle forever.
    rule(
        "",
        [
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "replicationcontrollers",
            "services",
        ],
        *READ,
    ),
    rule("apps", ["daemonsets", "replicasets", "statefulsets"], *READ),
    rule("batch", ["cronjobs", "jobs"], *READ),
    rule("policy", ["poddisruptionbudgets"], *READ),
    rule(
        "storage.k8s.io",
        ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"],
        *READ,
    ),
    rule("resource.k8s.io", ["deviceclasses", "resourceclaims", "resourceslices"], *READ),
    # It taints nodes that it is going to remove.
    rule("", ["nodes"], *READ, "update"),
    rule("", ["pods/eviction"], "create"),
    rule("", ["pods/status"], "update"),
    rule("", ["events"], "create", "patch"),
]

OWN_RULES: list[PolicyRuleArgsDict] = [
    rule("coordination.k8s.io", ["leases"], "create"),
    rule("coordination.k8s.io", ["leases"], "get", "update", only=[NAME]),
    rule("", ["configmaps"], "create", "list", "watch"),
    rule("", ["configmaps"], "get", "update", "delete", only=[f"{NAME}-status", PRIORITIES]),
]


def _metadata() -> ObjectMetaArgsDict:
    return {"name": NAME, "labels": _LABELS, "namespace": NAMESPACE}


def _deployment(
    options: EksAutoscalerArgs,
    cluster: str,
    version: str,
    region: str,
    startup_taints: Sequence[str],
    *,
    ordered: bool,
) -> DeploymentSpecArgsDict:
    flags = {**options.flags(cluster), **options.extra_flags}
    if ordered:
        flags["expander"] = f"priority,{flags['expander']}"
    return {
        "replicas": 1,
        "selector": {"match_labels": _LABELS},
        "template": {
            "metadata": {
                "labels": _LABELS,
                # Since 1.34, skipNodesWithSystemPods keeps its node for only an hour.
                "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
            },
            "spec": {
                "service_account_name": NAME,
                "priority_class_name": "system-cluster-critical",
                # The node's DNS: the cluster's own may be waiting for a node from this autoscaler.
                "dns_policy": "Default",
                "security_context": {
                    "run_as_non_root": True,
                    "run_as_user": 65534,
                    "run_as_group": 65534,
                    "seccomp_profile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": NAME,
                        "image": options.image_for(version),
                        "command": ["./cluster-autoscaler"],
                        "args": [
                            *(f"--{flag}={value}" for flag, value in flags.items()),
                            *(f"--startup-taint={key}" for key in startup_taints),
                        ],
                        "env": [{"name": "AWS_REGION", "value": region}],
                        "ports": [{"name": "metrics", "container_port": 8085}],
                        "liveness_probe": {
                            "http_get": {"path": "/health-check", "port": 8085},
                            "initial_delay_seconds": 60,
                        },
                        "resources": {
                            "requests": {"cpu": "100m", "memory": "600Mi"},
                            "limits": {"memory": "600Mi"},
                        },
                        "security_context": {
                            "allow_privilege_escalation": False,
                            "read_only_root_filesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        },
    }
