"""The table of scalers, what adds and removes the nodes of a cluster, and the pool settings that
each does not support.

`cluster.scaler` names one; Autopilot and the scaler of an existing cluster's owner are rows too.
`NotWith` on a field of a pool's args names a scaler that does not support the setting, and the
reason; the error, and the table in the support matrix, follow from that. Like the args classes,
this module does without an SDK.
"""

import dataclasses
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from .catalog import kubernetes as names
from .schema.decode import camel, type_hints
from .schema.limits import unwrapped
from .schema.refusal import Refusal, collected, refuse

_NODE_POOL, _NODE_GROUP = "gcp:container/nodePool:NodePool", "aws:eks/nodeGroup:NodeGroup"
_KARPENTER_POOL = "kubernetes:karpenter.sh/v1:NodePool"
_FOR_CLUSTER_AUTOSCALER: Mapping[str, str] = {names.SAFE_TO_EVICT: "false"}
_FOR_KARPENTER: Mapping[str, str] = {names.DO_NOT_DISRUPT: "true"}
SYSTEM_NODES = "gpu-cluster-system"
"""The name of Karpenter's NodePool for system nodes beyond the fixed ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """What the rest of the program has to know about a scaler."""

    title: str
    platforms: Sequence[str]
    """Keys of `PLATFORMS` that have it."""
    setting: str = ""
    """The value of `cluster.scaler`; empty if the platform has no such key."""
    options: str = ""
    """The cluster's setting with the options of its controller, if the stack can install one."""
    declared_by: str = ""
    """Type of the component that declares a GPU pool; empty if the stack declares none."""
    nodes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Resource type of a group of nodes, or of their configuration -> the inputs whose change
    replaces running nodes; none if these keep what they were created with."""
    in_place: Sequence[str] = ()
    """Inputs beneath those whose change does not."""
    pools: Sequence[str] = ()
    """The types in `nodes` whose deletion deletes the nodes."""
    in_cluster: bool = False
    """Whether a pool is an object in the cluster, of which a controller creates the nodes."""
    serves_system: bool = False
    """Whether it also starts the nodes of the cluster's own pods, so that the stack has no system
    pool, and the cloud runs what other clusters have as addons."""
    disks: str | None
    """The CSI driver whose disks nodes attach; None if it is the owner's."""
    disk_tags: Mapping[str, str] = field(default_factory=dict)
    """The tags with which AWS's policy for the driver lets it attach a volume that it did not
    create, AmazonEBSCSIDriverPolicyV2 or AmazonEKSBlockStoragePolicyV2 (read 2026-11-28);
    `{cluster}` is the cluster's name."""
    uses_nvme: bool = False
    """Whether a node's own NVMe disks, if they are larger than its volume, replace it."""
    own_nvidia: bool = False
    """Whether its images have NVIDIA's driver and device plugin, in versions that it chooses."""
    fee: bool = False
    """Whether the cloud adds a fee to the price of the instances that it starts."""
    restricted_tags: re.Pattern[str] = re.compile(r"(?!)")
    """Keys of tags that it sets on instances itself, and refuses in a node class."""
    used_names: Mapping[str, str] = field(default_factory=dict)
    """Names of NodePools and node classes that pools cannot have -> what they belong to."""
    policies: str | None
    """What enforces NetworkPolicies; None if it is the owner's."""
    limit: Literal["pool", "NodePool", "cluster"] | None
    """What a maximum number of nodes applies to; None if the stack sets none."""
    stay: Mapping[str, str]
    """The annotations of a pod that must not be evicted in favor of fewer nodes."""
    spot_stays: bool = True
    """Whether a pod on a Spot node may have them."""

    def stay_annotations(self, *, spot: bool) -> Mapping[str, str]:
        """The annotations of a running job's pods; `spot`: whether its nodes can be Spot nodes."""
        return self.stay if self.spot_stays or not spot else {}

    @property
    def node_groups(self) -> bool:
        """Whether its pools are node groups of EKS."""
        return _NODE_GROUP in self.nodes

    @property
    def node_pools(self) -> bool:
        """Whether its pools are NodePools of Karpenter."""
        return _KARPENTER_POOL in self.nodes

    @property
    def node_class(self) -> tuple[str, str, str]:
        """API group, version and kind of the node classes of its NodePools."""
        (name,) = self.nodes.keys() - {*self.pools}
        group, version = name.split(":")[1].split("/")
        return group, version, name.split(":")[2]

    @property
    def launches(self) -> bool:
        """Whether a controller of the stack, or of the cluster's owner, launches instances."""
        return self.in_cluster and bool(self.options)


