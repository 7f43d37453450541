"""EKS Auto Mode's Karpenter: upstream's Karpenter for AWS behind a translating proxy.

AWS runs Karpenter outside the cluster, with its own NodeClass and labels: `eks.amazonaws.com` where
upstream has `karpenter.k8s.aws`. Upstream's unmodified program therefore sees the cluster through a
proxy that presents each NodeClass as an EC2NodeClass and translates back whatever Karpenter writes.
The cluster contains only Auto Mode's objects. The proxy has only its caller's rights.
"""

import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3

from gpu_cluster import tools
from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.processes import Processes, free_port
from gpu_cluster.rehearsal.simulators.cloud import AutoMode
from gpu_cluster.tools.peers import InBackground, close_to_others

NAME = "auto-mode"
_COMPUTE_TYPE = "eks.amazonaws.com/compute-type"
_TO_KARPENTER = (
    (
        re.compile(rf"eks\.amazonaws\.com(?!/{_COMPUTE_TYPE.partition('/')[2]})"),
        "karpenter.k8s.aws",
    ),
    (re.compile(r"karpenter\.k8s\.aws/nodeclass"), "karpenter.k8s.aws/ec2nodeclass"),
    (re.compile(r'"NodeClass(List)?"'), r'"EC2NodeClass\1"'),
    (re.compile(r'"nodeclass(es)?"'), r'"ec2nodeclass\1"'),
)
_TO_CLUSTER = (
    (re.compile(r"karpenter\.k8s\.aws"), "eks.amazonaws.com"),
    (re.compile(r"ec2nodeclass"), "nodeclass"),
    (re.compile(r'"EC2NodeClass(List)?"'), r'"NodeClass\1"'),
)
_GATES = ("ReservedCapacity", "StaticCapacity")
"""Feature gates that Karpenter disables by default and Auto Mode enables: auto-odcr.html,
auto-static-capacity.html."""
_LEAST_LOCAL_BYTES = 125 * 10**9
"""The smallest local disks of an EC2 type with a GPU. They replace a smaller volume; for a larger
one a rehearsal counts the volume only, though some types have more."""
_PATHS = {
    ("eks.amazonaws.com/v1", "NodeClass"): "/apis/eks.amazonaws.com/v1/nodeclasses",
    ("karpenter.sh/v1", "NodePool"): "/apis/karpenter.sh/v1/nodepools",
}


class AutoModeController:
    """Runs Karpenter and its proxy as long as the cloud reports Auto Mode."""

    def __init__(
        self, folder: Path, control_plane: LocalControlPlane, processes: Processes, log: EventLog
    ) -> None:
        self._folder = folder
        self._control_plane = control_plane
        self._processes = processes
        self._log = log
        self._proxy: _Proxy | None = None

    def follow(self, wanted: AutoMode | None) -> None:
        """Starts or stops Karpenter. Raises ProcessError if it has exited on its own."""
        if wanted is None:
            self.stop()
        elif self._proxy is None:
            self._start(wanted)
        else:
            self._processes.check(NAME)

    def _start(self, wanted: AutoMode) -> None:
        api = self._control_plane.api
        for obj in wanted.objects:
            path = _PATHS[obj["apiVersion"], obj["kind"]]
            try:
                api.create(path, dict(obj))
            except ApiError as error:
                if error.status != 409:
                    raise
        self._proxy = _Proxy(self._control_plane)
        self._folder.mkdir(parents=True, exist_ok=True)
        document = json.loads(self._control_plane.kubeconfig.read_text())
        document["clusters"][0]["cluster"]["server"] = self._proxy.endpoint
        kubeconfig = self._folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(document))
        environment = {
            **wanted.environment,
            "KUBECONFIG": str(kubeconfig),
            "DISABLE_LEADER_ELECTION": "true",
            "SYSTEM_NAMESPACE": "kube-system",
            # The API server reports its own version also if it emulates the cluster's.
            "EKS_CONTROL_PLANE": "true",
            "FEATURE_GATES": ",".join(f"{gate}=true" for gate in _GATES),
            "METRICS_PORT": str(free_port()),
            "HEALTH_PROBE_PORT": str(free_port()),
        }
        self._processes.start(NAME, [tools.binary("karpenter-aws")], environment, no_listen=True)
        self._log.record("node", "controllers", "runs", program=NAME, image=NAME)

    def stop(self) -> None:
        """Stops Karpenter when its cluster is deleted."""
        if self._proxy is not None:
            self._processes.stop(NAME, grace=0.5)
            self._proxy.stop()
            self._proxy = None


class _Server(InBackground, ThreadingHTTPServer):
    base: str
    pool: urllib3.PoolManager


