"""What surrounds a real node: the machine, the inventory, the overrides, images, traces."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import tarfile
import textwrap
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.catalog import images
from gpu_cluster.rehearsal.existing.cluster import ExistingCluster, with_real_node
from gpu_cluster.rehearsal.gpu_node import (
    cgroups,
    dra_driver,
    host_changes,
    host_driver,
    image,
    machine,
    overrides,
    pytorch,
    runtime_config,
)
from gpu_cluster.rehearsal.gpu_node.api_service import ApiService
from gpu_cluster.rehearsal.gpu_node.bridge import Bridge
from gpu_cluster.rehearsal.gpu_node.cgroups import Cgroup
from gpu_cluster.rehearsal.gpu_node.host_changes import HostChanges
from gpu_cluster.rehearsal.gpu_node.host_node import pool_of
from gpu_cluster.rehearsal.gpu_node.machine import NAME, NodeError
from gpu_cluster.rehearsal.gpu_node.overrides import PLUGIN, SAMPLE, Overrides
from gpu_cluster.rehearsal.gpu_node.training import Training
from gpu_cluster.rehearsal.nodes.node_registration import belongs
from gpu_cluster.rehearsal.real_node import status
from gpu_cluster.rehearsal.report.real_node import blocks
from gpu_cluster.rehearsal.simulators.inventory import inventory
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.program import copy_program
from gpu_cluster.stacks.definition.settings import config_of, settings_of
from gpu_cluster.tools import programs
from tests.unit.refusals import one_line

ROOT = Path(__file__).parents[3]
TWO = "NVIDIA H100 80GB HBM3, GPU-1, 81559, 580.1\nNVIDIA H100 80GB HBM3, GPU-2, 81559, 580.1\n"
KUBECONFIG = """
{"contexts": [{"name": "a", "context": {"cluster": "b", "user": "c"}}], "current-context": "a",
 "clusters": [{"name": "b", "cluster": {}}], "users": [{"name": "c", "user": {}}]}
"""


def test_the_cards_are_read_from_the_driver() -> None:
    """Each line of nvidia-smi is a GPU; all have one driver."""
    found = machine.parse_gpus(TWO)
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1", "GPU-2"]
    assert found.gpus[0].memory_mib == 81559
    assert found.description == "2 x NVIDIA H100 80GB HBM3, driver 580.1"


@pytest.mark.parametrize(
    ("user", "driver", "answer", "message"),
    [
        (
            1000,
            True,
            TWO,
            "--node gpu needs root: a kubelet mounts and creates namespaces; use sudo",
        ),
        (
            0,
            False,
            TWO,
            "--node gpu needs an NVIDIA driver, and there is no nvidia-smi on PATH",
        ),
        (0, True, "No devices were found\n", "--node gpu needs a GPU, but nvidia-smi says: No dev"),
        (0, True, "\n", "--node gpu needs a GPU, but nvidia-smi lists none"),
    ],
)
def test_a_machine_that_cannot_be_a_node_says_why_in_one_line(
    user: int, driver: bool, answer: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No root, no driver, no GPU: each is one line, before anything is built or changed."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(machine, "nvidia_smi", lambda: Path("/usr/bin/smi") if driver else None)
    with pytest.raises(NodeError, match=one_line(begins=message)):
        machine.describe_machine(lambda program: answer)


@pytest.mark.parametrize(
    ("name", "namespace", "found"),
    [
        ("kubelet", "pid:[1]", "kubelet (process 42)"),
        ("k3s-agent", "pid:[1]", "k3s-agent (process 42)"),
        ("kubelet", "pid:[2]", None),  # in a container, or a rehearsal's
        ("kubectl", "pid:[1]", None),
    ],
)
def test_a_machine_that_is_a_node_already_is_refused(
    name: str, namespace: str, found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two kubelets would offer the same GPUs: one line, and nothing is touched."""
    for process, own in (("self", "pid:[1]"), ("42", namespace)):
        (tmp_path / process / "ns").mkdir(parents=True)
        (tmp_path / process / "ns" / "pid").symlink_to(own)
        (tmp_path / process / "comm").write_text(f"{name}\n")
    (tmp_path / "7").mkdir()  # has just ended
    assert machine.running_kubelet(tmp_path) == found
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine, "nvidia_smi", lambda: Path("/usr/bin/smi"))
    monkeypatch.setattr(machine, "running_kubelet", lambda: found)
    if found is None:
        assert machine.describe_machine(lambda program: TWO).gpus
        return
    with pytest.raises(
        NodeError, match=rf"not a node of a cluster yet, and {name} \(process 42\) runs"
    ):
        machine.describe_machine(lambda program: TWO)


