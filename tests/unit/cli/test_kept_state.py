"""A state that may be kept in a repository: no secret in it, and nothing that providers refuse."""

import base64
import json
from typing import Any

from cryptography import x509

from gpu_cluster.cli.ci.kept_state import opened
from gpu_cluster.stacks.definition.files import PLACEHOLDER

SIGNATURE, SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
CLUSTER = "gcp:container/cluster:Cluster"


def secret(**value: str) -> dict[str, str]:
    return {SIGNATURE: SECRET, **value}


def cluster(**outputs: Any) -> dict[str, Any]:
    """The outputs of a GKE cluster after it was opened; its labels are declared."""
    inputs = {
        "resourceLabels": {"team": "ml"},
        "masterAuth": {"clientCertificateConfig": {"issueClientCertificate": True}},
    }
    row = {"urn": "urn:c", "type": CLUSTER, "inputs": inputs, "outputs": outputs}
    made: dict[str, Any] = opened(row)["outputs"]
    return made


def test_secrets_within_a_secret_are_opened() -> None:
    """GKE's masterAuth is a secret that has one."""
    inner = {"clientKey": secret(plaintext=json.dumps("-----BEGIN KEY-----"))}
    for auth in (secret(ciphertext="v1:a:b"), secret(plaintext=json.dumps(inner))):
        found = cluster(masterAuth=auth)["masterAuth"]
        assert found.pop("clusterCaCertificate")
        assert found == {
            "clientCertificate": PLACEHOLDER,
            "clientKey": PLACEHOLDER,
            "clientCertificateConfig": {"issueClientCertificate": True},
        }


def test_the_certificate_is_one_that_the_kubernetes_provider_reads() -> None:
    """It parses a cluster's CA before it finds out that nobody is there."""
    text = cluster(masterAuth=secret(ciphertext="v1:a:b"))["masterAuth"]["clusterCaCertificate"]
    assert x509.load_pem_x509_certificate(base64.b64decode(text)).version == x509.Version.v3


def test_labels_are_those_that_are_declared() -> None:
    """With Pulumi's own: any others are a difference to Google's provider."""
    made = cluster(effectiveLabels=secret(ciphertext="a"), pulumiLabels=secret(plaintext="{}"))
    labels = {"team": "ml", "goog-pulumi-provisioned": "true"}
    assert made == {"effectiveLabels": labels, "pulumiLabels": labels}


def test_the_bridge_s_note_of_the_values_goes_with_them() -> None:
    """It is of the secret values, so that the provider finds it wrong, and holds some of them."""
    note = "__pulumi_raw_state_delta"
    meta = json.dumps({"schema_version": "2", note: {"obj": {}}})
    assert cluster(pulumiLabels=secret(ciphertext="a"), __meta=meta)["__meta"] == json.dumps(
        {"schema_version": "2"}
    )
    assert note not in cluster(pulumiLabels=secret(ciphertext="a"), **{note: {}})
    assert cluster(__meta=meta)["__meta"] == meta
