"""Every row of what the catalogue says of EKS, and the questions that settings asks of it."""

import re
from datetime import date, timedelta

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from gpu_cluster.components.catalog import accelerators, autoscaler_tags, eks, kubernetes

ROWS = eks.INSTANCE_TYPES.values()
AMI_TYPES = {
    "AL2023_x86_64_NVIDIA",
    "AL2023_ARM_64_NVIDIA",
    "BOTTLEROCKET_x86_64_NVIDIA",
    "BOTTLEROCKET_ARM_64_NVIDIA",
}


def test_tables_are_keyed_by_the_name_in_the_row() -> None:
    """The key under which a row is found is its name, and no name is in both tables."""
    for table in (eks.INSTANCE_TYPES, eks.CPU_INSTANCE_TYPES):
        assert [key for key, row in table.items() if key != row.name] == []
    assert not set(eks.INSTANCE_TYPES) & set(eks.CPU_INSTANCE_TYPES)


def test_every_instance_type_is_accepted_with_all_it_needs_or_refused() -> None:
    """An accepted row has whole NVIDIA GPUs, images and a label; a refused one a reason."""
    refused = set()
    for row in ROWS:
        reason = eks.refusal(row.name)
        if reason is not None:
            refused.add(row.name)
            assert "use" in reason, row.name
            assert "\n" not in reason
            continue
        assert row.gpus >= 1, row.name
        assert row.gpus == int(row.gpus), row.name
        assert row.vendor == "NVIDIA", row.name
        assert accelerators.GPUS[row.gpu_model].supports_mps, row.name
        for os in ("al2023", "bottlerocket"):
            if eks.image_refusal(row, os, None):
                assert os == "bottlerocket"
                continue
            image = eks.ami_type(os, row.arch)
            assert image in AMI_TYPES
            assert ("ARM_64" in image) == (row.arch == "arm64"), row.name
        label = eks.accelerator_label(row.gpu_model)
        assert label.startswith("nvidia-")
        assert kubernetes.invalid_label_value(label) is None
    families = {name.partition(".")[0] for name in refused}
    assert families == {"g3", "g3s", "g4ad", "g6f", "gr6f", "p2", "p3"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("g4ad.xlarge", "has AMD GPUs, for which EKS has no image: use, for example, g4dn.xlarge"),
        (
            "g6f.large",
            "has 0.125 of a GPU, and a pool needs whole GPUs; driver 595 does not support it",
        ),
        ("p2.xlarge", "has K80 GPUs, whose last driver is 470"),
        ("m6i.large", "has no GPU: use"),
        ("g5.3xlarge", "does not exist: use one of g5.xlarge, g5.2xlarge, g5.4xlarge"),
        ("g6f.9xlarge", "has 0.125 of a GPU"),
        (
            "p3.8xlarge",
            "is retired: EC2 has not launched it since 2026-05; use, for example, g4dn.xlarge",
        ),
        ("g6x.xlarge", "is not a known GPU instance type: did you mean 'g6.xlarge'?"),
        (
            "g3.4xlarge",
            "is retired: EC2 has not launched it since 2025-10; use, for example, g4dn.xlarge",
        ),
        ("p2.9xlarge", "has K80 GPUs"),
        ("n1-standard-4", "is not a known GPU instance type: use"),
    ],
)
def test_a_refusal_says_what_to_take(name: str, words: str) -> None:
    """The reason names the instance type's trouble and an instance type that has none."""
    reason = eks.refusal(name)
    assert reason is not None
    assert reason.startswith(words)


def test_what_is_retired_is_no_longer_what_ec2_describes() -> None:
    """P3dn has not left it; `tests/facts` compares the shapes of the others."""
    retired = [row.name for row in ROWS if row.retired]
    assert {name.partition(".")[0] for name in retired} == {"p3", "g3", "g3s"}
    assert [name for name in retired if name in INSTANCE_TYPES] == []
    assert eks.refusal("p3dn.24xlarge") is None