class _Proxy:
    """Listens on loopback, for this user only, with the API server's certificate."""

    def __init__(self, control_plane: LocalControlPlane) -> None:
        self._server = _Server(("127.0.0.1", 0), _Forward)
        self._server.base = f"https://{control_plane.endpoint}"
        self._server.pool = urllib3.PoolManager(
            maxsize=32, ca_certs=str(control_plane.pki.ca), retries=False
        )
        close_to_others(self._server)
        pki, context = control_plane.pki, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki.server_certificate, pki.server_key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.start(NAME)

    @property
    def endpoint(self) -> str:
        """The proxy's URL."""
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        """Stops the proxy; open watches end with the API server."""
        self._server.stop()


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _forward(self) -> None:
        path = to_cluster(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "json" in (self.headers.get("Content-Type") or ""):
            body = to_cluster(body.decode()).encode()
        headers = {
            name: value
            for name in ("Authorization", "Content-Type", "User-Agent")
            if (value := self.headers.get(name))
        }
        accepted = self.headers.get("Accept") or "application/json"
        headers["Accept"] = accepted.replace(
            "application/vnd.kubernetes.protobuf", "application/json"
        )
        try:
            reply = self.server.pool.request(
                self.command,
                f"{self.server.base}{path}",
                headers=headers,
                body=body or None,
                preload_content=False,
                timeout=urllib3.Timeout(connect=5.0, read=None),
            )
        except urllib3.exceptions.HTTPError as error:
            self.send_error(502, str(error))
            return
        try:
            self._answer(path, reply)
        finally:
            reply.close()

    def _answer(self, path: str, reply: Any) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.headers.get("Content-Type") or "application/json")
        if reply.status != 200 or "watch=" not in path.partition("?")[2]:
            data = reply.read()
            if "json" in (reply.headers.get("Content-Type") or ""):
                data = to_karpenter(data.decode()).encode()
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        rest = b""
        with suppress(urllib3.exceptions.HTTPError):  # the API server has ended
            while chunk := reply.read1():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    out = to_karpenter(line.decode()).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(out), out))
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the API server has its own log."""


def to_cluster(text: str) -> str:
    """Translates what Karpenter writes (JSON) into Auto Mode's API groups and labels."""
    for pattern, words in _TO_CLUSTER:
        text = pattern.sub(words, text)
    return text


def to_karpenter(text: str) -> str:
    """Translates what the cluster contains (JSON) into upstream's API groups and labels."""
    if '"NodeClass' not in text and "eks.amazonaws.com" not in text:
        return text
    for pattern, words in _TO_KARPENTER:
        text = pattern.sub(words, text)
    document = json.loads(text)
    translated = False
    for obj in _objects(document):
        translate = _TRANSLATED.get(obj.get("kind") or _kind_of_items(document))
        if translate is not None and obj.get("spec"):
            obj["spec"] = translate(obj["spec"])
            translated = True
    return json.dumps(document) if translated else text


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list or a watch event, or the document itself if it is an object."""
    if isinstance(document, dict):
        inside = document.get("object")
        found = document.get("items") or [inside if isinstance(inside, dict) else document]
        yield from (obj for obj in found if isinstance(obj, dict))


def _kind_of_items(document: Mapping[str, Any]) -> str:
    return str(document.get("kind") or "").removesuffix("List")


def _class(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The EC2NodeClass that corresponds to a NodeClass; Auto Mode's image is a Bottlerocket."""
    same = (
        "role", "instanceProfile", "subnetSelectorTerms", "securityGroupSelectorTerms",
        "capacityReservationSelectorTerms", "tags",
    )  # fmt: skip
    disk = spec.get("ephemeralStorage") or {}
    volume = {
        "volumeType": "gp3",
        "volumeSize": disk.get("size", "80Gi"),
        "encrypted": True,
        "deleteOnTermination": True,
        **{key: disk[key] for key in ("iops", "throughput", "kmsKeyID") if key in disk},
    }
    system = {"volumeType": "gp3", "volumeSize": "4Gi", "encrypted": True}
    # Karpenter has one policy for all types of a class, and then looks at no volume.
    local = quantity.parse(volume["volumeSize"]) <= _LEAST_LOCAL_BYTES
    return {
        **{key: spec[key] for key in same if key in spec},
        **({"instanceStorePolicy": "RAID0"} if local else {}),
        "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {**system, "deleteOnTermination": True}},
            {"deviceName": "/dev/xvdb", "ebs": volume},
        ],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": 1,
        },
    }


def _pool(spec: dict[str, Any]) -> dict[str, Any]:
    """The NodePool, with the label that all of Auto Mode's nodes have."""
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), _COMPUTE_TYPE: "auto"}
    return {**spec, "template": {**template, "metadata": {**metadata, "labels": labels}}}


_TRANSLATED: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "EC2NodeClass": _class,
    "NodePool": _pool,
}
