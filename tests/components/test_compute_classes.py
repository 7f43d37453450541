"""GPU pools as compute classes of GKE: what is declared, and how pods find the nodes."""

from typing import Any

import pytest

from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs, GkeSystemPoolArgs
from gpu_cluster.components.gke.fallback_args import GkeAutopilotFallbackArgs, GkeFallbackArgs
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke.sharing_args import GkeSharingArgs
from gpu_cluster.components.gke_autopilot.cluster_args import GkeAutopilotArgs
from gpu_cluster.components.gke_autopilot.pool_args import GkeAutopilotPoolArgs
from tests.components.recording import Recording
from tests.components.test_gke import CLUSTER, declare

CLASS = "kubernetes:cloud.google.com/v1:ComputeClass"
L4 = "g2-standard-4"
IN_CLASSES = GkeClusterArgs(
    name="c", location="us-central1-a", dns_endpoint=True, scaler="compute-classes"
)


def classes(pools: dict[str, GkeGpuNodePoolArgs] | None = None, **cluster: Any) -> Recording:
    """A cluster whose GPU pools are compute classes."""
    pools = pools or {"l4": GkeGpuNodePoolArgs(machine_type=L4, max_nodes=3)}
    return declare(pools, scaler="compute-classes", **cluster)


def spec_of(**pool: Any) -> Any:
    """The ComputeClass of a pool of these settings."""
    args = GkeGpuNodePoolArgs(**{"machine_type": L4, **pool})
    return classes({"pool": args}).one(CLASS, "pool").inputs["spec"]


def test_a_fallback_is_the_order_of_the_priorities() -> None:
    """Each choice says all that differs: a rule that leaves out Spot would match Spot nodes too."""
    order = ("reservation", "spot", "flex-start", "on-demand")
    spec = spec_of(
        machine_type="a2-ultragpu-1g",
        fallback=order,
        reservation="projects/owner-1/reservations/theirs/reservationBlocks/block-1",
        max_run_duration_seconds=86_400,
    )
    reserved = spec["priorities"][0]
    assert reserved["reservations"] == {
        "affinity": "Specific",
        "specific": [
            {
                "name": "theirs",
                "project": "owner-1",
                "zones": ["us-central1-a"],
                "reservationBlock": {"name": "block-1"},
            }
        ],
    }
    # GKE: "location config with specific reservations enabled", and it wants the local SSDs told.
    assert reserved["location"] == {"locationPolicy": "ANY"}
    assert reserved["storage"]["localSSDCount"] == 1
    assert [rule.get("spot") for rule in spec["priorities"]] == [False, True, None, False]
    assert [rule.get("flexStart") for rule in spec["priorities"]] == [
        None,
        None,
        {"enabled": True},
        None,
    ]
    assert {rule["maxRunDurationSeconds"] for rule in spec["priorities"]} == {86_400}
    assert spec["activeMigration"] == {"optimizeRulePriority": True}


def test_on_demand_nodes_of_a_class_use_any_reservation_first() -> None:
    """Spot nodes use none; on Standard and on Autopilot."""
    order = ("spot", "on-demand")
    standard = spec_of(fallback=order, any_reservation=True)
    args = GkeAutopilotPoolArgs(
        accelerator="nvidia-l4", gpus_per_node=1, fallback=order, any_reservation=True
    )
    for spec in (standard, args.class_spec("pool")):
        assert [rule.get("reservations") for rule in spec["priorities"]] == [
            None, {"affinity": "AnyBestEffort"},
        ]  # fmt: skip


def test_a_reservation_of_one_zone_leaves_the_other_choices_all_zones() -> None:
    """GKE takes no machine of a reservation that is missing in a zone named beside it."""
    args = GkeGpuNodePoolArgs(
        machine_type=L4, fallback=("reservation", "on-demand"), reservation="mine"
    )
    recording = classes({"pool": args}, location="us-central1")
    reserved, bought = recording.one(CLASS, "pool").inputs["spec"]["priorities"]
    assert reserved["reservations"]["specific"] == [{"name": "mine"}]
    assert len(bought["location"]["zones"]) > 1


