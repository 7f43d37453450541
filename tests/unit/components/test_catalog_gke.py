"""Every row of what the catalogue says of GKE, and the questions that settings asks of it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_cluster.components.catalog import gke
from gpu_cluster.components.catalog.accelerators import GPUS
from gpu_cluster.components.catalog.gke_accelerators import SOURCES
from gpu_cluster.components.catalog.gke_families import (
    COMPACT_NODES,
    DISK_TYPES,
    FAMILIES,
    family_of,
)
from gpu_cluster.components.catalog.gke_shapes import N1_ATTACH_LIMITS_BY_ZONE
from gpu_cluster.components.catalog.gke_volumes import volume_class
from gpu_cluster.components.catalog.google_prices import gke_node
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs, GkeSystemPoolArgs
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs

ACCELERATORS = gke.ACCELERATORS.values()
MACHINES = gke.MACHINE_TYPES.values()
VERSION = re.compile(r"\d+\.\d+\.\d+(-gke\.\d+)?")


def test_tables_are_keyed_by_the_name_in_the_row() -> None:
    """The key under which a row is found is the name that it carries."""
    for table in (gke.ACCELERATORS, gke.MACHINE_TYPES):
        assert [key for key, row in table.items() if key != row.name] == []


def test_a_machine_carries_a_number_of_gpus_that_its_accelerator_allows() -> None:
    """Each machine type's GPU count is among its accelerator's counts, shares of one apart."""
    wrong = [
        row.name
        for row in MACHINES
        if row.gpus not in gke.ACCELERATORS[row.accelerator or ""].counts and not row.fractional
    ]
    assert wrong == []
    assert [row.name for row in MACHINES if row.fractional] == [
        "g4-standard-6",
        "g4-standard-12",
        "g4-standard-24",
    ]


def test_a_machine_belongs_to_the_family_of_its_accelerator() -> None:
    """Machine type, family and accelerator agree, and every accelerator has a machine."""
    for row in MACHINES:
        family = gke.ACCELERATORS[row.accelerator or ""].machine_family
        assert row.family == family.partition("-")[0], row.name
    carried = {row.accelerator for row in MACHINES} | set(gke.N1_ATTACH_LIMITS)
    assert carried == set(gke.ACCELERATORS)


def test_every_count_of_an_accelerator_can_be_had() -> None:
    """Some machine type offers each count that an accelerator allows."""
    for row in ACCELERATORS:
        offered = {int(m.gpus) for m in MACHINES if m.accelerator == row.name and not m.fractional}
        offered |= set(gke.N1_ATTACH_LIMITS.get(row.name, {}))
        assert set(row.counts) == offered, row.name


def test_every_price_is_positive_or_unknown() -> None:
    """No price is 0, Spot costs less than on demand, and a known price names its source."""
    for row in (*ACCELERATORS, *MACHINES):
        for price in (row.on_demand, row.spot):
            assert price is None or price > 0, row.name
        if row.on_demand is not None:
            assert row.price_source, row.name
            assert row.spot is None or row.spot < row.on_demand, row.name


def test_a_machine_costs_more_than_its_gpus() -> None:
    """Where both prices are known, the machine's covers its GPUs and a host."""
    for row in MACHINES:
        gpu = gke.ACCELERATORS[row.accelerator or ""].on_demand
        if row.on_demand is not None and gpu is not None and not row.price_uncertain:
            assert row.on_demand > gpu * row.gpus, row.name


def test_price_sources_are_listed() -> None:
    """Every word of a price source that looks like a source's key is one."""
    for row in (*ACCELERATORS, *MACHINES):
        for word in re.findall(
            r"\b(?:sky\d|vertex|casprice|gcedoc|gkeas|apdoc)\b", row.price_source
        ):
            assert word in SOURCES, row.name


def test_every_zone_parses() -> None:
    """Each zone of each table has a zone's form, its region a region's, and none comes twice."""
    tables = [*gke.ACCELERATOR_ZONES.values(), *gke.MACHINE_ZONES.values()]
    for zones in tables:
        assert list(zones) == list(dict.fromkeys(zones))
        for zone in zones:
            assert gke.is_zone(zone), zone
            assert not gke.is_region(zone), zone
            assert gke.is_region(gke.region_of(zone)), zone