_EKS, _GKE = ("eks", "eks-existing"), ("gke", "gke-existing")
_DATAPLANE = "GKE Dataplane V2"
SCALERS: Final[Mapping[str, Scaler]] = MappingProxyType({
    "node-pools": Scaler(
        title="GKE's autoscaler, node pools",
        platforms=_GKE,
        setting="node-pools",
        declared_by="gpu-cluster:gke:GpuNodePool",
        nodes={_NODE_POOL: ("version", "nodeConfig")},
        # cloud.google.com/kubernetes-engine/docs/concepts/managing-clusters, 2026-11-24.
        in_place=tuple(
            f"nodeConfig.{part}"
            for part in ("labels", "resourceLabels", "resourceManagerTags", "tags", "taints")
        ),
        pools=(_NODE_POOL,),
        disks="pd.csi.storage.gke.io",
        policies=_DATAPLANE,
        limit="pool",
        stay=_FOR_CLUSTER_AUTOSCALER,
    ),
    "compute-classes": Scaler(
        title="GKE compute classes",
        platforms=("gke",),
        setting="compute-classes",
        declared_by="gpu-cluster:gke:ComputeClass",
        nodes={"kubernetes:cloud.google.com/v1:ComputeClass": ()},
        pools=("kubernetes:cloud.google.com/v1:ComputeClass",),
        in_cluster=True,
        disks="pd.csi.storage.gke.io",
        policies=_DATAPLANE,
        limit="cluster",
        stay=_FOR_CLUSTER_AUTOSCALER,
    ),
    "autopilot": Scaler(
        title="GKE Autopilot",
        platforms=("gke-autopilot",),
        setting="gke",
        serves_system=True,
        disks="pd.csi.storage.gke.io",
        policies=_DATAPLANE,
        limit=None,
        stay=_FOR_CLUSTER_AUTOSCALER,
        # cloud.google.com/kubernetes-engine/docs/how-to/extended-duration-pods, "Limitations".
        spot_stays=False,
    ),
    "autopilot-compute-classes": Scaler(
        title="GKE Autopilot, compute classes",
        platforms=("gke-autopilot",),
        setting="compute-classes",
        declared_by="gpu-cluster:gke:ComputeClass",
        nodes={"kubernetes:cloud.google.com/v1:ComputeClass": ()},
        pools=("kubernetes:cloud.google.com/v1:ComputeClass",),
        in_cluster=True,
        serves_system=True,
        disks="pd.csi.storage.gke.io",
        policies=_DATAPLANE,
        limit=None,
        stay=_FOR_CLUSTER_AUTOSCALER,
        spot_stays=False,
    ),
    "cluster-autoscaler": Scaler(
        title="Cluster Autoscaler",
        platforms=_EKS,
        setting="cluster-autoscaler",
        options="autoscaler",
        declared_by="gpu-cluster:eks:GpuNodeGroup",
        # docs.aws.amazon.com/eks/latest/userguide/launch-templates.html: "When you update your node
        # group to a different version of your launch template, all nodes in the group are recycled"
        nodes={_NODE_GROUP: ("launchTemplate.version", "version", "releaseVersion")},
        pools=(_NODE_GROUP,),
        disks="ebs.csi.aws.com",
        disk_tags={"ebs.csi.aws.com/cluster": "true"},
        policies="the addon vpc-cni",
        limit="pool",
        stay=_FOR_CLUSTER_AUTOSCALER,
    ),
    "karpenter": Scaler(
        title="Karpenter",
        platforms=_EKS,
        setting="karpenter",
        options="karpenter",
        declared_by="gpu-cluster:eks:KarpenterPool",
        # Of these, what has no `hash:"ignore"` in pkg/apis/v1 of sigs.k8s.io/karpenter and
        # aws/karpenter-provider-aws 1.15.0 replaces every node; requirements, images, subnets,
        # security groups and reservations replace the nodes that they no longer match.
        nodes={
            _KARPENTER_POOL: ("spec.template",),
            "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass": ("spec",),
        },
        pools=(_KARPENTER_POOL,),
        in_cluster=True,
        disks="ebs.csi.aws.com",
        disk_tags={"ebs.csi.aws.com/cluster": "true"},
        # The EC2NodeClass of Karpenter 1.15.0 (components/crds).
        restricted_tags=re.compile(
            r"eks:eks-cluster-name|kubernetes\.io/cluster.*|karpenter\.sh/(nodepool|nodeclaim)"
            r"|karpenter\.k8s\.aws/ec2nodeclass"
        ),
        used_names={SYSTEM_NODES: "the NodePool of this stack's system nodes"},
        policies="the addon vpc-cni",
        limit="NodePool",
        stay=_FOR_KARPENTER,
    ),
    "auto-mode": Scaler(
        title="EKS Auto Mode",
        platforms=_EKS,
        setting="auto-mode",
        declared_by="gpu-cluster:eks:KarpenterPool",
        nodes={
            _KARPENTER_POOL: ("spec.template",),
            "kubernetes:eks.amazonaws.com/v1:NodeClass": ("spec",),
        },
        pools=(_KARPENTER_POOL,),
        in_cluster=True,
        serves_system=True,
        # docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html
        disks="ebs.csi.eks.amazonaws.com",
        disk_tags={"eks:eks-cluster-name": "{cluster}"},
        uses_nvme=True,
        own_nvidia=True,
        fee=True,
        # eks/latest/userguide/create-node-class.html, and the tags of AWS's policies for Auto Mode,
        # auto-learn-iam.html, read 2026-11-24.
        restricted_tags=re.compile(
            r"eks:.*|kubernetes\.io/cluster.*|eks\.amazonaws\.com/nodeclass"
            r"|karpenter\.sh/(provisioner-name|nodepool|nodeclaim|managed-by)"
        ),
        # create-node-class.html and create-node-pool.html, read 2026-11-24.
        used_names={
            "default": "EKS's own NodeClass",
            "general-purpose": "EKS's own NodePool",
            "system": "EKS's own NodePool",
        },
        policies="Auto Mode, once the ConfigMap amazon-vpc-cni says so",
        limit="NodePool",
        stay=_FOR_KARPENTER,
    ),
    "owner": Scaler(
        title="platform: existing",
        platforms=("existing",),
        disks=None,
        policies=None,
        limit=None,
        # Whichever it is: one ignores what is meant for the other.
        stay={**_FOR_CLUSTER_AUTOSCALER, **_FOR_KARPENTER},
    ),
})  # fmt: skip
"""The scaler's name -> the row; the name is `cluster.scaler`, except on Autopilot."""


