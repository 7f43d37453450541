"""Networks of pods on GKE: the status of their objects, and the pods that cannot join them."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.nodes.pod_networks import PodNetworks
from gpu_cluster.rehearsal.simulators.cloud import PodNetwork

PREFIX = "networking.gke.io.networks/"
INTERFACES = "networking.gke.io/interfaces"
DEVICES = "devices.gke.io/container.tcpxo-daemon"
NETWORK = {"metadata": {"name": "one"}, "spec": {"type": "Device"}}
PARAMS = {"metadata": {"name": "a"}, "spec": {"vpc": "v", "vpcSubnet": "s"}}
READY = PodNetwork(network="one", vpc="v", subnetwork="s")


class Cloud:
    """A cloud with one verdict about every network."""

    def __init__(self, verdict: PodNetwork) -> None:
        self.verdict = verdict

    def networks(
        self, networks: Sequence[Mapping[str, Any]], params: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, PodNetwork]:
        return {param["metadata"]["name"]: self.verdict for param in params}


class Server:
    """An API server that records what is patched."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, Any]] = []

    def patch(self, path: str, patch: Any) -> None:
        self.patches.append((path, patch))


def followed(
    verdict: PodNetwork, networks: Sequence[Any] = (NETWORK,), params: Sequence[Any] = (PARAMS,)
) -> tuple[PodNetworks, Server]:
    """A cluster with these objects, once GKE has judged them."""
    server = Server()
    pods = PodNetworks(lambda: cast(Api, server), Cloud(verdict))
    pods.turn(networks, params)
    return pods, server


def daemon(image: str, *, init: bool = False, paths: Sequence[str], **more: Any) -> dict[str, Any]:
    """A system pod with this image and these directories of the host."""
    container = {"name": "c", "image": image, **more}
    kind = "initContainers" if init else "containers"
    volumes = [{"name": f"v{n}", "hostPath": {"path": path}} for n, path in enumerate(paths)]
    spec = {"containers": [], kind: [container], "volumes": volumes, "hostPID": True,
            "hostNetwork": True}  # fmt: skip
    return {"metadata": {"name": "d", "namespace": "kube-system"}, "spec": spec}


INSTALLER = daemon(
    "r/nccl-plugin-gpudirecttcpx-dev:v1.0.15", init=True, paths=["/home/kubernetes/bin/tcpxo"],
    args=["modprobe import-helper; mkdir /dev/aperture_devices"],
)  # fmt: skip
GOOGLES = daemon(
    "r/nccl-plugin-gpudirecttcpx-dev:v1.0.15", init=True, paths=["/home/kubernetes/bin"],
    args=["modprobe import-helper; ls /dev/aperture_devices; cp -r lib64 /usr/local/nvidia/lib64"],
)  # fmt: skip
INSTALLER_TCPX = daemon(
    "r/nccl-plugin-gpudirecttcpx-dev:v3.1.12", init=True, paths=["/home/kubernetes/bin/tcpx"],
)  # fmt: skip
INJECTOR = daemon("r/nri-device-injector@sha256:1", paths=["/dev", "/var/run/nri"])
ALL = [f"/dev/nvidia{n}" for n in range(8)]
ALL += ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dmabuf_import_helper"]
HOST = {"p": "/home/kubernetes/bin/tcpxo", "driver": "/home/kubernetes/bin/nvidia", "sys": "/sys",
        "proc": "/proc/sys", "aperture": "/dev/aperture_devices"}  # fmt: skip
MOUNTS = {"driver": "/usr/local/nvidia", "sys": "/hostsysfs", "proc": "/hostprocsysfs"}
WORKER = {
    "metadata": {
        "name": "w", "namespace": "n",
        "annotations": {
            "networking.gke.io/default-interface": "eth0",
            INTERFACES: json.dumps([
                {"interfaceName": "eth0", "network": "default"},
                {"interfaceName": "eth1", "network": "one"},
            ]),
            DEVICES: "".join(f"- path: {path}\n" for path in ALL),
        },
    },
    "spec": {
        "initContainers": [{
            "name": "tcpxo-daemon", "image": "r/tcpgpudmarxd-dev:v1.0.21",
            "restartPolicy": "Always",
            "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_BIND_SERVICE"]}},
            "env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}],
            "volumeMounts": [{"name": n, "mountPath": path} for n, path in MOUNTS.items()],
        }],
        "containers": [{
            "name": "worker", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": "8"}},
            "volumeMounts": [{"name": "p", "mountPath": "/usr/local/tcpxo"},
                             {"name": "aperture", "mountPath": "/dev/aperture_devices"}],
        }],
        "volumes": [{"name": name, "hostPath": {"path": path}} for name, path in HOST.items()],
    },
}  # fmt: skip


