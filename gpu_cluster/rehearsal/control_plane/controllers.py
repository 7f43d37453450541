"""Runs the real JobSet, Kueue and Karpenter controllers in place of their Deployments' pods.

A process replaces a pod's container. It gets the pod's own arguments, its ConfigMap and Secret as
files, and its service account's token and permissions, nothing more. The pod is ready when its
readiness probe succeeds, and the API server reaches the process through the Service and its
endpoints. In its configuration file only addresses and folders are replaced by this machine's.
"""

import base64
import itertools
import json
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3
import yaml

from gpu_cluster import tools
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.rehearsal.control_plane import mounted
from gpu_cluster.rehearsal.control_plane.api import STRATEGIC, Api
from gpu_cluster.rehearsal.control_plane.auto_mode import AutoModeController
from gpu_cluster.rehearsal.control_plane.cluster_cache import ClusterCache
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.control_plane.pod_network import PodNetwork
from gpu_cluster.rehearsal.control_plane.pods import full_name, phase
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.processes import ProcessError, Processes, free_port
from gpu_cluster.rehearsal.simulators.cloud import Automatic, Launching, RefusedError
from gpu_cluster.tools.build import build_programs
from gpu_cluster.tools.programs import HERE, program

PROGRAMS = {"jobset": "jobset", "kueue": "kueue", "karpenter/controller": "karpenter-aws"}
"""The end of an image's name -> the program that replaces it."""
TICK_SECONDS = 0.2
READY_SECONDS = 1.0
"""How often a ready pod is probed and its volumes are renewed; a kubelet probes every 10 s and
renews volumes within a minute."""
TOKEN_SECONDS = 24 * 3600


def provide(config: Mapping[str, Any], pinned: Path = HERE) -> None:
    """Builds the controllers that a stack's config needs, unless they are cached, in the versions
    of `pinned`, a revision's folder `tools`."""
    teams, batch = config.get("gpu-cluster:teams"), config.get("gpu-cluster:batch")
    cluster = config.get("gpu-cluster:cluster")
    # The program itself reports what is wrong with the file.
    batch = batch if isinstance(batch, dict) else {}
    cluster = cluster if isinstance(cluster, dict) else {}
    scaler = SCALERS.get(str(cluster.get("scaler")))
    wanted = {
        "jobset": teams or batch.get("jobSet"),
        "kueue": teams or batch.get("queues"),
        "karpenter-aws": scaler is not None and scaler.node_pools,
    }
    named = [replace(program(name), tools=pinned) for name in PROGRAMS.values() if wanted[name]]
    if missing := [item for item in named if not item.folder().is_dir()]:
        build_programs(missing)


def program_of(pod: Mapping[str, Any]) -> str | None:
    """The controller in the pod's first container, by its image's name."""
    image = str(pod["spec"]["containers"][0]["image"]).partition("@")[0]
    folder, _, last = image.rpartition("/")
    name = f"{folder}/{last.partition(':')[0]}"
    return next((item for end, item in PROGRAMS.items() if name.endswith(f"/{end}")), None)


def binary_of(pod: Mapping[str, Any], pinned: Path) -> Path:
    """The binary that replaces the pod's container: that of `pinned`, the folder `tools` of an
    earlier revision, if the image has its version; otherwise this tree's."""
    name = program_of(pod) or ""
    then = replace(program(name), tools=pinned)
    image = str(pod["spec"]["containers"][0]["image"])
    ours = then.version() == program(name).version() or not image.endswith(f":{then.version()}")
    return tools.binary(name) if ours else then.folder() / name


