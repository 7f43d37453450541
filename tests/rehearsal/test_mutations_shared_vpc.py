"""One thing wrong at a time in a Shared VPC or in what the stack says of it: the check before the
first update finds it, and the update ends in GKE's words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.stacks.capacity import gke
from quality.faults.changes import STACKS
from tests.rehearsal.conftest import with_inventory
from tests.rehearsal.own_stacks import folder_of

INVENTORY = STACKS / "inventories" / "shared.yaml"
SUBNETWORK = "projects/company-net/regions/us-central1/subnetworks/gke"
NETWORK = "https://www.googleapis.com/compute/v1/projects/company-net/global/networks/shared"

MISTAKES: Mapping[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "the project is not attached": ({"missing": ["attachment"]}, {},
        "ml-team is attached to no host project; attach it: gcloud compute shared-vpc",
        'Project "ml-team" does not have an associated Shared-VPC host project.'),
    "GKE's agent may not use the host's": ({"missing": ["hostServiceAgentUser"]}, {},
        "lacks roles/container.hostServiceAgentUser on company-net",
        'required "container.hostServiceAgent.use" permission(s) for "projects/company-net".'),
    "the agents may not use the subnetwork": ({"missing": ["networkUser"]}, {},
        "lacks roles/compute.networkUser on gke, or on company-net",
        f"Google Compute Engine: Required 'compute.subnetworks.get' permission for '{SUBNETWORK}'"),
    "the subnetwork is in another region": ({"region": "us-east1"}, {},
        "company-net has no subnetwork gke in us-central1; it is in us-east1: name one of",
        'Not found: project "company-net" does not have a subnetwork named "gke" in region '
        '"us-central1".'),
    "nothing takes the nodes out": ({"out": "none"}, {},
        "no Cloud NAT of shared in us-central1 serves gke, and it has no Private Google Access",
        "only 0 nodes out of 1 have registered; cluster may be unhealthy."),
    "the settings name a network that has no such subnetwork": ({}, {"vpc": "other"},
        "gke is a subnetwork of shared; set vpc to that",
        f'Subnetwork "{SUBNETWORK}" is not valid for Network "other".'),
    "the settings name a range that is not there": ({}, {"podsRange": "gke-pods"},
        "gke has no secondary range gke-pods; it has: pods, pods-second, services",
        f'Pod secondary range "gke-pods" not found in network "{NETWORK}", subnetwork "gke".'),
    "the settings name another host project": ({}, {"hostProject": "company-other"},
        "company-other has no subnetwork gke in us-central1; nor in any other region",
        'Project "ml-team" does not have an associated Shared-VPC host project.'),
}  # fmt: skip
"""What is wrong -> a change of the inventory or its first subnetwork, one of `cluster.network`,
what the check says, and what GKE says."""
FAST = "the agents may not use the subnetwork"


def caught(folder: Path, mistake: str) -> None:
    """Asks first, and then updates."""
    there, said, found, refused = MISTAKES[mistake]
    inventory = yaml.safe_load(INVENTORY.read_text())
    inventory |= {key: value for key, value in there.items() if key == "missing"}
    inventory["subnetworks"][0] |= {key: each for key, each in there.items() if key != "missing"}
    document = yaml.safe_load((STACKS / "Pulumi.shared.yaml").read_text())
    document["config"]["gpu-cluster:cluster"]["network"] |= said
    source = folder_of("shared", folder, yaml.safe_dump(document))
    options = with_inventory(folder, "shared", inventory, prestart=False)
    with Sandbox("shared", source=source, folder=folder / "sandbox", options=options) as sandbox:
        settings = sandbox.program.settings
        assert settings is not None
        asked = gke.questions(settings, sandbox.cloud_api).findings
        outcome = sandbox.engine.up()
    assert any(found in one.reason and one.word == "wrong" for one in asked), asked
    assert not outcome.ok
    assert any(refused in error for error in outcome.errors), outcome.errors


def test_what_the_network_team_left_out_is_found_and_ends_the_update(tmp_path: Path) -> None:
    """Without the role on the subnetwork, GKE's service agent cannot make the cluster's nodes."""
    caught(tmp_path, FAST)


@pytest.mark.prove
@pytest.mark.parametrize("mistake", [one for one in MISTAKES if one != FAST])
def test_each_mistake_is_found_and_ends_the_update(mistake: str, tmp_path: Path) -> None:
    """Both name what is missing."""
    caught(tmp_path, mistake)
