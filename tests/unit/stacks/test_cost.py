"""What a stack costs: every figure follows from the catalogue, and what is unknown is never 0."""

import csv
import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.cli.main import main
from gpu_cluster.components.catalog import aws_prices, google_prices
from gpu_cluster.components.catalog.aws_prices import eks_node
from gpu_cluster.components.catalog.eks import instance_type
from gpu_cluster.components.catalog.gke import ACCELERATORS, machine_type
from gpu_cluster.components.catalog.gke_machines import MachineType
from gpu_cluster.components.catalog.google_prices import gke_node
from gpu_cluster.components.catalog.prices import HOURS_PER_MONTH
from gpu_cluster.stacks import images
from gpu_cluster.stacks.cost import eks as eks_cost
from gpu_cluster.stacks.cost import stack_cost as cost
from gpu_cluster.stacks.cost.bill import PURCHASES, TIMES, Bill, Item, Part, PodGpu, changes, fixed
from gpu_cluster.stacks.cost.cost_text import bill_text, compared, csv_rows
from gpu_cluster.stacks.definition import files, validation
from gpu_cluster.stacks.definition.files import SAMPLES
from gpu_cluster.stacks.definition.settings import config_of, settings_of
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode

TODAY = date(2026, 11, 21)


L4: dict[str, Any] = {
    "machineType": "g2-standard-4", "accelerator": None, "gpusPerNode": None, "driver": "managed",
}  # fmt: skip
"""Settings that make a pool of dev, whose T4 is attached to its machine, one of L4."""
BLOCK = {
    "instanceTypes": ["p5.48xlarge"], "capacityType": "capacity-block",
    "reservation": "cr-0123456789abcdef0", "zones": ["us-east-1b"],
}  # fmt: skip


def with_pool(config: dict[str, Any], pool: dict[str, Any]) -> dict[str, Any]:
    given = {**config["gpu-cluster:gpuPools"]["train-gpu"], **pool}
    return {key: value for key, value in given.items() if value is not None}


def with_scaler(scaler: str) -> dict[str, Any]:
    """The settings of train with another scaler."""
    config = config_of("train")
    del config["gpu-cluster:cluster"]["autoscaler"]
    config["gpu-cluster:cluster"]["scaler"] = scaler
    return config


def changed(stack: str, **pool: Any) -> Bill:
    """The bill of a committed stack with other settings of its pool train-gpu; None removes one."""
    config = config_of(stack)
    config["gpu-cluster:gpuPools"]["train-gpu"] = with_pool(config, pool)
    return cost.bill_at(stack, config)


def item(bill: Bill, name: str) -> Item:
    (found,) = [item for item in bill.items if item.name == name]
    return found


def list_price(cloud: str, name: str) -> float:
    tables = {"google": google_prices.PRICES, "aws": aws_prices.PRICES}
    return tables[cloud][name].dollars


def month(cloud: str, name: str, gib: int) -> float:
    """Dollars per hour of so many GiB."""
    return gib * list_price(cloud, name) / HOURS_PER_MONTH


def on_demand(name: str) -> float:
    machine = machine_type(name) or instance_type(name)
    assert machine is not None
    assert machine.on_demand is not None
    return machine.on_demand


def gke_machine(name: str) -> MachineType:
    machine = machine_type(name)
    assert machine is not None
    return machine


def too_wide(text: str) -> list[str]:
    """The rows of tables that do not fit; lines that are sentences may be longer."""
    tables = [line for line in text.splitlines() if re.search(r"\S   *\S", line)]
    assert tables
    return [line for line in tables if len(line) > 80]


def test_a_gke_pool_costs_its_machines_gpus_and_disks() -> None:
    """Full, the T4 pool of dev costs three times machine, GPU and boot disk; idle, nothing."""
    pool = item(changed("dev"), "train-gpu")
    gpu_model = ACCELERATORS["nvidia-tesla-t4"].on_demand
    assert gpu_model is not None
    node = on_demand("n1-standard-4") + gpu_model + month("google", "pd-balanced", 100)
    assert pool.cost("on-demand", "full") == pytest.approx(3 * node)
    assert pool.cost("on-demand", "idle") == 0


def test_idle_dev_costs_the_fee_one_system_node_and_the_way_out() -> None:
    """With its GPU pool at zero, dev costs the sum of what is always there."""
    total = changed("dev").total("configured", "idle")
    assert total.missing == []
    assert total.hour == pytest.approx(
        list_price("google", "gke-cluster")
        + on_demand("e2-standard-2")
        + month("google", "pd-balanced", 50)
        + list_price("google", "cloud-nat-per-vm")
        + list_price("google", "external-ipv4")
    )
    assert total.month == pytest.approx(total.hour * HOURS_PER_MONTH)


