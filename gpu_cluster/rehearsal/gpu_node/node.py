"""The real node: starts its programs in namespaces, and undoes its changes."""

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpu_cluster import tools
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.control_plane.pki import SERVICE_ADDRESS
from gpu_cluster.rehearsal.control_plane.pods import holds
from gpu_cluster.rehearsal.gpu_node import runtime_config
from gpu_cluster.rehearsal.gpu_node.api_service import ApiService
from gpu_cluster.rehearsal.gpu_node.bridge import Bridge
from gpu_cluster.rehearsal.gpu_node.cgroups import Cgroup
from gpu_cluster.rehearsal.gpu_node.host_changes import (
    HostChanges,
    make_folders,
    read_changes,
    run_folder,
    seen,
)
from gpu_cluster.rehearsal.gpu_node.host_driver import Driver
from gpu_cluster.rehearsal.gpu_node.image import Image, write_image
from gpu_cluster.rehearsal.gpu_node.machine import DRIVER_FOLDER, NAME
from gpu_cluster.rehearsal.gpu_node.pod_names import PodNames
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.processes import ProcessError, Processes, base_env, free_port, too_slow
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup
from gpu_cluster.tools.linux import boot

NAMESPACES = Path(__file__).with_name("namespaces.py")
START_SECONDS = 60.0
END_SECONDS = 10.0
HIDDEN = {
    "/var/lib/kubelet": "kubelet",
    "/var/lib/cni": "cni-state",
    "/run/cdi": "cdi",
    "/run/containerd": None,
    "/run/nvidia": "nvidia",
    "/var/log/containers": "container-logs",
}
"""Where programs insist on writing -> the part of the node's own folder that they see there; None
for the short-lived folder that sockets need."""