def test_an_entry_has_its_own_zones_and_machine_type() -> None:
    """Those that it leaves out are the pool's; a reservation is in the zones that its own names."""
    args = GkeGpuNodePoolArgs(
        machine_type=L4,
        max_nodes=2,
        zones=["us-central1-a"],
        reservation="mine",
        fallback=(
            GkeFallbackArgs(capacity_type="reservation", zones=["us-central1-b", "us-central1-c"]),
            GkeFallbackArgs(zones=["us-central1-b"]),
            GkeFallbackArgs(capacity_type="spot", machine_type="g2-standard-8"),
            "on-demand",
        ),
    )
    recording = classes({"l4": args}, system_pool=GkeSystemPoolArgs(machine_type="e2-standard-2"))
    reserved, *rules = recording.one(CLASS, "l4").inputs["spec"]["priorities"]
    assert "zones" not in reserved["location"]
    (specific,) = reserved["reservations"]["specific"]
    assert specific["zones"] == ["us-central1-b", "us-central1-c"]
    assert [(rule["machineType"], rule["location"]["zones"], rule["spot"]) for rule in rules] == [
        (L4, ["us-central1-b"], False),
        ("g2-standard-8", ["us-central1-a"], True),
        (L4, ["us-central1-a"], False),
    ]
    scaling = recording.one(CLUSTER).inputs["clusterAutoscaling"]
    assert scaling["autoProvisioningLocations"] == [
        "us-central1-a", "us-central1-b", "us-central1-c",
    ]  # fmt: skip
    limits = {row["resourceType"]: row["maximum"] for row in scaling["resourceLimits"]}
    # Two nodes of the larger type, and the system pool's.
    assert (limits["cpu"], limits["nvidia-l4"]) == (2 * 8 + 3 * 2, 2)


def test_the_smallest_nodes_of_an_order_decide_what_a_pod_may_request() -> None:
    """A larger pod would wait although a choice has machines."""
    large, small = (
        GkeGpuNodePoolArgs(machine_type=name).resolve("l4", IN_CLASSES).pool
        for name in ("g2-standard-8", L4)
    )
    args = GkeGpuNodePoolArgs(
        machine_type="g2-standard-8", fallback=("spot", GkeFallbackArgs(machine_type=L4))
    )
    pool = args.resolve("l4", IN_CLASSES).pool
    assert large.cpu_millis != small.cpu_millis
    assert (pool.cpu_millis, pool.memory_mib) == (small.cpu_millis, small.memory_mib)


def test_an_entry_on_autopilot_has_its_own_zones() -> None:
    """Those of a reservation stand with its name."""
    args = GkeAutopilotPoolArgs(
        accelerator="nvidia-l4",
        gpus_per_node=1,
        reservation="mine",
        fallback=(
            GkeAutopilotFallbackArgs(capacity_type="reservation", zones=["us-central1-a"]),
            GkeAutopilotFallbackArgs(capacity_type="spot", zones=["us-central1-b"]),
            "on-demand",
        ),
    )
    reserved, spot, anywhere = args.class_spec("l4")["priorities"]
    assert reserved["reservations"]["specific"] == [{"name": "mine", "zones": ["us-central1-a"]}]
    assert spot["location"] == {"zones": ["us-central1-b"]}
    assert "location" not in reserved
    assert "location" not in anywhere


def test_a_flex_start_node_lives_for_ten_minutes_at_least() -> None:
    """As a choice of several too."""
    with pytest.raises(
        ValueError, match=r"maxRunDurationSeconds: 599 is out of range with flex-start"
    ):
        GkeGpuNodePoolArgs(
            machine_type=L4, fallback=("spot", "flex-start"), max_run_duration_seconds=599
        )
    spec_of(fallback=("spot", "on-demand"), max_run_duration_seconds=599)


def test_the_gpus_of_all_pools_are_limited_by_model() -> None:
    """Nothing else limits what GKE creates. CPU and memory are those of all nodes together."""
    pools = {
        "l4": GkeGpuNodePoolArgs(machine_type=L4, max_nodes=3),
        "more": GkeGpuNodePoolArgs(machine_type="g2-standard-24", max_nodes=2),
        "t4": GkeGpuNodePoolArgs(machine_type="n1-standard-4", accelerator="nvidia-tesla-t4"),
    }
    system = GkeSystemPoolArgs(machine_type="e2-standard-2", max_nodes=2)
    scaling = classes(pools, system_pool=system).one(CLUSTER).inputs["clusterAutoscaling"]
    assert {row["resourceType"]: row["maximum"] for row in scaling["resourceLimits"]} == {
        "cpu": 2 * 2 + 3 * 4 + 2 * 24 + 4,
        "memory": 2 * 8 + 3 * 16 + 2 * 96 + 15,
        "nvidia-l4": 3 + 2 * 2,
        "nvidia-tesla-t4": 1,
    }
    assert scaling["enabled"] is True
    assert scaling["autoProvisioningLocations"] == ["us-central1-a"]
    defaults = scaling["autoProvisioningDefaults"]
    assert defaults["serviceAccount"] == "nodes@my-project.iam.gserviceaccount.com"
    assert defaults["shieldedInstanceConfig"]["enableSecureBoot"] is True


