"""Keeps every group at or below its maximum: checked before each node that Karpenter adds.

Karpenter's own limit counts a new node only once its size is known, and by then two more may have
been requested. A cloud's autoscaler never exceeds the group's maximum, not even for a second.
Therefore the API server calls this admission webhook, which answers one request at a time.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.pki import Pki
from gpu_cluster.tools.peers import InBackground

NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
POOL = "karpenter.sh/nodepool"
ON_THE_WAY_SECONDS = 30.0
"""How long an admitted node may take to appear."""


class Bounds:
    """The webhook, on loopback. Thread-safe."""

    def __init__(self, pki: Pki) -> None:
        self.limits: Mapping[str, int] = {}
        """Karpenter's pool -> how many nodes it may have; 0 for a pool that is missing here."""
        self._api: Api | None = None
        self._let_in: dict[str, tuple[str, float]] = {}
        """Node claims that were admitted but not seen yet -> their pool, and the time."""
        self._lock = threading.Lock()
        self._ca = base64.b64encode(pki.ca_certificate).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki.server_certificate, pki.server_key)
        self._server = _Server(("127.0.0.1", 0), _Review)
        self._server.bounds = self
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.start("bounds")

    def stop(self) -> None:
        """Stops the webhook."""
        self._server.stop()

    def install(self, api: Api) -> None:
        """Registers the webhook with this API server, and forgets earlier admissions."""
        with self._lock:
            self._api, self._let_in = api, {}
        url = f"https://127.0.0.1:{self._server.server_address[1]}/"
        api.create(WEBHOOKS, {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "rehearsal-node-bounds"},
            "webhooks": [{
                "name": "bounds.rehearsal.internal",
                "clientConfig": {"url": url, "caBundle": self._ca},
                "rules": [{
                    "apiGroups": ["karpenter.sh"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["nodeclaims"],
                }],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })  # fmt: skip

    def refusal(self, claim: Mapping[str, Any]) -> str | None:
        """Why this node claim may not be created; None if it may, in which case it is counted."""
        metadata = claim["metadata"]
        pool, name = metadata.get("labels", {}).get(POOL, ""), metadata["name"]
        with self._lock:
            assert self._api is not None
            requirements = {
                item["metadata"]["name"]: item["metadata"].get("labels", {}).get(POOL)
                for item in self._api.items(NODE_CLAIMS)
            }
            now = time.monotonic()
            self._let_in = {
                other: (of, at)
                for other, (of, at) in self._let_in.items()
                if other not in requirements and now - at < ON_THE_WAY_SECONDS
            }
            count = sum(of == pool for of in requirements.values())
            count += sum(of == pool for of, _ in self._let_in.values())
            if count >= (most := self.limits.get(pool, 0)):
                return f"pool {pool} is at its maximum of {most} autoscaled nodes"
            self._let_in[name] = (pool, now)
            return None


class _Server(InBackground, ThreadingHTTPServer):
    bounds: Bounds


class _Review(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        reason = self.server.bounds.refusal(request["object"])
        response: dict[str, Any] = {"uid": request["uid"], "allowed": reason is None}
        if reason is not None:
            response["status"] = {"code": 403, "message": reason}
        body = json.dumps({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        }).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the API server has its own log."""