def test_a_driver_that_does_not_answer_is_said(tmp_path: Path) -> None:
    """What nvidia-smi complains of is in the line."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho couldn\\'t communicate with the NVIDIA driver; exit 9\n")
    program.chmod(0o755)
    with pytest.raises(NodeError, match="working driver, but nvidia-smi says: couldn't commun"):
        machine._ask(program)


def standing(machines: list[dict[str, Any]], real: str | None = None) -> ExistingCluster:
    """A cluster of these machines whose API nobody asks."""
    return ExistingCluster(machines, dict, real=real)  # type: ignore[arg-type]


def test_this_machine_takes_the_place_of_the_one_marked_real() -> None:
    """It has that one's labels and taints and its own size; the others like it stay away."""
    here = {"name": NAME, "gpus": 2, "capacity": {"cpu": "4", "memory": "8Gi"}}
    cluster = standing(with_real_node("onprem", inventory("onprem"), here), real=NAME)
    groups = {group.name: group for group in cluster.node_groups()}
    assert set(groups) == {NAME, "workstation", "forgotten", "control"}
    real = groups[NAME]
    assert real.real
    assert real.node.labels["gpus"] == "true"
    assert [taint.key for taint in real.node.taints] == ["nvidia.com/gpu"]
    assert real.node.capacity["nvidia.com/gpu"] == "2"
    assert not any(group.real for name, group in groups.items() if name != NAME)


def test_without_a_real_node_the_inventory_is_as_written() -> None:
    """An ordinary rehearsal knows nothing of real nodes."""
    groups = standing(inventory("onprem")).node_groups()
    assert [group.name for group in groups] == [one["name"] for one in inventory("onprem")]
    assert not any(group.real for group in groups)


def test_an_inventory_without_a_mark_is_refused() -> None:
    """Which machine is the real one is written down, not guessed."""
    with pytest.raises(StackError, match=r"mark one with `real: true` in .*onprem.yaml"):
        with_real_node("onprem", [{"name": "a"}], {"name": NAME})


def test_a_real_node_is_known_by_its_name() -> None:
    """A kubelet registers without the rehearsal's annotations."""
    here = {"name": NAME, "gpus": 1, "capacity": {"cpu": "4", "memory": "8Gi"}}
    cluster = standing(with_real_node("onprem", inventory("onprem"), here), real=NAME)
    node = {"metadata": {"name": NAME, "labels": {}}}
    assert [group.name for group in cluster.node_groups() if belongs(node, group)] == [NAME]


def test_a_stack_of_a_cloud_has_no_real_node() -> None:
    """Only a cluster that is already there takes a machine; one line says so."""
    assert pool_of("onprem") == "gpus"
    with pytest.raises(NodeError, match="dev is on gke: use onprem"):
        pool_of("dev")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A copy of the program for onprem with what a machine with one GPU changes."""
    copy_program(ROOT, "onprem", tmp_path / "program", Overrides(pool="gpus", gpus=1))
    return tmp_path / "program"


def test_only_images_and_counts_of_its_own_pool_are_overridden(program: Path) -> None:
    """Everything else of the stack's file is as committed, and the program accepts it."""
    before, after = config_of("onprem"), config_of("onprem", program)
    assert after["gpu-cluster:cluster"].pop("version") == "1.36"
    assert after["gpu-cluster:gpuPools"].pop("gpus") == {
        **before["gpu-cluster:gpuPools"].pop("gpus"),
        "gpusPerNode": 1,
        "cdi": True,
    }
    for name in ("gpu-k8s", "gpu-k8s2", "gpu-all"):
        was = before["gpu-cluster:workloads"].pop(name)
        assert after["gpu-cluster:workloads"].pop(name) == {
            **was,
            "image": SAMPLE,
            "imagePullPolicy": "Never",
            "gpus": min(1, was["gpus"]),
        }
    assert before == after
    settings_of("onprem", config_of("onprem", program), kubeconfig=KUBECONFIG)