class Controllers:
    """One thread that starts a process for each such pod and ends it with the pod."""

    def __init__(
        self, folder: Path, control_plane: LocalControlPlane, processes: Processes,
        network: PodNetwork, cluster_cache: ClusterCache, event_log: EventLog,
        cloud: object = None,
    ) -> None:  # fmt: skip
        """`cloud`: what the controllers call."""
        self._cloud = cloud
        self._folder = folder / "controllers"
        self._control_plane = control_plane
        self._processes = processes
        self._network = network
        self._cluster_cache = cluster_cache
        self._event_log = event_log
        self._simulated: dict[str, _Played] = {}
        """The processes by their pod's uid."""
        self._auto_mode = AutoModeController(
            folder / "auto-mode", control_plane, processes, event_log
        )
        self.pinned = HERE
        """The folder `tools` of the revision that is deployed first."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._addresses = (f"10.1.{n // 256}.{n % 256}" for n in itertools.count(1))

    def start(self) -> None:
        """Starts following the pods."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="controllers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the processes of the controllers."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(10)
        for uid in list(self._simulated):
            self._end(uid)
        self._auto_mode.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        while not self._stopped.wait(TICK_SECONDS):
            try:
                self._tick()
            except (ApiError, urllib3.exceptions.HTTPError) as error:
                if not self._stopped.is_set():
                    self._event_log.record("node", "controllers", "error", message=str(error))
            except (tools.ToolError, ProcessError) as error:
                self._event_log.finding("controllers", str(error))

    def _tick(self) -> None:
        if isinstance(self._cloud, Automatic):
            self._auto_mode.follow(self._cloud.auto_mode())
        pods = {
            pod["metadata"]["uid"]: pod
            for pod in self._cluster_cache.pods
            if program_of(pod) and pod["spec"].get("nodeName") and phase(pod) != "deleting"
        }
        for uid in [uid for uid in self._simulated if uid not in pods]:
            if isinstance(self._simulated.get(uid), _Karpenter):  # a standby would lead
                for other, item in list(self._simulated.items()):
                    if isinstance(item, _StandBy):
                        self._end(other)
            if uid in self._simulated:
                self._end(uid)
        for uid, pod in pods.items():
            if uid not in self._simulated:
                self._simulated[uid] = self._play(uid, pod)
                self._event_log.record(
                    "node",
                    "controllers",
                    "runs",
                    program=program_of(pod),
                    image=pod["spec"]["containers"][0]["image"],
                )
            simulated = self._simulated[uid]
            try:
                simulated.follow(self._network)
            except RefusedError as error:
                self._event_log.finding("controllers", f"{full_name(pod)}: {error}")
            except ProcessError as error:
                if simulated.restarted:
                    raise
                simulated.restart()
                self._event_log.record("node", "controllers", "restarted", message=str(error))

    def _play(self, uid: str, pod: Mapping[str, Any]) -> "_Played":
        leads = not any(isinstance(item, _Karpenter) for item in self._simulated.values())
        karpenter = _Karpenter if leads else _StandBy
        kind = karpenter if program_of(pod) == "karpenter-aws" else _Played
        return kind(
            pod, next(self._addresses), self._folder / uid, self._control_plane, self._processes,
            binary_of(pod, self.pinned), self._cloud,
        )  # fmt: skip

    def _end(self, uid: str) -> None:
        simulated = self._simulated.pop(uid)
        self._processes.stop(simulated.process, grace=1.0)
        mounted.unmark()
        self._network.forget(simulated.address)


