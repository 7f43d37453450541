"""The way from the API server to processes that simulate pods."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.control_plane.pod_network import PodNetwork

POD = ("10.1.0.1", 10250)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[PodNetwork]:
    """A running network."""
    network = PodNetwork(tmp_path)
    yield network
    network.stop()


@pytest.fixture
def process() -> Iterator[int]:
    """The port of a process that answers every line with the same line, in capitals."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # closed: the test is over
                    return
                with connection:
                    connection.sendall(connection.recv(100).upper())

        threading.Thread(target=answer, daemon=True).start()
        yield server.getsockname()[1]


def said(network: PodNetwork, line: bytes, content: bytes = b"") -> bytes:
    """What a client hears that opens the proxy with `line`."""
    (selection,) = json.loads(network.egress.read_text())["egressSelections"]
    name = selection["connection"]["transport"]["uds"]["udsName"]
    with closing(socket.socket(socket.AF_UNIX)) as client:
        client.connect("\0" + name.removeprefix("@"))
        client.settimeout(5)
        client.sendall(line + b"\r\nHost: x\r\n\r\n")
        head = client.recv(1000)
        if b" 200 " not in head:
            return head
        client.sendall(content)
        return client.recv(1000)


def test_a_pod_s_port_is_the_process_s(network: PodNetwork, process: int) -> None:
    """A connection to a simulated pod's address and port ends in the process."""
    network.route(*POD, process)
    assert said(network, b"CONNECT 10.1.0.1:10250 HTTP/1.1", b"hello") == b"HELLO"


def test_any_other_address_is_itself(network: PodNetwork, process: int) -> None:
    """What is no simulated pod is reached directly, as a real node's kubelet."""
    line = f"CONNECT 127.0.0.1:{process} HTTP/1.1".encode()
    assert said(network, line, b"hello") == b"HELLO"


def test_another_port_of_a_pod_is_not_the_process(network: PodNetwork, process: int) -> None:
    """Only the port on which the container listens leads there, and only while the pod lasts."""
    network.route(*POD, process)
    assert network.target("10.1.0.1", 9443) == ("10.1.0.1", 9443)
    network.forget("10.1.0.1")
    assert network.target(*POD) == POD


def test_who_cannot_be_reached_is_said(network: PodNetwork) -> None:
    """A refused connection is an answer with its reason."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    network.route(*POD, port)
    head = said(network, b"CONNECT 10.1.0.1:10250 HTTP/1.1")
    assert head.startswith(b"HTTP/1.1 502 ")
    assert b"refused" in head


def test_a_simulated_node_is_nowhere(network: PodNetwork) -> None:
    """Whoever has its address on the network of this machine is not asked for a log."""
    head = said(network, b"CONNECT 10.128.0.2:10250 HTTP/1.1")
    assert head == b"HTTP/1.1 502 the node is simulated, and no container runs on it\r\n\r\n"


def test_it_is_a_proxy_for_connections_alone(network: PodNetwork) -> None:
    """Anything but CONNECT is refused."""
    assert said(network, b"GET / HTTP/1.1").startswith(b"HTTP/1.1 405 ")
