from tests.unit.simulators.google_stack import (
    ACCOUNT,
    CLUSTER,
    NETWORK,
    POOL,
    SUBNETWORK,
    GoogleStack,
)

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def test_pulumis_own_template_for_gke_is_taken_as_it_is() -> None:
    """What `pulumi new kubernetes-gcp-python` declares, which knows nothing of this project (read
    on 2026-11-22), is made, and taken away again without a rest."""
    stack = GoogleStack()
    network = stack.up(NETWORK, "gke-network", {"autoCreateSubnetworks": False, "description": "d"})
    nodes = {
        "ipCidrRange": "10.128.0.0/12",
        "network": network["selfLink"],
        "privateIpGoogleAccess": True,
    }
    subnetwork = stack.up(SUBNETWORK, "gke-subnet", nodes)
    everyone = {"cidrBlock": "0.0.0.0/0", "displayName": "All networks"}
    cluster = {
        "addonsConfig": {"dnsCacheConfig": {"enabled": True}},
        "binaryAuthorization": {"evaluationMode": "PROJECT_SINGLETON_POLICY_ENFORCE"},
        "datapathProvider": "ADVANCED_DATAPATH",
        "description": "A GKE cluster",
        "initialNodeCount": 1,
        "ipAllocationPolicy": {"clusterIpv4CidrBlock": "/14", "servicesIpv4CidrBlock": "/20"},
        "location": "us-central1",
        "masterAuthorizedNetworksConfig": {"cidrBlocks": [everyone]},
        "network": network["name"],
        "networkingMode": "VPC_NATIVE",
        "privateClusterConfig": {
            "enablePrivateNodes": True,
            "enablePrivateEndpoint": False,
            "masterIpv4CidrBlock": "10.100.0.0/28",
        },
        "removeDefaultNodePool": True,
        "releaseChannel": {"channel": "STABLE"},
        "subnetwork": subnetwork["name"],
        "workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"},
        "deletionProtection": False,  # else nobody could take it away again
    }
    made = stack.up(CLUSTER, "gke-cluster", cluster)
    account = stack.up(ACCOUNT, "gke-nodepool-sa", {"accountId": "gke-cluster-np-1-sa"})
    pool = {
        "cluster": made["name"],
        "location": "us-central1",
        "nodeCount": 1,
        "nodeConfig": {"oauthScopes": [SCOPE], "serviceAccount": account["email"]},
    }
    assert stack.up(POOL, "gke-nodepool", pool)["nodeCount"] == 1
    assert stack.plane.running
    for token, name in (
        (POOL, "gke-nodepool"),
        (ACCOUNT, "gke-nodepool-sa"),
        (CLUSTER, "gke-cluster"),
        (SUBNETWORK, "gke-subnet"),
        (NETWORK, "gke-network"),
    ):
        stack.delete(token, name)
    assert stack.cloud.list_resources() == []