def test_an_accelerator_is_in_every_zone_of_its_machines() -> None:
    """A machine type has no zone that its accelerator does not have."""
    for row in MACHINES:
        known = gke.ACCELERATORS[row.accelerator or ""].zones
        assert set(row.zones or ()) <= set(known), row.name


def test_only_a_retired_or_partly_known_accelerator_lacks_zones() -> None:
    """Every accelerator that can be had names at least one zone."""
    assert [row.name for row in ACCELERATORS if not row.zones] == ["nvidia-tesla-k80"]


def test_a_retired_accelerator_names_a_current_replacement() -> None:
    """The K80, the only retired one, is replaced by the T4; no other names a replacement."""
    assert [row.name for row in ACCELERATORS if row.retired] == ["nvidia-tesla-k80"]
    for row in ACCELERATORS:
        assert (row.replacement is not None) == row.retired, row.name
        assert bool(row.retired_since) == row.retired, row.name
        if row.replacement is not None:
            assert gke.ACCELERATORS[row.replacement].status == "current"
            assert re.fullmatch(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}", row.retired_since or "")
    assert gke.ACCELERATORS["nvidia-tesla-k80"].replacement == "nvidia-tesla-t4"


def test_autopilot_offers_counts_of_the_accelerator() -> None:
    """Autopilot's counts and their first versions are among the accelerator's counts."""
    for row in ACCELERATORS:
        assert set(row.autopilot_counts) <= set(row.counts), row.name
        assert set(row.autopilot_min_version) <= set(row.autopilot_counts), row.name
        for versions in row.autopilot_min_version.values():
            assert all(VERSION.fullmatch(version) for version in versions), row.name
    offered = {row.name for row in ACCELERATORS if row.autopilot_counts}
    assert {row.accelerator for row in MACHINES if row.autopilot} == offered - {"nvidia-tesla-t4"}


def test_mig_partitions_fit_on_the_gpu() -> None:
    """Partitions fit in the GPU's slices and its memory, each rounded up to a GB."""
    for row in ACCELERATORS:
        for size, count in row.mig.items():
            match = re.match(r"(\d)g\.(\d+)gb", size)
            assert match, size
            slices, memory = match.groups()
            assert int(slices) * count <= (4 if row.machine_family == "g4" else 7), (row.name, size)
            assert (int(memory) - 1) * count < GPUS[row.model].memory_gb, (row.name, size)


def test_quota_metrics_are_distinct() -> None:
    """Each accelerator counts against a quota of its own, with a preemptible twin."""
    metrics = [row.quota_metric for row in ACCELERATORS]
    assert len(set(metrics)) == len(metrics)
    assert all(re.fullmatch(r"NVIDIA_[A-Z0-9_]+_GPUS", metric) for metric in metrics)
    t4 = gke.ACCELERATORS["nvidia-tesla-t4"]
    assert t4.quota_metric_preemptible == "PREEMPTIBLE_NVIDIA_T4_GPUS"


def test_drivers_of_ubuntu_are_googles() -> None:
    """The NVIDIA_DRIVER_VERSION of each daemonset-preloaded-R*.yaml, read again on 2026-11-26."""
    drivers = " ".join(f"{branch}={version}" for branch, version in gke.UBUNTU_DRIVERS.items())
    assert drivers == "R525=525.105.17 R535=535.161.07 R550=550.90.12 R570=570.124.06"


def test_first_versions_are_exact() -> None:
    """Every version of a machine, a feature or a channel is one that `meets` can compare."""
    machines = [version for row in MACHINES for version in row.min_gke]
    features = [version for versions in gke.FIRST_VERSIONS.values() for version in versions]
    for version in (*machines, *features, *gke.CHANNEL_DEFAULTS.values()):
        assert gke.meets(version, (version,)) is True


def test_arm_machines_are_the_grace_ones() -> None:
    """Only A4X has Arm CPUs, and it is had by reservation alone."""
    arm = [row for row in MACHINES if row.arch == "arm64"]
    assert {row.family for row in arm} == {"a4x"}
    assert {row.provisioning for row in arm} == {("reservation",)}


