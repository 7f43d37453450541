"""GKE Standard, as fault injection knows it."""

from gpu_cluster.components.catalog.clouds import GOOGLE

KILL_PARTS = 1
OUTPUTS = {
    GOOGLE.cluster: {"endpoint": "192.0.2.1", "masterAuth": {"clusterCaCertificate": "Q0E="}},
    "gcp:compute/router:Router": {"name": "router"},
    "gcp:serviceaccount/account:Account": {
        "email": "gpu-nodes@my-project.iam.gserviceaccount.com",
        "member": "serviceAccount:gpu-nodes@my-project.iam.gserviceaccount.com",
    },
}
