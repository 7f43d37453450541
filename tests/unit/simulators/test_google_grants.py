"""Keys and repositories of other projects: what Google says if a role on them is missing."""

from pathlib import Path

import pytest

from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.rehearsal.simulators.google_inventory import not_granted
from gpu_cluster.stacks.capacity import google_grants
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.definition.names import StackError
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import ACCOUNT, CLUSTER, GoogleStack, cluster

KEY = "projects/keys/locations/us-central1/keyRings/gke/cryptoKeys/secrets"
MIRROR = "us-docker.pkg.dev/company/mirror"
ENCRYPTED = {"databaseEncryption": {"state": "ENCRYPTED", "keyName": KEY}}


def test_gke_needs_a_role_on_the_key_of_secrets() -> None:
    """A new cluster, and one that is to use the key, are refused in the words of Cloud KMS."""
    stack = GoogleStack()
    stack.cloud.not_granted = frozenset({KEY})
    network = stack.network()
    with pytest.raises(Refused, match=f"400: Cloud KMS error when using key {KEY}: Permission"):
        stack.up(CLUSTER, "dev", cluster(network, **ENCRYPTED))
    assert not any(line.startswith("cluster ") for line in stack.cloud.list_resources())
    stack.up(CLUSTER, "dev", cluster(network))
    with pytest.raises(Refused, match="useToEncrypt' denied on resource 'projects/keys/"):
        stack.up(CLUSTER, "dev", cluster(network, **ENCRYPTED))


def test_a_key_that_nobody_describes_is_granted_and_the_report_says_so() -> None:
    """No account is asked in a rehearsal."""
    stack = GoogleStack.with_cluster(**ENCRYPTED)
    (line,) = stack.cloud.assumptions()
    assert line.startswith("GKE's service agent has roles/cloudkms.cryptoKeyEncrypterDecrypter on")


@pytest.mark.parametrize("missing", [True, False])
def test_capacity_finds_the_same_grants_missing(missing: bool) -> None:
    """It asks the simulated APIs as those of Google."""
    stack = GoogleStack()
    stack.up(ACCOUNT, "nodes", {"accountId": "c-nodes"})
    stack.cloud.not_granted = frozenset({KEY, MIRROR} if missing else ())
    args = GkeClusterArgs(
        name="c", location="us-central1-a", dns_endpoint=True, secrets_encryption_key=KEY
    )
    api = GoogleApi(stack.api.endpoint)
    found = google_grants.grant_findings(args, f"{MIRROR}/gpu", project="p", api=api)
    names = ["cluster.secretsEncryptionKey", "images.registry"]
    assert [(one.about, one.word) for one in found] == [
        (name, "wrong") for name in names if missing
    ]


def test_nodes_need_a_role_on_a_repository_of_another_project() -> None:
    """Its images only: another repository whose name begins alike is read."""
    stack = GoogleStack()
    stack.cloud.not_granted = frozenset({MIRROR})
    assert "403 Forbidden" in stack.cloud.why_not_pulled(f"{MIRROR}/gpu/dcgm-exporter:4")
    assert stack.cloud.why_not_pulled(f"{MIRROR}-2/dcgm-exporter:4") == ""


def test_an_inventory_lists_what_is_not_granted(tmp_path: Path) -> None:
    """By name; anything else is refused, with an example."""
    (tmp_path / "dev.yaml").write_text(f"notGranted: [{KEY}, {MIRROR}]")
    assert not_granted("dev", tmp_path) == {KEY, MIRROR}
    assert not_granted("train-gke", tmp_path) == frozenset()
    for wrong in ("my-key", "[docker.io/library/nginx]", "{ a: b }", "[5]"):
        (tmp_path / "dev.yaml").write_text(f"notGranted: {wrong}")
        with pytest.raises(StackError, match="neither a Cloud KMS key"):
            not_granted("dev", tmp_path)