def test_every_spelling_leads_to_a_gke_name() -> None:
    """Each misnomer maps to an accelerator, and every accelerator's own name maps to itself."""
    assert {gke.SPELLINGS[word] for word in gke.SPELLINGS} == set(gke.ACCELERATORS)
    for name in gke.ACCELERATORS:
        assert gke.spelling(name) == name, name
        assert gke.spelling(name.upper().replace("-", "_")) == name, name


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("k80", "nvidia-tesla-k80"),
        ("P100", "nvidia-tesla-p100"),
        ("nvidia-a100-40gb", "nvidia-tesla-a100"),
        ("nvidia-l4-24gb", "nvidia-l4"),
        ("nvidia-tesla-l4", "nvidia-l4"),
        ("Tesla T4", "nvidia-tesla-t4"),
        ("nvidia-h100", "nvidia-h100-80gb"),
        ("radeon", None),
    ],
)
def test_spelling_finds_what_was_meant(written: str, meant: str | None) -> None:
    """Common names of a GPU lead to GKE's."""
    assert gke.spelling(written) == meant


def test_a_machine_without_its_local_ssds_has_none() -> None:
    """GKE knows one for each machine that includes them, but for parts of an A3 and bare metal."""
    bare = [row for row in MACHINES if row.name.endswith("-nolssd")]
    whole = [gke.MACHINE_TYPES[row.name.removesuffix("-nolssd")] for row in bare]
    assert [row.name for row in MACHINES if row.local_ssds and row not in whole] == [
        *("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g", "a4x-maxgpu-4g-metal")
    ]
    assert {row.local_ssds for row in bare} == {0}
    listed = {row.name for row in bare if not row.uncertain}
    assert listed == {"a3-edgegpu-8g-nolssd", "a3-ultragpu-8g-nolssd"}
    assert {gke_node(row.name).most for row in bare if row.uncertain} == {None}


@pytest.mark.parametrize("name", ["a4-highgpu-8g-nolssd", "a2-ultragpu-8g-nolssd"])
def test_a_machine_that_is_not_listed_is_only_warned_about(name: str) -> None:
    """Also in a zone of which it is not known that it has the accelerator."""
    args = GkeGpuNodePoolArgs(machine_type=name, capacity_type="spot", zones=["us-central1-f"])
    networks = {"a": "8.8.8.8/32"}
    cluster = GkeClusterArgs(name="c", location="us-central1", authorized_networks=networks)
    (warning,) = args.resolve("p", cluster).warnings
    assert warning.startswith(f"gpuPools.p.machineType: {name} is not a listed machine type")
    assert f"gcloud compute machine-types describe {name} --zone ZONE" in warning
    with pytest.raises(ValueError, match="is not offered in us-central1-f"):
        replace(args, machine_type="a3-ultragpu-8g-nolssd").resolve("p", cluster)


def test_gke_takes_the_machines_that_autopilot_offers() -> None:
    """And none without local SSDs, which it starts only if a class names the type."""
    for row in ACCELERATORS:
        for count in row.counts:
            machine = gke.largest_with(row.name, count)
            assert machine is not None, (row.name, count)
            offered = count in row.autopilot_counts and machine.accelerator is not None
            assert machine.autopilot == offered, (row.name, count)
            assert "nolssd" not in machine.name


def test_every_cpu_machine_type_is_known_with_its_price() -> None:
    """Each listed machine without GPUs has vCPUs and memory, and no accelerator; the older families
    have a price."""
    for name in gke.CPU_MACHINE_TYPES:
        row = gke.machine_type(name)
        assert row is not None, name
        assert row.name == name
        assert row.vcpu >= 1
        assert row.memory_gib >= 0.9 * row.vcpu
        assert (row.on_demand or 0) > 0 or row.family in (
            "n4",
            "t2d",
            "c2",
            "c2d",
            "c3",
            "c3d",
            "c4",
        )
        assert (row.accelerator, row.gpus) == (None, 0)


