"""etcd is behind the API server for everybody: it has no authorization of its own."""

import json
from pathlib import Path

import psutil
import pytest

from gpu_cluster.rehearsal.control_plane.local_control_plane import (
    ETCD_CLIENTS,
    ETCD_PEERS,
    LocalControlPlane,
)
from tests.another_user import NOBODY, as_root, asked

pytestmark = pytest.mark.xdist_group("plane")
ASK = """
import http.client, json, socket

def ask(path):
    body = json.dumps({"key": "AA==", "range_end": "AA==", "count_only": True})
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.connect(path)
        connection.request("POST", "/v3/kv/range", body)
        return connection.getresponse().read().decode()
    except OSError as error:
        return f"refused: {error!r}"
"""
"""Counts all keys, by the JSON that etcd serves on the socket of its clients."""


@pytest.fixture
def etcd(plane: LocalControlPlane) -> Path:
    """The folder of its sockets."""
    return plane.kubeconfig.parent / "etcd"


def test_the_socket_is_open_to_its_owner(etcd: Path) -> None:
    """So what others are refused is there."""
    assert int(json.loads(asked(ASK, None, etcd / ETCD_CLIENTS))["count"]) > 50


@as_root
@pytest.mark.parametrize("socket", [ETCD_CLIENTS, ETCD_PEERS])
def test_nobody_else_gets_in(etcd: Path, socket: str) -> None:
    """A pod that is written there is past RBAC and admission; with a real kubelet it is root."""
    assert asked(ASK, NOBODY, etcd / socket).startswith("refused: PermissionError")


def test_its_folder_alone_keeps_others_out(etcd: Path) -> None:
    """Whatever the modes of the folders around it and of the sockets are."""
    assert etcd.stat().st_mode & 0o777 == 0o700


def test_it_listens_on_no_port(etcd: Path) -> None:
    """Which every user of the machine reaches."""
    (server,) = (
        each
        for each in psutil.process_iter(["name", "cwd"])
        if each.info["name"] == "etcd" and each.info["cwd"] == str(etcd)
    )
    assert server.net_connections("inet") == []


def test_keys_stay_with_their_owner(plane: LocalControlPlane) -> None:
    """The administrator's kubeconfig, too."""
    files = [plane.kubeconfig, *Path(plane.pki.ca).parent.iterdir()]
    assert {file.stat().st_mode & 0o077 for file in files} == {0}
