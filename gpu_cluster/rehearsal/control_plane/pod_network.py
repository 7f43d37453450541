"""Routes from the API server to pods that are really processes on this machine's loopback.

The API server is configured to reach the cluster through a proxy, as on GKE and with Konnectivity.
It resolves a webhook's Service, its endpoints and their pods itself, and speaks TLS with the
result; only the last hop, a pod's address and port, is redirected to the simulating process.
"""

import json
import os
import secrets
import select
import socket
import socketserver
import struct
from pathlib import Path
from typing import Any

from gpu_cluster.tools.peers import InBackground

CHUNK = 65_536
CONNECT_SECONDS = 5.0
NODE_ADDRESS = "10.128.0.2"
"""The address of every simulated node. A user's network may have it, so it is never contacted."""


class PodNetwork:
    """An HTTP CONNECT proxy on an abstract socket. Such a socket has no file and no permissions, so
    the proxy closes other users' connections. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._ports: dict[tuple[str, int], int] = {}
        self._name = f"gpu-cluster-{secrets.token_hex(8)}"
        self._server = _Server(f"\0{self._name}", _Tunnel)
        self._server.network = self
        self._server.start("pod-network")
        self.egress = folder / "egress.json"
        """The API server's `--egress-selector-config-file`."""
        self.egress.write_text(json.dumps(self._selection()))

    def stop(self) -> None:
        """Stops the proxy."""
        self._server.stop()

    def route(self, address: str, port: int, local: int) -> None:
        """Redirects a pod's address and port to a port of 127.0.0.1."""
        self._ports[address, port] = local

    def forget(self, address: str) -> None:
        """Removes the routes of a deleted pod's address."""
        self._ports = {at: local for at, local in self._ports.items() if at[0] != address}

    def target(self, address: str, port: int) -> tuple[str, int]:
        """The real target of a connection: the process, or the address itself (a real kubelet)."""
        local = self._ports.get((address, port))
        return (address, port) if local is None else ("127.0.0.1", local)

    def _selection(self) -> dict[str, object]:
        return {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [
                {
                    "name": "cluster",
                    "connection": {
                        "proxyProtocol": "HTTPConnect",
                        "transport": {"uds": {"udsName": f"@{self._name}"}},
                    },
                }
            ],
        }


class _Server(InBackground, socketserver.ThreadingUnixStreamServer):
    network: PodNetwork

    def verify_request(self, request: Any, client_address: object) -> bool:
        """Whether the peer is this user or root."""
        found = request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, uid, _ = struct.unpack("3i", found)
        return uid in (os.geteuid(), 0)


class _Tunnel(socketserver.StreamRequestHandler):
    """One connection: `CONNECT address:port`, then bytes in both directions."""

    rbufsize = 0
    server: _Server

    def handle(self) -> None:
        words = self.rfile.readline().split()
        while self.rfile.readline().strip():
            pass  # headers are ignored
        if len(words) != 3 or words[0] != b"CONNECT":
            self.wfile.write(b"HTTP/1.1 405 Only CONNECT\r\n\r\n")
            return
        address, _, port = words[1].decode().rpartition(":")
        if address == NODE_ADDRESS:
            self.wfile.write(
                b"HTTP/1.1 502 the node is simulated, and no container runs on it\r\n\r\n"
            )
            return
        target = self.server.network.target(address.strip("[]"), int(port))
        try:
            other = socket.create_connection(target, CONNECT_SECONDS)
        except OSError as error:
            self.wfile.write(f"HTTP/1.1 502 {error}\r\n\r\n".encode())
            return
        with other:
            other.settimeout(None)
            self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            _pump(self.connection, other)


def _pump(source: socket.socket, other: socket.socket) -> None:
    """Copies in both directions until either side closes."""
    peers = {source: other, other: source}
    while True:
        readable, _, _ = select.select([source, other], [], [])
        for ready in readable:
            try:
                data = ready.recv(CHUNK)
                if not data:
                    return
                peers[ready].sendall(data)
            except OSError:  # the other side has closed
                return
