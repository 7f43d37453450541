"""etcd is behind the API server for everybody: it has no authorization of its own."""

import json
from pathlib import Path

import pytest

from rehearsal.control_plane.local_control_plane import LocalControlPlane
from tests.another_user import NOBODY, as_root, asked

pytestmark = pytest.mark.xdist_group("plane")
ASK = """
import json, ssl, urllib.request

def ask(scheme, port, certificate="", key=""):
    context = ssl._create_unverified_context()
    if certificate:
        context.load_cert_chain(certificate, key)
    body = json.dumps({"key": "AA==", "range_end": "AA==", "count_only": True}).encode()
    try:
        with urllib.request.urlopen(
            f"{scheme}://127.0.0.1:{port}/v3/kv/range", body, timeout=10, context=context
        ) as answer:
            return answer.read().decode()
    except (OSError, ValueError) as error:
        return f"refused: {error!r}"
"""
"""Counts all keys, by the JSON that etcd serves on the port of its clients."""


def test_the_api_server_s_certificate_opens_it(plane: LocalControlPlane) -> None:
    """So what the others are refused is there."""
    pki = plane.pki
    own = asked(ASK, None, "https", plane._etcd_port, pki.etcd_certificate, pki.etcd_key)
    assert int(json.loads(own)["count"]) > 50


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("port", ["_etcd_port", "_etcd_peer_port"])
@pytest.mark.parametrize(
    "user",
    [None, pytest.param(NOBODY, marks=as_root)],
)
def test_nobody_gets_in_without_it(
    plane: LocalControlPlane, scheme: str, port: str, user: int | None
) -> None:
    """A pod that is written there is past RBAC and admission; with a real kubelet it is root."""
    said = asked(ASK, user, scheme, getattr(plane, port))
    assert said.startswith("refused: ")
    assert "count" not in said


def test_the_cluster_s_own_certificates_do_not_open_it(plane: LocalControlPlane) -> None:
    """Another authority signs etcd's: a kubelet's certificate is no key to every secret."""
    pki = plane.pki
    server = asked(ASK, None, "https", plane._etcd_port, pki.server_certificate, pki.server_key)
    assert server.startswith("refused: ")


def test_keys_stay_with_their_owner(plane: LocalControlPlane) -> None:
    """The administrator's kubeconfig, too."""
    files = [plane.kubeconfig, *Path(plane.pki.ca).parent.iterdir()]
    assert {file.stat().st_mode & 0o077 for file in files} == {0}
