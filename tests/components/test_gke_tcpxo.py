"""GPUDirect over TCP: VPC networks of pools, their objects in the cluster, and parts of pods."""

import json
import os
import socket
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from gpu_cluster.components.batch.published import Published, parse_published
from gpu_cluster.components.batch.training_args import TrainingArgs
from gpu_cluster.components.batch.training_spec import spec
from gpu_cluster.components.cluster import Fabric, GpuPool
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from tests.components import recording
from tests.components.recording import Recording
from tests.components.test_acceptance import IMAGE
from tests.components.test_gke import NODE_POOL
from tests.program.environments import recorded, values_of

NETWORK = "gcp:compute/network:Network"
PARAMETERS = "kubernetes:networking.gke.io/v1:GKENetworkParamSet"
JOB_SET = "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
NAMES = [f"gpu-nic-{number}" for number in range(8)]
FAST, A3_HIGH = (
    GkeGpuNodePoolArgs(
        machine_type=machine, zones=["us-central1-a"], max_nodes=2, gpu_direct=direct
    ).gpu_pool("fast")
    for machine, direct in (("a3-megagpu-8g", "tcpxo"), ("a3-highgpu-8g", "tcpx"))
)
POOL = {"machineType": "a3-megagpu-8g", "zones": ["us-central1-a"], "maxNodes": 2}
SMALL = {**POOL, "machineType": "a3-highgpu-8g", "gpuDirect": "tcpx"}


def stack(pools: int = 1, *, direct: bool = True, **blocks: Any) -> Recording:
    """A stack with A3 Mega pools, the first of them `fast`, and these blocks."""
    values = values_of("train-gke")
    fast = {**POOL, **({"gpuDirect": "tcpxo"} if direct else {})}
    cluster = {**values["gpu-cluster:cluster"], "gpuNetworksCidr": "192.168.0.0/16"}
    changes = {
        "cluster": cluster, "workloads": {},
        "gpuPools": dict.fromkeys(("fast", "other")[:pools], fast), **blocks,
    }  # fmt: skip
    values |= {f"gpu-cluster:{name}": value for name, value in changes.items()}
    return recorded(values)


def test_a3_high_has_the_first_four_networks() -> None:
    """Each has the range that it has with A3 Mega, of which a pool can come later. The injector
    runs on the nodes of both, and each kind's installer on its own."""
    lone, both = stack(gpuPools={"small": SMALL}), stack(
        gpuPools={"fast": {**POOL, "gpuDirect": "tcpxo"}, "small": SMALL}
    )  # fmt: skip
    assert [len(found.of(PARAMETERS)) for found in (lone, both)] == [4, 8]
    for found in (lone, both):
        assert [
            found.one("gcp:compute/subnetwork:Subnetwork", f"k8s-ml-{name}").inputs["ipCidrRange"]
            for name in NAMES[:4]
        ] == [f"192.168.{32 * number}.0/19" for number in range(4)]
        config = found.one(NODE_POOL, "small").inputs["networkConfig"]
        assert len(config["additionalNodeNetworkConfigs"]) == 4
        pods = {item.name: item.inputs["spec"]["template"]["spec"] for item in found.of(DAEMON_SET)}
        assert pods["tcpx-installer"]["nodeSelector"] == {"gpu-cluster/gpu-direct": "tcpx"}
        terms = pods["device-injector"]["affinity"]["nodeAffinity"]
        assert terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
            {"matchExpressions": [{"key": "gpu-cluster/gpu-direct", "operator": "Exists"}]}
        ]
    assert "tcpxo-installer" in pods
    assert not [item for item in lone.of(DAEMON_SET) if item.name == "tcpxo-installer"]
    assert pods["tcpx-installer"]["volumes"][0]["hostPath"]["path"] == "/home/kubernetes/bin/tcpx"


