"""Which machine carries a GPU, where and for how much: as the catalog has it, or unknown."""

import json
import re

import pytest

from gpu_cluster.cli.main import main
from gpu_cluster.components.catalog import eks, gke
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.stacks.cost.gpu_offers import Offer, answer, offers
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.outcome import ExitCode


def of(machine: str, gpus: int, found: list[Offer]) -> Offer:
    (offer,) = (one for one in found if (one.machine, one.gpus) == (machine, gpus))
    return offer


def test_a_gpu_in_a_region_of_google() -> None:
    """Zones are the region's alone, prices those of the catalog, the quota has its name."""
    found = offers("l4", "europe-west4")
    offer = of("g2-standard-4", 1, found)
    assert {one.cloud for one in found} == {"google"}
    assert offer.zones == ("europe-west4-a", "europe-west4-b", "europe-west4-c")
    assert (offer.on_demand, offer.spot) == (0.7068, 0.3612)
    assert (offer.quota, offer.spot_quota) == ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS")


def test_a_gpu_in_a_zone() -> None:
    """A zone of Google Cloud is a place too."""
    found = offers("a100", "europe-west4-b")
    assert {one.machine for one in found} == {
        *(f"a2-highgpu-{n}g" for n in (1, 2, 4, 8)),
        "a2-megagpu-16g",
    }
    assert {one.zones for one in found} == {("europe-west4-b",)}


def test_machines_of_one_gpu_have_quotas_of_their_own() -> None:
    """A3 Mega's H100 is not A3 High's; N1 machines have the quota of the GPU that is attached."""
    lines = answer("h100", None)[2].replace("\n  ", " ")
    for machine, gpu in (("a3-highgpu-8g", "H100"), ("a3-megagpu-8g", "H100_MEGA")):
        quotas = f"NVIDIA_{gpu}_GPUS, for Spot PREEMPTIBLE_NVIDIA_{gpu}_GPUS"
        assert re.search(rf"quota of [^:]*{machine}[^:]*: {quotas}$", lines, re.MULTILINE), lines
    assert "quota of T4: NVIDIA_T4_GPUS, for Spot" in answer(None, None)[2]


def test_aws_has_no_zones_that_are_known() -> None:
    """They differ by account; Spot's price by the hour."""
    offer = of("g4dn.xlarge", 1, offers("nvidia-tesla-t4", "us-east-1"))
    assert (offer.cloud, offer.zones, offer.spot) == ("aws", None, None)
    assert (offer.on_demand, offer.quota) == (0.526, "L-DB2E81BA (G_VT)".replace("_", "/"))


def test_an_attached_gpu_is_priced_with_its_machine() -> None:
    """A T4 is on N1, with as many as GKE takes."""
    found = [offer for offer in offers("T4") if offer.cloud == "google"]
    assert [(one.gpus, one.machine) for one in found] == [
        (1, "n1-standard-4"),
        (2, "n1-standard-8"),
        (4, "n1-standard-16"),
    ]
    one = gke.ACCELERATORS["nvidia-tesla-t4"].on_demand
    host = gke.machine_type("n1-standard-8")
    assert host is not None
    assert host.on_demand is not None
    assert one is not None
    assert found[1].on_demand == pytest.approx(host.on_demand + 2 * one)


def test_without_arguments_there_is_everything() -> None:
    """Every machine that a pool may have, of both clouds, and none that is retired."""
    machines = {(offer.cloud, offer.machine) for offer in offers()}
    for name, row in gke.MACHINE_TYPES.items():
        sure = row.gpus == int(row.gpus) and not row.uncertain and not row.unmet
        assert (("google", name) in machines) == sure, name
    for name in eks.INSTANCE_TYPES:
        assert (("aws", name) in machines) == (eks.refusal(name) is None), name
    assert "K80" not in {offer.gpu for offer in offers()}


@pytest.mark.parametrize("name", ["h100", "H100", "NVIDIA H100", "nvidia-h100-80gb", "p5.48xlarge"])
def test_a_gpu_goes_by_many_names(name: str) -> None:
    """The model, the cloud's word for it, or a machine that has it."""
    assert {offer.gpu for offer in offers(name)} == {"H100"}


@pytest.mark.parametrize(
    ("gpu", "region", "says"),
    [
        ("l44", None, "'l44' is not a known GPU or machine; did you mean 'L4'? known: "),
        ("h10", None, "did you mean 'H100'? known: A100 40GB, A100 80GB, A10G, B200, B300, "),
        ("g4dn.xlarg", None, "did you mean 'g4dn.xlarge'?"),
        (None, "europe-wst4", "europe-wst4 is not a region; did you mean 'europe-west4'?"),
        (None, "virginia", "'virginia' is not a region of either cloud; give one such as "),
    ],
)
def test_a_misspelt_name_is_refused(gpu: str | None, region: str | None, says: str) -> None:
    """With the nearest one that there is."""
    with pytest.raises(StackError) as refused:
        offers(gpu, region)
    assert says in str(refused.value)


def test_a_region_without_it_is_a_finding() -> None:
    """And the regions that have it are said."""
    code, document, text = answer("l4", "europe-north2")
    assert code == ExitCode.FINDING
    assert document["offers"] == []
    assert text.startswith("no known machine has l4 in europe-north2; Google Cloud has it in ")
    assert "europe-west4, " in text


def test_what_is_not_known_says_so() -> None:
    """No price is no price of 0, and what is not sold has none to know."""
    _, _, text = answer("h200", None)
    (ultra,) = (line for line in text.splitlines() if "a3-ultragpu-8g " in line)
    assert ultra.split()[3:6] == ["not", "sold", "unknown"]
    (p5e,) = (line for line in text.splitlines() if "p5e.48xlarge" in line)
    assert p5e.split()[3] == "unknown"


def test_the_sources_and_their_dates_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as JSON."""
    assert main(["offers", "--gpu", "t4"]) == ExitCode.OK
    text = capsys.readouterr().out
    text = " ".join(text.split())
    assert "List prices of 2026-06-23, and of sources without a date, in us-central1, from" in text
    assert "List prices of 2026-01-19, in us-east-1, from karpenter's pricing tables" in text
    assert main(["offers", "--gpu", "t4", "--json"]) == ExitCode.OK
    assert set(json.loads(capsys.readouterr().out)["sources"]) == {*CLOUDS}
    assert main(["offers", "--gpu", "t5t5"]) == ExitCode.UNKNOWN
