"""A training job on two machines with GPUDirect over TCP on GKE, and one mistake at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal import gpu_direct
from tests.rehearsal.conftest import Rehearse, changed, configured, found_by_its_words, without_pods

pytestmark = pytest.mark.prove(reason="rehearsals; test_gke_tcpxo.py has what the program declares")
two_machines, two_a3_high = (
    gpu_direct.two_machines(
        {
            "machineType": machine, "zones": ["us-central1-a"], "gpuDirect": direct,
            "compactPlacement": True,
        },
        gpuNetworksCidr="192.168.0.0/16",
    )
    for machine, direct in (("a3-megagpu-8g", "tcpxo"), ("a3-highgpu-8g", "tcpx"))
)  # fmt: skip


@pytest.mark.parametrize("machines", [two_machines, two_a3_high], ids=["tcpxo", "tcpx"])
def test_a_job_on_two_machines_runs_with_their_networks(
    tmp_path: Path, machines: Callable[[dict[str, Any]], None]
) -> None:
    """And they go when it has ended."""
    gpu_direct.runs_and_leaves_nothing(tmp_path / "sandbox", configured(machines))


CLUSTER = "gcp:container/cluster:Cluster"
PARAMETERS = "kubernetes:networking.gke.io/v1:GKENetworkParamSet"
NETWORK, FIREWALL = "kubernetes:networking.gke.io/v1:Network", "gcp:compute/firewall:Firewall"
CONFIGS = 'props["network_config"]["additional_node_network_configs"]'


def node_pool(code: str) -> Mutation:
    """Changes the GPU node pool's properties."""
    return changed("gcp:container/nodePool:NodePool", code, name="train-gpu")


def job(code: str) -> Mutation:
    """Changes the workers' pod, its `spec`, and in it the `daemon` and the `worker`."""
    parts = (
        'pod = props["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]; '
        'spec = pod["spec"]; daemon, worker = spec["initContainers"][0], spec["containers"][0]; '
    )
    return changed("kubernetes:jobset.x-k8s.io/v1alpha2:JobSet", parts + code)


def without_mount(container: str, volume: str) -> Mutation:
    """A container of the job does not mount this volume."""
    mounts = f'{container}["volumeMounts"]'
    return job(f"{mounts} = [mount for mount in {mounts} if mount['name'] != {volume!r}]")


MISTAKES: dict[str, tuple[Mutation, str]] = {
    "a cluster with one network": (
        changed(CLUSTER, 'props["enable_multi_networking"] = None'),
        "additionalNodeNetworkConfigs needs enableMultiNetworking of the cluster",
    ),
    "no Dataplane V2": (
        changed(CLUSTER, 'props["datapath_provider"] = None'),
        "enableMultiNetworking needs GKE Dataplane V2",
    ),
    "a network too few": (
        node_pool(f"{CONFIGS}.pop()"),
        "names network gpu-nic-7, in which its node has no interface",
    ),
    "a subnetwork that does not exist": (
        changed(PARAMETERS, 'props["spec"]["vpcSubnet"] = "none"', name="gpu-nic-3-parameters"),
        "names network gpu-nic-3, which is not ready: SubnetNotFound: subnet: none not found",
    ),
    "no Network object": (
        changed(NETWORK, 'props["metadata"]["name"] = "other"', name="gpu-nic-5"),
        "names network gpu-nic-5, of which the cluster has no Network",
    ),
    "no firewall rule": (
        changed(FIREWALL, 'props["source_ranges"] = ["10.0.0.0/8"]', name="k8s-ml-gpu-nic-2"),
        "192.168.64.0/19 reach each other's TCP ports",
    ),
    "no plugin of NCCL": (
        without_pods("tcpxo-installer"),
        "mounts NCCL's plugin for TCPXO, and nothing has copied it to its node",
    ),
    "nothing that gives the daemon devices": (
        without_pods("device-injector"),
        "names devices for container tcpxo-daemon, and nothing on its node gives it any",
    ),
    "a daemon among the ordinary containers": (
        job('del spec["initContainers"], daemon["restartPolicy"]; spec["containers"] += [daemon]'),
        "never ends: tcpxo-daemon is among containers",
    ),
    "a daemon of another release": (
        job('daemon["image"] = daemon["image"].replace("v1.0.21", "v1.0.20")'),
        "has the daemon v1.0.20, which is not of the plugin's release v1.0.15",
    ),
}
A3_HIGH_MISTAKES: dict[str, tuple[Mutation, str]] = {
    "an interface too many": (
        node_pool(f"{CONFIGS}.append(dict({CONFIGS}[0]))"),
        "a3-highgpu-8g has at most 4 additional interfaces",
    ),
    "TCPXO's daemon": (
        job('daemon["image"] = daemon["image"].replace("v2.0.15", "v1.0.21")'),
        "needs TCPXO, which machines with nvidia-h100-mega-80gb have, and its node has nvidia-h100",
    ),
    "no capability": (
        job('daemon["securityContext"]["capabilities"]["add"] = ["SYS_TIME"]'),
        "gives tcpx-daemon not the capabilities NET_ADMIN",
    ),
    "a device too few": (
        job(
            'devices = "devices.gke.io/container.tcpx-daemon"; '
            'notes = pod["metadata"]["annotations"]; '
            'notes[devices] = notes[devices].replace("/dev/nvidia-uvm", "/dev/null")'
        ),
        "gives tcpx-daemon no /dev/nvidia-uvm: it never becomes healthy",
    ),
    "no kernel parameters": (
        without_mount("daemon", "host-proc-sys"),
        "gives tcpx-daemon no /proc/sys at /hostprocsysfs",
    ),
    "sockets of its own": (
        without_mount("worker", "tcpx-sockets"),
        "gives worker no sockets of tcpx-daemon (/run/tcpx) at /run/tcpx: NCCL does not reach it",
    ),
    "an interface without NCCL": (
        job(
            'worker["command"] = [word.replace("eth1,eth2,eth3,eth4", "eth1,eth2,eth3") '
            'for word in worker["command"]]'
        ),
        "uses interfaces eth1, eth2, eth3 in worker, not its four for GPUs",
    ),
    "no plugin of NCCL": (
        without_pods("tcpx-installer"),
        "mounts NCCL's plugin for TCPX, and nothing has copied it to its node",
    ),
}


@pytest.mark.parametrize("mistake", A3_HIGH_MISTAKES)
def test_one_wrong_thing_about_a3_high_is_named(rehearse: Rehearse, mistake: str) -> None:
    """Each by its own words."""
    found_by_its_words(rehearse, two_a3_high, A3_HIGH_MISTAKES[mistake], stack="train-gke")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_wrong_thing_about_networks_is_named(rehearse: Rehearse, mistake: str) -> None:
    """Each by its own words."""
    found_by_its_words(rehearse, two_machines, MISTAKES[mistake], stack="train-gke")