@pytest.mark.parametrize(
    ("name", "vcpu", "memory_gib", "price"),
    [
        ("n1-standard-4", 4, 15, 0.19),
        ("n1-standard-1", 1, 3.75, 0.0475),
        ("n1-standard-96", 96, 360, 4.56),
        ("n1-highmem-96", 96, 624, 5.6786),
        ("n1-highcpu-16", 16, 14.4, 0.5668),
        ("e2-medium", 2, 4, 0.03351),
        ("e2-standard-4", 4, 16, 0.13401),
        ("n2-standard-8", 8, 32, 0.38847),
        ("custom-4-15360", 4, 15, 0.19939),
    ],
)
def test_cpu_shapes_have_the_published_price(
    name: str, vcpu: int, memory_gib: float, price: float
) -> None:
    """Shape and price follow from the family's rates per vCPU and GiB."""
    row = gke.machine_type(name)
    assert row is not None
    assert (row.vcpu, row.memory_gib) == (vcpu, pytest.approx(memory_gib))
    assert row.on_demand == pytest.approx(price, abs=1e-3)


@pytest.mark.parametrize(
    "name",
    [
        "n1-standard-3",
        "n1-highmem-1",
        "n1-standard-04",
        "n1-standard",
        "n1-standard-",
        "custom-3-6144",
        "custom-4-4000",
        "custom-4-1024",
        "custom-2-99328",
        "e2-standrad-4",
        "e3-standard-4",
        "n2-custom",
        "c3-micro",
        "c3-medium",
        "",
    ],
)
def test_shapes_that_do_not_exist_are_unknown(name: str) -> None:
    """A size that a family does not have is None, like a family that is not listed."""
    assert gke.machine_type(name) is None
    assert gke.gpu_counts_for(name) == ()


@pytest.mark.parametrize(
    ("name", "disk"),
    [
        *((name, "pd-balanced") for name in (
            "c3-highcpu-4", "c3-highmem-8", "c3-standard-4-lssd", "n2d-highmem-4", "n2d-highcpu-8",
            "e2-micro", "e2-custom-4-8192", "e2-custom-small-2048", "n2-custom-4-8192-ext",
            "t2a-standard-4",
        )),
        *((name, "hyperdisk-balanced") for name in (
            "c4a-standard-4", "c4d-highmem-8", "n4d-standard-2", "n4-highcpu-4", "n4-custom-4-8192",
            "c4-highmem-8", "c4-standard-2", "c4-standard-24",
        )),
    ],
)  # fmt: skip
def test_a_size_that_is_not_listed_is_taken_with_its_familys_disk(name: str, disk: str) -> None:
    """GKE offers it; the user is told that its price is not known, and no total leaves it out."""
    pool = GkeSystemPoolArgs(machine_type=name)
    assert pool.boot_disk == disk
    row = gke.machine_type(name)
    assert row is not None
    assert (row.on_demand, row.accelerator, row.uncertain) == (None, None, True)
    cluster = GkeClusterArgs(
        name="c", location="us-central1-a", authorized_networks={"a": "8.8.8.8/32"},
        system_pool=pool,
    )  # fmt: skip
    warning, *more = cluster.warnings()
    assert warning.startswith(f"systemPool.machineType: {name} is not a listed machine type")
    arm = f"systemPool.machineType: {name} is Arm, and GKE taints Arm nodes with "
    small = f"systemPool.machineType: {name} has "
    assert [line for line in more if not line.startswith((arm, small))] == []
    assert any(line.startswith(arm) for line in more) == (row.arch == "arm64")
    assert gke_node(name).on_demand is None


ROOT = Path(__file__).parents[3]
FACTS = ROOT / "gpu_cluster/rehearsal/simulators/google/container/machine_families.yaml"
AUTOSCALER = yaml.safe_load(FACTS.read_text(encoding="utf-8"))
"""GKE's own autoscaler's table, of which the catalog's is an excerpt."""


