"""The machines with a GPU in each cloud: zones, prices and quotas.

All of it comes from the catalog and works offline; what the catalog does not know is None.
"""

import difflib
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from components.catalog import eks, gke, gke_accelerators
from components.catalog.clouds import CLOUDS
from components.catalog.eks_instances import Blocks
from components.catalog.gke_shapes import n1_attach_limit
from components.catalog.node_prices import eks_node, gke_node, priced_on
from components.eks.regions import is_region, meant_region
from stacks.definition.names import StackError
from stacks.outcome import Answer, ExitCode
from stacks.table import COLUMNS, table

_N1 = ("n1-standard-4", "n1-standard-8", "n1-standard-16", "n1-standard-32")
ZONES_READ = "2026-11-21"
_AWS = "Quota codes, read on 2026-11-21: four public programs; zones: run gpu-cluster capacity"
_SOLD: Mapping[Blocks, tuple[str, ...]] = {
    "none": ("on-demand", "spot", "reservation"),
    "also": ("on-demand", "spot", "reservation", "capacity-block"),
    "only": ("capacity-block",),
}
"""Whether EC2 sells an instance type in Capacity Blocks -> possible values of `capacityType`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A machine with GPUs."""

    cloud: str
    """Key of `CLOUDS`."""
    gpu: str
    """The catalog's GPU model."""
    gpus: int
    """The number of GPUs on one machine."""
    machine: str
    accelerator: str
    """The value for `gpuPools.<name>.accelerator`."""
    vcpu: int
    memory_gib: float
    zones: tuple[str, ...] | None
    """The zones in the requested region, or all; None if they are not known."""
    more_zones: bool
    """Whether there are more zones than are known."""
    on_demand: float | None
    """Dollars per hour for the whole machine; None if not known or not sold this way."""
    spot: float | None
    price_source: str
    uncertain: bool
    """Whether the price is general knowledge or derived."""
    quota: str
    """The cloud's name for the quota that on-demand machines count against."""
    spot_quota: str | None
    """The same for Spot machines; None if it is not known."""
    sold: tuple[str, ...]
    """Possible values of `capacityType`."""
    autopilot: bool
    """Whether a pod on GKE Autopilot may have this many of the GPU."""


def offers(gpu: str | None = None, region: str | None = None) -> list[Offer]:
    """Every machine with this GPU in this region or zone, by cloud, GPU and size.

    Raises StackError for an unknown GPU, region or zone.
    """
    wanted = _clouds(region)
    found = [*(google(region) if "google" in wanted else ()), *(aws() if "aws" in wanted else ())]
    if gpu is None:
        return found
    known = {word for offer in [*google(), *aws()] for word in _words(offer)}
    word = _plain(gpu)
    if word not in known:
        raise StackError(_no_such_gpu(gpu, word))
    return [offer for offer in found if word in _words(offer)]


def google(place: str | None = None) -> Iterator[Offer]:
    """Google Cloud's offers, in a region or zone or anywhere."""
    for card in gke.ACCELERATORS.values():
        if card.retired:
            continue
        rows = [row for row in gke.MACHINE_TYPES.values() if row.accelerator == card.name]
        shapes = [(row, int(row.gpus)) for row in rows if not row.fractional]
        if card.machine_family == "n1":
            shapes = [(_n1(card.name, count), count) for count in card.counts]
        for machine, count in shapes:
            every = card.zones if machine.zones is None else machine.zones
            zones = tuple(sorted(zone for zone in every if place in (None, zone, _region(zone))))
            if not zones and not (card.zones_partial and place):
                continue
            price = gke_node(machine.name, card.name, count)
            sold = machine.provisioning
            yield Offer(
                cloud="google", gpu=card.model, gpus=count, machine=machine.name,
                accelerator=card.name, vcpu=machine.vcpu, memory_gib=machine.memory_gib,
                zones=zones or None, more_zones=card.zones_partial,
                on_demand=price.on_demand if "on-demand" in sold else None,
                spot=price.spot if "spot" in sold else None,
                price_source=price.source, uncertain=price.uncertain,
                quota=card.quota_metric, spot_quota=card.quota_metric_preemptible,
                sold=sold, autopilot=count in card.autopilot_counts,
            )  # fmt: skip


def _n1(accelerator: str, count: int) -> gke.MachineType:
    """An N1 machine that can have this many of an accelerator."""
    size = _N1[min(count.bit_length() - 1, len(_N1) - 1)]
    machine, limit = gke.machine_type(size), n1_attach_limit(accelerator, count)
    assert machine is not None
    assert limit is None or machine.vcpu <= limit[0]
    return machine


def aws() -> Iterator[Offer]:
    """AWS's offers; the zones that have them differ by account."""
    for name, row in eks.INSTANCE_TYPES.items():
        if eks.refusal(name) is None:
            assert row.gpu_model is not None
            code, price = eks.quota_code(name), eks_node([name])
            yield Offer(
                cloud="aws", gpu=row.gpu_model, gpus=int(row.gpus), machine=name,
                accelerator=eks.accelerator_label(row.gpu_model), vcpu=row.vcpu,
                memory_gib=row.memory_gib, zones=None, more_zones=True,
                on_demand=None if row.blocks == "only" else price.on_demand, spot=None,
                price_source=price.source, uncertain=price.uncertain,
                quota=f"{code} ({row.quota.replace('_', '/')})" if code else "unknown",
                spot_quota=eks.quota_code(name, spot=True),
                sold=_SOLD[row.blocks],
                autopilot=False,
            )  # fmt: skip


