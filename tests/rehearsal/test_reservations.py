"""One thing wrong with a pool's reservation: the rehearsal says which, in the cloud's words."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal
from tests.rehearsal.conftest import with_inventory
from tests.rehearsal.own_stacks import STACKS, folder_of

IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"
NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


def rehearse(
    stack: str, pools: dict[str, Any], reservations: dict[str, Any], folder: Path
) -> tuple[list[str], dict[str, str]]:
    """The fixture with these pools alone, a job on each, and these reservations, to where a job
    cannot run: what the rehearsal says, and why the cloud refuses each pool a node."""
    document = yaml.safe_load((STACKS / f"Pulumi.{stack}.yaml").read_text())
    document["config"]["gpu-cluster:gpuPools"] = pools
    document["config"]["gpu-cluster:workloads"] = {
        name: {"kind": "job", "pool": name, "image": IMAGE} for name in pools
    }
    inventory = yaml.safe_load((STACKS / "inventories" / f"{stack}.yaml").read_text())
    inventory["reservations"] = reservations
    source = folder_of(stack, folder, yaml.safe_dump(document))
    options = with_inventory(folder, stack, inventory)
    with Sandbox(stack, source=source, folder=folder / "sandbox", options=options) as sandbox:
        run = Rehearsal(sandbox=sandbox, policy_pack=None, deadline=45)
        run.run_up_only()
        # It ends at the first job that cannot run; the autoscaler goes on to the others.
        made = {group.name for group in sandbox.cloud.node_groups()}
        wanted = sum(any(group.startswith(pool) for group in made) for pool in pools)
        until = time.monotonic() + 60
        while time.monotonic() < until and len(sandbox.nodes.refusals) < wanted:
            time.sleep(0.5)
        said = dict(sandbox.nodes.refusals)
        refused = {
            pool: words for pool in pools for group, words in said.items() if group.startswith(pool)
        }
        return list(run.failures), refused


def block(reservation: str) -> dict[str, Any]:
    return {"instanceTypes": ["p5.48xlarge"], "capacityType": "capacity-block",
            "reservation": reservation, "subnetIds": ["subnet-0aaaaaaaaaaaaaaa2"]}  # fmt: skip


def reserved(reservation: str) -> dict[str, Any]:
    return {"instanceTypes": ["g6.xlarge"], "capacityType": "reservation",
            "reservation": reservation, "subnetIds": ["subnet-0aaaaaaaaaaaaaaa1"]}  # fmt: skip


@pytest.mark.prove(reason="16 s of a processor; tests/simulators has the rules")
def test_what_is_wrong_with_reservations_of_ec2(tmp_path: Path) -> None:
    """EKS makes each node group, and EC2 starts none of their nodes."""
    pools = {
        "expired": block("cr-00000001"),
        "early": block("cr-00000002"),
        "elsewhere": reserved("cr-00000003"),
        "other-type": reserved("cr-00000004"),
        "used-up": reserved("cr-00000005"),
        "missing": reserved("cr-00000006"),
    }
    p5 = {"type": "p5.48xlarge", "zone": "us-east-1b", "count": 1, "block": True}
    g6 = {"type": "g6.xlarge", "zone": "us-east-1a", "count": 1}
    failures, refused = rehearse("prod", pools, {
        "cr-00000001": p5 | {"start": NOW - 2 * DAY, "end": NOW - DAY},
        "cr-00000002": p5 | {"start": NOW + DAY, "end": NOW + 2 * DAY},
        "cr-00000003": g6 | {"zone": "us-east-1b"},
        "cr-00000004": g6 | {"type": "g6.2xlarge"},
        "cr-00000005": g6 | {"used": 1},
    }, tmp_path)  # fmt: skip
    full = ("ReservationCapacityExceeded - The requested reservation does not have sufficient "
            "compatible and available capacity for this request. Launching EC2 instance failed. "
            "({})")  # fmt: skip
    asked = "; asked for: 1 of g6.xlarge in us-east-1a"
    wanted = {
        "expired": full.format(
            "Capacity Block cr-00000001 is expired: 1 of 1 p5.48xlarge in us-east-1b; asked for: "
            "1 of p5.48xlarge in us-east-1b"
        ),
        "early": "InvalidCapacityReservationState.PendingActivation - Your Capacity Block "
        "reservation cr-00000002 is not active yet. Launching EC2 instance failed.",
        "elsewhere": full.format(
            f"reservation cr-00000003 is active: 1 of 1 g6.xlarge in us-east-1b{asked}"
        ),
        "other-type": full.format(
            f"reservation cr-00000004 is active: 1 of 1 g6.2xlarge in us-east-1a{asked}"
        ),
        "used-up": full.format(
            f"reservation cr-00000005 is active: 0 of 1 g6.xlarge in us-east-1a{asked}"
        ),
        "missing": "InvalidCapacityReservationId.NotFound - The capacity reservation ID "
        "'cr-00000006' does not exist",
    }
    start = "AsgInstanceLaunchFailures: Could not launch On-Demand Instances. "
    assert refused == {pool: start + words for pool, words in wanted.items()}
    assert failures  # of the first job that cannot run, or of those that show at the same time
    for failure in failures:
        assert any(
            failure.startswith(f"pool {pool}")
            and f"Job default/{pool} cannot be scheduled: the cloud refuses another node: "
            in failure
            for pool in pools
        ), failure


def l4(reservation: str, **changes: Any) -> dict[str, Any]:
    return {"machineType": "g2-standard-4", "capacityType": "reservation",
            "reservation": reservation, **changes}  # fmt: skip


def test_what_is_wrong_with_reservations_of_compute_engine(tmp_path: Path) -> None:
    """GKE makes a pool at zero, and Compute Engine starts no machine."""
    pools = {"used-up": l4("full"), "other-type": l4("large")}
    there = {"zone": "us-central1-a", "count": 1}
    _, refused = rehearse("reserved", pools, {
        "full": {"type": "g2-standard-4", "used": 1, **there},
        "large": {"type": "g2-standard-8", **there},
    }, tmp_path)  # fmt: skip
    assert refused == {
        "used-up": "Specified reservation 'full' does not have available resources for the "
        "request. (0 free, needed: 1)",
        "other-type": "No available resources in specified reservations 'large' (g2-standard-8, "
        "and the pool has g2-standard-4)",
    }


@pytest.mark.prove(reason="tests/unit/simulators/test_google_reservations.py has each by itself")
def test_reservations_that_gke_does_not_find(tmp_path: Path) -> None:
    """In another zone, of a project that does not share it, or nowhere: no pool is made."""
    pools = {
        "elsewhere": l4("other-zone"),
        "not-shared": l4("projects/owner-1/reservations/theirs"),
        "missing": l4("nobodys"),
    }
    kind = {"type": "g2-standard-4", "count": 1}
    failures, _ = rehearse("reserved", pools, {
        "other-zone": {**kind, "zone": "us-central1-b"},
        "projects/owner-1/reservations/theirs": {**kind, "zone": "us-central1-a",
                                                 "sharedWith": ["another-project"]},
    }, tmp_path)  # fmt: skip
    words = [
        f'Compute Engine: reservation "{pool["reservation"]}" not found for node pool "{name}'
        for name, pool in pools.items()
    ]
    # The engine starts nothing more after the first error.
    assert failures
    for failure in failures:
        assert any(word in failure for word in words), failure