def test_the_node_is_prepared_at_each_start_and_the_plugin_copied_once(tmp_path: Path) -> None:
    """What is on the node stays after a restart, but not its module and mounts."""
    daemon_sets = {item.name: item.inputs for item in stack().of(DAEMON_SET)}
    pod = daemon_sets["tcpxo-installer"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu-cluster/gpu-direct": "tcpxo"}
    script = pod["initContainers"][0]["args"][0]
    for folder, text in {"tcpxo/lib64": "new", "host/lib64": "old"}.items():
        (tmp_path / folder).parent.mkdir()
        (tmp_path / folder).write_text(text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nsenter").write_text(f"#!/bin/sh\necho prepared >> {tmp_path}/log\n")
    (tmp_path / "bin/nsenter").chmod(0o755)
    words = {"/bin/bash /scripts/container_entry.sh": "echo", "/var/lib/tcpxo": "../tcpxo"}
    for word, path in words.items():
        script = script.replace(word, path)
    script = script.replace("cd /host", "cd host")
    env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    for copies in (1, 0):
        done = subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        assert done.stderr.count("cp -r") == copies
    assert (tmp_path / "log").read_text() == "prepared\n" * 2
    assert (tmp_path / "host/lib64").read_text() == "new"
    assert (tmp_path / "host/installed").read_text() == "v1.0.15\n"


def test_the_node_mounts_each_interface_once(tmp_path: Path) -> None:
    """Its commands, with those of the node replaced. Not every file can be made readable."""
    daemon_sets = {item.name: item.inputs for item in stack().of(DAEMON_SET)}
    pod = daemon_sets["tcpxo-installer"]["spec"]["template"]["spec"]
    script = pod["initContainers"][0]["args"][0].partition("sh -ec '")[2].partition("'")[0]
    devices = tmp_path / "aperture_devices"
    for name, body in {
        "lspci": 'echo "0000:06:00.0 Network [1ae0:0084]"; echo "0000:07:00.0 GPU [10de:2330]"',
        "mount": f'echo "$3" >> {tmp_path}/mounted; touch $3/resource0; '
        f'echo "x $3 sysfs" >> {tmp_path}/mounts',
        "modprobe": "true",
        "iptables": f'echo "$*" >> {tmp_path}/rules; [ "$1 $2" = "-w -I" ]',
        "chmod": f'/bin/chmod "$@"; echo "$1" >> {tmp_path}/modes; [ "$1" != -R ]',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "mounts").write_text("")
    for word, path in {"/sbin/iptables": "iptables", "/proc/mounts": f"{tmp_path}/mounts",
                       "/dev/aperture_devices": str(devices)}.items():  # fmt: skip
        script = script.replace(word, path)
    for _ in range(2):
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-ec", script], env=env, check=True)
    assert (tmp_path / "mounted").read_text() == f"{devices}/0000:06:00.0\n"
    assert (tmp_path / "modes").read_text() == "-R\na+rw\n" * 2
    rule = "INPUT -p tcp -j ACCEPT"
    assert (tmp_path / "rules").read_text() == f"-w -C {rule}\n-w -I {rule}\n" * 2


def pod(pool: GpuPool, **given: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """Annotations and spec of a training job's workers."""
    needed: dict[str, Any] = {"pool": "fast", "nodes": 2, "image": "i:1", "command": ["a"]}
    job = TrainingArgs(**{**needed, **given})
    job.check_fits(replace(pool, max_nodes=2))
    (workers,) = spec("large", job, pool, {}, None)["replicatedJobs"]
    template = workers["template"]["spec"]["template"]
    return template["metadata"].get("annotations") or {}, template["spec"]


def test_workers_join_all_networks_with_the_daemon_beside_them() -> None:
    """As a sidecar, which ends after them, with the devices of their node and no privileges."""
    annotations, worker = pod(FAST, run_as_user=1000)
    interfaces = json.loads(annotations["networking.gke.io/interfaces"])
    assert annotations["networking.gke.io/default-interface"] == "eth0"
    assert [(item["interfaceName"], item["network"]) for item in interfaces] == [
        ("eth0", "default"), *((f"eth{number}", name) for number, name in enumerate(NAMES, 1)),
    ]  # fmt: skip
    devices = json.loads(annotations["devices.gke.io/container.tcpxo-daemon"])
    assert [item["path"] for item in devices] == [
        *(f"/dev/nvidia{number}" for number in range(8)),
        "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dmabuf_import_helper",
    ]  # fmt: skip
    (daemon,), (container,) = worker["initContainers"], worker["containers"]
    assert (daemon["name"], daemon["restartPolicy"]) == ("tcpxo-daemon", "Always")
    assert daemon["image"].endswith("/tcpgpudmarxd-dev:v1.0.21")
    assert daemon["securityContext"] == {
        "runAsUser": 0, "capabilities": {"add": ["NET_ADMIN", "NET_BIND_SERVICE"]},
    }  # fmt: skip
    health = {item["name"]: item["value"] for item in daemon["env"]}["HEALTH_CHECK_LOG_FILE"]
    assert daemon["startupProbe"]["exec"]["command"] == ["cat", health]
    host = {item["name"]: item["hostPath"]["path"] for item in worker["volumes"]
            if "hostPath" in item}  # fmt: skip
    mounted = {item["mountPath"]: (host[item["name"]], item.get("readOnly", False))
               for item in [*daemon["volumeMounts"], *container["volumeMounts"]]
               if item["name"] in host}  # fmt: skip
    assert mounted == {
        "/usr/local/nvidia": ("/home/kubernetes/bin/nvidia", True),
        "/hostsysfs": ("/sys", False),
        "/hostprocsysfs": ("/proc/sys", False),
        "/usr/local/tcpxo": ("/home/kubernetes/bin/tcpxo", True),
        "/run/nccl-plugin-installed": ("/home/kubernetes/bin/tcpxo/installed", True),
        "/dev/aperture_devices": ("/dev/aperture_devices", False),
    }
    assert "resourceClaims" not in worker
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "8"}}


def test_workers_on_a3_high_share_the_sockets_of_their_daemon() -> None:
    """In a directory of the pod's own; their variables are those of Google's release notes."""
    annotations, worker = pod(A3_HIGH, run_as_user=1000, env={"NCCL_ALGO": "Ring"})
    interfaces = json.loads(annotations["networking.gke.io/interfaces"])
    assert [row["network"] for row in interfaces] == ["default", *NAMES[:4]]
    devices = json.loads(annotations["devices.gke.io/container.tcpx-daemon"])
    assert [item["path"] for item in devices] == [
        *(f"/dev/nvidia{number}" for number in range(8)), "/dev/nvidiactl", "/dev/nvidia-uvm",
    ]  # fmt: skip
    (daemon,), (container,) = worker["initContainers"], worker["containers"]
    assert (daemon["name"], daemon["restartPolicy"]) == ("tcpx-daemon", "Always")
    assert daemon["image"].endswith("/gpudirect-tcpx/tcpgpudmarxd-dev:v2.0.15")
    assert daemon["securityContext"]["capabilities"] == {"add": ["NET_ADMIN"]}
    assert "--uds_path /run/tcpx " in daemon["command"][2]
    assert {"name": "tcpx-sockets", "emptyDir": {}} in worker["volumes"]
    for one in (daemon, container):
        assert {"name": "tcpx-sockets", "mountPath": "/run/tcpx"} in one["volumeMounts"]
    mounts = {item["name"]: item["mountPath"] for item in container["volumeMounts"]}
    assert mounts["nccl-plugin"] == "/usr/local/tcpx"
    script, variables = container["command"][2], container["command"][4:]
    assert script.startswith("LD_LIBRARY_PATH=/usr/local/tcpx/lib64:")
    assert variables.index("NCCL_ALGO=Ring,Tree") < variables.index("NCCL_ALGO=$(NCCL_ALGO)")
    assert "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=/run/tcpx" in variables
    assert (
        "NCCL_GPUDIRECTTCPX_TX_BINDINGS="
        "eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177"
    ) in variables
    assert (
        "NCCL_GPUDIRECTTCPX_RX_BINDINGS="
        "eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;eth4:74-87,178-191"
    ) in variables


FIRST, LAST = "rxdm_application_registry", "rx_rule_uninstall"


@pytest.mark.parametrize(
    ("before", "now", "ready"),
    [([], [], False), ([], [FIRST], False), ([], [FIRST, LAST], True), ([LAST], [FIRST], False)],
)
def test_the_daemon_is_ready_once_its_last_socket_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: list[str], now: list[str], ready: bool
) -> None:
    """Workers start only then; it makes the first also if it then fails, and removes those of an
    earlier run."""
    monkeypatch.chdir(tmp_path)  # A socket's path has at most 108 characters.
    (daemon,) = pod(A3_HIGH)[1]["initContainers"]
    *command, probe = (
        word.replace("/run/tcpx", ".")
        for word in (*daemon["command"], daemon["startupProbe"]["exec"]["command"][-1])
    )
    with ExitStack() as sockets:
        for name in before:
            sockets.enter_context(socket.socket(socket.AF_UNIX)).bind(name)
        subprocess.run([*command[:-1], command[-1].partition("exec ")[0]], check=True)
        for name in now:
            sockets.enter_context(socket.socket(socket.AF_UNIX)).bind(name)
        words = [*daemon["startupProbe"]["exec"]["command"][:-1], probe]
        assert (subprocess.run(words, check=False).returncode == 0) is ready


