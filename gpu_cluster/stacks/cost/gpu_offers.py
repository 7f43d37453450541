"""The machines with a GPU in each cloud: zones, prices and quotas.

All of it comes from the catalog and works offline; what the catalog does not know is None.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Protocol, cast

from gpu_cluster.components.catalog import gke_accelerators
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.catalog.gke import region_of
from gpu_cluster.components.catalog.prices import priced_on
from gpu_cluster.components.catalog.spelling import nearest
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.outcome import Answer, ExitCode
from gpu_cluster.stacks.table import COLUMNS, table


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


class Offers(Protocol):
    """The module that `Cloud.offers` names."""

    ABOUT: str
    """Where zones and quotas are from."""
    CARRIERS: Sequence[str]
    """Machines to which GPUs are attached: their names do not tell which."""

    def offers(self, place: str | None = None) -> Iterator[Offer]:
        """The cloud's machines with GPUs, in a region or zone or anywhere."""

    def place(self, name: str) -> str | None:
        """The region or zone of this name, rightly spelt; None if it is not one of the cloud's."""


def offers(gpu: str | None = None, region: str | None = None) -> list[Offer]:
    """Every machine with this GPU in this region or zone, by cloud, GPU and size.

    Raises StackError for an unknown GPU, region or zone.
    """
    clouds = _clouds(region)
    found = [offer for cloud in clouds for offer in _module(cloud).offers(region)]
    if gpu is None:
        return found
    known = {word for offer in _every() for word in _words(offer)}
    word = _plain(gpu)
    if word not in known:
        raise StackError(_no_such_gpu(gpu, word))
    return [offer for offer in found if word in _words(offer)]


def _module(cloud: str) -> Offers:
    return cast(Offers, import_module(CLOUDS[cloud].offers))


def _every() -> list[Offer]:
    return [offer for cloud in _clouds(None) for offer in _module(cloud).offers()]


def _clouds(region: str | None) -> list[str]:
    """The clouds that have a region or zone of this name."""
    clouds = [name for name, cloud in CLOUDS.items() if cloud.offers]
    if region is None:
        return clouds
    for cloud in clouds:
        place = _module(cloud).place(region)
        if place and place != region:
            raise StackError(f"{region} is not a region; did you mean {place!r}?")
        if place:
            return [cloud]
    raise StackError(
        f"{region!r} is not a region of either cloud; give one such as europe-west4 or us-east-1, "
        "or a zone of Google Cloud such as europe-west4-a"
    )


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
            lines += _grouped("quota", some, _quota)
            lines += _grouped("zones", some, lambda offer: _zones(offer, region))
            lines += textwrap.wrap(sources(cloud, found), COLUMNS, break_on_hyphens=False)
            parts.append("\n".join(lines))
    return ExitCode.OK, document, "\n\n".join(parts)


def sources(cloud: str, found: Sequence[Offer]) -> str:
    """The sources of a cloud's facts, and when they were read."""
    rows = [offer for offer in found if offer.cloud == cloud]
    sources_ = sorted({offer.price_source for offer in rows if offer.price_source})
    known = gke_accelerators.SOURCES
    named = [known[key] for key in known if any(key in source for source in sources_)]
    prices = "; ".join(named or sources_) or "none that is known"
    region = CLOUDS[cloud].price_region
    about = " `~`: derived or generally known." if any(offer.uncertain for offer in rows) else ""
    priced = priced_on(offer.price_source for offer in rows)
    return f"List {priced}, in {region}, from {prices}.{about} {_module(cloud).ABOUT}."


def elsewhere(gpu: str | None, region: str) -> str:
    """The message that a region has none, with regions that have some."""
    every = offers(gpu)
    regions = sorted({region_of(zone) for offer in every for zone in offer.zones or ()})
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


def _quota(offer: Offer) -> str:
    other = "spot" in offer.sold and offer.spot_quota not in (None, offer.quota)
    return f"{offer.quota}, for Spot {offer.spot_quota}" if other else offer.quota


def _dollars(offer: Offer, price: float | None, way: str) -> str:
    if way not in offer.sold:
        return "not sold"
    return "unknown" if price is None else f"{'~' if offer.uncertain else ''}${price:,.2f}/h"


def _zones(offer: Offer, region: str | None) -> str:
    """The zones, or without a region their number in each region."""
    if offer.zones is None:
        return "unknown"
    regions = sorted({region_of(zone) for zone in offer.zones})
    shown = ", ".join(offer.zones if region or len(offer.zones) <= 3 else regions)
    return f"{shown}, perhaps more" if offer.more_zones else shown


def _plain(word: str) -> str:
    """A GPU's name as people shorten it: `nvidia-tesla-t4`, `NVIDIA T4` and `t4` are the same."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"nvidia|tesla", "", word.lower()))


def _words(offer: Offer) -> set[str]:
    """Possible names for the GPU or its machine."""
    model = _plain(offer.gpu)
    without_memory = re.sub(r"[0-9]+gb$", "", model)
    # A machine of N1 carries any GPU that one attaches.
    machine = {_plain(offer.machine)} - {_plain(name) for name in _module(offer.cloud).CARRIERS}
    return {model, without_memory, _plain(offer.accelerator), *machine}


def _no_such_gpu(gpu: str, word: str) -> str:
    every = _every()
    models = sorted({offer.gpu for offer in every})
    names = {_plain(name): name for offer in every for name in (offer.machine, offer.gpu)}
    near = nearest(word, names, 0.6)
    hint = f"did you mean {names[near]!r}? " if near else ""
    return f"{gpu!r} is not a known GPU or machine; {hint}known: {', '.join(models)}"
