"""What listens for a rehearsal is closed to other users of the machine."""

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gpu_cluster.rehearsal.control_plane import mounted, pod_network
from gpu_cluster.rehearsal.control_plane.pki import make_pki
from gpu_cluster.rehearsal.control_plane.pod_network import PodNetwork
from gpu_cluster.rehearsal.engine import proxied_plugins
from gpu_cluster.rehearsal.nodes import bounds
from gpu_cluster.rehearsal.plugins import language_host
from gpu_cluster.rehearsal.plugins.cloud.server import ProviderServer
from gpu_cluster.rehearsal.plugins.kubernetes.server import KubernetesProviderServer
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.served_account import serve
from gpu_cluster.tools import ToolError, peers
from gpu_cluster.tools.peers import close_to_others, ours
from tests.another_user import NOBODY, as_root, asked
from tests.unit.simulators.google_stack import GoogleStack

ASK = """
import socket, sys

def ask(kind, address, text):
    if kind == "unix":
        client = socket.socket(socket.AF_UNIX)
        client.connect("\\0" + address)
    else:
        client = socket.create_connection(("127.0.0.1", int(address)))
    client.settimeout(5)
    try:
        client.sendall(text.encode().decode("unicode_escape").encode("latin1"))
        return client.recv(1000)
    except (ConnectionResetError, BrokenPipeError):
        return b""
"""
"""Connects, says something and returns what comes back: nothing where it is hung up on."""
GET = r"GET / HTTP/1.0\r\n\r\n"


@as_root
def test_a_proxy_to_pods_hangs_up_on_others(tmp_path: Path) -> None:
    """It connects, as this user, to any address; an abstract socket has no permissions."""
    network = PodNetwork(tmp_path)
    (selection,) = json.loads(network.egress.read_text())["egressSelections"]
    name = selection["connection"]["transport"]["uds"]["udsName"].removeprefix("@")
    try:
        assert "405" in asked(ASK, None, "unix", name, GET)
        assert asked(ASK, NOBODY, "unix", name, GET) == "b''"
    finally:
        network.stop()


@pytest.mark.parametrize("module", [bounds, pod_network, proxied_plugins])
def test_a_client_that_hangs_up_leaves_no_traceback(
    capsys: pytest.CaptureFixture[str], module: Any
) -> None:
    """As an API server does that ends with its rehearsal; other errors are shown."""
    server = object.__new__(module._Server)
    for error, shown in ((ConnectionResetError(), False), (KeyError("x"), True)):
        try:
            raise error
        except (ConnectionResetError, KeyError):
            server.handle_error(None, ("127.0.0.1", 1))
        assert ("Traceback" in capsys.readouterr().err) == shown


@pytest.fixture
def http() -> Iterator[ThreadingHTTPServer]:
    """A server of HTTP that answers everybody until it is closed to others."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@as_root
def test_a_server_of_http_hangs_up_on_others(http: ThreadingHTTPServer) -> None:
    """The simulated clouds' own APIs are served so."""
    port = http.server_port
    assert "204" in asked(ASK, NOBODY, "tcp", port, GET)
    close_to_others(http)
    assert "204" in asked(ASK, None, "tcp", port, GET)
    assert asked(ASK, NOBODY, "tcp", port, GET) == "b''"


@as_root
def test_the_simulated_aws_is_closed_to_others() -> None:
    """moto answers whoever has any credentials."""
    account = Account()
    stop = serve(account)
    port = account.endpoint.rpartition(":")[2]
    try:
        assert "HTTP/1" in asked(ASK, None, "tcp", port, GET)
        assert asked(ASK, NOBODY, "tcp", port, GET) == "b''"
    finally:
        stop()