def test_the_copy_runs_the_plugin_that_was_built_here(program: Path) -> None:
    """The catalog of the copy names an image that no registry serves; the rest of it stays."""
    names: dict[str, Any] = {"__name__": "images"}
    exec((program / overrides.IMAGES).read_text(), names)
    assert names["DEVICE_PLUGIN"].reference == PLUGIN
    assert names["DRA_DRIVER"].reference == dra_driver.IMAGE
    assert (
        (program / overrides.IMAGES).read_text().startswith((ROOT / overrides.IMAGES).read_text())
    )


def test_every_override_is_told(tmp_path: Path) -> None:
    """The report has one line for each: what it was, what it is, why."""
    made = Overrides(pool="gpus", gpus=1)
    copy_program(ROOT, "onprem", tmp_path / "program", made)
    pools, workloads = "gpu-cluster:gpuPools", "gpu-cluster:workloads"
    assert f"{pools}.gpus.gpusPerNode: 9 -> 1 (what this machine has)" in made.made
    assert f"{workloads}.gpu-k8s2.gpus: 2 -> 1 (all GPUs of this machine)" in made.made
    assert len([line for line in made.made if "there is no registry" in line]) == 3 * 2 + 2
    assert len(made.made) == 14
    ran = programs.program("device-plugin").version()
    (plugin,) = [line for line in made.made if "DEVICE_PLUGIN" in line]
    assert (
        f"the device plugin: the stack has {images.DEVICE_PLUGIN.tag}, but this machine ran {ran}"
        in plugin
    )


def test_shared_and_measured_stacks_are_accepted(program: Path) -> None:
    """What the rehearsal makes of the stack's file later is config like any other."""
    file = program / "Pulumi.onprem.yaml"
    how = pytorch.PyTorch(python="/x/python3", binary=Path("/x/python3"), mounts={"/x": "/x"})
    said: list[str] = []
    overrides.edit(file, lambda config: said.extend(overrides.measured(config, "gpus", how)))
    assert set(said) == {"gpu-k8s", "gpu-k8s2", "gpu-all"}
    found = settings_of("onprem", config_of("onprem", program), kubeconfig=KUBECONFIG)
    assert found.gpu_test is not None
    assert found.gpu_test.mounts == {"/x": "/x"}
    overrides.edit(file, lambda config: overrides.shared(config, "gpus", 4))
    found = settings_of("onprem", config_of("onprem", program), kubeconfig=KUBECONFIG)
    assert found.gpu_test is None
    assert found.pools["gpus"].pool.allocatable == 4
    assert set(found.running["workloads"]) == {"gpu-pod-using-device-plugin"}
    training = Training(pytorch=how, folder=Path("/checkpoints"))
    overrides.edit(file, lambda config: overrides.shared(config, "gpus", 4, "mps"))
    overrides.edit(file, lambda config: overrides.sharing_pods(config, "gpus", 5, training))
    found = settings_of("onprem", config_of("onprem", program), kubeconfig=KUBECONFIG)
    assert found.running["workloads"]["share-1"].env["PATH"].startswith("/x:")
    overrides.edit(file, lambda config: overrides.shared(config, "gpus", 4))
    overrides.edit(file, lambda config: overrides.sharing_pods(config, "gpus", 5))
    found = settings_of("onprem", config_of("onprem", program), kubeconfig=KUBECONFIG)
    gpus = {name: workload.gpus for name, workload in found.running["workloads"].items()}
    assert [gpus[name] for name in gpus if name.startswith("share-")] == [1] * 5
    overrides.edit(file, lambda config: overrides.claiming(config, "gpus", 2))
    found = settings_of("onprem", config_of("onprem", program), kubeconfig=KUBECONFIG)
    assert found.pools["gpus"].pool.device_class == "gpu.nvidia.com"
    assert {"claiming-1", "claiming-2"} < set(found.running["workloads"])
    overrides.edit(file, lambda config: overrides.unmanaged(config, "gpus"))
    found = settings_of("onprem", config_of("onprem", program), kubeconfig=KUBECONFIG)
    assert not found.pools["gpus"].pool.device_plugin
    assert set(found.running["workloads"]) == {"gpu-pod-using-device-plugin"}


