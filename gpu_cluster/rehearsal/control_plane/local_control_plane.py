"""A real Kubernetes control plane on loopback: etcd, API server, controller manager, scheduler.

kwokctl would start the same programs, but it needs a kubectl, and its processes survive when the
process that started it is killed. Here every server is killed with the sandbox that owns it.
"""

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import urllib3

from gpu_cluster import tools
from gpu_cluster.components.catalog.kubernetes import minor_number
from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.pki import make_pki
from gpu_cluster.rehearsal.control_plane.pods import holds
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.processes import ProcessError, Processes, free_port, too_slow

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DEFINED = {
    "CustomResourceDefinition": CRDS,
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
}
"""Kind of what a cloud defines -> where the API server has it."""
SERVERS = ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
ETCD_CLIENTS, ETCD_PEERS = "clients", "peers"
"""etcd's sockets, in its folder: without TLS, a control plane starts a sixth faster."""
_EMULATES = 3
"""How many minor versions before its own a server can emulate: apiserver 0.36.5,
pkg/util/compatibility/version.go."""
START_SECONDS = 60.0
"""How long a start may take on a busy machine; on two idle cores it takes about 4 s."""


class LocalControlPlane:
    """Implements `rehearsal.simulators.cloud.ControlPlane`. Thread-safe."""

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        *,
        egress: Path | None = None,
        version: str = "",
    ) -> None:
        """`version`: as in `ensure_started`, for the first start."""
        self._folder = folder
        self._processes = processes
        self._followers: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._following = threading.RLock()
        self._egress = egress
        """How the API server reaches webhooks; None: directly, which fails for a pod's address."""
        self._version = version
        self._lock = threading.RLock()
        self._running = False
        self.pki = make_pki(folder / "pki")
        self._etcd_folder = folder / "etcd"
        self._choose_ports()

    def _choose_ports(self) -> None:
        self._port = free_port()
        self.api = Api(self.endpoint, self.pki.ca, self.pki.token)

    @property
    def endpoint(self) -> str:
        """`127.0.0.1:<port>`, known before the start."""
        return f"127.0.0.1:{self._port}"

    @property
    def ca_certificate(self) -> bytes:
        """The CA certificate as PEM."""
        return self.pki.ca_certificate

    @property
    def running(self) -> bool:
        """Whether the servers are running."""
        return self._running

    @property
    def kubeconfig(self) -> Path:
        """An administrator's kubeconfig, for people, KWOK and Karpenter."""
        return self._folder / "kubeconfig"

    def client(self) -> Any:
        """A `kubernetes.client.ApiClient` with administrator rights."""
        import kubernetes.client
        import kubernetes.config  # costs half a second that a rehearsal does not need

        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(self.kubeconfig), client_configuration=configuration)
        configuration.proxy = None  # the environment's, which does not reach loopback
        return kubernetes.client.ApiClient(configuration)

    @property
    def emulated(self) -> str:
        """The Kubernetes version as which the servers run, such as `1.35`; empty: their own."""
        return self._version_flags().get("emulated-version", "")

    def _version_flags(self) -> Mapping[str, str]:
        """What makes the servers behave as the cluster's version, as far as they can: its APIs,
        fields and feature gates (KEP 4330), as upstream's defaults have them. A cloud may turn
        off gates of beta features: docs.cloud.google.com/kubernetes-engine/docs/concepts/
        feature-gates, 2026-11-30."""
        own = minor_number(tools.programs.program("control-plane").version())
        minor = minor_number(self._version) or own
        if minor < own:
            return {"emulated-version": f"1.{max(minor, own - _EMULATES)}"}
        return {"feature-gates": "HPAScaleToZero=true"} if minor >= 37 else {}

    def ensure_started(self, version: str = "") -> None:
        """Returns when the API server responds; starts an empty one if none is running, as this
        Kubernetes version, such as `1.35.8-gke.1225000`; empty: as before, or its own."""
        with self._lock:
            if self._running:
                return
            self._version = version or self._version
            for attempt in range(3):
                try:
                    self._start()
                    break
                except ProcessError as error:
                    self._processes.stop(*SERVERS, grace=0.5)
                    if attempt == 2 or "ended with" not in str(error):
                        raise
                    # Another process took a port in between, or the machine is so busy that a
                    # server gave up waiting for another one.
                    self._choose_ports()
            with self._following:
                self._running = True
                for start, _ in self._followers:
                    start()

    def stop(self) -> None:
        """Stops the control plane; its content is lost, as when a cluster is deleted."""
        with self._lock:
            if not self._running:
                return
            with self._following:
                self._running = False
                for _, stop in reversed(self._followers):
                    stop()
            # Nothing is kept, so no server needs time to finish.
            self._processes.stop(*SERVERS, grace=0.2)
            shutil.rmtree(self._etcd_folder, ignore_errors=True)
            self.kubeconfig.unlink(missing_ok=True)

    def follow(self, start: Callable[[], None], stop: Callable[[], None] = lambda: None) -> None:
        """Calls `start` whenever the API server has begun to respond, at once if it does already,
        and `stop` before the servers stop, in reverse order. Does not wait for a start."""
        with self._following:
            self._followers.append((start, stop))
            if self._running:
                start()

    def define(self, kinds: Sequence[Mapping[str, Any]]) -> None:
        """Adds the cloud's CustomResourceDefinitions, waits until they are served, and adds its
        DeviceClasses."""
        for kind in kinds:
            path = _DEFINED[kind["kind"]]
            self.api.apply(f"{path}/{kind['metadata']['name']}", dict(kind))
        deadline = time.monotonic() + START_SECONDS
        for kind in (kind for kind in kinds if _DEFINED[kind["kind"]] == CRDS):
            name = kind["metadata"]["name"]
            self._wait(deadline, f"{name} is served", partial(self._serves, name))

    def _serves(self, definition: str) -> bool:
        return holds(self.api.get(f"{CRDS}/{definition}"), "Established")

    def _start(self) -> None:
        shutil.rmtree(self._etcd_folder, ignore_errors=True)
        self._etcd_folder.mkdir(mode=0o700)
        self._write_kubeconfig()
        # Relative to the working directory, because the absolute path of a socket may be too long.
        start = partial(self._processes.start, cwd=self._etcd_folder)
        start("etcd", [tools.binary("etcd"), *_flags(self._etcd_flags())])
        start("kube-apiserver", [tools.binary("kube-apiserver"), *_flags(self._apiserver_flags())])
        deadline = time.monotonic() + START_SECONDS
        self._wait(deadline, "the API server answers", self.api.ready)
        start(
            "kube-controller-manager",
            [tools.binary("kube-controller-manager"), *_flags(self._controller_manager_flags())],
        )
        config = self._folder / "scheduler.json"
        config.write_text(json.dumps(self._scheduler_config()))
        start(
            "kube-scheduler",
            [
                tools.binary("kube-scheduler"),
                *_flags({"config": str(config), "secure-port": "0", **self._version_flags()}),
            ],
        )
        # Without its service account, a namespace accepts no pods.
        self._wait(deadline, "the default service account exists", self._has_service_account)

    def _wait(self, deadline: float, what: str, true: Callable[[], bool]) -> None:
        while not true():
            self._processes.check(*SERVERS)
            if time.monotonic() > deadline:
                words = self._processes.last_words("kube-apiserver")
                raise ProcessError(f"{too_slow(START_SECONDS)}: {what}: {words}")
            time.sleep(0.05)

    def _has_service_account(self) -> bool:
        try:
            self.api.get("/api/v1/namespaces/default/serviceaccounts/default")
            self.api.get("/api/v1/namespaces/kube-system/serviceaccounts/default")
            self.api.get("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")
        except (ApiError, urllib3.exceptions.HTTPError):
            return False
        return True

    def _etcd_flags(self) -> Mapping[str, str]:
        nowhere = "http://127.0.0.1:1"  # the advertised address must be an IP address
        return {
            "data-dir": str(self._etcd_folder),
            # etcd has no authorization here, but no other user can read its folder.
            "listen-client-urls": f"unix://{ETCD_CLIENTS}",
            "listen-peer-urls": f"unix://{ETCD_PEERS}",
            "advertise-client-urls": nowhere,
            "initial-advertise-peer-urls": nowhere,
            "initial-cluster": f"default={nowhere}",
            "unsafe-no-fsync": "true",
            # A single member elects itself after one election timeout, which is at least five
            # heartbeats; each costs processor time as long as the cluster exists.
            "heartbeat-interval": "40",
            "election-timeout": "200",
            "log-level": "warn",
        }

    def _apiserver_flags(self) -> Mapping[str, str]:
        flags = {
            "etcd-servers": f"unix://{ETCD_CLIENTS}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self._port),
            "tls-cert-file": str(self.pki.server_certificate),
            "tls-private-key-file": str(self.pki.server_key),
            "token-auth-file": str(self.pki.tokens),
            "anonymous-auth": "false",
            "authorization-mode": "Node,RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(self.pki.service_account_key),
            "service-account-signing-key-file": str(self.pki.service_account_key),
            "service-cluster-ip-range": "10.96.0.0/16",
            "allow-privileged": "true",
            # The only client that may read logs from a real node's kubelet.
            "kubelet-client-certificate": str(self.pki.server_certificate),
            "kubelet-client-key": str(self.pki.server_key),
            "kubelet-preferred-address-types": "InternalIP",
            "endpoint-reconciler-type": "none",
            "enable-priority-and-fairness": "false",
            "profiling": "false",
            **self._version_flags(),
        }
        if self._egress is not None:
            flags["egress-selector-config-file"] = str(self._egress)
            # Sends requests to a pod behind the Service, since nothing here routes a cluster IP.
            flags["enable-aggregator-routing"] = "true"
        # GKE's own API server adds the toleration for nvidia.com/gpu to pods that request it; EKS
        # and most others do not. The admission plugin ExtendedResourceToleration is disabled here,
        # so that a missing toleration in the program is found.
        return flags

    def _controller_manager_flags(self) -> Mapping[str, str]:
        return {
            "kubeconfig": str(self.kubeconfig),
            "service-account-private-key-file": str(self.pki.service_account_key),
            "root-ca-file": str(self.pki.ca),
            "leader-elect": "false",
            "secure-port": "0",
            "node-monitor-period": "1s",
            "kube-api-qps": "200",
            "kube-api-burst": "400",
            "profiling": "false",
            **self._version_flags(),
        }

    def _scheduler_config(self) -> Mapping[str, Any]:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 200, "burst": 400},
            "leaderElection": {"leaderElect": False},
            # A pod that waits for its node is retried soon; the default can take 10 s.
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
        }

    def _write_kubeconfig(self) -> None:
        named = {"name": "rehearsal"}
        cluster = {"server": f"https://{self.endpoint}", "certificate-authority": str(self.pki.ca)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rehearsal",
            "clusters": [named | {"cluster": cluster}],
            "users": [named | {"user": {"token": self.pki.token}}],
            "contexts": [named | {"context": {"cluster": "rehearsal", "user": "rehearsal"}}],
        }
        self.kubeconfig.unlink(missing_ok=True)
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(document, indent=1))


def _flags(values: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]