class _Played:
    """A process that replaces a pod's container."""

    def __init__(
        self, pod: Mapping[str, Any], address: str, folder: Path,
        control_plane: LocalControlPlane, processes: Processes, binary: Path, cloud: object,
    ) -> None:  # fmt: skip
        self._pod = pod
        self._binary = binary
        self._cloud = cloud
        self.address = address
        self._folder = folder
        self._control_plane = control_plane
        self._processes = processes
        self._container = pod["spec"]["containers"][0]
        self._program = program_of(pod) or ""
        self.process = f"{self._program}-{pod['metadata']['name'][-5:]}"
        self._ports: dict[int, int] = {}
        """The container's port -> the port on 127.0.0.1."""
        self._begun = self._ready = self.restarted = False
        self._due = 0.0
        self._command: list[str] = []
        self._environment: dict[str, str] = {}

    @property
    def _api(self) -> Api:
        return self._control_plane.api

    @property
    def _namespace(self) -> str:
        return str(self._pod["metadata"]["namespace"])

    def follow(self, network: PodNetwork) -> None:
        """Renews the volumes, and reports the pod's readiness if it has changed.

        Raises ProcessError if the program has exited on its own.
        """
        self._processes.check(self.process)
        if self._ready and time.monotonic() < self._due:
            return
        self._due = time.monotonic() + READY_SECONDS
        self._mount()
        if not self._begun:
            self._begin(network)
        self._processes.check(self.process)
        ready = self._probe()
        if ready and self._program == "jobset":
            mounted.unmark()
        if ready != self._ready:
            self._say(ready=ready)
        self._ready = ready

    def _begin(self, network: PodNetwork) -> None:
        """Starts the container, not ready yet. Like a kubelet, it waits for missing volumes."""
        arguments = [self._argument(argument) for argument in self._container.get("args") or []]
        for own, local in self._ports.items():
            network.route(self.address, own, local)
        self._command = [str(self._binary), *arguments]
        self._environment = {"KUBECONFIG": str(self._kubeconfig())}
        self._start()
        self._begun = True

    def restart(self) -> None:
        """Restarts the program after it has exited on its own, as a kubelet would."""
        self._start()
        self.restarted = True

    no_listen = False

    def _start(self) -> None:
        self._say(ready=False)
        self._ready = False
        self._processes.start(
            self.process, self._command, self._environment, no_listen=self.no_listen
        )

    def _mount(self) -> None:
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes") or []}
        for mount in self._container.get("volumeMounts") or []:
            for name, content in self._content(volumes[mount["name"]]).items():
                file = self._folder / mount["name"] / name
                file.parent.mkdir(parents=True, exist_ok=True)
                if not file.exists() or file.read_bytes() != content:
                    file.write_bytes(content)
        if self._program == "jobset" and not self._ready and list(self._folder.glob("*/tls.crt")):
            mounted.mark()

    def _content(self, volume: Mapping[str, Any]) -> Mapping[str, bytes]:
        at = f"/api/v1/namespaces/{self._namespace}"
        if "configMap" in volume:
            found = self._api.get(f"{at}/configmaps/{volume['configMap']['name']}")
            return {name: text.encode() for name, text in (found.get("data") or {}).items()}
        if "secret" in volume:
            found = self._api.get(f"{at}/secrets/{volume['secret']['secretName']}")
            data = found.get("data") or {}
            return {name: base64.b64decode(value) for name, value in data.items()}
        return {}

    def _path(self, inside: str) -> Path | None:
        """The path on this machine of a path in the container; None if nothing is mounted there."""
        for mount in self._container.get("volumeMounts") or []:
            folder: Path = self._folder / mount["name"]
            if inside == mount["mountPath"]:
                return folder.joinpath(mount.get("subPath", ""))
        return None

    def _argument(self, argument: str) -> str:
        flag, equals, value = argument.partition("=")
        file = self._path(value)
        if flag != "--config" or file is None:
            return argument
        config = yaml.safe_load(file.read_text())
        local = self._folder / "config.json"
        local.write_text(json.dumps(self._localised(config), indent=1))
        return f"{flag}{equals}{local}"

    def _localised(self, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration, with loopback addresses and this machine's folders."""
        webhook, health = config["webhook"], config["health"]["healthProbeBindAddress"]
        folder = webhook.get("certDir", str(mounted.WAITS_FOR.parent))
        own = {
            "host": "127.0.0.1",
            "port": self._local(webhook["port"]),
            "certDir": str(self._path(folder) or self._folder / "not-mounted"),
        }
        port = int(health.rpartition(":")[2])
        return {
            **config,
            "webhook": own,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._local(port)}"},
            "metrics": {"bindAddress": "0"},
        }

    def _local(self, port: int) -> int:
        return self._ports.setdefault(port, free_port())

    def _kubeconfig(self) -> Path:
        """A kubeconfig for the service account, as a pod has it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        account = self._pod["spec"].get("serviceAccountName", "default")
        reply = self._api.create(
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            },
        )
        document = json.loads(self._control_plane.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": reply["status"]["token"]}
        file = self._folder / "kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(document))
        return file

    def _probe(self) -> bool:
        probe = self._container.get("readinessProbe", {}).get("httpGet")
        if probe is None:
            return True
        local = self._ports.get(probe["port"])
        if local is None:
            return False
        try:
            reply = urllib3.request(
                "GET", f"http://127.0.0.1:{local}{probe['path']}", timeout=1.0, retries=False
            )
        except urllib3.exceptions.HTTPError:
            return False
        return reply.status == 200

    def _say(self, *, ready: bool) -> None:
        true = "True" if ready else "False"
        # Without the transition time, a pod is never ready for as long as its Deployment requires.
        since = {"status": true, "lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        status = {
            "phase": "Running",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": [
                {"type": "Initialized", "status": "True"},
                {"type": "ContainersReady", **since},
                {"type": "Ready", **since},
            ],
            "containerStatuses": [
                {
                    "name": container["name"], "image": container["image"], "imageID": "",
                    "ready": ready, "started": ready, "restartCount": int(self.restarted),
                    "state": {"running": {}},
                }
                for container in self._pod["spec"]["containers"]
            ],
        }  # fmt: skip
        at = f"/api/v1/namespaces/{self._namespace}/pods/{self._pod['metadata']['name']}/status"
        self._api.patch(at, {"status": status}, STRATEGIC)


class _Karpenter(_Played):
    """Karpenter for AWS, with the pod's own environment and credentials. It would serve on every
    address, so it must not listen (docs/adr/0004), and its log shows when it works."""

    no_listen = True

    def _begin(self, network: PodNetwork) -> None:
        cloud, metadata = self._cloud, self._pod["metadata"]
        assert isinstance(cloud, Launching)
        made = datetime.fromisoformat(metadata["creationTimestamp"]).timestamp()
        account = self._pod["spec"].get("serviceAccountName", "default")
        credentials = cloud.pod_environment(self._namespace, account, made)
        self._command = [str(self._binary)]
        self._environment = {
            **self._declared_environment(),
            **credentials,
            "KUBECONFIG": str(self._kubeconfig()),
            # The API server reports its own version also if it emulates the cluster's.
            "EKS_CONTROL_PLANE": "true",
            # In a pod it is read from the volume with the token.
            "LEADER_ELECTION_NAMESPACE": self._namespace,
            "METRICS_PORT": str(free_port()),
            "HEALTH_PROBE_PORT": str(free_port()),
        }
        self._start()
        self._begun = True

    def _declared_environment(self) -> dict[str, str]:
        """The container's declared environment, except what depends on its resources."""
        found = {}
        for variable in self._container.get("env") or []:
            field = ((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
            if "value" in variable:
                found[variable["name"]] = variable["value"]
            elif field.startswith("metadata."):
                found[variable["name"]] = self._pod["metadata"][field.partition(".")[2]]
        return found

    def _probe(self) -> bool:
        log = self._processes.logs / f"{self.process}.log"
        return "Starting workers" in log.read_text(errors="replace")


class _StandBy(_Karpenter):
    """Another Karpenter replica, which waits for the lease and does nothing."""

    def _begin(self, network: PodNetwork) -> None:
        self._say(ready=False)
        self._begun = True

    def _probe(self) -> bool:
        return True