def answer(gpu: str | None, region: str | None) -> Answer:
    """The offers as a document and as text; a finding if there are none."""
    found = offers(gpu, region)
    document = {
        "offers": [asdict(offer) for offer in found],
        "sources": {cloud: sources(cloud, found) for cloud in sorted({o.cloud for o in found})},
    }
    if not found:
        assert gpu is not None or region is not None
        return ExitCode.FINDING, document, elsewhere(gpu, str(region))
    parts = []
    for cloud in CLOUDS:
        some = [offer for offer in found if offer.cloud == cloud]
        if some:
            head = ["GPU", "GPUS", "MACHINE", "ON DEMAND", "SPOT"]
            lines = [cloud.upper(), table(head, [_row(offer) for offer in some])]
            lines += _grouped("quota", some, lambda offer: offer.quota)
            lines += _grouped("zones", some, lambda offer: _zones(offer, region))
            lines += textwrap.wrap(sources(cloud, found), COLUMNS, break_on_hyphens=False)
            parts.append("\n".join(lines))
    return ExitCode.OK, document, "\n\n".join(parts)


def sources(cloud: str, found: Sequence[Offer]) -> str:
    """The sources of a cloud's facts, and when they were read."""
    rows = [offer for offer in found if offer.cloud == cloud]
    said = sorted({offer.price_source for offer in rows if offer.price_source})
    if cloud == "google":
        known = gke_accelerators.SOURCES
        said = [known[key] for key in known if any(key in source for source in said)]
    prices = "; ".join(said) or "none that is known"
    region = CLOUDS[cloud].price_region
    about = " `~`: derived or generally known." if any(offer.uncertain for offer in rows) else ""
    others = (
        f"Zones and quotas, read on {ZONES_READ}, from skypilot-catalog and Google's documentation"
        if cloud == "google"
        else _AWS
    )
    priced = priced_on(offer.price_source for offer in rows)
    return f"List {priced}, in {region}, from {prices}.{about} {others}."


def elsewhere(gpu: str | None, region: str) -> str:
    """The message that a region has none, with regions that have some."""
    every = offers(gpu)
    regions = sorted({_region(zone) for offer in every for zone in offer.zones or ()})
    where = f"Google Cloud has it in {', '.join(regions)}" if regions else "Google Cloud has none"
    if any(offer.cloud == "aws" for offer in every):
        where += "; AWS has it too, in regions that the catalog does not know"
    return f"no known machine has {gpu or 'a GPU'} in {region}; {where}"


def _row(offer: Offer) -> list[object]:
    return [
        offer.gpu,
        offer.gpus,
        offer.machine,
        _dollars(offer, offer.on_demand, "on-demand"),
        _dollars(offer, offer.spot, "spot"),
    ]


def _grouped(what: str, some: Sequence[Offer], tell: Callable[[Offer], str]) -> list[str]:
    """A line for each text that `tell` returns, with the names of its offers, wrapped to the width
    of a terminal: GPUs, or machines if those with one GPU differ."""
    by_gpu: dict[str, set[str]] = {}
    for offer in some:
        by_gpu.setdefault(offer.gpu, set()).add(tell(offer))
    names: dict[str, dict[str, None]] = {}
    for offer in some:
        name = offer.gpu if len(by_gpu[offer.gpu]) == 1 else offer.machine
        names.setdefault(tell(offer), {})[name] = None
    return [
        line
        for text, group in names.items()
        for line in textwrap.wrap(
            f"{what} of {', '.join(group) if len(names) > 1 else 'all'}: {text}",
            COLUMNS,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
    ]


def _dollars(offer: Offer, price: float | None, way: str) -> str:
    if way not in offer.sold:
        return "not sold"
    return "unknown" if price is None else f"{'~' if offer.uncertain else ''}${price:,.2f}/h"


def _zones(offer: Offer, region: str | None) -> str:
    """The zones, or without a region their number in each region."""
    if offer.zones is None:
        return "unknown"
    regions = sorted({_region(zone) for zone in offer.zones})
    shown = ", ".join(offer.zones if region or len(offer.zones) <= 3 else regions)
    return f"{shown}, perhaps more" if offer.more_zones else shown


def _clouds(region: str | None) -> tuple[str, ...]:
    """The clouds that have a region or zone with this name."""
    if region is None:
        return tuple(CLOUDS)
    if gke.is_zone(region) or gke.is_region(region):
        if meant := gke.meant_location(region):
            raise StackError(f"{region} is not a region; did you mean {meant!r}?")
        return ("google",)
    if is_region(region):
        if meant := meant_region(region):
            raise StackError(f"{region} is not a region; did you mean {meant!r}?")
        return ("aws",)
    raise StackError(
        f"{region!r} is not a region of either cloud; give one such as europe-west4 or us-east-1, "
        "or a zone of Google Cloud such as europe-west4-a"
    )


def _region(zone: str) -> str:
    return gke.region_of(zone)


def _plain(word: str) -> str:
    """A GPU's name as people shorten it: `nvidia-tesla-t4`, `NVIDIA T4` and `t4` are the same."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"nvidia|tesla", "", word.lower()))


def _words(offer: Offer) -> set[str]:
    """Possible names for the GPU or its machine."""
    model = _plain(offer.gpu)
    without_memory = re.sub(r"[0-9]+gb$", "", model)
    # An N1 machine can have any of several GPUs attached.
    machine = {_plain(offer.machine)} - {_plain(name) for name in _N1}
    return {model, without_memory, _plain(offer.accelerator), *machine}


def _no_such_gpu(gpu: str, word: str) -> str:
    every = [*google(), *aws()]
    models = sorted({offer.gpu for offer in every})
    names = {_plain(name): name for offer in every for name in (offer.machine, offer.gpu)}
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    hint = f"did you mean {names[near[0]]!r}? " if near else ""
    return f"{gpu!r} is not a known GPU or machine; {hint}known: {', '.join(models)}"