@pytest.mark.parametrize("asked", [peers._owner, lambda peer, port: None], ids=["kernel", "table"])
def test_who_is_connected_is_known(
    asked: Callable[[int, int], int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process to itself, by both ends' ports, and only while the connection is open."""
    monkeypatch.setattr(peers, "_owner", asked)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            own = client.getsockname()[1]
            accepted, _ = server.accept()
            assert ours(own, port)
            assert not ours(own, port + 1)
        # The kernel says of a socket that its program has closed that it is root's.
        assert not ours(own, port)
        accepted.close()


def test_a_client_of_both_families_is_known_without_the_tables() -> None:
    """The kernel is asked for an address of IPv4, and some clients have only sockets of IPv6."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_INET6) as client:
        port = server.getsockname()[1]
        client.connect(("::ffff:127.0.0.1", port))
        assert peers._owner(client.getsockname()[1], port) == os.geteuid()


def kubernetes() -> tuple[int, Callable[[], None]]:
    server = KubernetesProviderServer(os.environ)
    server.start()
    return server.port, server.stop


def google() -> tuple[int, Callable[[], None]]:
    server = ProviderServer(GoogleStack().provider.settings)
    return server.port, server.stop


CALL = """
import grpc
grpc.insecure_channel("127.0.0.1:1").close()  # gRPC imports half of itself at the first channel

def ask(port, method):
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    call = channel.unary_unary(
        method, request_serializer=lambda _: b"", response_deserializer=lambda data: data
    )
    try:
        call(None, timeout=10)
        return "answered"
    except grpc.RpcError as error:
        return error.code().name
"""
"""Calls a method of a gRPC server, and returns the code of its answer."""


@as_root
@pytest.mark.parametrize("serve", [kubernetes, google], ids=["kubernetes", "cloud"])
def test_a_provider_refuses_others(serve: Callable[[], tuple[int, Callable[[], None]]]) -> None:
    """A kubeconfig names a command that signs in, and the provider runs it as this user."""
    port, stop = serve()
    method = "/pulumirpc.ResourceProvider/GetPluginInfo"
    try:
        assert asked(CALL, None, port, method) == "answered"
        assert asked(CALL, NOBODY, port, method) == "PERMISSION_DENIED"
        assert (
            asked(CALL, NOBODY, port, "/pulumirpc.ResourceProvider/Configure")
            == "PERMISSION_DENIED"
        )
    finally:
        stop()


@as_root
def test_the_language_host_refuses_others() -> None:
    """It runs the program that it is told to."""
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from gpu_cluster.rehearsal.plugins import language_host; language_host.main()",
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(language_host.__file__).parents[2],
    ) as host:
        assert host.stdout is not None
        port = int(host.stdout.readline())
        method = "/pulumirpc.LanguageRuntime/GetPluginInfo"
        try:
            assert asked(CALL, None, port, method) == "answered"
            assert asked(CALL, NOBODY, port, method) == "PERMISSION_DENIED"
            run = "/pulumirpc.LanguageRuntime/RunPlugin"
            assert asked(CALL, NOBODY, port, run) == "PERMISSION_DENIED"
        finally:
            host.terminate()


def test_keys_are_their_owners_alone(tmp_path: Path) -> None:
    """Every file of the control plane's."""
    make_pki(tmp_path / "pki")
    files = list((tmp_path / "pki").iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700


@pytest.fixture
def waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """JobSet's file, in a `/tmp` of its own."""
    path = tmp_path / "k8s-webhook-server" / "serving-certs" / "tls.crt"
    monkeypatch.setattr(mounted, "WAITS_FOR", path)
    return path


def test_what_jobset_looks_for_is_made_and_removed(waits_for: Path) -> None:
    """With the folders that it lies in; a certificate that somebody really mounted there stays."""
    mounted.mark()
    mounted.mark()
    assert waits_for.read_bytes() == b""
    mounted.unmark()
    assert list(waits_for.parents[2].iterdir()) == []
    mounted.unmark()
    mounted.mark()
    waits_for.write_text("somebody's")
    mounted.unmark()
    assert waits_for.is_file()


@pytest.mark.parametrize("at", [0, 1])
def test_a_link_in_tmp_is_not_followed(at: int, waits_for: Path, tmp_path: Path) -> None:
    """Whoever came first in `/tmp` cannot send root's files elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = waits_for.parents[at]
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(ToolError, match=f"^{link} is not a folder"):
        mounted.mark()
    assert list(elsewhere.iterdir()) == []
    # Nor is anything removed there.
    made = elsewhere / waits_for.relative_to(link)
    made.parent.mkdir(parents=True, exist_ok=True)
    made.touch()
    mounted.unmark()
    assert made.is_file()


@as_root
def test_another_users_folder_is_refused(waits_for: Path) -> None:
    """Its owner could put a link into it at any time."""
    waits_for.parents[1].mkdir()
    os.chown(waits_for.parents[1], NOBODY, NOBODY)
    with pytest.raises(ToolError, match="belongs to another user"):
        mounted.mark()
    assert list(waits_for.parents[1].iterdir()) == []


def test_a_folder_in_which_all_may_write_is_refused(waits_for: Path) -> None:
    """As if it were somebody else's."""
    waits_for.parents[1].mkdir()
    waits_for.parents[1].chmod(0o777)
    with pytest.raises(ToolError, match="is writable by others"):
        mounted.mark()
    with suppress(FileNotFoundError):
        assert not waits_for.exists()
