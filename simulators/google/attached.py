"""What GKE's controllers make in a project for Services and PersistentVolumeClaims, by their names.

kubernetes/cloud-provider-gcp: a load balancer is called `a` and the Service's uid without hyphens,
its firewall rule `k8s-fw-` and that; the disk of a claim `pvc-` and its uid.
"""

from collections.abc import Iterator, Mapping, Sequence

from simulators.cloud import Wanted
from simulators.google.resource import CloudResource

TOKEN = "rehearsal:gke/attached:Attached"


def resources(cluster: CloudResource, one: Wanted) -> Iterator[CloudResource]:
    """What stands in the cloud for one object."""
    project = cluster.identity.split("/")[1]
    zone = cluster.state["locations"][0]
    region, start = zone.rpartition("-")[0], f"projects/{project}"
    name = f"a{one.uid.replace('-', '')}"[:32]
    networks = [used for used in cluster.depends_on if "/networks/" in used]
    networks += [used for used in cluster.depends_on if "/subnetworks/" in used][: not networks]
    # A rule is where its network is: in a Shared VPC in the host project.
    host = networks[0].split("/")[1]
    parts: dict[str, tuple[str, list[str]]] = {
        f"{start}/regions/{region}/forwardingRules/{name}": ("forwarding rule", []),
        f"projects/{host}/global/firewalls/k8s-fw-{name}": ("firewall rule", networks),
    }
    if one.kind == "disk":
        parts = {f"{start}/zones/{zone}/disks/pvc-{one.uid}": ("disk", [])}
    for identity, (word, uses) in parts.items():
        state: dict[str, object] = {"for": one.uid, "name": one.name}
        yield CloudResource(
            token=TOKEN, display_name=word, identity=identity, state=state, depends_on=list(uses)
        )


def handles(there: Mapping[str, CloudResource], wanted: Sequence[Wanted]) -> dict[str, str]:
    """The uid -> an address of documentation, or the disk as its driver names it."""
    found = {}
    for number, one in enumerate(wanted):
        for resource in there.values():
            if resource.token == TOKEN and resource.state["for"] == one.uid:
                disk = f"pd.csi.storage.gke.io:{resource.identity}"
                found[one.uid] = disk if one.kind == "disk" else f"198.51.100.{number % 250 + 1}"
    return found