def test_families_have_the_features_that_gke_s_autoscaler_gives_them() -> None:
    """Disks, placement, NUMA and huge pages, of every family that this program knows."""
    families = AUTOSCALER["families"]
    assert {*families} - {*FAMILIES} <= {"ek", *(f for f in families if f[:2] in ("ct", "tp"))}
    for name, row in FAMILIES.items():
        theirs = families[name.partition("-")[0]]
        own = AUTOSCALER["machines"].get(f"{name}-8g", {}) if "-" in name else {}
        assert {*row.boot_disks} == {*own.get("boot", theirs["boot"])} & {*DISK_TYPES}, name
        if theirs["attach"] and "-" not in name:
            assert {*row.attachable} == {*theirs["attach"]} & {*DISK_TYPES}, name
        features = (row.compact, row.gigantic_pages, row.numa)
        assert features == (theirs["compact"], theirs["gigantic"], theirs["numa"]), name
    nodes = {family: families[family]["compact_nodes"] for family in COMPACT_NODES}
    assert nodes == COMPACT_NODES
    assert COMPACT_NODES.keys() == {row.family for row in MACHINES if row.features.compact}


def test_machines_with_gpus_are_those_of_gke_s_autoscaler() -> None:
    """Shape, GPUs and local SSDs; it gives g2-standard-24, of 24 vCPUs, 23."""
    for row in MACHINES:
        theirs = AUTOSCALER["machines"][row.name]
        vcpu = row.vcpu - (row.name == "g2-standard-24")
        assert (vcpu, row.memory_gib) == (theirs["vcpu"], theirs["gib"]), row.name
        assert row.fractional or row.gpus == theirs["gpus"], row.name
        assert row.local_ssds == theirs["ssds"], row.name
        assert [*row.ssd_counts] == AUTOSCALER["counts"].get(row.name, []), row.name
    for name in ("n1-standard-1", "custom-8-15360"):
        row = gke.machine_type(name)
        assert row
        assert [*row.ssd_choices] == AUTOSCALER["counts"]["n1"]


def test_memory_of_machines_without_gpus_is_that_of_gke_s_autoscaler() -> None:
    """It misprints one; the two oldest, of which GKE refuses f1-micro, are not known here."""
    theirs = AUTOSCALER["gib"] | {"n2d-highmem-96": 768}
    ours = {name: row and row.memory_gib for name in theirs for row in [gke.machine_type(name)]}
    assert ours == theirs | dict.fromkeys(("f1-micro", "g1-small"))


@pytest.mark.parametrize("machine", [row.name for row in MACHINES if not row.left_out])
@pytest.mark.parametrize("disk", DISK_TYPES)
def test_a_boot_disk_is_refused_if_gke_refuses_it(machine: str, disk: str) -> None:
    """For every machine type with GPUs."""
    row = AUTOSCALER["machines"][machine]
    boots = row.get("boot") or AUTOSCALER["families"][machine.partition("-")[0]]["boot"]
    way = gke.MACHINE_TYPES[machine].provisioning[0]
    reserved = {"reservation": "mine"} if way == "reservation" else {}
    given = {"machine_type": machine, "disk_type": disk, "capacity_type": way, **reserved}
    if disk in boots:
        assert GkeGpuNodePoolArgs(**given).boot_disk == disk
        return
    with pytest.raises(ValueError, match=f"^diskType: {disk} cannot be used with {machine}; allow"):
        GkeGpuNodePoolArgs(**given)


def test_n1_limits_cover_every_count_of_every_n1_accelerator() -> None:
    """Whatever attaches to N1 has a limit for each of its counts, rising with the count."""
    n1 = {row.name: set(row.counts) for row in ACCELERATORS if row.machine_family == "n1"}
    assert {name: set(limits) for name, limits in gke.N1_ATTACH_LIMITS.items()} == n1
    for name, limits in gke.N1_ATTACH_LIMITS.items():
        rows = [limits[count] for count in sorted(limits)]
        assert rows == sorted(rows), name
    for (name, count, zone), lower in N1_ATTACH_LIMITS_BY_ZONE.items():
        assert zone in gke.ACCELERATORS[name].zones
        assert gke.n1_attach_limit(name, count, zone=zone) == lower
        general = gke.n1_attach_limit(name, count)
        assert general is not None
        assert lower < general