class RealNode:
    """One kubelet with its containerd on this machine, in their own namespaces."""

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        control_plane: LocalControlPlane,
        group: NodeGroup,
        *,
        drive: Callable[[], Driver],
        images: Sequence[Image],
        programs: Mapping[str, Path],
    ) -> None:
        """`folder` is the sandbox's; otherwise only files listed in its HostChanges are written.

        `drive` describes the machine's GPUs to the container runtime. `programs` are the programs
        in the images, in addition to a shell.
        """
        self._sandbox = folder
        self._folder = folder / "node"
        self._processes = processes
        self._control_plane = control_plane
        self._group = group
        self._drive = drive
        self._images = images
        self._programs = programs
        mark = hashlib.sha256(str(folder).encode()).digest()
        name = mark.hex()[:8]
        self._bridge = Bridge(f"gpu-{name}", f"198.{18 + mark[4] % 2}.{mark[5]}")
        self._cgroup = Cgroup(f"gpu-cluster-{name}")
        self._run = run_folder(folder)
        self._socket = self._run / "containerd.sock"
        self._host_changes: HostChanges | None = None
        self._names: PodNames | None = None
        self._api_service: ApiService | None = None
        self._driver: Driver | None = None
        self.version: dict[str, str] = {}
        """The versions that the node reports."""

    def start(self) -> None:
        """Returns once the node is ready and its images are imported. Raises ProcessError, or
        NodeError if the machine does not allow it."""
        if (before := read_changes(self._sandbox)) is not None:
            before.take_back()
        host_changes = HostChanges(
            file=self._sandbox / "node.json",
            bridge=self._bridge.name,
            subnet=self._bridge.subnet,
            cgroup=self._cgroup.name,
            boot=boot(),
            before=seen(),
        )
        host_changes.write()
        self._host_changes = host_changes
        (self._run / "containerd").mkdir(parents=True, exist_ok=True)
        host_changes.folders = make_folders(tuple(HIDDEN))
        host_changes.write()
        host_changes.controllers = self._cgroup.make()
        host_changes.write()
        self._bridge.make()
        self._bridge.add(SERVICE_ADDRESS)
        self._api_service = ApiService(SERVICE_ADDRESS, self._control_plane.endpoint)
        pods = partial(self._control_plane.api.items, "/api/v1/pods")
        self._names = PodNames(self._bridge.address, pods)
        deadline = time.monotonic() + START_SECONDS
        self._driver = driver = self._drive()
        self._write_settings(driver)
        self._processes.start("node", ["python3", "-I", "-S", NAMESPACES, self._plan(driver)])
        host_changes.namespace = self._namespace(deadline)
        host_changes.write()
        write_image(self._folder / "images.tar", self._images, self._programs)
        self._wait(deadline, "containerd answers", self._answers)
        self._ctr(
            "images", "import", "--local", "--snapshotter=native", str(self._folder / "images.tar")
        )
        (self._folder / "images.tar").unlink()
        self._wait(deadline, "the node is ready", self._ready)
        info = self._node()["status"]["nodeInfo"]
        names = ("kubeletVersion", "containerRuntimeVersion")
        self.version = {name: info[name] for name in names}

    def stop(self) -> None:
        """Stops the node and undoes its changes."""
        self._processes.stop("node", grace=END_SECONDS)
        for service in (self._names, self._api_service):
            if service is not None:
                service.stop()
        self._names = self._api_service = None
        if self._host_changes is not None:
            self._host_changes.take_back()
            shutil.rmtree(self._folder, ignore_errors=True)

    def log(self, name: str, namespace: str = "default") -> str:
        """The log of a pod's container so far, through the API server and the kubelet."""
        return self._control_plane.api.text(f"/api/v1/namespaces/{namespace}/pods/{name}/log")

    def take_variables(self, taken: bool) -> None:
        """Says whether the NVIDIA runtime takes the variables of unprivileged containers that start
        from now on."""
        if self._driver is not None:
            self._driver.take_variables(taken)

    def left(self) -> dict[str, list[str]]:
        """Kind of trace -> what is there now that was not before the start."""
        return {} if self._host_changes is None else self._host_changes.left()

    def _write_settings(self, driver: Driver) -> None:
        for name in ("cni", "volume-plugins", "opt", *filter(None, HIDDEN.values())):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        config = runtime_config.containerd(
            folder=self._folder,
            socket=self._socket,
            programs=tools.folder("cni-plugins"),
            runtime=driver.runtime,
        )
        (self._folder / "containerd.toml").write_text(config)
        network = runtime_config.network(bridge=self._bridge, data=self._folder / "addresses")
        (self._folder / "cni" / "pods.conflist").write_text(network)
        kubelet = runtime_config.kubelet(
            folder=self._folder,
            pod_logs=self._processes.logs / "pods",
            socket=self._socket,
            bridge=self._bridge,
            port=free_port(self._bridge.address),
            cgroup=self._cgroup.name,
            client_ca=self._control_plane.pki.ca,
            taints=self._group.node.taints,
        )
        (self._folder / "kubelet.json").write_text(json.dumps(kubelet, indent=1))

    def _plan(self, driver: Driver) -> Path:
        """The programs to run in the namespaces, and their mounts."""
        labels = ",".join(
            f"{key}={value}"
            for key, value in self._group.node.labels.items()
            if key != "kubernetes.io/os"  # set by the kubelet itself
        )
        path = os.pathsep.join(
            [
                str(tools.folder("containerd")),
                str(tools.folder("runc")),
                os.environ["PATH"],
                str(DRIVER_FOLDER / "bin"),
            ]
        )
        logs = self._processes.logs
        programs = [
            {
                "name": "containerd",
                "after": None,
                "log": str(logs / "containerd.log"),
                "environment": {"PATH": path, **driver.environment},
                "command": [
                    str(tools.binary("containerd")),
                    "--config",
                    str(self._folder / "containerd.toml"),
                ],
            },
            {
                "name": "kubelet",
                "after": str(self._socket),
                "log": str(logs / "kubelet.log"),
                "environment": {},
                "command": [
                    str(tools.binary("kubelet")),
                    f"--config={self._folder / 'kubelet.json'}",
                    f"--kubeconfig={self._control_plane.kubeconfig}",
                    f"--hostname-override={NAME}",
                    f"--node-ip={self._bridge.address}",
                    f"--node-labels={labels}",
                ],
            },
        ]
        binds = [
            (str(self._folder / part if part else self._run / "containerd"), place)
            for place, part in HIDDEN.items()
        ] + [(source, target) for target, source in driver.files.items()]
        overlays = [(source, target) for target, source in driver.overlays.items()]
        document = {"binds": binds, "overlays": overlays, "programs": programs}
        plan = self._folder / "plan.json"
        plan.write_text(json.dumps(document, indent=1))
        return plan

    def _namespace(self, deadline: float) -> str:
        """The process namespace of the programs."""
        outside = os.readlink("/proc/self/ns/pid")
        link = Path("/proc", str(self._processes.pid("node")), "ns", "pid_for_children")
        found = outside

        def apart() -> bool:
            nonlocal found
            try:
                found = os.readlink(link)
            except OSError:  # it has ended, or has no child yet
                return False
            return found != outside

        self._wait(deadline, "the node has its own namespaces", apart)
        return found

    def _answers(self) -> bool:
        return self._socket.exists() and self._try_ctr("version").returncode == 0

    def _ctr(self, *arguments: str) -> None:
        done = self._try_ctr(*arguments)
        if done.returncode:
            raise ProcessError(f"ctr {' '.join(arguments[:2])}: {done.stderr.strip()}")

    def _try_ctr(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(tools.binary("ctr")), f"--address={self._socket}", "--namespace=k8s.io"]
        return subprocess.run(
            [*command, *arguments], env=base_env(), capture_output=True, text=True
        )

    def _node(self) -> Any:
        return self._control_plane.api.get(f"/api/v1/nodes/{NAME}")

    def _ready(self) -> bool:
        try:
            return holds(self._node(), "Ready")
        except ApiError as error:
            if error.status != 404:
                raise
            return False

    def _wait(self, deadline: float, what: str, true: Callable[[], bool]) -> None:
        while not true():
            self._processes.check("node")
            if time.monotonic() > deadline:
                words = " | ".join(
                    f"{name}: {self._processes.last_words(name)}"
                    for name in ("containerd", "kubelet")
                    if (self._processes.logs / f"{name}.log").exists()
                )
                raise ProcessError(f"{too_slow(START_SECONDS)}: {what}: {words}")
            time.sleep(0.05)
