"""A rehearsal reads nothing of the user's clouds, clusters and proxies, and connects to none."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.stacks.definition.files import SAMPLES
from gpu_cluster.tools import programs
from tests.rehearsal.conftest import run_cli
from tests.rehearsal.test_getting_started import clone

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
URLS = (
    *PROXIES, *map(str.upper, PROXIES), "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "GOOGLE_COMPUTE_CUSTOM_ENDPOINT",
    "GOOGLE_CONTAINER_CUSTOM_ENDPOINT", "IDENTITY_ENDPOINT", "PULUMI_API", "PULUMI_BACKEND_URL",
)  # fmt: skip
HOSTS = ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT")
VALUES = {
    "AWS_PROFILE": "work",
    "AWS_ACCESS_KEY_ID": "AKIASECRET",
    "AWS_SECRET_ACCESS_KEY": "SECRET",
    "AWS_SESSION_TOKEN": "SECRET",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN": "SECRET",
    "GOOGLE_OAUTH_ACCESS_TOKEN": "SECRET",
    "GOOGLE_PROJECT": "work",
    "PULUMI_ACCESS_TOKEN": "SECRET",
    "KUBERNETES_SERVICE_HOST": "127.0.0.1",
}


class Listener:
    """A server that counts its connections and answers none."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._server.getsockname()[1]
        self.seen: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:  # closed
                return
            with client:
                client.settimeout(1)
                self.seen.append(client.recv(200))

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    server = Listener()
    yield server
    server.close()


def users_environment(home: Path, port: int) -> dict[str, str]:
    """Everything that names a cloud, a cluster, credentials or a proxy names the listener."""
    url = f"http://127.0.0.1:{port}"
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    kubeconfig = {
        "current-context": "work",
        "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
        "clusters": [{"name": "work", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": "SECRET"}}],
    }
    user = {"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"}
    files = {
        ".kube/config": json.dumps(kubeconfig),
        ".aws/config": f"[profile work]\nregion = us-east-1\nendpoint_url = {url}\n",
        ".aws/credentials": "[work]\naws_access_key_id = AKIA\naws_secret_access_key = SECRET\n",
        ".config/gcloud/application_default_credentials.json": json.dumps(
            {**user, "token_uri": url}
        ),
        ".pulumi/credentials.json": json.dumps({"current": url, "accessTokens": {url: "SECRET"}}),
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return {
        **os.environ,
        **dict.fromkeys(URLS, url),
        **dict.fromkeys(HOSTS, f"127.0.0.1:{port}"),
        **VALUES,
        "KUBERNETES_SERVICE_PORT": str(port),
        "GPU_CLUSTER_CACHE": str(programs.cache_folder()),
        "HOME": str(home),
        "KUBECONFIG": str(home / ".kube" / "config"),
        "GOOGLE_APPLICATION_CREDENTIALS": str(
            home / ".config/gcloud/application_default_credentials.json"
        ),
    }


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param(stack, marks=[] if stack == "onprem" else pytest.mark.prove)
        for stack in SAMPLES
    ],
)
def test_a_rehearsal_reaches_nothing_of_the_user(
    stack: str, tmp_path: Path, listener: Listener
) -> None:
    """It passes as without them, and nothing that it starts has connected."""
    environment = users_environment(tmp_path / "home", listener.port)
    done = run_cli("rehearse", stack, "--folder", str(tmp_path / "sandbox"), env=environment)
    assert (done.returncode, listener.seen) == (0, []), done.stdout + done.stderr
    assert "SECRET" not in done.stdout + done.stderr


@pytest.mark.prove
def test_the_path_of_a_checkout_may_have_any_characters(tmp_path: Path) -> None:
    """Blanks, and what means something in a URL."""
    checkout = clone(tmp_path / "a b" / "ü#%41?")
    done = run_cli("rehearse", "onprem", folder=checkout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.prove
def test_an_object_without_a_provider_reaches_no_cluster(
    tmp_path: Path, listener: Listener
) -> None:
    """The commonest slip in a program that somebody has extended: the default provider would take
    the user's kubeconfig."""
    checkout = clone(tmp_path / "clone")
    stack_file = checkout / "Pulumi.dev.yaml"
    text = stack_file.read_text()
    switch = "  pulumi:disable-default-providers: [kubernetes]\n"
    assert switch in text
    stack_file.write_text(text.replace(switch, ""))
    with (checkout / "__main__.py").open("a") as program:
        program.write("\nimport pulumi_kubernetes\n")
        program.write("pulumi_kubernetes.core.v1.ConfigMap('slip', data={'a': 'b'})\n")
    environment = users_environment(tmp_path / "home", listener.port)
    done = run_cli("rehearse", "dev", folder=checkout, env=environment)
    assert (done.returncode, listener.seen) == (1, []), done.stdout + done.stderr
    assert "slip" in done.stdout