def test_full_train_costs_every_part_of_an_eks_stack() -> None:
    """Control plane, three system nodes, the GPU node, NAT with its address, the KMS key."""
    total = changed("train").total("on-demand", "full")
    system = on_demand("m7i.large") + month("aws", "ebs-gp3", 50)
    assert total.hour == pytest.approx(
        list_price("aws", "eks-cluster")
        + 3 * system
        + on_demand("g4dn.xlarge")
        + month("aws", "ebs-gp3", 100)
        + month("aws", "ebs-gp3-throughput", 500 - 125)
        + list_price("aws", "nat-gateway")
        + list_price("aws", "public-ipv4")
        + list_price("aws", "kms-key") / HOURS_PER_MONTH
    )


def test_an_interface_endpoint_costs_in_each_zone() -> None:
    """Eight services in the two zones of train, all the time; their traffic comes on top."""
    config = config_of("train")
    config["gpu-cluster:cluster"]["network"]["interfaceEndpoints"] = True
    bill = cost.bill_at("train", config)
    assert item(bill, "interface endpoints").cost("configured", "idle") == pytest.approx(
        8 * 2 * list_price("aws", "vpc-endpoint")
    )
    assert "traffic through interface endpoints" in [one.name for one in bill.metered]


def test_a_copy_of_a_snapshot_costs_for_each_node_that_starts() -> None:
    """Without a rate, EBS reads it at no price."""
    config = config_of("train")
    disk = {"os": "bottlerocket", "diskSnapshotId": "snap-0123456789abcdef0"}
    config["gpu-cluster:gpuPools"]["train-gpu"] |= disk
    for rate, copied in ({}, 0), ({"diskInitializationRate": 300}, 1):
        config["gpu-cluster:gpuPools"]["train-gpu"] |= rate
        names = [line.name for line in cost.bill_at("train", config).metered]
        assert names.count("snapshots copied to starting nodes") == copied


def test_min_nodes_cost_while_idle() -> None:
    """A node that is always there is part of the idle cost."""
    pool = item(changed("dev", minNodes=2), "train-gpu")
    assert pool.cost("configured", "idle") == pytest.approx(
        pool.cost("configured", "full") * 2 / 3  # type: ignore[operator]
    )


def test_a_pool_is_counted_as_it_is_bought() -> None:
    """As configured, a Spot pool costs its Spot price."""
    bill = changed("dev", capacityType="spot", **L4)
    pool = item(bill, "train-gpu")
    spot = gke_machine("g2-standard-4").spot
    assert spot is not None
    assert pool.cost("configured", "full") == pool.cost("spot", "full")
    assert pool.cost("spot", "full") == pytest.approx(
        3 * (spot + month("google", "pd-balanced", 100))
    )
    assert bill.total("spot", "full").hour < bill.total("on-demand", "full").hour


@pytest.mark.parametrize(
    ("stack", "pool", "idle"),
    [
        pytest.param("train", {"capacityType": "spot"}, [], id="EKS Spot has no price here"),
        # Whoever bought it has paid for nodes that do not run.
        pytest.param("train", BLOCK, ["train-gpu"], id="block, paid for when it is bought"),
        pytest.param("dev", L4 | {"capacityType": "flex-start"}, [], id="flex-start"),
    ],
)
def test_an_unknown_price_is_unknown_and_not_zero(
    stack: str, pool: dict[str, Any], idle: list[str]
) -> None:
    """The pool is missing from the sum; no node costs no money, whatever a node would cost."""
    bill = changed(stack, **pool)
    assert item(bill, "train-gpu").cost("configured", "full") is None
    assert bill.total("configured", "full").missing == ["train-gpu"]
    assert bill.total("configured", "idle").missing == idle
    assert bill.document()["totals"]["configured"]["full"]["missing"] == ["train-gpu"]
    assert "unknown, and therefore not in the sums: train-gpu" in bill_text(bill)
    assert "as configured, full: at least $" in bill_text(bill)


def test_flex_start_costs_as_much_as_its_machine_on_demand() -> None:
    """It is billed otherwise: as configured it has no price here, and a note says so."""
    bill = changed("dev", capacityType="flex-start", **L4)
    assert item(bill, "train-gpu").cost("on-demand", "full") is not None
    assert any("capacityType flex-start has its own price" in note for note in bill.notes)