@pytest.mark.parametrize("given", [{"nodes": 1}, {"gpus": 4}])
def test_other_workers_have_one_interface(given: dict[str, Any]) -> None:
    """Those on one node, or with a part of its GPUs."""
    annotations, worker = pod(FAST, **given)
    assert not [key for key in annotations if "networking" in key or "devices" in key]
    assert "initContainers" not in worker
    assert worker["containers"][0]["command"][0] == "torchrun"


def test_the_script_of_the_plugin_sets_the_variables_and_a_pods_own_take_precedence(
    tmp_path: Path,
) -> None:
    """The script needs to know where the libraries are."""
    _, worker = pod(FAST, env={"NCCL_DEBUG": "INFO", "HOME": "/tmp"})
    shell, option, script, *arguments = worker["containers"][0]["command"]
    assert arguments[:4] == [
        "bash", "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY=/dev/aperture_devices",
        "NCCL_DEBUG=$(NCCL_DEBUG)", "torchrun",
    ]  # fmt: skip
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64/nccl-env-profile.sh").write_text(
        ": ${NCCL_LIB_DIR:?}\nexport NCCL_TUNER_CONFIG_PATH=$NCCL_LIB_DIR/a NCCL_DEBUG=WARN\n"
        "false\n"
    )
    printed = subprocess.run(
        [shell, option, script.replace("/usr/local/tcpxo", str(tmp_path)), "bash",
         "NCCL_DEBUG=INFO", "sh", "-c",
         "echo $NCCL_TUNER_CONFIG_PATH $NCCL_DEBUG $LD_LIBRARY_PATH"],
        env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/opt/lib"},
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert printed == [f"{tmp_path}/lib64/a", "INFO", f"{tmp_path}/lib64:/opt/lib"]


def test_the_network_test_joins_all_networks() -> None:
    """As training jobs do; 200 Gbit/s for each GPU."""
    found = stack(gpuTest={"pools": ["fast"], "image": IMAGE, "nodes": 2})
    template = found.one("kubernetes:batch/v1:Job", "gpu-test-fast").inputs["spec"]["template"]
    interfaces = json.loads(template["metadata"]["annotations"]["networking.gke.io/interfaces"])
    assert [item["network"] for item in interfaces] == ["default", *NAMES]
    (daemon,) = template["spec"]["initContainers"]
    assert daemon["restartPolicy"] == "Always"
    assert template["spec"]["containers"][0]["command"][-3:] == ["python3", "-m", "gpu_test"]
    data = found.one("kubernetes:core/v1:ConfigMap", "gpu-test-fast").inputs["data"]
    assert json.loads(data["request.json"])["network"] == 200
    assert not found.of("kubernetes:resource.k8s.io/v1:ResourceClaimTemplate")


def test_submitted_jobs_know_the_networks() -> None:
    """From what the stack publishes; that of other pools is as it was."""
    for pool in (FAST, A3_HIGH):
        text = Published(pools={"fast": pool}).text()
        assert parse_published(text).pools["fast"].fabric == pool.fabric
    claimed = replace(FAST, fabric=Fabric(resource="mrdma.google.com", claimed=8))
    assert "networks" not in Published(pools={"claimed": claimed}).text()


def on_owners_cluster(
    *, again: bool = False, pool: Any = POOL | {"gpuDirect": "tcpxo"}, **cluster: Any
) -> Recording:
    """A job on two A3 nodes of the sample's existing cluster, with these keys of it."""
    values = values_of("on-gke")
    owners = [f"nic-{number}" for number in range(8)]
    job = {"pool": "fast", "nodes": 2, "image": "i:1", "command": ["a"]}
    changes = {
        "cluster": {**values["gpu-cluster:cluster"], "gpuNetworks": owners, **cluster},
        "gpuPools": {"fast": pool}, "workloads": {},
        "batch": {"jobSet": True}, "trainingJobs": {"ddp": job},
    }  # fmt: skip
    return recorded(
        values | {f"gpu-cluster:{name}": value for name, value in changes.items()}, again=again
    )


def test_on_an_existing_cluster_nodes_and_pods_join_the_owners_networks() -> None:
    """Of which the stack declares nothing; the interfaces are what the owner's objects name."""
    found = on_owners_cluster()
    assert not found.of(NETWORK)
    assert not [item for item in found.resources if "networking.gke.io" in item.type]
    config = found.one(NODE_POOL, "fast").inputs["networkConfig"]
    assert config["additionalNodeNetworkConfigs"] == [
        {"network": f"vpc-nic-{number}-parameters", "subnetwork": f"sub-nic-{number}-parameters"}
        for number in range(8)
    ]
    assert {item.name for item in found.of(DAEMON_SET)} == {"tcpxo-installer", "device-injector"}
    worker = found.one(JOB_SET, "ddp").inputs["spec"]["replicatedJobs"][0]["template"]["spec"]
    interfaces = json.loads(
        worker["template"]["metadata"]["annotations"]["networking.gke.io/interfaces"]
    )
    assert [row["network"] for row in interfaces] == [
        "default", *(f"nic-{number}" for number in range(8)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "has"),
    [
        ({"networkAttachment": "a", "deviceMode": "NetDevice"}, "no vpc and no vpcSubnet"),
        ({"vpc": "v", "vpcSubnet": "s"}, "no deviceMode"),
        ({"vpc": "v", "vpcSubnet": "s", "deviceMode": "RDMA"}, "deviceMode RDMA"),
    ],
)
def test_an_owners_network_is_one_of_vpc_devices(
    monkeypatch: pytest.MonkeyPatch, parameters: dict[str, str], has: str
) -> None:
    """The names of its VPC network are the pool's, and TCPXO's daemon receives from the kernel's
    interfaces."""
    monkeypatch.setitem(recording._READ, PARAMETERS, {"spec": parameters})
    with pytest.raises(pulumi.RunError, match=(
        rf"^gpu-cluster:cluster\.gpuNetworks: the GKENetworkParamSet of nic-\d has {has}, and "
        r"interfaces for GPUs need vpc, vpcSubnet and deviceMode NetDevice; name a Network"
    )):  # fmt: skip
        on_owners_cluster(again=True)


def test_the_owners_plugin_is_used_and_none_installed() -> None:
    """Google's installer copies it to the driver's directory, and its script tells that it has."""
    found = on_owners_cluster(ncclPlugin="owner", gpuDirectDaemon="v1.0.22")
    assert not found.of(DAEMON_SET)
    worker = found.one(JOB_SET, "ddp").inputs["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = worker["template"]["spec"]
    assert pod["initContainers"][0]["image"].endswith("/tcpgpudmarxd-dev:v1.0.22")
    host = {item["name"]: item["hostPath"]["path"] for item in pod["volumes"]
            if "hostPath" in item}  # fmt: skip
    (container,) = pod["containers"]
    mounted = {item["mountPath"]: host[item["name"]] for item in container["volumeMounts"]
               if item["name"] in host}  # fmt: skip
    assert mounted == {
        "/usr/local/tcpxo": "/home/kubernetes/bin/nvidia",
        "/run/nccl-plugin-installed":
            "/home/kubernetes/bin/nvidia/lib64/nccl-env-profile.sh",
        "/dev/aperture_devices": "/dev/aperture_devices",
    }  # fmt: skip
    assert "source /usr/local/tcpxo/lib64/nccl-env-profile.sh;" in (container["command"][2])


def test_the_owners_plugin_of_a3_high_has_no_script() -> None:
    """Pods wait for the library that NCCL loads; they join the first four of the owner's networks,
    if there are eight for A3 Mega."""
    found = on_owners_cluster(pool=SMALL, ncclPlugin="owner", gpuDirectDaemon="v2.0.12")
    assert not found.of(DAEMON_SET)
    config = found.one(NODE_POOL, "fast").inputs["networkConfig"]
    assert len(config["additionalNodeNetworkConfigs"]) == 4
    worker = found.one(JOB_SET, "ddp").inputs["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = worker["template"]["spec"]
    assert pod["initContainers"][0]["image"].endswith("/gpudirect-tcpx/tcpgpudmarxd-dev:v2.0.12")
    host = {item["name"]: item["hostPath"]["path"] for item in pod["volumes"]
            if "hostPath" in item}  # fmt: skip
    assert host["nccl-plugin"] == "/home/kubernetes/bin/nvidia"
    assert host["nccl-plugin-installed"] == "/home/kubernetes/bin/nvidia/lib64/libnccl-net.so"
    assert len(json.loads(worker["template"]["metadata"]["annotations"][
        "networking.gke.io/interfaces"])) == 5  # fmt: skip