def tcpx() -> Any:
    """The same worker for A3 High, as Google documents it, with a probe: container-engine-
    accelerators 992db812, gpudirect-tcpx/nccl-test-latest.yaml."""
    pod: Any = copy.deepcopy(WORKER)
    names = [{"interfaceName": f"eth{number}", "network": f"n{number}"} for number in range(1, 5)]
    default = [{"interfaceName": "eth0", "network": "default"}]
    pod["metadata"]["annotations"] = {
        "networking.gke.io/default-interface": "eth0", INTERFACES: json.dumps(default + names),
        "devices.gke.io/container.tcpx-daemon": "".join(f"- path: {path}\n" for path in ALL[:-1]),
    }  # fmt: skip
    sidecar, worker = pod["spec"]["initContainers"][0], pod["spec"]["containers"][0]
    sidecar |= {
        "name": "tcpx-daemon", "image": "r/tcpgpudmarxd-dev:v2.0.15",
        "command": ["/tcpgpudmarxd/build/app/tcpgpudmarxd", "--uds_path", "/run/tcpx"],
        "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}},
        "startupProbe": {"exec": {"command": ["test", "-S", "/run/tcpx/rx_rule_uninstall"]}},
    }  # fmt: skip
    sidecar["volumeMounts"].append({"name": "sockets", "mountPath": "/run/tcpx"})
    worker["volumeMounts"][1] = {"name": "sockets", "mountPath": "/tmp"}
    worker["env"] = [{"name": "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "value": "eth1,eth2,eth3,eth4"}]
    pod["spec"]["volumes"][0]["hostPath"]["path"] = "/home/kubernetes/bin/tcpx"
    pod["spec"]["volumes"].append({"name": "sockets", "emptyDir": {}})
    return pod


OFFERED = {f"{PREFIX}one": "1", f"{PREFIX}one.IP": "1"}


def wrong(
    worker: Mapping[str, Any] = WORKER, *, offered: Mapping[str, str] = OFFERED,
    verdict: PodNetwork = READY, networks: Sequence[Any] = (NETWORK,),
    others: Sequence[Any] = (INSTALLER, INJECTOR), gpus: str = "nvidia-h100-mega-80gb",
) -> list[str]:  # fmt: skip
    """What is said of the worker on a node with these pods."""
    pods, _ = followed(verdict, networks)
    node = {
        "metadata": {"labels": {"cloud.google.com/gke-accelerator": gpus}},
        "status": {"allocatable": dict(offered)},
    }
    return list(pods.wrong(node, [worker, *others]))


def test_a_pod_as_google_documents_it_starts() -> None:
    """With its network, its devices and its daemon."""
    assert wrong() == []


def test_a_pod_takes_the_plugin_from_where_it_was_copied() -> None:
    """Google's own installer copies it to the driver's directory, a stack's to another."""
    worker: Any = copy.deepcopy(WORKER)
    worker["spec"]["volumes"][0]["hostPath"]["path"] = "/home/kubernetes/bin/nvidia"
    assert wrong(worker, others=[GOOGLES, INJECTOR]) == []
    nowhere = ["n/w mounts NCCL's plugin for TCPXO, and nothing has copied it to its node: it "
               "never starts"]  # fmt: skip
    assert wrong(worker, others=[INSTALLER, INJECTOR]) == nowhere
    assert wrong(others=[GOOGLES, INJECTOR]) == nowhere


def test_a_pod_that_has_ended_has_no_interface() -> None:
    """The next worker may start on its node."""
    over: dict[str, Any] = {**WORKER, "metadata": {**WORKER["metadata"], "name": "over"}}
    assert "whose interface n/w has: never starts" in wrong(others=[over, INSTALLER, INJECTOR])[0]
    over["status"] = {"phase": "Succeeded"}
    assert wrong(others=[over, INSTALLER, INJECTOR]) == []


def test_two_injectors_give_a_container_the_same_devices() -> None:
    """Which containerd refuses."""
    other = {**INJECTOR, "metadata": {"name": "other", "namespace": "kube-system"}}
    assert wrong(others=[INSTALLER, INJECTOR, other]) == [
        "n/w never starts: kube-system/d and kube-system/other both give tcpxo-daemon its devices"
    ]


def test_gke_says_of_networks_whether_pods_can_join_them() -> None:
    """In their conditions; the name of the network is what its autoscaler looks for."""
    _, server = followed(READY)
    written = dict(server.patches)
    path = "/apis/networking.gke.io/v1"
    status = written[f"{path}/gkenetworkparamsets/a/status"]["status"]
    assert status["networkName"] == "one"
    assert [row["status"] for row in status["conditions"]] == ["True"]
    conditions = written[f"{path}/networks/one/status"]["status"]["conditions"]
    assert [(row["type"], row["status"]) for row in conditions] == [
        ("ParamsReady", "True"), ("Ready", "True"),
    ]  # fmt: skip
    refused = PodNetwork(network="one", refusal="VPCNotFound: none", vpc="v", subnetwork="s")
    _, server = followed(refused)
    status = dict(server.patches)[f"{path}/gkenetworkparamsets/a/status"]["status"]
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "VPCNotFound")
    assert status["networkName"] == ""


@pytest.mark.parametrize(("networks", "freed"), [([NETWORK], False), ([], True)])
def test_parameters_are_deleted_only_after_their_network(networks: list[Any], freed: bool) -> None:
    """GKE's finalizer keeps them until then."""
    metadata = {"name": "a", "finalizers": ["networking.gke.io/gnp-controller"],
                "deletionTimestamp": "2026-01-01T00:00:00Z"}  # fmt: skip
    verdict = READY if networks else PodNetwork(vpc="v", subnetwork="s")
    _, server = followed(verdict, networks, [{**PARAMS, "metadata": metadata}])
    freeing = [patch for _, patch in server.patches if patch == {"metadata": {"finalizers": None}}]
    assert bool(freeing) == freed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"networks": []}, "names network one, of which the cluster has no Network"),
        ({"verdict": PodNetwork(network="one", refusal="VPCNotFound: v", vpc="v", subnetwork="s")},
         "names network one, which is not ready: VPCNotFound: v"),
        ({"verdict": PodNetwork(network="other", vpc="v", subnetwork="s")},
         "names network one, which is not ready: it has no parameters"),
        ({"offered": {}}, "names network one, in which its node has no interface"),
        ({"verdict": PodNetwork(network="one", fault="no rule", vpc="v", subnetwork="s")},
         "never reaches others through eth1: no rule"),
        ({"others": [INSTALLER]}, "nothing on its node gives it any"),
        ({"others": [INJECTOR]}, "nothing has copied it to its node"),
    ],
)  # fmt: skip
def test_what_the_cluster_lacks_is_named(given: dict[str, Any], words: str) -> None:
    """One thing at a time."""
    (line,) = wrong(**given)
    assert words in line