def test_an_order_of_fallback_costs_its_last_choice() -> None:
    """The dearest of them, so that the sum is what it may be; the bill says so."""
    config = with_scaler("karpenter")
    pool = config["gpu-cluster:gpuPools"]["train-gpu"]
    demand = cost.bill_at("train", config)
    pool["fallback"] = ["spot", "on-demand"]
    bill = cost.bill_at("train", config)
    known = item(bill, "train-gpu").cost("configured", "full")
    assert known is not None
    assert known == item(demand, "train-gpu").cost("configured", "full")
    assert (
        "pool train-gpu: counted as on-demand; price of a machine per hour: spot not known here, "
        "on-demand $0.5260"
    ) in bill.notes


def test_a_reservation_in_an_order_of_karpenter_costs_an_unknown_amount_idle() -> None:
    """Nothing says how many machines it holds beyond those that the pool's nodes use."""
    config = with_scaler("karpenter")
    full = cost.bill_at("train", config).total("configured", "full")
    config["gpu-cluster:gpuPools"]["train-gpu"] |= {
        "fallback": ["reservation", "on-demand"], "reservation": "cr-0123456789abcdef0",
        "zones": ["us-east-1a"],
    }  # fmt: skip
    bill = cost.bill_at("train", config)
    assert bill.total("configured", "full") == full
    assert bill.total("configured", "idle").missing == ["train-gpu reservation"]
    assert not any("idle costs as much as full" in note for note in bill.notes)
    assert any("so that idle costs at least what is shown" in note for note in bill.notes)


def test_each_choice_of_cluster_autoscaler_is_a_node_group_on_the_bill() -> None:
    """Each may reach maxNodes, since no limit bounds them together."""
    config = config_of("train")
    demand = cost.bill_at("train", config)
    config["gpu-cluster:gpuPools"]["train-gpu"]["fallback"] = ["spot", "on-demand"]
    bill = cost.bill_at("train", config)
    full = item(bill, "train-gpu_on-demand").cost("configured", "full")
    assert full == item(demand, "train-gpu").cost("configured", "full")
    assert item(bill, "train-gpu_spot").full == item(demand, "train-gpu").full
    assert any("counted as all of its choices, each with up to" in note for note in bill.notes)


def test_auto_mode_has_no_system_pool_and_a_fee_that_is_not_counted() -> None:
    """What EKS starts for system pods is not the stack's to say."""
    config = with_scaler("auto-mode")
    bill = cost.bill_at("train", config)
    assert "system pool" not in [one.name for one in bill.items]
    assert any(note.startswith("EKS Auto Mode adds a fee") for note in bill.notes)
    # A g4dn.xlarge has 125 GB of NVMe.
    assert any("gives the node a volume of 20 GiB" in note for note in bill.notes)
    config["gpu-cluster:gpuPools"]["train-gpu"]["diskSizeGb"] = 200
    assert not any("20 GiB" in note for note in cost.bill_at("train", config).notes)


def test_a_spreadsheet_gets_a_row_for_each_item() -> None:
    """What is not known is a word and no zero."""
    bill = changed("train", capacityType="spot")
    head, *rows = csv.reader(csv_rows(bill.document()["items"]).splitlines())
    assert head == ["item", "what", "bought", "idle pieces", "full pieces", "idle $/h", "full $/h"]
    assert [row[0] for row in rows] == [each.name for each in bill.items]
    (pool,) = (row for row in rows if row[0] == "train-gpu")
    assert pool[2:] == ["spot", "0", "1", "0.0", "unknown"]
    (plane,) = (row for row in rows if row[0] == "control plane")
    assert plane[3:] == ["1", "1", "0.1", "0.1"]


@pytest.mark.parametrize("gone", ["on_demand", "count"])
def test_whatever_is_not_known_is_missing_from_the_sum(gone: str) -> None:
    """A price or a number that nobody knows makes its item missing, never 0."""
    known = Part(name="disk", on_demand=1.0, spot=1.0, source="")
    part = Part(name="machine", on_demand=None if gone == "on_demand" else 1.0, spot=1, source="")
    one = Item(name="a", what="", parts=[part, known], idle=1, full=None if gone == "count" else 2)
    other = Item(name="b", what="", parts=[known], idle=1, full=1)
    total = Bill(items=[one, other]).total("on-demand", "full")
    assert (total.hour, total.missing) == (1.0, ["a"])