def test_interfaces_are_those_that_ec2_describes() -> None:
    """The image's table and EC2's own answers agree on every type that both have."""
    for row in (*ROWS, *eks.CPU_INSTANCE_TYPES.values()):
        if row.name not in INSTANCE_TYPES:
            continue
        network = INSTANCE_TYPES[row.name]["NetworkInfo"]
        card = network["NetworkCards"][network.get("DefaultNetworkCardIndex", 0)]
        ours = (card["MaximumNetworkInterfaces"], network["Ipv4AddressesPerInterface"])
        assert row.interfaces == ours, row.name
    assert eks.INSTANCE_TYPES["p5.48xlarge"].max_pods == 100
    with_efa = {"p5.48xlarge": 51, "p5en.48xlarge": 149, "p6-b300.48xlarge": 198}
    assert {name: eks.INSTANCE_TYPES[name].pods(efa=True) for name in with_efa} == with_efa


def test_what_ec2_sells_in_capacity_blocks() -> None:
    """EC2's own answers say it of every type that they have; the ultra servers are in none."""
    ours = {row.name: row.blocks for row in ROWS if eks.refusal(row.name) is None}
    theirs = {
        name: "also" if "capacity-block" in row["SupportedUsageClasses"] else "none"
        for name, row in INSTANCE_TYPES.items()
    }
    assert {name: theirs.get(name, "only") for name in ours} == ours
    assert ours["p5.48xlarge"] == "also"
    assert ours["g6.xlarge"] == "none"


@pytest.mark.parametrize(
    ("name", "os", "release", "key"),
    [
        ("g7.2xlarge", "al2023", None, None),
        ("g7.2xlarge", "al2023", "1.35.9-20260917", None),
        ("g7.2xlarge", "al2023", "1.35.6-20260714", "releaseVersion"),
        ("g7.2xlarge", "bottlerocket", None, None),
        ("g7e.2xlarge", "bottlerocket", "1.54.0-5a8d13d7", None),
        ("g5g.xlarge", "bottlerocket", None, None),
        ("p6e-gb200.36xlarge", "bottlerocket", None, "os"),
        ("p6e-gb300.36xlarge", "al2023", None, None),
    ],
)
def test_an_image_has_the_driver_and_the_architecture_or_is_refused(
    name: str, os: str, release: str | None, key: str | None
) -> None:
    """G7 needs driver 595, which AL2023 has since 2026-09-17, and of Bottlerocket's releases some,
    for some clusters; Bottlerocket on Arm is for G5g."""
    found = eks.image_refusal(eks.INSTANCE_TYPES[name], os, release)
    assert (found and found[0]) == key


def test_what_refusals_recommend_is_accepted() -> None:
    """Every instance type that a refusal mentions can be had."""
    for name in (*eks.INSTANCE_TYPES, *eks.CPU_INSTANCE_TYPES, "g5.x", "g6f.x", "nonsense"):
        for mentioned in re.findall(r"[a-z][a-z0-9-]*\.[0-9]*xlarge", eks.refusal(name) or ""):
            assert eks.refusal(mentioned) is None, (name, mentioned)


def test_arm_is_where_the_name_says_graviton_or_grace() -> None:
    """The families with GPUs and Arm CPUs are G5g and P6e."""
    arm = {row.name.partition(".")[0] for row in ROWS if row.arch == "arm64"}
    assert arm == {"g5g", "p6e-gb200", "p6e-gb300"}


