"""A small stack on the simulated Google Cloud, to build tests on."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

from gpu_cluster.rehearsal.plugins import gcp
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.simulators.google import Existing, GoogleCloud, serve_api
from gpu_cluster.rehearsal.simulators.google.api.server import Request
from gpu_cluster.rehearsal.simulators.reservations import Reservation
from gpu_cluster.rehearsal.simulators.stock import Stock
from tests.unit.plugins.offline_engine import Engine, Plane

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
ROUTER = "gcp:compute/router:Router"
NAT = "gcp:compute/routerNat:RouterNat"
FIREWALL = "gcp:compute/firewall:Firewall"
ACCOUNT = "gcp:serviceaccount/account:Account"
MEMBER = "gcp:projects/iAMMember:IAMMember"
ACCOUNT_MEMBER = "gcp:serviceaccount/iAMMember:IAMMember"
BUCKET_MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"

AUTOPILOT: dict[str, Any] = {"location": "us-central1", "enableAutopilot": True,
                             "removeDefaultNodePool": None, "initialNodeCount": None}  # fmt: skip
"""Properties of an Autopilot cluster."""


class GoogleStack(Engine):
    """`dev` in us-central1-a of project `p`, with a quota that tests may set."""

    def __init__(
        self,
        quota: dict[str, int] | None = None,
        *,
        reservations: Sequence[Reservation] = (),
        quota_suffices: bool = False,
        stock: Sequence[Stock] = (),
        seen: Callable[[Request], None] = lambda request: None,
        **errors: list[str],
    ) -> None:
        self.plane = Plane()
        faults = Faults(quota=quota or {}, errors=errors)
        self.cloud = GoogleCloud(
            control_plane=self.plane,
            faults=faults,
            existing=Existing(reservations=reservations, stock=stock),
            quota_suffices=quota_suffices,
        )
        self.api = api = serve_api(self.cloud, seen)
        weakref.finalize(self, api.stop)
        settings = gcp.settings_for(api.environment, faults=faults, changed=self.cloud.notify)
        super().__init__(settings, {"project": "p", "region": "us-central1"})

    @classmethod
    def with_cluster(cls, **given: Any) -> Self:
        """One that has the cluster `dev`. `given`: what is the stack's own, and properties of the
        cluster."""
        own = "quota", "reservations", "quota_suffices", "stock", "seen"
        stack = cls(**{name: given.pop(name) for name in own if name in given})
        stack.cluster(**given)
        return stack

    def network(self) -> dict[str, Any]:
        """A network with one subnetwork, which has ranges for pods and services."""
        network = self.up(NETWORK, "net", {"autoCreateSubnetworks": False})
        return self.up(SUBNETWORK, "nodes", subnetwork(network["selfLink"]))

    def cluster(self, **changes: Any) -> dict[str, Any]:
        """The cluster `dev` in a network of its own; changes replace its properties."""
        return self.up(CLUSTER, "dev", cluster(self.network(), **changes))

    def pool(self, resource: str = "gpu", **changes: Any) -> dict[str, Any]:
        """A node pool with a T4 per node; changes replace its properties."""
        return self.up(POOL, resource, pool(**changes))


def subnetwork(network: str, /, **changes: Any) -> dict[str, Any]:
    return {
        "network": network,
        "ipCidrRange": "10.0.0.0/20",
        "secondaryIpRanges": [
            {"rangeName": "pods", "ipCidrRange": "10.8.0.0/14"},
            {"rangeName": "services", "ipCidrRange": "10.4.0.0/20"},
        ],
    } | changes


def cluster(within: dict[str, Any], /, **changes: Any) -> dict[str, Any]:
    return {
        "name": "dev",
        "location": "us-central1-a",
        "network": within["network"],
        "subnetwork": within["selfLink"],
        "initialNodeCount": 1,
        "removeDefaultNodePool": True,
        "deletionProtection": False,
        "ipAllocationPolicy": {
            "clusterSecondaryRangeName": "pods",
            "servicesSecondaryRangeName": "services",
        },
        "releaseChannel": {"channel": "REGULAR"},
    } | changes


def t4(count: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "machineType": "n1-standard-4",
        "guestAccelerators": [
            {
                "type": "nvidia-tesla-t4",
                "count": count,
                "gpuDriverInstallationConfig": {"gpuDriverVersion": "INSTALLATION_DISABLED"},
            }
        ],
        "labels": {"role": "train-gpu"},
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
    } | changes


def pool(**changes: Any) -> dict[str, Any]:
    return {
        "cluster": "dev",
        "location": "us-central1-a",
        "initialNodeCount": 0,
        "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 3},
        "nodeConfig": t4(),
    } | changes
