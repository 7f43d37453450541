"""Official provider plugins with fault injection: a proxy between the engine and each plugin
process passes on every request unchanged.

The engine starts `proxied_plugin.py` in place of the plugin, and ends both together.
"""

import shlex
import socketserver
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.tools import linux
from gpu_cluster.tools.peers import InBackground, channel_to, close_to_others, grpc_server

STARTS = Path(__file__).with_name("proxied_plugin.py")
_OPERATIONS: Mapping[str, Any] = {
    "Create": provider_pb2.CreateRequest,
    "Update": provider_pb2.UpdateRequest,
    "Delete": provider_pb2.DeleteRequest,
}


class _Server(InBackground, socketserver.ThreadingTCPServer):
    """Has one thread for each plugin process."""


class ProxiedPlugins:
    """Creates a proxy for each official plugin process of a sandbox."""

    def __init__(self, folder: Path, faults: Faults) -> None:
        """`folder`: contains the programs that the engine starts."""

        class Asked(socketserver.StreamRequestHandler):
            """One plugin process: it sends its port, and receives the proxy's."""

            def handle(self) -> None:
                if not (plugin := self.rfile.readline()):
                    return  # it was killed before its plugin had a port
                with _proxy(int(plugin), faults) as port:
                    self.wfile.write(f"{port}\n".encode())
                    self.rfile.read()  # returns when the process has ended

        self._folder = folder
        self._server = _Server(("127.0.0.1", 0), Asked)
        close_to_others(self._server)
        self._server.start("proxied-plugins")

    def in_place_of(self, program: Path) -> Path:
        """The program, of the same name, that the engine starts instead."""
        port = str(self._server.server_address[1])
        command = [sys.executable, "-I", "-S", str(STARTS), linux.__file__, port, str(program)]
        self._folder.mkdir(parents=True, exist_ok=True)
        made = self._folder / program.name
        made.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        made.chmod(0o700)
        return made

    def stop(self) -> None:
        """Stops creating proxies."""
        self._server.stop()


@contextmanager
def _proxy(plugin: int, faults: Faults) -> Iterator[int]:
    """Runs a proxy for the plugin at a port; yields the proxy's port."""
    with channel_to(f"127.0.0.1:{plugin}") as channel:
        server, port = grpc_server(128, "proxied-plugin", [_PassingOn(channel, faults)])
        server.start()
        try:
            yield port
        finally:
            server.stop(None)


class _PassingOn(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Passes on requests and responses as bytes."""

    def __init__(self, channel: grpc.Channel, faults: Faults) -> None:
        self._channel, self._faults = channel, faults

    def service(self, details: Any) -> Any:
        """Implements gRPC's interface."""
        ask = self._channel.unary_unary(details.method)
        method = details.method.rpartition("/")[2]

        def answer(request: bytes, context: Any) -> Any:
            try:
                return self._answer(ask, method, request)
            except CloudError as error:
                context.abort(grpc.StatusCode.UNKNOWN, str(error))
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata() or ())
                context.abort(error.code(), error.details())

        return grpc.unary_unary_rpc_method_handler(answer)

    def _answer(self, ask: Callable[[bytes], Any], method: str, request: bytes) -> Any:
        """Passes on a request, with the faults that are set for it; none in a preview."""
        asked = _OPERATIONS[method].FromString(request) if method in _OPERATIONS else None
        if asked is None or getattr(asked, "preview", False):
            return ask(request)
        with self._faults.around(method.lower(), asked.urn):
            return ask(request)