def recorded(title: str) -> str:
    """A sample's output in the report of a run on one H200."""
    text = (ROOT / "docs/measured/real-node/1-nvidia-h200-580.159.04.txt").read_text()
    return textwrap.dedent(text.partition(f"\n{title}\n")[2].partition("\n\npod ")[0]) + "\n"


@pytest.mark.parametrize("name", ["gpu-k8s2", "claiming-2"])
def test_an_output_is_read_once_it_has_its_last_line(name: str) -> None:
    """The driver writes its table in several parts: a run on an H200 had its header."""
    text, args = recorded(f"pod {name}: ready on this-machine"), "nvidia-smi && tail -f /dev/null"
    if name == "claiming-2":
        text, args = f"{text}{overrides.LAST_LINE}\n", f"nvidia-smi -L; {overrides.AND_WAIT}"
    pod = {"spec": {"containers": [{"args": [args]}]}}
    assert status.is_whole(text, pod)
    parts = [text[:size] for size in range(text.index("GPU") + 3, len(text) - 2)]
    assert not [part for part in parts if status.is_whole(part, pod)]


def test_the_report_explains_a_late_start_by_its_events() -> None:
    """With their ages, reasons and messages; a pod that starts in time has none."""
    document = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    pod, events, late = document["pod"], document["events"], document["late"]
    assert status.late_start(pod, events) == late
    sample = {"state": "ready", "node": NAME, "said": "GPU 0\n", "late": late}
    empty = {key: {} for key in ("gpus", "versions", "overrides", "allocatable", "check", "left")}
    *_, shown = blocks({**empty, "driver": "580", "samples": {"claim-1": sample}})
    assert shown.splitlines()[1:] == ["  GPU 0", *(f"  {line}" for line in late)]
    pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = "2026-11-30T03:02:35Z"
    assert status.late_start(pod, events) == []