def test_a_network_has_one_pod_on_a_node() -> None:
    """The interface itself is moved to the pod."""
    other = copy.deepcopy(WORKER)
    other["metadata"]["name"] = "v"
    lines = wrong(others=[INSTALLER, INJECTOR, other])
    assert lines == ["n/v names network one, whose interface n/w has: never starts"]


def annotate(key: str, value: str | None) -> Callable[[Any], None]:
    """Sets or removes an annotation of the worker."""

    def change(pod: Any) -> None:
        pod["metadata"]["annotations"][key] = value
        if value is None:
            del pod["metadata"]["annotations"][key]

    return change


def plain(pod: Any) -> None:
    """Makes the daemon an ordinary container."""
    sidecar = pod["spec"].pop("initContainers")[0]
    del sidecar["restartPolicy"]
    pod["spec"]["containers"].append(sidecar)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (annotate(INTERFACES, "[one]"), "that GKE cannot read"),
        (annotate("networking.gke.io/default-interface", "eth9"), "names no interface of its own"),
        (annotate(DEVICES, None), "gives tcpxo-daemon no /dev/dmabuf_import_helper, "),
        (annotate("devices.gke.io/container.other", "[]"), "container other, which it does not"),
        (plain, "never ends: tcpxo-daemon is among containers"),
        (lambda pod: pod["spec"]["initContainers"][0].pop("restartPolicy"), "does not end"),
        (lambda pod: pod["spec"]["initContainers"][0].update(image="r/tcpgpudmarxd-dev:v1.0.20"),
         "has the daemon v1.0.20, which is not of the plugin's release v1.0.15"),
        (lambda pod: pod["spec"]["initContainers"][0].pop("securityContext"), "the capabilities"),
        (lambda pod: pod["spec"]["initContainers"][0].pop("env"), "in LD_LIBRARY_PATH"),
        (lambda pod: pod["spec"]["initContainers"][0]["volumeMounts"].pop(), "no /proc/sys at /ho"),
        (lambda pod: pod["spec"]["containers"][0]["volumeMounts"].pop(), "no /dev/aperture"),
    ],
)  # fmt: skip
def test_what_a_pod_lacks_is_named(change: Callable[[Any], None], words: str) -> None:
    """One thing at a time."""
    worker = copy.deepcopy(WORKER)
    change(worker)
    (line,) = wrong(worker)
    assert words in line