def test_types_without_gpus_are_those_that_ec2_describes() -> None:
    """Every family has all its sizes from 2 vCPUs, and none that EC2 lacks."""
    ours = {*eks.CPU_INSTANCE_TYPES}
    families = {name.partition(".")[0] for name in ours}
    assert ours == {
        name
        for name, row in INSTANCE_TYPES.items()
        if name.partition(".")[0] in families
        and not re.search(r"[.](metal|nano|micro|small)", name)
        and row["VCpuInfo"]["DefaultVCpus"] > 1
    }
    assert all(re.fullmatch(eks.CPU_INSTANCE_TYPE, name) for name in ours)
    assert not re.fullmatch(eks.CPU_INSTANCE_TYPE, "c7i.medium")
    assert eks.CPU_INSTANCE_TYPES["c7i.48xlarge"].on_demand == 8.568


def test_every_price_is_positive_or_unknown() -> None:
    """No price is 0; only three instance types have none."""
    unknown = [row.name for row in ROWS if row.on_demand is None]
    assert unknown == ["p5e.48xlarge", "p6e-gb200.36xlarge", "p6e-gb300.36xlarge"]
    for row in (*ROWS, *eks.CPU_INSTANCE_TYPES.values()):
        assert row.on_demand is None or row.on_demand > 0, row.name


def test_bigger_sizes_of_a_family_cost_at_least_as_much_per_gpu() -> None:
    """Within a family, price rises with vCPUs, as a swapped pair of rows would not."""
    families: dict[str, list[eks.InstanceType]] = {}
    for row in (*ROWS, *eks.CPU_INSTANCE_TYPES.values()):
        families.setdefault(row.name.partition(".")[0], []).append(row)
    for rows in families.values():
        priced = sorted((row.vcpu, row.memory_gib, row.on_demand or 0) for row in rows)
        prices = [price for *_, price in priced if price]
        if rows[0].name.startswith("g4dn") or rows[0].name.startswith(("g5.", "g6.", "g6e.")):
            continue  # 16xlarge has one GPU, 12xlarge four
        assert prices == sorted(prices), rows[0].name


def test_shapes_are_whole() -> None:
    """Every row has, with two exceptions of unknown memory, GPU memory."""
    unknown = [row.name for row in ROWS if not row.gpu_memory_mib]
    assert unknown == ["p6e-gb200.36xlarge", "p6e-gb300.36xlarge"]
    for row in eks.CPU_INSTANCE_TYPES.values():
        assert (row.gpus, row.gpu_model, row.vendor) == (0, None, None)


def test_gpu_memory_agrees_with_the_model() -> None:
    """What EC2 reports is within a tenth of the model's memory, for whole GPUs."""
    for row in ROWS:
        if row.vendor == "NVIDIA" and row.gpu_memory_mib and not row.fractional:
            nominal = accelerators.GPUS[row.gpu_model or ""].memory_gb
            assert row.gpu_memory_mib / 1024 == pytest.approx(nominal, rel=0.1), row.name


@pytest.mark.parametrize(
    ("model", "label"),
    [
        ("T4", "nvidia-tesla-t4"),
        ("V100 16GB", "nvidia-tesla-v100"),
        ("V100 32GB", "nvidia-tesla-v100"),
        ("A100 40GB", "nvidia-tesla-a100"),
        ("A100 80GB", "nvidia-tesla-a100"),
        ("A10G", "nvidia-a10g"),
        ("L4", "nvidia-l4"),
        ("L40S", "nvidia-l40s"),
        ("K80", "nvidia-tesla-k80"),
        ("T4G", "nvidia-t4g"),
        ("H100", "nvidia-h100"),
        ("RTX PRO 6000", "nvidia-rtx-pro-6000"),
    ],
)
def test_accelerator_labels_are_cluster_autoscalers(model: str, label: str) -> None:
    """Known models have Cluster Autoscaler's value, the others one that follows from the model."""
    assert eks.accelerator_label(model) == label


def test_ami_type_refuses_other_systems() -> None:
    """Amazon Linux 2 has no image, and its types lead to ones that have."""
    with pytest.raises(ValueError, match=r"^no EKS image for 'al2' on 'amd64': al2023 and [^\n]*$"):
        eks.ami_type("al2", "amd64")
    assert eks.ami_type("al2023", "arm64", gpu=False) == "AL2023_ARM_64_STANDARD"
    assert eks.REMOVED_AMI_TYPES["AL2_x86_64_GPU"] == eks.ami_type("al2023", "amd64")