def test_n1_limits_know_their_exceptions() -> None:
    """Four P100 take a smaller machine in us-east1-c; a GPU that N1 cannot have has no limit."""
    assert gke.n1_attach_limit("nvidia-tesla-p100", 4) == (96, 624)
    assert gke.n1_attach_limit("nvidia-tesla-p100", 4, zone="us-east1-c") == (64, 208)
    assert gke.n1_attach_limit("nvidia-tesla-p100", 2, zone="us-east1-c") == (32, 208)
    assert gke.n1_attach_limit("nvidia-tesla-t4", 3) is None
    assert gke.n1_attach_limit("nvidia-l4", 1) is None


@pytest.mark.parametrize(
    ("machine", "accelerator", "zone", "counts"),
    [
        ("n1-standard-4", "nvidia-tesla-t4", None, (1, 2, 4)),
        ("n1-standard-64", "nvidia-tesla-t4", None, (4,)),
        ("n1-standard-16", "nvidia-tesla-v100", None, (2, 4, 8)),
        ("n1-highmem-16", "nvidia-tesla-p100", None, (1, 2, 4)),
        ("n1-standard-96", "nvidia-tesla-p100", None, (4,)),
        ("n1-standard-96", "nvidia-tesla-p100", "us-east1-c", ()),
        ("n1-highmem-64", "nvidia-tesla-p100", "europe-west1-b", ()),
        ("n1-standard-4", None, None, (1, 2, 4, 8)),
        ("n1-standard-4", "nvidia-l4", None, ()),
        ("g2-standard-24", "nvidia-l4", None, (2,)),
        ("g2-standard-24", None, None, (2,)),
        ("g2-standard-24", "nvidia-tesla-t4", None, ()),
        ("a2-megagpu-16g", None, None, (16,)),
        ("g4-standard-12", None, None, ()),
        ("e2-standard-4", None, None, ()),
        ("nowhere-1", None, None, ()),
    ],
)
def test_gpu_counts_follow_from_the_machine_type(
    machine: str, accelerator: str | None, zone: str | None, counts: tuple[int, ...]
) -> None:
    """A machine has one count, N1 all that its size keeps, and the others none."""
    assert gke.gpu_counts_for(machine, accelerator, zone=zone) == counts


def test_zones_with_are_the_zones_of_one_region() -> None:
    """T4 is in four zones of us-central1, and in none of a region that does not exist."""
    assert gke.zones_with("nvidia-tesla-t4", "us-central1") == (
        "us-central1-a",
        "us-central1-b",
        "us-central1-c",
        "us-central1-f",
    )
    assert gke.zones_with("nvidia-tesla-t4", "us-central9") == ()
    assert gke.zones_with("nvidia-none", "us-central1") == ()


@pytest.mark.parametrize(
    ("location", "region", "zone"),
    [
        ("us-central1", True, False),
        ("europe-west12", True, False),
        ("northamerica-northeast2", True, False),
        ("us-central1-a", False, True),
        ("europe-west12-b", False, True),
        ("us-south1-ai1b", False, True),
        ("us-central", False, False),
        ("us-central1-", False, False),
        ("us-central1-1a", False, False),
        ("us_central1-a", False, False),
        ("US-central1-a", False, False),
        ("us-central1-a\n", False, False),
        ("", False, False),
    ],
)
def test_locations_are_regions_or_zones(location: str, region: bool, zone: bool) -> None:
    """A zone's suffix is not always one letter, and nothing is both region and zone."""
    assert (gke.is_region(location), gke.is_zone(location)) == (region, zone)


def test_region_of_refuses_what_is_no_location() -> None:
    """The region of a word that is no location is an error in one line."""
    assert gke.region_of("us-south1-ai1b") == "us-south1"
    assert gke.region_of("us-south1") == "us-south1"
    with pytest.raises(ValueError, match=r"^'mars' is neither a region nor a zone[^\n]*$"):
        gke.region_of("mars")


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("1.28.6-gke.1369000", True),
        ("1.28.6-gke.1368999", False),
        ("1.28.10-gke.1", True),
        ("1.29.1-gke.1575000", True),
        ("1.29.0-gke.9999999", False),
        ("1.30.0", True),
        ("1.36", True),
        ("1.27.99-gke.1", False),
        ("1.27", False),
        ("1.28", None),
        ("1.28.6-beta", None),
        ("latest", None),
        ("1", None),
        ("1.280", True),
    ],
)
def test_meets_compares_within_the_minor(version: str, answer: bool | None) -> None:
    """A version is compared with its own minor's first one, numerically, else by its minor."""
    assert gke.meets(version, ("1.28.6-gke.1369000", "1.29.1-gke.1575000")) is answer


