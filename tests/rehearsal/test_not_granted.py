"""Keys and images of other projects on which the stack's project has no role: the check before the
first update finds it, and the rehearsal names it."""

from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.capacity import gke
from tests.rehearsal.conftest import configured, with_inventory

KEY = "projects/keys/locations/us-central1/keyRings/gke/cryptoKeys/secrets"
MIRROR = "us-docker.pkg.dev/company/mirror"


def sandbox(folder: Path, not_granted: str, config: dict[str, Any]) -> Sandbox:
    """One of dev with these blocks."""

    def change(document: dict[str, Any]) -> None:
        for name, block in config.items():
            document.setdefault(f"gpu-cluster:{name}", {}).update(block)

    inventory = {"notGranted": [not_granted]}
    options = with_inventory(folder, "dev", inventory, job_seconds=1, prestart=False)
    return Sandbox("dev", folder=folder / "sandbox", mutate=configured(change), options=options)


def reasons(running: Sandbox) -> list[str]:
    """What `capacity` finds wrong."""
    assert running.program.settings is not None
    asked = gke.questions(running.program.settings, running.cloud_api).findings
    return [one.reason for one in asked if one.word == "wrong"]


def test_a_key_that_gke_may_not_use_ends_the_update(tmp_path: Path) -> None:
    """Before anything of the cluster exists."""
    with sandbox(tmp_path, KEY, {"cluster": {"secretsEncryptionKey": KEY}}) as running:
        assert any(
            f"gcloud kms keys add-iam-policy-binding {KEY}" in reason for reason in reasons(running)
        )
        outcome = running.engine.up()
    assert not outcome.ok
    denied = f"'cloudkms.cryptoKeyVersions.useToEncrypt' denied on resource '{KEY}'"
    assert any(denied in error for error in outcome.errors), outcome.errors


@pytest.mark.prove(reason="test_google_grants has the refusal, test_volumes in unit the line")
def test_images_that_nodes_may_not_read_are_named(tmp_path: Path) -> None:
    """The nodes join, and no container of the device plugin's exporter or of a workload starts."""
    config = {"images": {"registry": f"{MIRROR}/gpu"}}
    with sandbox(tmp_path, MIRROR, config) as running:
        rehearsal = Rehearsal(sandbox=running, deadline=60)
        rehearsal.run_up_only()
        assert any("add-iam-policy-binding mirror" in reason for reason in reasons(running))
    lines = [one for one in rehearsal.failures if f'Failed to pull image "{MIRROR}/gpu/' in one]
    assert lines
    assert all("403 Forbidden" in line for line in lines)
