"""Who reaches a GKE control plane, when GKE may upgrade it, and what a training job is told."""

import json
from typing import Any

import pulumi
import pytest

from gpu_cluster.components.cluster import Runs
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.components.gke.maintenance_args import (
    GkeMaintenanceArgs,
    GkeMaintenanceExclusionArgs,
)
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke.warnings import training_warnings
from gpu_cluster.components.gke_autopilot.cluster_args import GkeAutopilotArgs
from gpu_cluster.components.gke_autopilot.pool_args import GkeAutopilotPoolArgs
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.refusal import Refusals
from tests.components.declaring import declared
from tests.components.recording import Recording, record
from tests.components.test_gke import CLUSTER, declare

OFFICE = {"office": "203.0.113.0/24"}
WEEKEND = GkeMaintenanceArgs(
    start="2026-01-03T02:00:00Z",
    end="2026-01-03T10:00:00Z",
    recurrence="FREQ=WEEKLY;BYDAY=SA,SU",
    exclusions={
        "long-run": GkeMaintenanceExclusionArgs(
            start="2026-12-01T00:00:00Z",
            end="2027-03-01T00:00:00Z",
            scope="no-minor-or-node-upgrades",
        )
    },
)


def autopilot_cluster(**changes: Any) -> Recording:
    """Records an Autopilot cluster without pools."""

    def program() -> None:
        given = {"name": "auto", "location": "us-central1", "authorized_networks": OFFICE}
        declared("gke-autopilot", GkeAutopilotArgs(**{**given, **changes}), {})

    email = "nodes@my-project.iam.gserviceaccount.com"
    return record(program, outputs={"gcp:serviceaccount/account:Account": {"email": email}})


def test_the_kubeconfig_leads_to_the_dns_endpoint_where_it_is_on() -> None:
    """By its name, whose certificate is of a public authority, and else to the address."""
    answers = {
        "endpoint": "192.0.2.1",
        "masterAuth": {"clusterCaCertificate": "Q0E="},
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"endpoint": "uid.us-central1.gke.goog"}
        },
    }

    def kubeconfig(dns: bool) -> dict[str, Any]:
        def program() -> None:
            args = GkeClusterArgs(
                name="a", location="us-central1-a", authorized_networks=OFFICE, dns_endpoint=dns
            )
            pulumi.export("kubeconfig", declared("gke", args, {}).kubeconfig)

        found = record(program, outputs={CLUSTER: answers})
        return dict(json.loads(found.outputs["kubeconfig"])["clusters"][0]["cluster"])

    assert kubeconfig(True) == {"server": "https://uid.us-central1.gke.goog"}
    assert kubeconfig(False) == {
        "server": "https://192.0.2.1",
        "certificate-authority-data": "Q0E=",
    }


def test_the_dns_endpoint_lets_in_without_a_network() -> None:
    """IAM decides there; the address then admits nobody."""
    inputs = declare(authorized_networks={}, dns_endpoint=True).one(CLUSTER).inputs
    assert inputs["masterAuthorizedNetworksConfig"]["cidrBlocks"] == []
    with pytest.raises(ValueError, match="nobody could reach the control plane"):
        declare(authorized_networks={})


@pytest.mark.parametrize(
    ("networks", "dns", "warned"),
    [
        ({}, False, "only the cluster's own subnetwork"),
        ({"vpn": "10.200.0.0/16"}, False, "only clients in us-central1"),
        ({}, True, ""),
    ],
)
def test_who_does_not_reach_a_private_endpoint_is_warned_of(
    networks: dict[str, str], dns: bool, warned: str
) -> None:
    """With enforcement nobody else is let in, and nobody from another region."""
    args = GkeClusterArgs(
        name="a", location="us-central1-a", private_endpoint=True, dns_endpoint=dns,
        authorized_networks=networks,
    )  # fmt: skip
    found = [line for line in args.warnings() if line.startswith("privateEndpoint: ")]
    assert len(found) == bool(warned)
    assert all(warned in line for line in found)