@pytest.mark.parametrize("bought", [{"fallback": ("spot", "on-demand")}, {"capacity_type": "spot"}])
def test_pods_select_the_class_and_tolerate_what_gke_puts_on_its_nodes(bought: Any) -> None:
    """Spot nodes of a class have no taint of their own, since the same pods run on the others."""
    args = GkeGpuNodePoolArgs(machine_type=L4, **bought)
    pool = args.resolve("l4", IN_CLASSES).pool
    assert dict(pool.node_selector) == {"cloud.google.com/compute-class": "l4"}
    assert [str(taint) for taint in pool.taints] == [
        str(GPU_TAINT),
        "cloud.google.com/compute-class=l4:NoSchedule",
    ]
    assert pool.spot


@pytest.mark.parametrize("name", ["default", "gke-l4", "autopilot"])
def test_a_class_cannot_have_a_name_of_gke_s(name: str) -> None:
    """`default` would be every pod's."""
    with pytest.raises(ValueError, match="for itself; choose another"):
        classes({name: GkeGpuNodePoolArgs(machine_type=L4)})


AUTOPILOT: dict[str, Any] = {
    "name": "c",
    "location": "us-central1",
    "authorized_networks": {"office": "203.0.113.0/24"},
    "scaler": "compute-classes",
}


@pytest.mark.parametrize(
    ("accelerator", "gpus", "fields"),
    [
        ("nvidia-l4", 1, {"machineFamily": "g2"}),
        ("nvidia-tesla-a100", 8, {"machineFamily": "a2"}),
        ("nvidia-h100-80gb", 8,
         {"machineType": "a3-highgpu-8g", "storage": {"localSSDCount": 16}}),
        ("nvidia-h200-141gb", 8,
         {"machineType": "a3-ultragpu-8g", "storage": {"localSSDCount": 32}}),
    ],
)  # fmt: skip
def test_a_reservation_on_autopilot_has_the_machines_local_ssds(
    accelerator: str, gpus: int, fields: dict[str, Any]
) -> None:
    """GKE takes their number only with the machine type; a family includes any of its types."""
    pool = GkeAutopilotPoolArgs(
        accelerator=accelerator, gpus_per_node=gpus, capacity_type="reservation", reservation="mine"
    )
    (rule,) = pool.class_spec("pool")["priorities"]
    keys = ("machineType", "machineFamily", "storage")
    assert {key: rule[key] for key in keys if key in rule} == fields


def test_every_choice_of_a_class_has_the_local_ssds_of_its_pool() -> None:
    """Also those that are not reserved."""
    order = ("spot", "on-demand")
    spec = spec_of(machine_type="g2-standard-24", local_storage="ephemeral", fallback=order)
    assert [rule["storage"]["localSSDCount"] for rule in spec["priorities"]] == [2, 2]


SHARED = GkeSharingArgs(strategy="time-slicing", replicas=2)


@pytest.mark.parametrize(
    ("pool", "cluster", "says"),
    [
        ({"gpus_per_node": 1, "fallback": ("spot", "on-demand")}, {"scaler": "gke"},
         "fallback: is not possible with cluster.scaler gke: .* set cluster.scaler: compute-cl"),
        ({"fallback": ("spot", "on-demand")}, {}, "gpusPerNode: is missing, .*: 1, 2, 4, 8"),
        ({"gpus_per_node": 1, "fallback": ("reservation", "spot")}, {}, "reservation: is missing"),
        ({"gpus_per_node": 1, "fallback": ("flex-start", "spot")}, {"version": "1.32"},
         "fallback: flex-start needs GKE 1.33"),
        ({"accelerator": "nvidia-b200", "gpus_per_node": 8, "fallback": ("spot", "on-demand")}, {},
         "fallback: nodes with 8 nvidia-b200 are not sold as on-demand; allowed: spot, flex"),
        ({"gpus_per_node": 1, "sharing": SHARED}, {},
         "sharing: is not possible with cluster.scaler compute-classes: .* cluster.scaler: gke"),
        ({"sharing": SHARED, "fallback": ("spot", "on-demand")}, {},
         "sharing: .*; drop the key, or drop fallback and set cluster.scaler: gke$"),
        ({"sharing": SHARED, "fallback": ("spot", "on-demand")}, {"scaler": "gke"},
         "fallback: .*; drop the key, or drop sharing and set cluster.scaler: compute-classes and "
         "gpusPerNode: 1$"),
        ({"accelerator": "nvidia-h100-80gb", "fallback": ("spot", "on-demand")}, {},
         "gpusPerNode: is missing, .*; allowed: 8$"),
    ],
)  # fmt: skip
def test_what_a_class_on_autopilot_cannot_be_is_refused(
    pool: dict[str, Any], cluster: dict[str, Any], says: str
) -> None:
    """With the key in front, and what to do."""
    with pytest.raises(ValueError, match=f"^{says}"):
        GkeAutopilotPoolArgs(**{"accelerator": "nvidia-l4", **pool}).resolve(
            "l4", GkeAutopilotArgs(**{**AUTOPILOT, **cluster})
        )