def test_what_is_reserved_costs_the_same_idle() -> None:
    """No autoscaling to zero saves its machines; only their disks come and go."""
    reserved = changed("dev", capacityType="reservation", reservation="mine", **L4)
    plain = changed("dev", **L4)
    machines, disks = item(reserved, "train-gpu"), item(reserved, "train-gpu disks")
    idle, full = (machines.cost("configured", time) for time in TIMES)
    assert idle == full
    assert idle is not None
    assert disks.cost("configured", "idle") == 0
    assert item(plain, "train-gpu").cost("configured", "idle") == 0
    assert reserved.total("configured", "full").hour == pytest.approx(
        plain.total("configured", "full").hour
    )
    (note,) = [note for note in reserved.notes if note.startswith("pool train-gpu: ")]
    assert "whether used or not, so that idle costs as much as full" in note


@pytest.mark.parametrize("state", ["stopped", "running"])
def test_warm_instances_cost_their_disks_and_running_ones_their_machines(state: str) -> None:
    """Two wait while there is no node, and with the most nodes that of minSize; by default none."""
    pool = {"instanceTypes": ["g6.xlarge"], "maxNodes": 3, "zones": ["us-east-1b"]}
    warm = {"maxGroupPreparedCapacity": 2, "minSize": 1, "poolState": state}
    plain, bill = changed("train", **pool), changed("train", **pool, warmPool=warm)
    throughput = (500 - 125) * list_price("aws", "ebs-gp3-throughput") / HOURS_PER_MONTH
    each = month("aws", "ebs-gp3", 100) + throughput
    each += on_demand("g6.xlarge") if state == "running" else 0
    waiting = item(bill, "train-gpu warm pool")
    assert waiting.cost("configured", "idle") == pytest.approx(2 * each)
    assert waiting.cost("configured", "full") == pytest.approx(each)
    for time, instances in (("idle", 2), ("full", 1)):
        more = bill.total("configured", time).hour - plain.total("configured", time).hour
        assert more == pytest.approx(instances * each)
    booted = any("enters the warm pool boots first" in note for note in bill.notes)
    assert booted is (state == "stopped")


def test_warm_instances_of_a_reservation_cost_their_disks() -> None:
    """Its machines are paid for already."""
    pool = {"instanceTypes": ["g6.xlarge"], "capacityType": "reservation",
            "reservation": "cr-0123456789abcdef0", "zones": ["us-east-1b"]}  # fmt: skip
    warm = {"maxGroupPreparedCapacity": 1, "poolState": "running"}
    waiting = item(changed("train", **pool, warmPool=warm), "train-gpu warm pool")
    assert [part.name for part in waiting.parts] == ["disk", "disk throughput"]


def test_cloud_nat_has_a_most() -> None:
    """The gateway's fee stops growing at its maximum."""
    few, many = (item(changed("dev", maxNodes=most), "NAT") for most in (3, 500))
    assert few.cost("configured", "full") == pytest.approx(
        6 * list_price("google", "cloud-nat-per-vm")
    )
    assert many.cost("configured", "full") == pytest.approx(list_price("google", "cloud-nat-most"))


@pytest.mark.parametrize("stack", ["dev", "autopilot"])
def test_an_existing_subnetwork_s_way_out_is_not_on_the_bill(stack: str) -> None:
    """Its Cloud NAT is its project's, with the traffic; a note says so."""
    config = config_of(stack)
    names = {"vpc": "a", "subnetwork": "b", "podsRange": "c", "servicesRange": "d"}
    config["gpu-cluster:cluster"] = {**config["gpu-cluster:cluster"], "network": names}
    found, before = cost.bill_at(stack, config), cost.bill_at(stack, config_of(stack))
    gone = {one.name for one in before.items} - {one.name for one in found.items}
    assert gone == {"NAT", "NAT address"}
    assert not any("NAT" in one.name for one in found.metered)
    assert (
        "internet access of an existing VPC is not part of this stack, and not counted"
        in found.notes
    )


def test_an_old_kubernetes_costs_six_times_as_much() -> None:
    """Past its standard support, an EKS control plane has the fee of extended support."""
    settings = settings_of("train", config_of("train"))
    assert settings.platform == "eks"
    fees = [
        item(eks_cost.bill(settings, day), "control plane").cost("configured", "idle")
        for day in (TODAY, date(2027, 12, 1))
    ]
    assert fees == [
        list_price("aws", "eks-cluster"),
        list_price("aws", "eks-cluster-extended-support"),
    ]


def test_local_ssd_that_comes_with_a_machine_is_added() -> None:
    """An A3 has 6,000 GiB of local SSD, which its price does not hold."""
    bill = changed("dev", **L4 | {"machineType": "a3-highgpu-8g", "maxNodes": 1})
    assert item(bill, "train-gpu").cost("on-demand", "full") == pytest.approx(
        on_demand("a3-highgpu-8g")
        + month("google", "pd-balanced", 100)
        + month("google", "local-ssd", 6000)
    )