def test_meets_refuses_an_inexact_first_version() -> None:
    """A first version without its patch is a mistake in the catalogue, and an error."""
    with pytest.raises(ValueError, match="not an exact GKE version"):
        gke.meets("1.33.1-gke.1", ("1.33",))


@settings(max_examples=50)
@given(st.text("az09-A_.", max_size=42))
def test_cluster_names_are_what_the_api_takes(name: str) -> None:
    """A name is 1 to 40 of a-z, 0-9 and hyphens, starts with a letter and ends with no hyphen."""
    good = (
        0 < len(name) <= gke.CLUSTER_NAME_MAX
        and set(name) <= set("az09-")
        and name[0].isalpha()
        and name[-1] != "-"
    )
    assert (gke.CLUSTER_NAME.fullmatch(name) is not None) == good


@pytest.mark.parametrize(("name", "good"), [("a" * 40, True), ("a" * 41, False), ("a_b", False)])
def test_names_have_at_most_forty_characters(name: str, good: bool) -> None:
    """The limit of 40 holds for clusters and node pools, and `_` is in neither."""
    assert (gke.CLUSTER_NAME.fullmatch(name) is not None) == good
    assert (gke.NODE_POOL_NAME.fullmatch(name) is not None) == good


@pytest.mark.parametrize("region", gke.REGIONS)
def test_every_region_with_gpus_is_a_known_region(region: str) -> None:
    """Each name is one, and what is known to have GPUs is among them."""
    assert gke.is_region(region)
    zones = {zone for zones in gke.ACCELERATOR_ZONES.values() for zone in zones}
    assert {gke.region_of(zone) for zone in zones} <= set(gke.REGIONS)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("us-centrl1-a", "us-central1-a"),
        ("europe-wst4", "europe-west4"),
        ("us-central1-a", None),
        ("us-central9-a", None),
        ("mars-north1", None),
    ],
)
def test_a_misspelt_location_is_told_from_a_new_one(written: str, meant: str | None) -> None:
    """A known name with another number may have opened since; what is like nothing is left."""
    assert gke.meant_location(written) == meant


@pytest.mark.parametrize("machine", ["c3-standard-192-metal", "z3-highmem-192-highlssd-metal"])
def test_bare_metal_has_no_persistent_disk(machine: str) -> None:
    """Although its family has."""
    row = family_of(machine)
    assert row.boot_disk == "hyperdisk-balanced"
    assert {*row.boot_disks, *row.attachable} == {"hyperdisk-balanced"}
    assert len(family_of(machine.removesuffix("-metal")).boot_disks) > 1


@pytest.mark.parametrize(
    ("name", "asked", "paid"),
    [
        ("standard-rwo", 5, 5),
        ("zonal-rwx", 10, 1024),
        ("zonal-rwx", 9984, 9984),
        ("gpu-cluster-filestore-zonal", 9985, 10_240),
        ("regional-rwx", 10_100, 10_240),
        ("regional-rwx", 20_000, 20_000),
        ("enterprise-multishare-rwx", 100, 1024),
    ],
)
def test_a_claim_pays_for_the_size_that_its_class_has(name: str, asked: int, paid: int) -> None:
    """No zonal or regional instance is between 9,984 and 10,240 GiB; shares are in one of 1 TiB."""
    row = volume_class(name)
    assert row is not None
    assert row.paid_gib(asked) == paid


@pytest.mark.parametrize(("version", "first"), [(None, "1.34.8-gke.1000000"), ("1.36", "1.36")])
def test_a_cluster_starts_with_its_channels_version(version: str | None, first: str) -> None:
    """Unless it names one."""
    cluster = GkeClusterArgs(
        name="c", location="us-central1", authorized_networks={"a": "8.8.8.8/32"},
        release_channel="stable", version=version,
    )  # fmt: skip
    assert cluster.first_version == first
