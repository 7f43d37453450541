"""Serves a simulated API on loopback, for this user only."""

import io
import logging
import sys
import threading
from typing import Any
from wsgiref.handlers import SimpleHandler

from werkzeug.serving import WSGIRequestHandler, make_server

from gpu_cluster.tools.peers import close_to_others

_log = logging.getLogger(__name__)


class RequestHandler(WSGIRequestHandler):
    """Keeps a client's connection open, and logs nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each response waits 40 ms for the acknowledgement

    def run_wsgi(self) -> None:
        """Werkzeug's own method closes the connection after each response."""
        environ = self.make_environ()
        if not environ.get("wsgi.input_terminated"):
            length = int(environ.get("CONTENT_LENGTH") or 0)
            environ["wsgi.input"] = io.BytesIO(self.rfile.read(length))
        handler = SimpleHandler(environ["wsgi.input"], self.wfile, sys.stderr, environ)  # type: ignore[arg-type]
        handler.http_version = "1.1"
        handler.run(self.server.app)

    def log(self, type: str, message: str, *args: Any) -> None:
        _log.debug(message, *args)


class Served:
    """A WSGI application served at `endpoint` until it is stopped."""

    def __init__(self, application: Any, handler: type[RequestHandler] = RequestHandler) -> None:
        self._server = make_server(
            "127.0.0.1", 0, application, threaded=True, request_handler=handler
        )
        close_to_others(self._server)
        self.port = self._server.server_port
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="simulated-api", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stops the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