def test_every_disk_of_a_pool_is_on_its_bill() -> None:
    """By the price of its type; local SSDs have one for Spot machines."""
    disks = {"diskType": "pd-ssd", "diskSizeGb": 10, "localStorage": "block"}
    pool = item(changed("dev", **L4, **disks, maxNodes=1), "train-gpu")
    machine = gke_node("g2-standard-4")
    assert machine.on_demand
    assert machine.spot
    for bought, host, ssd in (
        ("on-demand", machine.on_demand, "local-ssd"),
        ("spot", machine.spot, "local-ssd-spot"),
    ):
        storage = month("google", "pd-ssd", 10) + month("google", ssd, 375)
        assert pool.cost(bought, "full") == pytest.approx(host + storage)


def test_a_group_of_several_instance_types_costs_its_dearest() -> None:
    """EC2 may take any of them, so the bill counts the dearest; an unpriced one leaves none."""
    assert eks_node(["g5.xlarge", "g5.2xlarge"]).on_demand == on_demand("g5.2xlarge")
    assert eks_node(["p5.48xlarge", "p5e.48xlarge"]).on_demand is None


def test_an_unknown_machine_or_card_has_no_price() -> None:
    """What the catalogue does not have, costs an unknown amount."""
    assert gke_node("c4a-standard-8").most is None
    assert gke_node("n1-standard-4", "nvidia-unheard-of", 1).most is None
    assert eks_node([]).most is None


@pytest.mark.parametrize("stack", SAMPLES)
def test_every_committed_environment_has_a_bill(stack: str) -> None:
    """Each is answered with exit code 0, and full it never costs less than idle."""
    code, document, text = cost.answer(stack)
    assert code == ExitCode.OK
    first = "onprem:" if stack == "onprem" else f"{stack}: list prices of 2026-"
    assert text.startswith(first)
    json.dumps(document)
    for purchase in ("onDemand", "spot", "configured"):
        sums = document["totals"][purchase]
        assert sums["idle"]["hour"] <= sums["full"]["hour"] or sums["full"]["missing"]
    for one in document["items"]:
        assert all(part["source"] or part["onDemand"] is None for part in one["parts"])


