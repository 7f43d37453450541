"""Lines that the bills of GKE Standard and Autopilot share."""

from dataclasses import replace

from gpu_cluster.components.catalog.gke_volumes import volume_class
from gpu_cluster.components.catalog.google_prices import PRICES
from gpu_cluster.components.catalog.prices import HOURS_PER_MONTH, Price
from gpu_cluster.components.gke.cluster_args import GkeControlPlaneArgs
from gpu_cluster.components.gke.network_args import GkeNetworkArgs
from gpu_cluster.stacks.cost.bill import Item, Metered, Part, fixed
from gpu_cluster.stacks.cost.bill_parts import always, hourly, metered, monthly


def fee(what: str) -> Item:
    """The control plane's fee."""
    return always("control plane", what, hourly("fee", PRICES["gke-cluster"]))


def cloud_nat(network: GkeNetworkArgs, idle: float | None, full: float | None) -> list[Item]:
    """The gateway is billed by machines up to a maximum, and has an address while a machine uses
    it: with 64 ports per machine, one serves 1,008. That of an existing network is billed to its
    project."""
    if network.existing:
        return []
    per_machine, most = PRICES["cloud-nat-per-vm"], PRICES["cloud-nat-most"]
    bound = most.dollars / per_machine.dollars
    counts = [None if count is None else min(count, bound) for count in (idle, full)]
    return [
        Item(
            name="NAT",
            what="per machine",
            parts=[hourly("gateway", per_machine)],
            idle=counts[0],
            full=counts[1],
        ),
        always("NAT address", "one", hourly("address", PRICES["external-ipv4"])),
    ]


def by_use(
    network: GkeNetworkArgs | None, *, prometheus: bool, alerts: bool = False
) -> list[Metered]:
    """What is billed by usage. `network`: None for that of an existing cluster."""
    nat = metered("traffic through NAT", PRICES["cloud-nat-data"])
    logs = Metered(name="VPC flow logs", dollars=None, unit="GiB")
    return [
        *([] if network is None or network.existing else [nat]),
        Metered(name="logs", dollars=None, unit="GiB"),
        Metered(name="traffic to the internet and between zones", dollars=None, unit="GiB"),
        *([Metered(name="Managed Prometheus", dollars=None, unit="sample")] if prometheus else []),
        *([Metered(name="alert conditions", dollars=None, unit="month")] if alerts else []),
        *([Metered(name="points that alerts read", dollars=None, unit="point")] if alerts else []),
        *([logs] if network is not None and network.flow_logs else []),
    ]


def google_notes(cluster: GkeControlPlaneArgs, *, free: bool) -> list[str]:
    """What a GKE bill does not include; `free`: the free tier may cover this kind of cluster."""
    notes = []
    if cluster.network.existing:
        notes.append(
            "internet access of an existing VPC is not part of this stack, and not counted"
        )
    if free:
        credit = PRICES["gke-free-tier"].dollars
        notes.append(
            f"the free tier, ${credit:.2f} a month and billing account, may cover the control plane"
        )
    if cluster.release_channel == "extended":
        extended = PRICES["gke-cluster-extended-period"].dollars
        notes.append(
            f"releaseChannel extended: once standard support of the cluster's minor has ended, the "
            f"control plane costs ${extended:.2f} an hour more, which is not in the sums"
        )
    if cluster.secrets_encryption_key:
        notes.append("the Cloud KMS key of Kubernetes secrets is yours and is not counted")
    return notes


def volume(storage_class: str | None, gib: float) -> tuple[Price | None, float]:
    """GKE's own classes have a price."""
    found = volume_class(storage_class)
    return (PRICES.get(found.price), found.paid_gib(gib)) if found else (None, gib)


def disk(disk_type: str, gib: float) -> Part:
    """A disk of a node; a type with its own Spot price costs less on a Spot machine."""
    price = PRICES.get(disk_type)
    name = "local SSD" if disk_type == "local-ssd" else "disk"
    if price is None:
        return fixed(name, None, "")
    part = monthly(name, price, gib)
    spot = PRICES.get(f"{disk_type}-spot")
    return replace(part, spot=gib * spot.dollars / HOURS_PER_MONTH) if spot else part
