"""What stands between the engine and an official plugin where operations are hit."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpu_cluster.rehearsal.engine.proxied_plugins import ProxiedPlugins
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.plugins.official import running
from gpu_cluster.tools.scripts import script

PLUGIN = script("""\
import os
from concurrent import futures
import grpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

class Plugin(provider_pb2_grpc.ResourceProviderServicer):
    asked = 0

    def GetPluginInfo(self, request, context):
        return plugin_pb2.PluginInfo(version=str(os.getpid()))

    def Create(self, request, context):
        Plugin.asked += 1
        if request.urn == "half":
            context.set_trailing_metadata((("grpc-status-details-bin", b"made"),))
            context.abort(grpc.StatusCode.UNKNOWN, "half made")
        if request.urn == "dies":
            os._exit(1)
        return provider_pb2.CreateResponse(id=str(Plugin.asked))

server = grpc.server(futures.ThreadPoolExecutor(4))
provider_pb2_grpc.add_ResourceProviderServicer_to_server(Plugin(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
""")
"""Its creates answer with how many it has been asked for, and its version is its process."""


class Hits:
    """Raises at an operation's beginning or end."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    @contextmanager
    def around(self, kind: str, urn: str) -> Iterator[None]:
        self.seen.append((kind, urn))
        if urn == "asked":
            raise CloudError("the cloud refuses")
        yield
        if urn == "done":
            raise CloudError("the answer is lost")


@pytest.fixture
def hits() -> Hits:
    return Hits()


@pytest.fixture
def program(tmp_path: Path, hits: Hits) -> Iterator[Path]:
    """What the engine is given for the plugin."""
    plugin = tmp_path / "pulumi-resource-fake"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    proxies = ProxiedPlugins(tmp_path / "plugins", Faults(around=hits.around))
    yield proxies.in_place_of(plugin)
    proxies.stop()


@pytest.fixture
def stub(program: Path) -> Iterator[Any]:
    """The plugin, started as the engine does it."""
    with running(program, {}) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield provider_pb2_grpc.ResourceProviderStub(channel)


def create(stub: Any, urn: str, *, preview: bool = False) -> str:
    return str(stub.Create(provider_pb2.CreateRequest(urn=urn, preview=preview)).id)


def test_an_operation_is_hit_before_the_plugin_is_asked_or_after_it_answered(
    stub: Any, hits: Hits
) -> None:
    """And nothing is hit in a preview."""
    assert create(stub, "asked", preview=True) == "1"
    assert create(stub, "other") == "2"
    with pytest.raises(grpc.RpcError, match="the cloud refuses"):
        create(stub, "asked")
    with pytest.raises(grpc.RpcError, match="the answer is lost"):
        create(stub, "done")
    assert create(stub, "other") == "4"
    assert hits.seen == [("create", urn) for urn in ("other", "asked", "done", "other")]


def test_what_the_plugin_says_of_a_half_made_resource_reaches_the_engine(stub: Any) -> None:
    """Its trailing metadata is what the engine keeps in the state."""
    with pytest.raises(grpc.RpcError, match="half made") as caught:
        create(stub, "half")
    assert dict(caught.value.trailing_metadata())["grpc-status-details-bin"] == b"made"


def test_a_plugin_that_dies_fails_its_operation(stub: Any) -> None:
    """Instead of holding up the engine."""
    with pytest.raises(grpc.RpcError) as caught:
        create(stub, "dies")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_plugin_ends_with_what_the_engine_started(program: Path) -> None:
    """Also when that is killed, and its proxy ends with it."""
    with running(program, {}) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        plugin = psutil.Process(int(stub.GetPluginInfo(empty_pb2.Empty()).version))
    plugin.wait(10)
    deadline = time.monotonic() + 10
    while answers(port):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_plugin_that_ends_before_it_has_a_port_gets_no_proxy(
    tmp_path: Path, hits: Hits, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was killed; that is no traceback."""
    plugin = tmp_path / "pulumi-resource-fake"
    plugin.write_text("#!/bin/sh\nexit 1\n")
    plugin.chmod(0o755)
    proxies = ProxiedPlugins(tmp_path / "plugins", Faults(around=hits.around))
    done = subprocess.run([proxies.in_place_of(plugin)], stdout=subprocess.PIPE, timeout=30)
    proxies.stop()
    assert (done.returncode, done.stdout, capsys.readouterr().err) == (1, b"", "")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
