"""Restricts servers on loopback to this user and root.

Every user of the machine can connect to a port of 127.0.0.1, and a provider or language host runs
whatever it is sent. The kernel's table of connections shows the owner of the other end.
"""

import os
import re
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""One line per socket: local address, remote address, state, ..., user, as in proc(5)."""
_ESTABLISHED = 1
"""In the table, root owns a socket that its program has closed, so only an open one counts."""
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
"""Protocol, type and flag of a message to the kernel, as in netlink(7) and sock_diag(7)."""
_HEAD = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBxI")
_ENDS = struct.Struct("!HH4s12x4s12x")
_ANY_INTERFACE_AND_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_ANSWER = struct.Struct("=BBxx48xIIII")
"""Family, state, timer and retransmissions; both ends; expiry, queues and the user."""
_LOOPBACK = socket.inet_aton("127.0.0.1")
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
"""Options of a gRPC server or channel for messages of any size."""


def channel_to(address: str) -> grpc.Channel:
    """A channel to a program on this machine, for messages of any size. gRPC would send it through
    a proxy that the environment names, even to a loopback address."""
    return grpc.insecure_channel(address, options=(*UNLIMITED, ("grpc.enable_http_proxy", 0)))


def ours(peer: int, port: int) -> bool:
    """Whether this user, or root, has the socket with port `peer` that is connected to `port`."""
    owner = _owner(peer, port)
    return (_owner_in_tables(peer, port) if owner is None else owner) in (os.geteuid(), 0)


def _owner(peer: int, port: int) -> int | None:
    """The user who owns the socket; None if the kernel does not know it or does not support the
    query.

    Every call of a plugin needs this: it takes 8 microseconds, reading the tables 3 milliseconds.
    """
    ends = _ENDS.pack(peer, port, _LOOPBACK, _LOOPBACK) + _ANY_INTERFACE_AND_COOKIE
    asked = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED) + ends
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.send(_HEAD.pack(_HEAD.size + len(asked), _BY_FAMILY, _REQUEST, 0, 0) + asked)
            answer = kernel.recv(4096)
    except OSError:  # a kernel without this protocol
        return None
    _, kind, *_ = _HEAD.unpack_from(answer)
    if kind != _BY_FAMILY:
        return None
    _, state, *_, user = _ANSWER.unpack_from(answer, _HEAD.size)
    return user if state == _ESTABLISHED else None


def _owner_in_tables(peer: int, port: int) -> int | None:
    """Like `_owner`, from the tables of all connections."""
    wanted = re.compile(rf":{peer:04X} [0-9A-F]+:{port:04X} {_ESTABLISHED:02X} \S+ \S+ \S+ +(\d+) ")
    for table in TABLES:
        try:
            found = wanted.search(table.read_text())
        except FileNotFoundError:  # a machine without IPv6
            continue
        if found:
            return int(found[1])
    return None


def close_to_others(server: socketserver.BaseServer) -> None:
    """Makes an HTTP server close the connections of other users."""
    port = int(server.server_address[1])  # type: ignore[index]

    def verify(_: object, client: Any) -> bool:
        return ours(int(client[1]), port)

    server.verify_request = verify  # type: ignore[method-assign, assignment]


class InBackground(socketserver.BaseServer):
    """Mixed in first: serves in its own thread until `stop`. It ignores a client that disconnects,
    as killed programs do, for which `socketserver` prints a traceback."""

    daemon_threads = True

    def start(self, name: str) -> None:
        """Starts serving in a thread with this name."""
        threading.Thread(target=self.serve_forever, args=(0.05,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Stops serving, and closes the socket."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class OwnOnly(grpc.ServerInterceptor):  # type: ignore[misc]
    """Refuses other users of a gRPC server with PERMISSION_DENIED. `port` is set once it is known;
    until then no request is served."""

    port = 0

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None:
            return None
        streams = handler.response_streaming
        inner = handler.unary_stream if streams else handler.unary_unary
        if inner is None:  # nothing here has a stream of requests
            return None

        def guarded(request: Any, context: Any) -> Any:
            if not ours(int(context.peer().rpartition(":")[2]), self.port):
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "this is another user's")
            return inner(request, context)

        make = (
            grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        )
        return make(
            guarded,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )


def grpc_server(
    threads: int, name: str, handlers: Sequence[grpc.GenericRpcHandler] = ()
) -> tuple[grpc.Server, int]:
    """A gRPC server on loopback for messages of any size, and its port; not started yet."""
    guard = OwnOnly()
    server = grpc.server(
        ThreadPoolExecutor(threads, thread_name_prefix=name),
        handlers=handlers,
        options=[*UNLIMITED, ("grpc.so_reuseport", 0)],
        interceptors=[guard],
    )
    guard.port = server.add_insecure_port("127.0.0.1:0")
    return server, guard.port