def scaler_of(platform: str, setting: str = "") -> Scaler:
    """The row of a platform, a key of `PLATFORMS`, with this value of `cluster.scaler`."""
    return next(
        row for row in SCALERS.values() if platform in row.platforms and row.setting == setting
    )


class NotWith:
    """Annotation of a pool's field: this scaler does not support the setting.

    `reason` completes "... is not possible with cluster.scaler X: ". `but`: values that it does
    support, in addition to the field's default.
    """

    def __init__(self, scaler: str, reason: str, *, but: Sequence[Any] = ()) -> None:
        self.scaler = scaler
        self.reason = reason
        self.but = but


def scalers(cluster: type) -> tuple[str, ...]:
    """The allowed values of `cluster.scaler` in the cluster's args class; may be empty."""
    hint = type_hints(cluster).get("scaler")
    return typing.get_args(hint)


def unsupported(pool: type) -> Mapping[str, Sequence[NotWith]]:
    """Field of a pool's args -> the scalers that do not support it, if there are any."""
    by_field: dict[str, list[NotWith]] = {}
    for name, hint in type_hints(pool, include_extras=True).items():
        marks = [mark for mark in unwrapped(hint)[1] if isinstance(mark, NotWith)]
        if marks:
            by_field[name] = marks
    return by_field


@collected
def check_scaler(args: Any, scaler: str, cluster: type, *, needs: str = "") -> Iterator[Refusal]:
    """Refuses settings of the pool that its cluster's scaler does not support."""
    values = {field.name: getattr(args, field.name) for field in dataclasses.fields(args)}
    return scaler_refusals(type(args), values, scaler, cluster, needs=needs)


def scaler_refusals(
    pool: type[Any], values: Mapping[str, Any], scaler: str, cluster: type, *, needs: str = ""
) -> Iterator[Refusal]:
    """The refusals of a pool's settings, field -> value, that the scaler does not support; they
    name the scalers that do, and what else of the pool these do not support. `needs`: further
    settings that the pool must have with another scaler."""
    defaults = {field.name: _default(field) for field in dataclasses.fields(pool)}
    refused = {
        name: {mark.scaler: mark for mark in marks if values[name] not in mark.but}
        for name, marks in unsupported(pool).items()
        if values.get(name, defaults[name]) != defaults[name]
    }
    for name, cannot in refused.items():
        if (mark := cannot.get(scaler)) is None:
            continue
        ways: dict[str, list[str]] = {}
        for other in scalers(cluster):
            if other not in cannot:
                drop = " and ".join(camel(key) for key in refused if other in refused[key])
                ways.setdefault(f"drop {drop} and " if drop else "", []).append(other)
        first = min(ways, key=len, default="")
        way = f", or {first}set cluster.scaler: {' or '.join(ways[first])}{needs}" if ways else ""
        value = values[name]
        refusal = refuse(camel(name))(
            f"is not possible with cluster.scaler {scaler}: {mark.reason}",
            remedy=f"drop the key{way}",
        )
        yield refusal.but(given=value) if isinstance(value, str | int) else refusal


def default_scaler(cluster: type[Any]) -> str:
    """The scaler of a cluster whose settings name none; empty if its class has no such key."""
    field = {field.name: field for field in dataclasses.fields(cluster)}.get("scaler")
    return str(field.default) if field else ""


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