def test_a_pod_with_the_plugin_needs_the_daemon() -> None:
    """Devices are of no use without the interfaces."""
    worker = copy.deepcopy(WORKER)
    del worker["spec"]["initContainers"], worker["metadata"]["annotations"][DEVICES]
    assert wrong(worker) == [
        "n/w mounts NCCL's plugin for TCPXO, and has no daemon (tcpgpudmarxd-dev) beside it"
    ]


def sidecar(change: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda pod: change(pod["spec"]["initContainers"][0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda pod: None, ""),
        (annotate("devices.gke.io/container.tcpx-daemon", "[]"),
         "gives tcpx-daemon no /dev/nvidia-uvm, "),
        (sidecar(lambda c: c.pop("securityContext")), "not the capabilities NET_ADMIN"),
        (sidecar(lambda c: c.pop("env")), "no /usr/local/nvidia/lib64 in LD_LIBRARY_PATH"),
        (sidecar(lambda c: c["volumeMounts"].pop(0)), "no /home/kubernetes/bin/nvidia at /usr/lo"),
        (sidecar(lambda c: c["volumeMounts"].pop()), "no sockets of tcpx-daemon (/run/tcpx) at /t"),
        (sidecar(lambda c: c.pop("startupProbe")),
         "starts worker before tcpx-daemon has all its sockets"),
        (sidecar(lambda c: c["startupProbe"]["exec"].update(command=["ls", "-A", "/run/tcpx"])),
         "does not look for /run/tcpx/rx_rule_uninstall"),
        (sidecar(lambda c: c.update(image="r/tcpgpudmarxd-dev:v2.0.12")),
         "has the daemon v2.0.12, which is not of the plugin's release v3.1.12"),
        (lambda pod: pod["spec"]["containers"][0]["volumeMounts"].pop(), "(/run/tcpx) at /tmp"),
        (lambda pod: pod["spec"]["containers"][0]["env"].append(
            {"name": "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", "value": "/run/tcpx"}),
         "at /run/tcpx: NCCL does not reach it"),
        (lambda pod: pod["spec"]["containers"][0]["env"].pop(), "not its four for GPUs"),
        (annotate(INTERFACES, '[{"interfaceName": "eth0", "network": "default"}]'),
         "uses interfaces eth1, eth2, eth3, eth4 in worker, not its four"),
    ],
)  # fmt: skip
def test_what_a_pod_with_tcpx_lacks_is_named(change: Callable[[Any], None], words: str) -> None:
    """One thing at a time; the second kind has a plugin and a daemon of its own releases."""
    worker = tcpx()
    change(worker)
    networks = [{**NETWORK, "metadata": {"name": f"n{number}"}} for number in range(1, 5)]
    offered = {f"{PREFIX}n{number}": "1" for number in range(1, 5)}
    lines = [
        line
        for line in wrong(
            worker, networks=networks, offered=offered, others=[INSTALLER_TCPX, INJECTOR],
            gpus="nvidia-h100-80gb",
        )
        if "which is not ready" not in line  # Of one network the stand-in for GKE has a verdict.
    ]  # fmt: skip
    assert [words in line for line in lines] == [True] * bool(words)


def test_the_daemon_of_another_machine_is_named() -> None:
    """By the GPUs, which select Google's DaemonSets; its plugin has another directory."""
    lines = wrong(gpus="nvidia-h100-80gb", others=[INSTALLER_TCPX, INJECTOR])
    assert [
        "needs TCPXO, which machines with nvidia-h100-mega-80gb have, and its node has nvidia-h100"
        in lines[0],
        "mounts NCCL's plugin for TCPXO, and nothing has copied it" in lines[1],
    ] == [True, True], lines
