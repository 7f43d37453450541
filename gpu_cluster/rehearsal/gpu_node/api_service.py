"""The Service `kubernetes` on the real node, where no kube-proxy runs."""

import socket
import socketserver
import threading
from contextlib import suppress

from gpu_cluster.rehearsal.gpu_node.machine import NodeError

PORT = 443
_BLOCK = 1 << 16


class ApiService:
    """Forwards connections from one address of this machine to the API server on loopback."""

    def __init__(self, address: str, server: str, port: int = PORT) -> None:
        """`server`: the API server's `127.0.0.1:<port>`. Raises NodeError if the port is used."""
        host, _, number = server.rpartition(":")

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with (
                    suppress(OSError),  # the API server has ended, and the client tries again
                    socket.create_connection((host, int(number))) as behind,
                ):
                    ends = (self.request, behind)
                    threading.Thread(target=_copy, args=ends, daemon=True).start()
                    _copy(behind, self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        try:
            self._server = Server((address, port), Handler)
        except OSError as error:
            raise NodeError(f"{address}:{port}, for the API server: {error.strerror}") from None
        self.port = self._server.server_address[1]
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.1,), name="api-service", daemon=True).start()

    def stop(self) -> None:
        """Stops listening; open connections end with the API server or the pods."""
        self._server.shutdown()
        self._server.server_close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copies until the source ends, then ends the target's other side."""
    with suppress(OSError):  # one of them has been closed
        while block := source.recv(_BLOCK):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