def _blobs(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {
            entry.name: content.read()
            for entry in archive
            if (content := archive.extractfile(entry)) is not None
        }


def test_images_are_whole(tmp_path: Path) -> None:
    """Every blob is named by its digest, every image has a shell, its libraries, its own words."""
    extra = tmp_path / "program"
    extra.write_text("#!/bin/sh\n")
    images = overrides.images(runtime_config.PAUSE, hook=Path("/hook"))
    image.write_image(tmp_path / "images.tar", images, {"/opt/of/mine/program": extra})
    files = _blobs(tmp_path / "images.tar")
    for name, content in files.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]
    manifests = json.loads(files["index.json"])["manifests"]
    names = [one["annotations"]["io.containerd.image.name"] for one in manifests]
    assert names == [runtime_config.PAUSE, PLUGIN, dra_driver.IMAGE, SAMPLE]
    manifest = json.loads(files["blobs/" + manifests[3]["digest"].replace(":", "/")])
    config = json.loads(files["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    assert "NVIDIA_VISIBLE_DEVICES=all" in config["config"]["Env"]
    (layer,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    (tmp_path / "layer").write_bytes(files["blobs/" + layer["digest"].replace(":", "/")])
    assert layer["size"] == (tmp_path / "layer").stat().st_size
    root = tmp_path / "root"
    with tarfile.open(tmp_path / "layer") as archive:
        # It is ours, and is extracted as it is; `filter=` came with Python 3.11.4.
        archive.extraction_filter = lambda member, _: member
        archive.extractall(root)
    assert (root / "opt/of/mine/program").read_text() == "#!/bin/sh\n"
    shell = Path(shutil.which("sh") or "").resolve()
    libraries = image.needed(shell)
    (c,) = [library for library in libraries if library.name == "libc.so.6"]
    for library in [*libraries, c.with_name("libm.so.6"), c.with_name("libdl.so.2")]:
        assert (root / str(library).lstrip("/")).exists(), f"the driver needs {library}"


def test_an_image_of_the_same_files_is_the_same(tmp_path: Path) -> None:
    """No time and no owner is in it, so that its digest says what is in it."""
    for name in ("a.tar", "b.tar"):
        image.write_image(
            tmp_path / name, overrides.images(runtime_config.PAUSE, hook=Path("/hook")), {}
        )
    one, other = (_blobs(tmp_path / name) for name in ("a.tar", "b.tar"))
    assert one == other


def test_the_kubelet_answers_the_api_server_alone() -> None:
    """It listens on the bridge and trusts certificates of the rehearsal's own authority only."""
    config = runtime_config.kubelet(
        folder=Path("/f"),
        pod_logs=Path("/f/pods"),
        socket=Path("/run/s"),
        bridge=Bridge("b", "198.18.7"),
        port=1,
        cgroup="c",
        client_ca=Path("/f/ca"),
        taints=(),
    )
    assert config["address"] == "198.18.7.1"
    assert config["authentication"]["anonymous"] == {"enabled": False}
    assert config["authentication"]["x509"] == {"clientCAFile": "/f/ca"}
    assert (config["readOnlyPort"], config["healthzPort"]) == (0, 0)
    assert config["cgroupRoot"] == "/c"


def test_container_runtime_configs_are_what_their_programs_read() -> None:
    """Both are TOML; containers go through NVIDIA's runtime to runc."""
    config = tomllib.loads(
        runtime_config.containerd(
            folder=Path("/f"), socket=Path("/run/s"), programs=Path("/cni"), runtime=Path("/nv")
        )
    )
    runtime = config["plugins"]["io.containerd.cri.v1.runtime"]
    default = runtime["containerd"]["runtimes"][runtime["containerd"]["default_runtime_name"]]
    assert default["options"] == {"BinaryName": "/nv", "SystemdCgroup": False}
    assert "bin_dir" not in runtime["cni"], "with both, containerd loads neither"


def test_the_nvidia_runtime_is_configured_as_in_both_kinds_of_eks_images() -> None:
    """By default it takes no variables of unprivileged containers, as images from v20260423. The
    rest is the toolkit's default: no mode, no volume mounts that name GPUs."""
    for taken in (False, True):
        paths = {"runc": Path("/runc"), "hook": Path("/hook"), "log": Path("/log")}
        config = tomllib.loads(runtime_config.nvidia_runtime(variables=taken, **paths))
        runtime = config.pop("nvidia-container-runtime")
        assert runtime == {"debug": "/log", "mode": "auto", "runtimes": ["/runc"]}
        assert config == {
            "accept-nvidia-visible-devices-envvar-when-unprivileged": taken,
            "nvidia-ctk": {"path": "/hook"},
        }


def test_pods_reach_the_api_server_at_the_address_of_its_service(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In a cluster kube-proxy does that; both directions are forwarded until either side ends."""
    network = json.loads(runtime_config.network(bridge=Bridge("b", "198.18.7"), data=Path("/d")))
    routes = network["plugins"][0]["ipam"]["routes"]
    assert routes == [{"dst": "10.96.0.1/32", "gw": "198.18.7.1"}]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        service = ApiService("127.0.0.1", f"127.0.0.1:{port}", port=0)
        with socket.create_connection(("127.0.0.1", service.port)) as client:
            client.sendall(b"question")
            client.shutdown(socket.SHUT_WR)
            behind, _ = server.accept()
            with behind:
                assert behind.makefile("rb").read() == b"question"
                behind.sendall(b"answer")
            assert client.makefile("rb").read() == b"answer"
    with socket.create_connection(("127.0.0.1", service.port)) as client:
        assert client.makefile("rb").read() == b""  # its server has ended
    service.stop()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("libraries", "smi", "root", "shim"),
    [
        ((), "/usr/bin/nvidia-smi", "/", "/driver-root/usr/bin/nvidia-smi"),
        (
            (Path("/usr/local/nvidia/lib64"),),
            "/usr/local/nvidia/bin/nvidia-smi",
            "/usr/local/nvidia",
            "/driver-root/bin/nvidia-smi",
        ),
    ],
)
def test_the_dra_driver_sees_the_machines_driver_and_changes_no_setting(
    libraries: tuple[Path, ...], smi: str, root: str, shim: str
) -> None:
    """A program that changes nothing is in the place of nvidia-smi; gates are the chart's."""
    found = machine.Machine(gpus=(), driver="1", nvidia_smi=Path(smi), libraries=libraries)
    pod = dra_driver.pod(found, ["A", "B"])["spec"]
    (container,) = pod["containers"]
    folders = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    mounts = {folders[mount["name"]]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts[root] == "/driver-root"
    program_ = Path(dra_driver.__file__).with_name("driver-program.sh")
    assert mounts[str(program_)] == shim
    assert os.access(program_, os.X_OK)
    environment = {item["name"]: item.get("value") for item in container["env"]}
    assert environment["NVIDIA_DRIVER_ROOT"] == root
    assert environment["FEATURE_GATES"] == "A=true,B=true"


def test_the_dra_driver_finds_devices_in_an_empty_folder_of_the_driver(tmp_path: Path) -> None:
    """It looks for them in the driver's `dev` if that exists; one with devices stays as it is."""
    libraries = tmp_path / "lib64"
    found = machine.Machine(gpus=(), driver="1", nvidia_smi=tmp_path, libraries=(libraries,))
    assert host_driver._devices(found) == {}
    (tmp_path / "dev").mkdir()
    assert host_driver._devices(found) == {str(tmp_path / "dev"): "/dev"}
    (tmp_path / "dev" / "nvidia0").touch()
    assert host_driver._devices(found) == {}


@pytest.mark.parametrize(
    "request_", ["-i GPU-1 -c DEFAULT", "compute-policy -i GPU-1 --set-timeslice 3"]
)
def test_settings_of_the_gpu_stay_as_they_are(request_: str, tmp_path: Path) -> None:
    """`nvidia-smi` with a setting to change succeeds without running the driver's."""
    name = tmp_path / "nvidia-smi"
    name.symlink_to(Path(dra_driver.__file__).with_name("driver-program.sh"))
    subprocess.run([name, *request_.split()], check=True, env={"PATH": "/usr/bin:/bin"})


@pytest.fixture
def version2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hierarchy of version 2 in which nothing is delegated."""
    root = tmp_path / "cgroup"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu memory pids rdma\n")
    (root / "cgroup.subtree_control").write_text("memory\n")
    (root / "cgroup.procs").write_text("")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"cgroup2 {root} cgroup2 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n")
    monkeypatch.setattr(cgroups, "MOUNTS", mounts)
    return root


def test_controllers_are_enabled_and_taken_back(version2: Path) -> None:
    """Only what was missing is enabled, and that alone is disabled at the end."""
    group = Cgroup("mine")
    enabled = group.make()
    assert enabled == ["cpu", "pids"]
    assert (version2 / "cgroup.subtree_control").read_text() == "+cpu +pids"
    assert group.folders() == [version2 / "mine"]
    (version2 / "mine" / "kubepods" / "pod").mkdir(parents=True)
    assert group.remove(enabled) == []
    assert (version2 / "cgroup.subtree_control").read_text() == "-cpu -pids"
    assert group.folders() == []


def test_where_processes_are_in_the_way_they_step_aside(
    version2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below a root that is not the machine's, a group with processes delegates nothing."""
    tried: list[Sequence[str]] = []

    def write(root: Path, sign: str, controllers: list[str]) -> None:
        tried.append([sign, *controllers])
        if sign == "+" and not (version2 / "mine-rest").is_dir():
            raise OSError(16, "busy")

    moved: list[tuple[Path, Path]] = []
    monkeypatch.setattr(cgroups, "_write", write)
    monkeypatch.setattr(cgroups, "_move", lambda source, target: moved.append((source, target)))
    group = Cgroup("mine")
    enabled = group.make()
    assert moved == [(version2, version2 / "mine-rest")]
    assert group.remove(enabled) == []
    assert moved[1:] == [(version2 / "mine-rest", version2)]
    assert tried == [["+", "cpu", "pids"], ["+", "cpu", "pids"], ["-", "cpu", "pids"]]


def test_control_groups_that_nobody_may_change_are_said(version2: Path) -> None:
    """A machine that keeps its control groups to itself is one line."""
    (version2 / "mine").write_text("in the way")
    with pytest.raises(NodeError, match=r"mine cannot be created .*: a real node needs a machine"):
        Cgroup("mine").make()


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostChanges:
    """What a killed rehearsal's node has recorded: two folders, of which one is in the other."""
    place = tmp_path / "run"
    place.mkdir()
    (place / "theirs").mkdir()
    monkeypatch.setattr(host_changes, "PLACES", (str(place),))
    changes = HostChanges(
        file=tmp_path / "node.json",
        bridge="none",
        subnet="198.18.7",
        cgroup="none-of-mine",
        boot=host_changes.boot(),
        before=host_changes.seen(),
    )
    paths = [str(place / "mine" / "deep"), str(place / "theirs")]
    changes.folders = host_changes.make_folders(paths)
    assert [*changes.folders] == [str(place / "mine"), str(place / "mine" / "deep")]
    changes.write()
    return changes


def test_a_trace_is_what_was_not_there_before(changed: HostChanges) -> None:
    """Folders made on the way go again; what was there before stays, and is no trace."""
    place = changed.file.parent / "run"
    assert changed.left()["files"] == [str(place / "mine")]
    again = host_changes.read_changes(changed.file.parent)
    assert again is not None
    again.take_back()
    assert again.left()["files"] == []
    assert (place / "theirs").is_dir()


def a_file(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "data").touch()


def another_folder(folder: Path, _: pytest.MonkeyPatch) -> None:
    folder.rmdir()
    (folder.parent / "in its inode's place").mkdir()
    folder.mkdir()


def another_boot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_changes, "boot", lambda: "another")


def a_kubelet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_changes, "running_kubelet", lambda: "kubelet (process 7)")


@pytest.mark.parametrize("since", [a_file, another_folder, another_boot, a_kubelet])
def test_a_folder_that_somebody_uses_since_stays(
    since: Callable[[Path, pytest.MonkeyPatch], None],
    changed: HostChanges,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With what is in it: it may be the /var/lib/kubelet of the cluster that the machine joined."""
    deep = changed.file.parent / "run" / "mine" / "deep"
    since(deep, monkeypatch)
    before = sorted(deep.parent.rglob("*"))
    changed.take_back()
    assert sorted(deep.parent.rglob("*")) == before
    assert str(deep.parent) in changed.left()["files"]


def test_a_process_is_known_by_its_namespace() -> None:
    """What a node started is found, whatever it is called; no namespace has no process."""
    mine = os.readlink("/proc/self/ns/pid")
    assert any(line.startswith(f"{os.getpid()} ") for line in host_changes.processes_in(mine))
    assert host_changes.processes_in("") == []


def test_the_report_shows_cards_counts_samples_and_traces() -> None:
    """People see what the JSON has, in the order of the run."""
    shown = "\n".join(
        blocks(
            {
                "gpus": [{"name": "NVIDIA H100", "memoryMiB": 1}],
                "driver": "580.1",
                "versions": {"kubeletVersion": "v1.35.4"},
                "overrides": ["gpusPerNode: 9 -> 1 (what this machine has)"],
                "allocatable": [(1.0, 0), (9.5, 1), (60.0, 4)],
                "samples": {
                    "gpu-k8s": {"state": "ready", "node": NAME, "said": "NVIDIA-SMI 580\n"},
                    "gpu-k8s2": {"state": "pending", "scheduler": "no GPU", "why": "used by A"},
                },
                "check": "NODE  POOL",
                "left": {**{sort: [] for sort in host_changes.seen()}, "processes": ["7 kubelet"]},
            }
        )
    )
    assert "1 x NVIDIA H100, driver 580.1; kubeletVersion v1.35.4" in shown
    assert "0 at 1.0 s -> 1 at 9.5 s -> 4 at 60.0 s" in shown
    assert "pod gpu-k8s: ready on this-machine\n  NVIDIA-SMI 580" in shown
    assert "pod gpu-k8s2: pending\n  no GPU\n  used by A" in shown
    assert "left on the machine: processes 7 kubelet; mounts none; interfaces none" in shown


@pytest.mark.parametrize("torch", [None, "/opt/torch/lib/python3.12/site-packages/torch/x.py"])
def test_pytorch_is_found_with_what_it_needs(
    torch: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment on the system's Python needs both; without PyTorch there is none."""
    said = {
        "python": "/usr/bin/env",
        "standard": "/usr/lib/python3.12",
        "prefix": "/opt/torch",
        "base": "/usr",
        "torch": torch,
    }
    fake = tmp_path / "python3"
    fake.write_text(f"#!/bin/sh\necho '{json.dumps(said)}'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = pytorch.find_pytorch()
    if torch is None:
        assert found is None
        return
    assert found is not None
    assert {"/opt/torch", "/usr/lib/python3.12"} == set(found.mounts) - {pytorch.LIBRARIES}
    config = yaml.safe_load(yaml.safe_dump(found.config("gpus", SAMPLE)))
    assert config["mounts"]["/opt/torch"] == "/opt/torch"
    assert pytorch.LIBRARIES in config["env"]["LD_LIBRARY_PATH"]
