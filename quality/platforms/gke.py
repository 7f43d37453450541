"""GKE Standard, as benchmarks and fault injection measure it."""

from components.catalog.clouds import GOOGLE
from components.catalog.node_prices import gke_node
from components.gke.settings import GkeSettings
from quality.platforms import nodes
from stacks.cost.bill import Bill
from stacks.cost.bill_parts import always, hourly, monthly, price_of

ENVIRONMENT = "dev"
SCALE = 4.0
KILL_PARTS = 1
ORDER = (
    "gcp:compute/network:Network",
    "gcp:compute/subnetwork:Subnetwork",
    GOOGLE.cluster,
)
ZONES = 3


def idle(settings: GkeSettings) -> dict[str, Bill]:
    """terraform-google-modules/terraform-google-kubernetes-engine, cluster.tf and variables.tf."""
    address = hourly("address", price_of("google", "external-ipv4"))
    disk = monthly("disk", price_of("google", "pd-standard"), 100)
    fee = always("control plane", "regional", hourly("fee", price_of("google", "gke-cluster")))
    default = nodes("default-node-pool", gke_node("e2-medium"), [disk, address], ZONES)
    pools = {name: resolved.args for name, resolved in settings.pools.items()}
    gpus = [
        nodes(name, gke_node(p.machine_type, p.gpu_model.name, p.gpus), [disk, address], 1)
        for name, p in pools.items()
    ]
    name = "terraform-google-kubernetes-engine"
    return {
        name: Bill(items=[fee, default, *gpus]),
        f"{name}, GPU pools from 0": Bill(items=[fee, default]),
    }
