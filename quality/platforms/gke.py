"""GKE Standard, as benchmarks and fault injection measure it."""

from gpu_cluster.components.catalog.clouds import GOOGLE

SCALE = 4.0
KILL_PARTS = 1
ORDER = ("gcp:compute/network:Network", "gcp:compute/subnetwork:Subnetwork", GOOGLE.cluster)
SECONDS = {
    GOOGLE.cluster: 312.0,  # with the removal of the default pool
    GOOGLE.node_pool: 105.0,
    "gcp:compute/network:Network": 15.0,
    "gcp:compute/subnetwork:Subnetwork": 20.0,
    "gcp:compute/router:Router": 12.0,
    "gcp:compute/routerNat:RouterNat": 12.0,
    "gcp:serviceaccount/account:Account": 5.0,
    "gcp:projects/iAMMember:IAMMember": 8.0,
    "gcp:monitoring/dashboard:Dashboard": 2.0,
    "gcp:monitoring/alertPolicy:AlertPolicy": 2.0,
}
EMPTY_POOL = 40.0
SOURCES = (
    "GKE private cluster 5 to 10 minutes, Autopilot 4 to 8, an empty node pool 30 to 45 s (blogs)",
    "GKE: 12 s for the removal of the default pool, 105 s for a pool with nodes "
    "(terraform-provider-google issue 1643)",
)
OUTPUTS = {
    GOOGLE.cluster: {"endpoint": "192.0.2.1", "masterAuth": {"clusterCaCertificate": "Q0E="}},
    "gcp:compute/router:Router": {"name": "router"},
    "gcp:serviceaccount/account:Account": {
        "email": "gpu-nodes@my-project.iam.gserviceaccount.com",
        "member": "serviceAccount:gpu-nodes@my-project.iam.gserviceaccount.com",
    },
}
