"""What GKE's controllers make in a project for the objects of a cluster's users.

kubernetes/cloud-provider-gcp: the load balancer of a Service is called `a` and the Service's uid
without hyphens, its firewall rule `k8s-fw-` and that; the disk of a claim `pvc-` and its uid. What
an Ingress or a Gateway gets is in `attached_http`. Left out: target pools and certificates, which
keep nothing from being deleted.
"""

import ipaddress
import json
from collections.abc import Iterator, Sequence
from typing import Any

from components.catalog.gke import region_of
from simulators.cloud import Wanted, storage_class
from simulators.google.attached_http import Place, firewall
from simulators.google.attached_http import resources as http_resources
from simulators.google.compute.resources import LINK, new
from simulators.google.resource import CloudResource

Resources = dict[str, CloudResource]
_FILESTORE = (
    "standard-rwx",
    "premium-rwx",
    "zonal-rwx",
    "enterprise-rwx",
    "enterprise-multishare-rwx",
)


def attach(
    there: Resources, owners: dict[str, str], cluster: CloudResource, wanted: Sequence[Wanted]
) -> dict[str, str]:
    """Makes among the resources that are `there` what is missing, and takes away what this cluster
    has no object for any more; the uid of each object -> an address, or the disk as its driver
    names it. `owners`: resource -> id of the cluster whose controllers made it."""
    place, found = _place(cluster), dict[str, str]()
    now: Resources = {}
    for one in wanted:
        for resource in _resources(place, one):
            if resource.token == "compute.firewalls" and resource.identity in now:
                _open_also(resource, now[resource.identity])
            now[resource.identity] = resource
            if resource.token == "compute.disks":
                found[one.uid] = f"pd.csi.storage.gke.io:{resource.identity}"
            elif resource.token == "compute.forwardingRules":
                rule = there.get(resource.identity, resource)
                rule.state.setdefault("IPAddress", _address([*there.values(), *now.values()], rule))
                found[one.uid] = rule.state["IPAddress"]
    for identity in [name for name, owner in owners.items() if owner == place.uid]:
        if identity not in now:
            del owners[identity]
            there.pop(identity, None)
    for identity, resource in now.items():
        if identity in there:
            kept = {name: there[identity].state.get(name) for name in ("id", "creationTimestamp")}
            resource.state |= kept
            if address := there[identity].state.get("IPAddress"):
                resource.state["IPAddress"] = address
        there[identity], owners[identity] = resource, place.uid
    return found


def storage_classes(cluster: CloudResource) -> list[dict[str, Any]]:
    """Those that GKE makes, of Filestore with its driver alone.

    https://cloud.google.com/kubernetes-engine/docs/concepts/persistent-volumes and
    .../how-to/persistent-volumes/filestore-csi-driver (read 2026-11-22).
    """
    disks, files = "pd.csi.storage.gke.io", "filestore.csi.storage.gke.io"
    filestore = cluster.state["addonsConfig"].get("gcpFilestoreCsiDriverConfig") or {}
    return [
        storage_class("standard", "kubernetes.io/gce-pd", waits=False),
        storage_class("standard-rwo", disks, default=True),
        storage_class("premium-rwo", disks),
        *(storage_class(name, files) for name in _FILESTORE if filestore.get("enabled")),
    ]


def _open_also(wall: CloudResource, other: CloudResource) -> None:
    """All Ingresses of a cluster have one firewall rule, with the ports of all."""
    ports = {port for each in (wall, other) for port in each.state["allowed"][0].get("ports", ())}
    if ports:
        wall.state["allowed"][0]["ports"] = sorted(ports, key=int)


def _place(cluster: CloudResource) -> Place:
    addon = cluster.state["addonsConfig"].get("httpLoadBalancing") or {}
    zones = cluster.state["locations"]
    network, subnetwork = cluster.depends_on[:2]
    return Place(
        uid=cluster.state["id"],
        cluster=cluster.state["name"],
        project=cluster.identity.split("/")[1],
        region=region_of(zones[0]),
        zones=tuple(zones),
        network=network,
        subnetwork=subnetwork,
        ingresses=not addon.get("disabled"),
    )


def _resources(place: Place, one: Wanted) -> Iterator[CloudResource]:
    match one.kind:
        case "disk":
            yield _disk(place, one)
        case "load balancer":
            yield from _load_balancer(place, one)
        case _:
            yield from http_resources(place, one)


def _disk(place: Place, one: Wanted) -> CloudResource:
    namespace, _, name = one.name.partition("/")
    made_for = {
        "kubernetes.io/created-for/pvc/name": name,
        "kubernetes.io/created-for/pvc/namespace": namespace,
        "storage.gke.io/created-by": "pd.csi.storage.gke.io",
    }
    zone = f"projects/{place.project}/zones/{place.zones[0]}"
    body = {
        "sizeGb": str(one.gib or 1),
        "status": "READY",
        "type": f"{LINK}{zone}/diskTypes/pd-balanced",
        "description": json.dumps(made_for),
        "labels": {"goog-k8s-cluster-name": place.cluster},
    }
    return new(f"{zone}/disks/pvc-{one.uid}", "compute.disks", "disk", body)


def _load_balancer(place: Place, one: Wanted) -> Iterator[CloudResource]:
    name, about = f"a{one.uid.replace('-', '')}"[:32], {"kubernetes.io/service-name": one.name}
    ports = [str(port) for port in one.ports]
    internal = one.class_name.lower() == "internal"
    rule = {
        "description": json.dumps(about),
        "IPProtocol": "TCP",
        "loadBalancingScheme": "INTERNAL" if internal else "EXTERNAL",
    }
    if internal:
        rule |= place.links | {"ports": ports}
    elif ports:
        rule["portRange"] = f"{min(one.ports)}-{max(one.ports)}"
    yield new(
        f"projects/{place.project}/regions/{place.region}/forwardingRules/{name}",
        "compute.forwardingRules",
        "forwarding rule",
        rule,
        uses=[place.network, place.subnetwork] if internal else [],
    )
    yield firewall(place, f"k8s-fw-{name}", about, ["0.0.0.0/0"], ports)


def _address(others: Sequence[CloudResource], rule: CloudResource) -> str:
    """The first that is free: of the subnetwork's last ones, or of those for documentation."""
    taken = {each.state.get("IPAddress") for each in others}
    network = "198.51.100.0/24"
    if rule.state.get("subnetwork"):
        found = {LINK + each.identity: each.state for each in others}
        network = found[rule.state["subnetwork"]]["ipCidrRange"]
    block = ipaddress.ip_network(network)
    numbers = range(1, 255) if network.startswith("198") else range(-3, -200, -1)
    return next(str(block[n]) for n in numbers if str(block[n]) not in taken)
