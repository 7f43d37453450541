"""The clouds: their names for users, for Pulumi and for their own clients.

The resource types are those of Pulumi's `gcp` and `aws` packages. Settings of the providers:
hashicorp/terraform-provider-google-beta (`*_custom_endpoint`, `universe_domain`) and
hashicorp/terraform-provider-aws (`endpoints`, `insecure`), read on 2026-11-23.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Those with which a command does nothing but print a credential."""

    words: Sequence[str] = ()
    options: Sequence[str] = ()
    """Flags that have a value; `switches` have none."""
    switches: Sequence[str] = ()
    variables: Sequence[str] = ()
    """Environment variables that name no program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A cloud in which this program can create a cluster."""

    title: str
    package: str
    """Pulumi's package, which is also the namespace of its settings."""
    cluster: str
    """Resource type of a cluster."""
    node_pool: str
    """Resource type of a group of nodes."""
    price_region: str
    """The region of the list prices in the catalog."""
    endpoint: str
    """The environment variable that points the cloud's clients at a simulator."""
    hosts: tuple[str, ...] = ()
    """The suffixes of its API host names."""
    endpoint_settings: str = ""
    """Regular expression for the provider's settings that name hosts."""
    usual: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Provider setting that decides which host gets the requests -> its usual value, and what the
    provider does with any other value."""
    offers: str = ""
    """Module that knows its machines with GPUs (`stacks.cost.gpu_offers.Offers`)."""
    recovers: str = ""
    """Module that finds what an interrupted update created (`Recovers` in `stacks.recovery`)."""
    label_domains: Sequence[str] = ()
    """Domains of the labels that it adds to nodes."""
    policies: Sequence[str] = ()
    """Modules with its part of the policies (`policy.clouds`)."""
    command: str = ""
    """The command with which a cluster's kubeconfig gets credentials, and what it may be given."""
    arguments: Arguments = Arguments()
    install: str = ""
    """Where to get the command."""
    sign_in: str = ""
    """How the command gets credentials."""
    creates: Mapping[str, str]
    """Kind of Kubernetes object -> what the cluster's controllers create in the cloud for one."""


_AWS_FLAGS = ("--region", "--cluster-name", "--cluster-id", "--output", "--role-arn", "--profile")
GOOGLE: Final = Cloud(
    title="Google Cloud",
    package="gcp",
    cluster="gcp:container/cluster:Cluster",
    node_pool="gcp:container/nodePool:NodePool",
    price_region="us-central1",
    endpoint="GOOGLE_COMPUTE_CUSTOM_ENDPOINT",
    hosts=(".googleapis.com",),
    endpoint_settings="gcp:.*CustomEndpoint",
    offers="gpu_cluster.stacks.cost.google_offers",
    recovers="gpu_cluster.stacks.recovery.google",
    label_domains=("google.com",),
    policies=(
        "gpu_cluster.policy.gke_clusters",
        "gpu_cluster.policy.gke_pools",
        "gpu_cluster.policy.gke_classes",
        "gpu_cluster.policy.gke_iam",
    ),
    command="gke-gcloud-auth-plugin",
    arguments=Arguments(switches=("--use_application_default_credentials",)),
    install="install it with: gcloud components install gke-gcloud-auth-plugin",
    sign_in="gcloud auth application-default login",
    usual={"gcp:universeDomain": ("googleapis.com", "sends requests to {value!r}")},
    creates={
        "Service": "forwarding rule, firewall rules k8s-*, perhaps target pool or NEGs",
        "Ingress": "forwarding rules, URL map, backend services, NEGs, firewall rule k8s-*",
        "Gateway": "forwarding rules, URL map, backend services, NEGs, firewall rule",
    },
)
AWS: Final = Cloud(
    title="AWS",
    package="aws",
    cluster="aws:eks/cluster:Cluster",
    node_pool="aws:eks/nodeGroup:NodeGroup",
    price_region="us-east-1",
    endpoint="AWS_ENDPOINT_URL",
    hosts=(".amazonaws.com", ".amazonaws.com.cn", ".api.aws"),
    endpoint_settings="aws:endpoints",
    offers="gpu_cluster.stacks.cost.aws_offers",
    recovers="gpu_cluster.stacks.recovery.aws",
    label_domains=("amazonaws.com",),
    policies=(
        "gpu_cluster.policy.eks_clusters",
        "gpu_cluster.policy.eks_pools",
        "gpu_cluster.policy.karpenter",
        "gpu_cluster.policy.eks_iam",
    ),
    command="aws",
    arguments=Arguments(
        words=("eks", "get-token"),
        options=_AWS_FLAGS,
        variables=("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_STS_REGIONAL_ENDPOINTS"),
    ),
    install="install the AWS CLI, version 2",
    sign_in="aws sso login, and name the profile in AWS_PROFILE",
    usual={"aws:insecure": ("false", "accepts any server's certificate")},
    creates=dict.fromkeys(
        ("Service", "Ingress", "Gateway"),
        "load balancer, target groups, network interfaces, security group",
    ),
)
CLOUDS: Final[Mapping[str, Cloud]] = MappingProxyType({
    "google": GOOGLE,
    "aws": AWS,
})  # fmt: skip
"""The cloud's name, as commands accept and print it -> the cloud."""
