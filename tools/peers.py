"""Nobody but this user, and root, may talk to what listens on loopback here.

A port of 127.0.0.1 is open to every user of the machine, and a provider or language host runs
what it is told to. The kernel's table of connections says whose the other end is.
"""

import os
import re
import socketserver
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""One line a socket: local address, remote address, state, ..., user, as proc(5) has it."""
_ESTABLISHED = "01"
"""A socket that its program has closed belongs to root in the table, so only an open one counts."""


def ours(peer: int, port: int) -> bool:
    """Whether this user, or root, has the socket with port `peer` that is connected to `port`."""
    # The table has thousands of lines where many connections have just been closed, and is read for
    # each new one.
    wanted = re.compile(rf":{peer:04X} [0-9A-F]+:{port:04X} {_ESTABLISHED} \S+ \S+ \S+ +(\d+) ")
    for table in TABLES:
        try:
            found = wanted.search(table.read_text())
        except FileNotFoundError:  # a machine without IPv6
            continue
        if found:
            return int(found[1]) in (os.geteuid(), 0)
    return False


def close_to_others(server: socketserver.BaseServer) -> None:
    """From now on a server of HTTP hangs up on other users."""
    port = int(server.server_address[1])  # type: ignore[index]

    def verify(_: object, client: Any) -> bool:
        return ours(int(client[1]), port)

    server.verify_request = verify  # type: ignore[method-assign, assignment]


class OwnOnly(grpc.ServerInterceptor):  # type: ignore[misc]
    """Answers other users of a gRPC server with PERMISSION_DENIED. `port` is set once it is known;
    until then nobody is answered."""

    port = 0

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None:
            return None
        streams = handler.response_streaming
        inner = handler.unary_stream if streams else handler.unary_unary
        if inner is None:  # nothing here takes a stream of requests
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
