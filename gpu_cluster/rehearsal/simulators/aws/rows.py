"""EKS's clusters and node groups, in the shapes of botocore's model."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
"""The API's description of a resource."""


@dataclass(slots=True, kw_only=True)
class Group:
    """A managed node group."""

    row: Row
    given: dict[str, Any]
    """The request's parameters, without EKS's defaults."""
    scaling_group: str
    template: str
    """The launch template that EKS created for the group."""
    data: Mapping[str, Any]
    """The data of the requested launch template version at the time of the request; empty without
    one. EKS copies it into its own template: deleting the original changes nothing here."""
    elastic: set[str] = field(default_factory=set)
    """Instances of nodes that the rehearsal's autoscaler started."""
    revision: int = 0
    """How often EKS has started to recycle the nodes."""
    updates: int = 0
    """The same with the updates that failed, which change no revision in the end."""
    forced: bool = False
    """Whether the update that recycles them was sent with `force`."""
    surging: int = 0
    """How many nodes it has above its size, until an update has recycled the others."""

    @property
    def cluster(self) -> str:
        """The name of the group's cluster."""
        return str(self.row["clusterName"])


@dataclass(slots=True, kw_only=True)
class Cluster:
    """An EKS cluster."""

    row: Row
    self_managed: bool
    """Whether EKS installs the networking addons itself."""
    interfaces: list[str] = field(default_factory=list)
    """The control plane's network interfaces in the cluster's subnets."""
    groups: dict[str, Group] = field(default_factory=dict)
    tagged: dict[tuple[str, str], dict[str, Row]] = field(default_factory=lambda: defaultdict(dict))
    """Taggable resources. The key is their type: its name in the leak check, and the member with
    the ARN. Within a type, the key is the part of the ID after the cluster's name."""
    policies: dict[str, dict[str, Row]] = field(default_factory=dict)
    """Principal ARN -> policy ARN -> associated access policy."""
    associations: dict[str, Row] = field(default_factory=dict)
    """ID -> pod identity association."""
    updates: dict[str, Row] = field(default_factory=dict)
    granted: dict[tuple[str, str], float] = field(default_factory=dict)
    """(principal ARN, policy ARN) -> since when the principal has the access policy in its scope,
    on the monotonic clock."""
    upgraded: tuple[str, float] = ("", 0.0)
    """The version before the last upgrade, and when it ended, on the monotonic clock; empty if
    there was none."""
    grew: float = 0.0
    """When the newest node group was created, on the monotonic clock."""
    identified: dict[tuple[str, str], float] = field(default_factory=dict)
    """(namespace, service account) -> when it first had an association, in seconds since 1970."""

    @property
    def addons(self) -> dict[str, Row]:
        return self.tagged["addon", "addonArn"]

    @property
    def entries(self) -> dict[str, Row]:
        """Principal ARN -> access entry."""
        return self.tagged["access entry", "accessEntryArn"]

    @property
    def security_group(self) -> str:
        """EKS's own security group, for control plane and nodes."""
        return str(self.row["resourcesVpcConfig"]["clusterSecurityGroupId"])

    @property
    def automatic(self) -> bool:
        """Whether the cluster uses EKS Auto Mode."""
        return bool((self.row.get("computeConfig") or {}).get("enabled"))

    @property
    def identity_agent(self) -> bool:
        """Whether pods get roles: through the addon, or from Auto Mode's nodes."""
        return "eks-pod-identity-agent" in self.addons or self.automatic

    def association(self, namespace: str, service_account: str) -> Row | None:
        """The pod identity association of a service account."""
        for row in self.associations.values():
            if (row["namespace"], row["serviceAccount"]) == (namespace, service_account):
                return row
        return None
