"""A state that may be kept in a repository: no secret in it, and nothing that providers refuse."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from pulumi import _types

from cli.ci.kept_state import opened
from rehearsal.sandbox import ROOT
from stacks.files import PLACEHOLDER

FIXTURES = sorted((ROOT / "tests" / "fixtures").glob("state-*.json"))
SIGNATURE, SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
CLUSTER = "gcp:container/cluster:Cluster"


def encrypted(value: Any) -> Any:
    """The state as `pulumi stack export` writes it without `--show-secrets`."""
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            return {SIGNATURE: SECRET, "ciphertext": "v1:bm9uY2U=:Y2lwaGVydGV4dA=="}
        return {name: encrypted(each) for name, each in value.items()}
    return [encrypted(each) for each in value] if isinstance(value, list) else value


def states() -> Iterator[Any]:
    """Of all five environments, exported with their secrets and without."""
    for file in FIXTURES:
        state = json.loads(file.read_text())
        yield pytest.param(state, id=f"{file.stem} plain")
        yield pytest.param(encrypted(state), id=f"{file.stem} encrypted")


def rows(state: Any) -> Iterator[dict[str, Any]]:
    yield from state["deployment"]["resources"]


def fits(value: Any, kind: Any) -> bool:
    """Whether a plain value has the kind that the SDK says."""
    if isinstance(kind, type) and _types.is_output_type(kind):
        members = _types.output_type_types(kind)
        return isinstance(value, dict) and all(fits(value[n], k) for n, k in members.items())
    if getattr(kind, "__origin__", None) is not None:
        return isinstance(value, dict if "Mapping" in str(kind) else list)
    return isinstance(value, kind)


@pytest.mark.parametrize("state", [*states()])
def test_every_secret_output_has_the_shape_that_the_sdk_says(state: Any) -> None:
    """Maps are maps and objects have their members: providers refuse a text there."""
    from cli.ci.kept_state import _property_kinds

    seen = 0
    for before, after in zip(rows(state), rows(opened(state)), strict=True):
        kinds = _property_kinds(before["type"])
        for name, value in (before.get("outputs") or {}).items():
            if isinstance(value, dict) and value.get(SIGNATURE) == SECRET and name in kinds:
                assert fits(after["outputs"][name], kinds[name]), (before["urn"], name)
                seen += 1
    secrets = [row for row in rows(state) if SIGNATURE in json.dumps(row.get("outputs"))]
    assert seen or not any(row["type"] == CLUSTER for row in secrets)


@pytest.mark.parametrize("state", [*states()])
def test_no_secret_is_left(state: Any) -> None:
    """Neither encrypted nor in plain text, and no way to a key."""
    text = json.dumps(opened(state))
    assert not [
        word for word in (SIGNATURE, "ciphertext", "plaintext", "secrets_providers") if word in text
    ]


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


def test_the_command_prints_what_may_be_kept(tmp_path: Path) -> None:
    """And says in one line what is no export."""

    def run(text: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "export.json"
        file.write_text(text)
        return subprocess.run(
            [sys.executable, "-m", "cli", "ci", "open-state", str(file)],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip

    state = json.loads(FIXTURES[0].read_text())
    assert json.loads(run(json.dumps(state)).stdout) == opened(state)
    done = run("{}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("has no deployment; give what pulumi stack export prints\n")
    assert run("x").stderr.endswith("is not JSON; give what pulumi stack export prints\n")
