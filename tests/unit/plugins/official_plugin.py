"""The official Google plugin beside the offline one, on the same simulated cloud: what each sends.

`python -m tests.unit.plugins.official_plugin PATH_OF_pulumi-resource-gcp` writes again what the
official one sends, and what it makes of failures, for `test_official_requests.py`.
"""

import functools
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import yaml
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpu_cluster.rehearsal.plugins.cloud.wire import encode
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.plugins.official import running
from gpu_cluster.rehearsal.simulators.google import GoogleCloud, serve_api
from gpu_cluster.rehearsal.simulators.google.api.server import Request
from tests.unit.plugins.google_failures import failed_updates, failures
from tests.unit.plugins.google_requests import writes
from tests.unit.plugins.offline_engine import Plane, Refused
from tests.unit.simulators.google_stack import GoogleStack

RECORDED = Path(__file__).with_name("official_requests.yaml")
FAILURES = Path(__file__).with_name("official_failures.yaml")
FAILED_UPDATES = Path(__file__).with_name("official_failed_updates.yaml")


class _Stub:
    """A provider behind a socket, asked as one in this process is."""

    def __init__(self, port: int) -> None:
        # An error may have a whole state in its metadata.
        large = [("grpc.max_metadata_size", 2**24)]
        channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=large)
        self._stub = provider_pb2_grpc.ResourceProviderStub(channel)

    def __getattr__(self, name: str) -> Any:
        def ask(request: Any, context: Any) -> Any:
            try:
                return getattr(self._stub, name)(request, timeout=120)
            except grpc.RpcError as error:
                raise Refused.of(error.details(), error.trailing_metadata() or ()) from None

        return ask


class OfficialStack(GoogleStack):
    """`GoogleStack` with the official plugin in front."""

    def __init__(self, plugin: str) -> None:
        self.plane, self.context, self.state = Plane(), None, {}  # type: ignore[assignment]
        self.cloud = GoogleCloud(control_plane=self.plane, faults=Faults())
        self.requests: list[Request] = []
        self.api = serve_api(self.cloud, self.requests.append)
        self.process = ExitStack()
        port = self.process.enter_context(running(Path(plugin), self.api.environment))
        self.provider = _Stub(port)  # type: ignore[assignment]
        config = {"project": "p", "region": "us-central1"}
        self.provider.Configure(
            provider_pb2.ConfigureRequest(
                args=encode(config),
                variables={f"gcp:config:{name}": value for name, value in config.items()},
            ),
            self.context,
        )

    def stop(self) -> None:
        """Ends the plugin and the API."""
        self.process.close()
        self.api.stop()


def _version(plugin: str) -> str:
    return subprocess.run([plugin, "--version"], capture_output=True, text=True).stdout.strip()


def _record(file: Path, plugin: str, name: str, asked: Callable[..., Any]) -> None:
    stack = OfficialStack(plugin)
    try:
        found = asked(stack, stack.requests)
    finally:
        stack.stop()
    file.write_text(_text(_version(plugin), name, found), encoding="utf-8")


def _text(version: str, name: str, found: Any) -> str:
    head = f"# The official plugin's {name}, as official_plugin.py records them."
    lists = isinstance(found, list)
    rows = [[row] for row in found] if lists else [{key: found[key]} for key in found]
    flow = functools.partial(yaml.safe_dump, default_flow_style=True, sort_keys=False, width=118)
    # A row at a time: one row's change moves no other.
    shown = [f"- {flow(row)[1:-2]}" if lists else f"  {flow(row)[1:-2]}" for row in rows]
    return "\n".join([head, f"plugin: {version}", f"{name}:", *shown, ""])


if __name__ == "__main__":
    _record(RECORDED, sys.argv[1], "writes", writes)
    _record(FAILURES, sys.argv[1], "failures", failures)
    _record(FAILED_UPDATES, sys.argv[1], "failed updates", failed_updates)
