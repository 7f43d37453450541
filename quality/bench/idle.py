"""e. What an environment costs a month while nobody computes, against modules' defaults.

Both from the same price list. The modules get the environment's own GPU machine, and otherwise what
they choose when nothing is said.
"""

from collections.abc import Sequence
from datetime import date

from components.catalog.node_prices import NodePrice, eks_node, gke_node
from components.eks.settings import EksSettings
from components.gke.settings import GkeSettings
from quality.bench.measure import Comparison, Section
from quality.environments import platform_of, values_of
from stacks.cost.bill import Bill, Item, Part
from stacks.cost.bill_parts import always, hourly, monthly, node_pool, price_of
from stacks.cost.stack_cost import bill_at
from stacks.files import SAMPLES
from stacks.settings import settings_of

ZONES = 3
READ = date(2026, 11, 21)


def measure(chosen: Sequence[str]) -> Section:
    """One row per environment and module; none where nothing is made, or no module has defaults."""
    rows, notes = [], []
    for stack in chosen or SAMPLES:
        platform = platform_of(stack)
        if platform == "existing":
            notes.append(f"{stack}: an existing cluster is on somebody else's bill.")
            continue
        if platform == "gke-autopilot":
            notes.append(
                f"{stack}: an idle Autopilot cluster is its fee, whichever module makes it."
            )
            continue
        own = _month(bill_at(stack, values_of(stack)))
        settings = settings_of(stack, values_of(stack))
        match settings.own:
            case GkeSettings() as gke:
                others = google(gke)
            case EksSettings() as eks:
                others = amazon(eks)
            case _:
                raise ValueError(f"{stack}: no module is known for {platform}")
        rows += [
            Comparison(what=f"{stack}: {name}", unit="$", ours=[own], theirs=[_month(bill)])
            for name, bill in others.items()
        ]
    return Section(
        letter="e",
        title="Idle cost of a month",
        ours="this stack",
        theirs="module",
        rows=rows,
        notes=[
            f"Prices of `gpu-cluster cost`, modules read on {READ}. Traffic and logs are left out.",
            "terraform-google-kubernetes-engine: a regional cluster, in each of its three zones "
            "one e2-medium with 100 GB and a public address, and, with autoscaling on, one node of "
            "every further pool (`min_count` 1, here in one zone).",
            "terraform-aws-eks with terraform-aws-vpc: a node group of one t3.medium, every "
            "further one of one node (`min_size` 1), a NAT gateway for each private subnet.",
            "Second rows: the same with the GPU pools' minimum set to 0 by hand.",
            *notes,
        ],
    )


def google(settings: GkeSettings) -> dict[str, Bill]:
    """terraform-google-modules/terraform-google-kubernetes-engine, cluster.tf and variables.tf."""
    address = hourly("address", price_of("google", "external-ipv4"))
    disk = monthly("disk", price_of("google", "pd-standard"), 100)
    fee = always("control plane", "regional", hourly("fee", price_of("google", "gke-cluster")))
    default = _nodes("default-node-pool", gke_node("e2-medium"), [disk, address], ZONES)
    pools = {name: resolved.args for name, resolved in settings.pools.items()}
    gpus = [
        _nodes(name, gke_node(p.machine_type, p.gpu_model.name, p.gpus), [disk, address], 1)
        for name, p in pools.items()
    ]
    name = "terraform-google-kubernetes-engine"
    return {
        name: Bill(items=[fee, default, *gpus]),
        f"{name}, GPU pools from 0": Bill(items=[fee, default]),
    }


def amazon(settings: EksSettings) -> dict[str, Bill]:
    """terraform-aws-modules/terraform-aws-eks, eks-managed-node-group, and terraform-aws-vpc."""
    disk = monthly("disk", price_of("aws", "ebs-gp3"), 20)
    fee = always("control plane", "standard", hourly("fee", price_of("aws", "eks-cluster")))
    key = always("KMS key", "of secrets", monthly("key", price_of("aws", "kms-key"), 1))
    gateways = Item(
        name="NAT",
        what="gateway and address",
        parts=[
            hourly("gateway", price_of("aws", "nat-gateway")),
            hourly("address", price_of("aws", "public-ipv4")),
        ],
        idle=len(settings.cluster.network.zones),
        full=len(settings.cluster.network.zones),
    )
    default = _nodes("default", eks_node(["t3.medium"]), [disk], 1)
    gpus = [
        _nodes(name, eks_node(one.args.instance_types), [disk], 1)
        for name, one in settings.pools.items()
    ]
    name = "terraform-aws-eks"
    return {
        name: Bill(items=[fee, key, gateways, default, *gpus]),
        f"{name}, GPU pools from 0": Bill(items=[fee, key, gateways, default]),
    }


def _nodes(name: str, price: NodePrice, extra: Sequence[Part], count: int) -> Item:
    return node_pool(name, price, "", extra, (count, count), "on-demand")


def _month(bill: Bill) -> float:
    """Dollars. Raises ValueError where a price is not known: a lower bound compares badly."""
    total = bill.total("configured", "idle")
    if total.missing:
        raise ValueError(f"no price is known of {', '.join(total.missing)}")
    return total.month
