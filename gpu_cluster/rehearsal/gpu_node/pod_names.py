"""A DNS server that answers only for the names of a real node's pods, as CoreDNS does.

Workers of a training job reach the first one as `HOSTNAME.SUBDOMAIN`
(https://github.com/kubernetes/dns/blob/master/docs/specification.md, 2.4).
"""

import socketserver
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address
from typing import Any

from gpu_cluster.rehearsal.gpu_node.machine import NodeError

DOMAIN = "cluster.local"
PORT = 53
_A, _HEADER = 1, struct.Struct("!6H")
_ANSWERED, _UNKNOWN = 0x8580, 3
"""Flags of an authoritative answer, and the code for a name that does not exist."""


class PodNames:
    """A DNS server on one address of this machine, until it is stopped."""

    def __init__(
        self, address: str, pods: Callable[[], Iterable[Mapping[str, Any]]], port: int = PORT
    ) -> None:
        """`pods` returns the cluster's current pods. Raises NodeError if the port is in use."""

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                query, asked = self.request
                asked.sendto(answer_query(query, addresses(pods())), self.client_address)

        try:
            self._server = socketserver.UDPServer((address, port), Handler)
        except OSError as error:
            raise NodeError(f"{address}:{port}, for the names of pods: {error.strerror}") from None
        self.port = self._server.server_address[1]
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.1,), name="pod-names", daemon=True).start()

    def stop(self) -> None:
        """Stops the server."""
        self._server.shutdown()
        self._server.server_close()


def addresses(pods: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Name -> address of the pods that have their own name."""
    found = {}
    for pod in pods:
        spec, address = pod["spec"], pod.get("status", {}).get("podIP")
        if address and spec.get("hostname") and spec.get("subdomain"):
            namespace = pod["metadata"]["namespace"]
            found[f"{spec['hostname']}.{spec['subdomain']}.{namespace}.svc.{DOMAIN}"] = address
    return found


def answer_query(query: bytes, known: Mapping[str, str]) -> bytes:
    """The answer to a query with one question (RFC 1035, 4.1)."""
    labels, at = [], _HEADER.size
    while size := query[at]:
        labels.append(query[at + 1 : at + 1 + size].decode("ascii", "replace").lower())
        at += size + 1
    question, (kind,) = query[_HEADER.size : at + 5], struct.unpack_from("!H", query, at + 1)
    address = known.get(".".join(labels))
    records = b""
    if address and kind == _A:
        # A pointer to the name in this message, class IN, and TTL 0, so that no client caches it.
        records = struct.pack("!HHHIH", 0xC00C, _A, 1, 0, 4) + IPv4Address(address).packed
    (number,) = struct.unpack_from("!H", query)
    flags = _ANSWERED | (0 if address else _UNKNOWN)
    return _HEADER.pack(number, flags, 1, bool(records), 0, 0) + question + records