def test_versions_have_fourteen_months_and_twelve() -> None:
    """Extended support is the twelve months after standard support, where the dates are known."""
    for row in eks.KUBERNETES_VERSIONS.values():
        assert (row.standard_until is None) == (row.extended_until is None)
        if row.standard_until and row.extended_until:
            after = row.standard_until.replace(year=row.standard_until.year + 1)
            assert row.extended_until == after, row.minor
    assert [*eks.KUBERNETES_VERSIONS] == [*eks.CLUSTER_AUTOSCALER_VERSIONS, "1.37"]


def test_support_changes_at_the_beginning_of_the_day_it_ends() -> None:
    """1.33 entered extended support on 2026-07-29; nobody creates 1.31 from 2026-11-26 on."""
    end = date(2026, 7, 29)
    assert eks.support("1.33", end - timedelta(days=1)) == "standard"
    assert eks.support("1.33", end) == "extended"
    assert eks.support("1.31", date(2026, 11, 25)) == "extended"
    assert eks.support("1.31", date(2026, 11, 26)) == "ended"
    assert eks.support("1.36", date(2027, 8, 1)) == "standard"
    assert eks.support("1.99", end) is None


def test_cluster_autoscaler_has_the_minor_of_its_kubernetes() -> None:
    """The autoscaler for a minor is of that minor."""
    for minor, version in eks.CLUSTER_AUTOSCALER_VERSIONS.items():
        assert version.startswith(f"{minor}.")


def test_quota_codes_differ_by_family_and_capacity() -> None:
    """G, P and plain instances count against three pairs of codes; Spot's P by the generation."""
    assert eks.quota_code("p5.48xlarge", spot=True) == "L-C4BD4855"
    assert eks.quota_code("p4d.24xlarge", spot=True) == "L-7212CCBC"
    assert eks.quota_code("p6-b200.48xlarge", spot=True) is None
    assert eks.quota_code("g4dn.xlarge") == "L-DB2E81BA"
    assert eks.quota_code("g4dn.xlarge", spot=True) == "L-3819A6DF"
    assert eks.quota_code("p5.48xlarge") == "L-417A185B"
    assert eks.quota_code("m6i.large") == "L-1216C47A"
    assert eks.quota_code("nonsense") is None
    codes = [code for pair in eks.QUOTA_CODES.values() for code in pair]
    assert len(set(codes)) == len(codes) - 1, "P5 is P on demand"
    assert {row.quota for row in ROWS} == {"G_VT", "P"}
    for row in ROWS:
        assert (row.quota == "P") == row.name.startswith("p"), row.name


def test_autoscaler_tags_have_its_prefixes() -> None:
    """Label, taint and resource tags differ in one word."""
    prefix = "k8s.io/cluster-autoscaler/node-template"
    assert autoscaler_tags.label_tag("role") == f"{prefix}/label/role"
    assert autoscaler_tags.taint_tag("nvidia.com/gpu") == f"{prefix}/taint/nvidia.com/gpu"
    assert autoscaler_tags.resource_tag("nvidia.com/gpu") == f"{prefix}/resources/nvidia.com/gpu"


@pytest.mark.parametrize(
    ("name", "good"),
    [("k8s-ml", True), ("K8s_ml", True), ("9x", True), ("-x", False), ("a.b", False), ("", False)],
)
def test_names_are_letters_digits_hyphens_and_underscores(name: str, good: bool) -> None:
    """Clusters and node groups share a character set, and start with a letter or digit."""
    assert (eks.CLUSTER_NAME.fullmatch(name) is not None) == good
    assert (eks.NODE_GROUP_NAME.fullmatch(name) is not None) == good