@pytest.mark.parametrize("stack", sorted({*SAMPLES} - {"onprem"}))
@pytest.mark.parametrize("command", ["cost", "offers"])
def test_tables_fit_in_80_columns(
    stack: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a terminal that nobody has widened."""
    assert main([command, stack] if command == "cost" else [command]) == ExitCode.OK
    assert too_wide(capsys.readouterr().out) == []


def test_a_dear_bill_fits_too() -> None:
    """Five figures a month, a long GPU name, and a difference of two such bills."""
    dear = changed("dev", **L4 | {"machineType": "a3-megagpu-8g", "maxNodes": 9})
    for text in (bill_text(dear), compared(changed("dev"), dear)):
        assert too_wide(text) == []


def test_a_reserved_pool_is_not_spot() -> None:
    """Its machines are bought: with all others as Spot it costs the same, and it has no row."""
    block = {"instanceTypes": ["p4d.24xlarge"], "zones": ["us-east-1b"]}
    bill = changed("train", capacityType="reservation", reservation="cr-0123456789abcdef0", **block)
    pool = item(bill, "train-gpu")
    assert (
        pool.cost("spot", "full")
        == pool.cost("on-demand", "full")
        == pytest.approx(on_demand("p4d.24xlarge"))
    )
    text = bill_text(bill)
    assert "GPU nodes as Spot" not in text
    assert "train-gpu disks" in text
    (row,) = [line for line in text.splitlines() if line.startswith("train-gpu  nvidia-")]
    assert row.split()[-1] == "-"


def test_prices_of_another_region_are_said_at_the_top() -> None:
    """Who reads the sums has read that they are another region's."""
    _, _, text = cost.answer("autopilot")
    assert text.splitlines()[1] == (
        "prices are those of us-central1; prices in asia-northeast1 differ"
    )


def test_the_extended_channel_and_alerts_are_said() -> None:
    """Neither is in the sums: one begins some day, the others are billed by use."""
    config = config_of("dev")
    config["gpu-cluster:cluster"]["releaseChannel"] = "extended"
    config["gpu-cluster:monitoring"] = {"enabled": True, "source": "managed"}
    text = bill_text(cost.bill_at("dev", config))
    assert "releaseChannel extended: once standard support of the cluster's minor has ended" in text
    assert "costs $0.50 an hour more" in text
    assert "alert conditions: price not known per month" in text
    plain = bill_text(changed("dev"))
    assert "extended" not in plain
    assert "alert conditions" not in plain


def test_an_existing_cluster_is_not_on_the_bill() -> None:
    """Nodes that somebody else made cost this stack nothing."""
    code, document, text = cost.answer("onprem")
    assert (code, document["items"]) == (ExitCode.OK, [])
    assert "an existing cluster is billed to somebody else" in text


@pytest.mark.parametrize("answer", [cost.answer, images.answer, validation.answer])
def test_a_file_is_read_without_its_kubeconfig_and_refused_all_the_same(
    answer: Callable[[str], Answer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Commands that query nothing work before the cluster can be reached."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert answer("onprem")[0] is ExitCode.OK
    config = config_of("onprem")
    config["gpu-cluster:gpuPools"]["gpus"] = {"nodeSelector": {"a": "b"}, "gpusPerNode": 17}
    monkeypatch.setenv(files.INSTEAD, str(tmp_path))
    (tmp_path / "Pulumi.onprem.yaml").write_text(yaml.safe_dump({"config": config}))
    try:
        code, _, text = answer("onprem")
    except CheckError as error:
        code, text = ExitCode.FINDING, str(error)
    assert code is ExitCode.FINDING
    assert "gpusPerNode: 17 is out of range" in text


@pytest.mark.parametrize(
    ("stack", "ceiling", "expected", "words"),
    [
        ("dev", 1400, ExitCode.FINDING, "above the ceiling of $1,400.00: lower maxNodes"),
        ("dev", 1500, ExitCode.OK, "below the ceiling of $1,500.00"),
        ("autopilot", 5000, ExitCode.UNKNOWN, "no price is known for t4, t4-spot"),
    ],
)
def test_a_ceiling_is_kept_or_a_finding_or_not_known(
    stack: str, ceiling: float, expected: int, words: str
) -> None:
    """Exit code 1 where a month at full costs more, 0 where it does not, and 2 where what is known
    stays below the ceiling and something is not known."""
    code, _, text = cost.answer(stack, ceiling=ceiling)
    assert code == expected
    assert words in text


def test_an_unknown_cost_makes_an_unknown_difference() -> None:
    """The difference to what is not known is not known."""
    known = Item(name="a", what="", parts=[Part(name="p", on_demand=1.0, spot=1.0, source="")],
                 idle=0, full=1)  # fmt: skip
    unknown = Item(name="a", what="", parts=[Part(name="p", on_demand=None, spot=1.0, source="")],
                   idle=0, full=1)  # fmt: skip
    (change,) = changes(Bill(items=[known]), Bill(items=[unknown]))
    assert (change.by("idle"), change.by("full")) == (0, None)


def test_the_command_ends_with_the_code_and_one_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--json` prints one JSON document, also where the stack does not exist (exit code 2)."""
    for arguments, code in (
        (["dev", "--json"], ExitCode.OK),
        (["nosuch", "--json"], ExitCode.UNKNOWN),
    ):
        assert main(["cost", *arguments]) == code
        document = json.loads(capsys.readouterr().out)
        assert document["exit"] == code
    assert document["error"].startswith("there is no Pulumi.nosuch.yaml")


def test_every_purchase_and_time_is_in_the_document() -> None:
    """Idle and full, on demand, as Spot and as configured, per hour and month."""
    totals = changed("dev").document()["totals"]
    assert len(totals) == len(PURCHASES)
    for sums in totals.values():
        assert set(sums) == set(TIMES)
        assert all({"hour", "month", "missing"} == set(one) for one in sums.values())


A100 = L4 | {"machineType": "a2-highgpu-1g"}


@pytest.mark.parametrize(
    ("stack", "pool", "what", "units"),
    [
        ("dev", {}, "nvidia-tesla-t4", 1),
        ("dev", {"sharing": {"strategy": "time-slicing", "replicas": 4}, "gpusPerNode": 2},
         "1/4 of nvidia-tesla-t4", 8),
        ("dev", {**A100, "sharing": {"strategy": "mig", "partition": "1g.5gb"}},
         "1g.5gb of nvidia-tesla-a100", 7),
        ("dev", {**A100, "sharing": {"strategy": "time-slicing", "replicas": 2,
                                     "partition": "3g.20gb"}},
         "1/2 of 3g.20gb of nvidia-tesla-a100", 4),
        ("train", {"sharing": {"strategy": "mps", "replicas": 8}}, "1/8 of nvidia-tesla-t4", 8),
    ],
)  # fmt: skip
def test_a_share_of_a_gpu_costs_its_part_of_the_node(
    stack: str, pool: dict[str, Any], what: str, units: int
) -> None:
    """The node's cost by the number that the pool's sharing makes of its GPUs."""
    config = config_of(stack)
    config["gpu-cluster:gpuPools"]["train-gpu"] = with_pool(config, pool)
    config["gpu-cluster:workloads"] = {}
    bill = cost.bill_at(stack, config)
    of = item(bill, "train-gpu")
    node = of.hourly("on-demand")
    assert node is not None
    assert of.pod_gpu is not None
    assert (of.pod_gpu.what, of.pod_gpu.per_piece) == (what, units)
    assert of.per_gpu("on-demand") == pytest.approx(node / units)
    (document,) = [one for one in bill.document()["items"] if one["name"] == "train-gpu"]
    assert document["podGpu"]["perPiece"] == units
    assert document["podGpu"]["hourly"]["onDemand"] == pytest.approx(node / units, abs=1e-5)
    (row,) = [line for line in bill_text(bill).splitlines() if f" {what} " in line]
    assert f"${node / units:,.4f}" in row


def test_a_share_of_unknown_cost_is_unknown() -> None:
    """Autopilot's pods have no price here; what is no GPU pool has no share of one."""
    config = config_of("autopilot")
    config["gpu-cluster:gpuPools"]["t4"]["sharing"] = {"strategy": "time-slicing", "replicas": 4}
    bill = cost.bill_at("autopilot", config)
    assert item(bill, "t4").per_gpu("on-demand") is None
    assert "podGpu" not in bill.document()["items"][0]


@pytest.mark.parametrize("ceiling", ["nan", "inf", "-1"])
def test_a_ceiling_that_nothing_exceeds_is_refused(
    ceiling: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no amount of money holds nobody back, and so is a mistake."""
    assert main(["cost", "dev", f"--ceiling={ceiling}"]) == ExitCode.UNKNOWN
    assert f"{ceiling} is not a valid amount; give dollars a month" in capsys.readouterr().err


def monthly(stack: str, claim: dict[str, Any]) -> float | None:
    """What a claim costs a month."""
    config = config_of(stack)
    config["gpu-cluster:volumeClaims"] = {"results": claim}
    dollars = item(cost.bill_at(stack, config), "claim results").cost("on-demand", "full")
    return None if dollars is None else round(dollars * 730, 2)


@pytest.mark.parametrize(
    ("stack", "claim", "dollars_a_month"),
    [
        ("dev", {"size": "100Gi"}, 10.0),
        ("train", {"size": "100Gi"}, 8.0),
        ("dev", {"size": "100Gi", "storageClass": "premium-rwo"}, 17.0),
        ("dev", {"size": "100Gi", "storageClass": "gpu-cluster-hyperdisk"}, 8.0),
        ("dev", {"size": "1Ti", "storageClass": "gpu-cluster-filestore"}, 204.8),
        ("dev", {"size": "1Ti", "storageClass": "gpu-cluster-filestore-ssd"}, 768.0),
        ("dev", {"size": "1Gi", "storageClass": "of-my-own"}, None),
    ],
)
def test_a_claim_is_billed_by_its_size_and_class(
    stack: str, claim: dict[str, Any], dollars_a_month: float | None
) -> None:
    """Filestore at its tier's least size, 2.5 TiB with SSDs; a class of the user's own is
    unknown."""
    assert monthly(stack, claim) == dollars_a_month


def test_what_is_not_known_of_the_bill_is_named() -> None:
    """A claim's class makes the sum a lower bound; buckets are a note."""
    config = config_of("dev")
    config["gpu-cluster:volumeClaims"] = {"own": {"size": "1Gi", "storageClass": "fast"}}
    config["gpu-cluster:serviceAccounts"] = {"trainer": {"buckets": {"data": "read"}}}
    found = cost.bill_at("dev", config)
    assert "unknown, and therefore not in the sums: claim own" in bill_text(found)
    assert "buckets are not part of this stack and are not counted: data" in found.notes


@pytest.mark.parametrize(
    "pool",
    [
        {"machineType": "g4-standard-48"},
        {"machineType": "a3-ultragpu-8g", "capacityType": "reservation", "reservation": "r"},
    ],
    ids=lambda pool: pool["machineType"],
)
def test_a_machine_with_hyperdisk_has_a_price(pool: dict[str, Any]) -> None:
    """Its boot disk's price is known, so the pool's is."""
    config = config_of("dev")
    config["gpu-cluster:cluster"]["location"] = "us-central1-b"
    config["gpu-cluster:gpuPools"] = {"big": {"maxNodes": 1, **pool}}
    del config["gpu-cluster:workloads"]
    assert cost.bill_at("dev", config).total("configured", "full").missing == []


def test_an_unknown_part_makes_a_sum_a_lower_bound() -> None:
    """The machine's price still counts, and the part is named; an unknown machine is unknown."""
    machine = Part(name="machine", on_demand=4.5, spot=None, source="")
    disk = fixed("disk", None, "")
    pool = Item(name="big", what="", parts=[machine, disk], idle=0, full=2,
                pod_gpu=PodGpu(what="gpu", per_piece=1))  # fmt: skip
    bill = Bill(items=[pool])
    assert pool.cost("on-demand", "full") == 9.0
    assert pool.cost("spot", "full") is None
    total = bill.total("on-demand", "full")
    assert (total.hour, total.missing) == (9.0, ["big's disk"])
    assert bill.total("on-demand", "idle").missing == []
    assert "at least $9.0000" in bill_text(bill)
    assert bill.document()["items"][0]["missing"] == ["disk"]
    (change,) = changes(Bill(), bill)
    assert change.by("full") is None


def test_each_choice_of_an_order_has_its_price() -> None:
    """The pool is counted as the dearest of them."""
    config = config_of("dev")
    config["gpu-cluster:cluster"]["scaler"] = "compute-classes"
    order = ["spot", "flex-start", "on-demand"]
    pool = {"machineType": "g2-standard-4", "maxNodes": 2, "fallback": order}
    config["gpu-cluster:gpuPools"] = {"train-gpu": pool}
    found = cost.bill_at("dev", config)
    machine = gke_machine("g2-standard-4")
    (note,) = [note for note in found.notes if note.startswith("pool train-gpu: ")]
    assert note == (
        "pool train-gpu: counted as on-demand; price of a machine per hour: spot "
        f"${machine.spot:.4f}, flex-start not known here, on-demand ${machine.on_demand:.4f}"
    )
    parts = item(found, "train-gpu").cost("configured", "full")
    assert parts == pytest.approx(
        2 * (on_demand("g2-standard-4") + month("google", "pd-balanced", 100))
    )


def test_an_entry_with_its_own_machine_has_the_price_of_that() -> None:
    """On GKE the pool is counted as the dearest choice; on EKS each may reach maxNodes."""
    config = config_of("dev")
    config["gpu-cluster:cluster"]["scaler"] = "compute-classes"
    order = [{"zones": ["us-central1-b"]}, {"machineType": "g2-standard-8"}, "spot"]
    pool = {"machineType": "g2-standard-4", "maxNodes": 2, "fallback": order}
    config["gpu-cluster:gpuPools"] = {"train-gpu": pool}
    found = cost.bill_at("dev", config)
    small, large = gke_machine("g2-standard-4"), gke_machine("g2-standard-8")
    (note,) = [note for note in found.notes if note.startswith("pool train-gpu: ")]
    assert note == (
        "pool train-gpu: counted as on-demand with g2-standard-8; price of a machine per hour: "
        f"on-demand in us-central1-b ${small.on_demand:.4f}, on-demand with g2-standard-8 "
        f"${large.on_demand:.4f}, spot ${small.spot:.4f}"
    )
    assert item(found, "train-gpu").cost("configured", "full") == pytest.approx(
        2 * (on_demand("g2-standard-8") + month("google", "pd-balanced", 100))
    )
    config = config_of("train")
    pool = config["gpu-cluster:gpuPools"]["train-gpu"]
    config["gpu-cluster:gpuPools"]["train-gpu"] = {
        "instanceTypes": pool["instanceTypes"], "maxNodes": 2,
        "fallback": [{"zones": ["us-east-1a"]}, {"zones": ["us-east-1b"]}],
    }  # fmt: skip
    bill = cost.bill_at("train", config)
    groups = [part for part in bill.items if part.name.startswith("train-gpu")]
    assert [(group.name, group.full) for group in groups] == [
        ("train-gpu_on-demand_a", 2), ("train-gpu_on-demand_b", 2),
    ]  # fmt: skip


def test_what_hyperdisk_and_public_nodes_add_is_named() -> None:
    """In a note, since neither is known before the nodes exist."""
    config = config_of("dev")
    assert not any("hyperdisk-balanced" in note for note in cost.bill_at("dev", config).notes)
    config["gpu-cluster:volumeClaims"] = {
        "data": {"size": "1Ti", "storageClass": "gpu-cluster-hyperdisk"}
    }
    notes = cost.bill_at("dev", config).notes
    assert any(note.startswith("hyperdisk-balanced is counted by its size") for note in notes)
    existing = cost.bill_at("on-gke", config_of("on-gke")).notes
    assert any("each public one has an address for $0.005 an hour" in note for note in existing)