H100 = GkeGpuNodePoolArgs(machine_type="a3-highgpu-8g", max_nodes=4)
L4 = GkeGpuNodePoolArgs(machine_type="g2-standard-96", max_nodes=4)


@pytest.mark.parametrize(
    ("pool", "nodes", "maintenance", "said"),
    [
        (L4, 2, None, ["GKE may upgrade its nodes at any time"]),
        (L4, 2, WEEKEND, []),
        (H100, 1, WEEKEND, []),
        (H100, 2, WEEKEND, ["talk over one gVNIC"]),
        (H100, 2, None, ["GKE may upgrade its nodes at any time", "talk over one gVNIC"]),
        (GkeGpuNodePoolArgs(machine_type="a3-megagpu-8g", max_nodes=4), 2, WEEKEND,
         ["bandwidth; set gpuDirect: tcpxo"]),
        (
            GkeGpuNodePoolArgs(machine_type="a3-highgpu-1g", capacity_type="spot", max_nodes=4),
            4,
            WEEKEND,
            [],
        ),
        (GkeAutopilotPoolArgs(accelerator="nvidia-h200-141gb", capacity_type="spot"), 2, WEEKEND,
         ["talk over one gVNIC"]),
        (GkeAutopilotPoolArgs(accelerator="nvidia-l4"), 2, None, ["at any time"]),
        (
            GkeGpuNodePoolArgs(
                machine_type="a4x-highgpu-4g", capacity_type="reservation", reservation="mine"
            ),
            1,
            WEEKEND,
            ["does not set up IMEX"],
        ),
    ],
)  # fmt: skip
def test_a_training_job_is_told_what_ends_or_slows_it(
    pool: Any, nodes: int, maintenance: GkeMaintenanceArgs | None, said: list[str]
) -> None:
    """Nodes upgraded under it, and a network that the stack does not set up."""
    cluster = GkeClusterArgs(
        name="a", location="us-central1-a", authorized_networks=OFFICE, maintenance=maintenance
    )
    found = training_warnings(cluster, {"train": pool.node_gpus}, {"train": nodes})
    assert len(found) == len(said)
    for line, words in zip(found, said, strict=True):
        assert line.startswith("gpuPools.train: ")
        assert words in line


@pytest.mark.parametrize("platform", ["gke", "gke-autopilot"])
def test_the_settings_say_it(platform: str) -> None:
    """On both kinds of cluster, with what the settings warn of."""
    given: Any = {"name": "a", "location": "us-central1", "authorized_networks": {}}
    given["dns_endpoint"] = True
    args = GkeClusterArgs(**given) if platform == "gke" else GkeAutopilotArgs(**given)
    pool = L4 if platform == "gke" else GkeAutopilotPoolArgs(accelerator="nvidia-l4")
    config = {"gcp:project": "my-project", "gcp:accessToken": "a"}
    settings = PLATFORMS[platform].settings.resolve(config, args, {"l4": pool}, Refusals())
    said = settings.warnings(Runs(training_nodes={"l4": 1}))
    assert [line.split(": ")[0] for line in said] == [
        "gcp:accessToken", "gcp:project", "gpuPools.l4"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bought", "said"),
    [({"capacity_type": "flex-start"}, 0), ({"fallback": ["flex-start", "spot"]}, 1)],
)
def test_flex_start_nodes_are_never_upgraded(bought: dict[str, Any], said: int) -> None:
    """So no window has to be set for them; other nodes of an order are."""
    args = GkeClusterArgs(
        name="a", location="us-central1-a", authorized_networks=OFFICE, scaler="compute-classes"
    )
    pool = GkeGpuNodePoolArgs(machine_type="g2-standard-4", max_nodes=4, **bought)
    config = {"gcp:project": "mine-1"}
    settings = PLATFORMS["gke"].settings.resolve(config, args, {"l4": pool}, Refusals())
    found = settings.warnings(Runs(training_nodes={"l4": 1}))
    assert len([line for line in found if "upgrade its nodes" in line]) == said
