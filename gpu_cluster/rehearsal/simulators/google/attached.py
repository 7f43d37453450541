"""The resources that GKE's controllers create for Services and PersistentVolumeClaims.

According to kubernetes/cloud-provider-gcp, the load balancer of a Service is named `a` plus the
Service's UID without hyphens, its firewall rule `k8s-fw-` plus that name, and the disk or Filestore
instance of a claim `pvc-` plus its UID. `attached_http` covers Ingresses and Gateways. Not
simulated: target pools and certificates, which do not block any deletion.
"""

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog.gke import region_of
from gpu_cluster.rehearsal.simulators.cloud import Mount, Wanted, storage_class
from gpu_cluster.rehearsal.simulators.google.attached_http import Place, firewall
from gpu_cluster.rehearsal.simulators.google.attached_http import resources as http_resources
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK, new
from gpu_cluster.rehearsal.simulators.google.container.machine_families import attaches, local_ssds
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource

Resources = dict[str, CloudResource]
_DISKS, _FILES = "pd.csi.storage.gke.io", "filestore.csi.storage.gke.io"
DRIVERS = (_DISKS, _FILES)
"""CSI drivers of the disks and instances that `attach` creates for claims."""
_FILES_API = "file.googleapis.com"
_FILESTORE = {
    "standard-rwx": "standard",
    "premium-rwx": "premium",
    "zonal-rwx": "zonal",
    "regional-rwx": "regional",
    "enterprise-rwx": "enterprise",
    "enterprise-multishare-rwx": "enterprise",
}
"""GKE's Filestore classes -> tier."""
_MULTISHARE = {"enterprise-multishare-rwx": {"multishare": "true"}}
_MOST_GIB = {
    "standard": 65_433, "premium": 65_433, "zonal": 102_400, "regional": 102_400,
    "enterprise": 10_240,
}  # fmt: skip
"""Filestore tier -> the largest instance: kubernetes-sigs/gcp-filestore-csi-driver,
pkg/csi_driver/controller.go (2026-06-24)."""
_MOST_DISK_GIB = 65_536
"""docs.cloud.google.com/compute/docs/disks, Persistent Disk and Hyperdisk: 64 TiB."""
_INSTANCE = "file.instances"
_NETWORK = "default"
"""kubernetes-sigs/gcp-filestore-csi-driver, pkg/csi_driver/controller.go: `defaultNetwork`, used if
the class has no parameter `network`; the cluster's own network is never used (read 2026-11-23)."""


def attach(
    have: Resources, owners: dict[str, str], cluster: CloudResource, wanted: Sequence[Wanted]
) -> dict[str, str]:
    """Creates the missing resources in `have`, and deletes those without an object in this
    cluster; returns the UID of each object -> an address, or the driver's handle of the disk.
    `owners`: resource -> ID of the cluster whose controllers created it."""
    place, found = _place(cluster), dict[str, str]()
    now: Resources = {}
    for request in wanted:
        for resource in _resources(place, request):
            if resource.token == "compute.firewalls" and resource.identity in now:
                _open_also(resource, now[resource.identity])
            now[resource.identity] = resource
            if resource.token == "compute.disks":
                found[request.uid] = f"{_DISKS}:{resource.identity}"
            elif resource.token == _INSTANCE:
                found[request.uid] = f"{_FILES}:modeInstance/{resource.identity}/vol1"
            elif resource.token == "compute.forwardingRules":
                rule = have.get(resource.identity, resource)
                rule.state.setdefault("IPAddress", _address([*have.values(), *now.values()], rule))
                found[request.uid] = rule.state["IPAddress"]
    for identity in [name for name, owner in owners.items() if owner == place.uid]:
        if identity not in now:
            del owners[identity]
            have.pop(identity, None)
    for identity, resource in now.items():
        if identity in have:
            kept = {name: have[identity].state.get(name) for name in ("id", "creationTimestamp")}
            resource.state |= kept
            if address := have[identity].state.get("IPAddress"):
                resource.state["IPAddress"] = address
        have[identity], owners[identity] = resource, place.uid
    return found


def peered_networks(resources: Resources) -> set[str]:
    """The networks that Filestore instances peer with their own."""
    instances = (resource for resource in resources.values() if resource.token == _INSTANCE)
    return {
        instance.depends_on[0]
        for instance in instances
        if instance.state["networks"][0]["connectMode"] == "DIRECT_PEERING"
    }


def storage_classes(cluster: CloudResource) -> list[dict[str, Any]]:
    """The StorageClasses that GKE creates; those of Filestore only with its driver.

    https://cloud.google.com/kubernetes-engine/docs/concepts/persistent-volumes and
    .../how-to/persistent-volumes/filestore-csi-driver (read 2026-11-22).
    """
    classes = [
        (storage_class("standard", "kubernetes.io/gce-pd", waits=False), {"type": "pd-standard"}),
        (storage_class("standard-rwo", _DISKS, default=True), {"type": "pd-balanced"}),
        (storage_class("premium-rwo", _DISKS), {"type": "pd-ssd"}),
    ]
    if _has_filestore(cluster):
        classes += [
            (storage_class(name, _FILES), {"tier": tier} | _MULTISHARE.get(name, {}))
            for name, tier in _FILESTORE.items()
        ]
    return [its | {"parameters": parameters} for its, parameters in classes]


def _has_filestore(cluster: CloudResource) -> bool:
    addon = cluster.state["addonsConfig"].get("gcpFilestoreCsiDriverConfig") or {}
    return bool(addon.get("enabled"))


def why_not_provisioned(resources: Resources, cluster: CloudResource, request: Wanted) -> str:
    """The driver's error on a claim; empty if it creates the volume.

    The message for the wrong network is from openshift/release pull request 67057, that for the API
    from Service Usage.
    """
    if request.driver != _FILES:
        if wrong := _wrong_cache(request.parameters):
            return f"rpc error: code = InvalidArgument desc = {wrong}"
        if (request.gib or 0) <= _MOST_DISK_GIB:
            return ""
        return (
            "rpc error: code = InvalidArgument desc = CreateVolume failed to create single zonal "
            f"disk: googleapi: Error 400: Disk size cannot be larger than {_MOST_DISK_GIB} GB., "
            "badRequest"
        )
    place = _place(cluster)
    tier = request.parameters.get("tier", "standard")
    if request.parameters.get("multishare") == "true" and not 100 <= (request.gib or 0) <= 1024:
        # pkg/csi_driver/multishare_controller.go, getShareRequestCapacity
        return (
            "rpc error: code = InvalidArgument desc = a share has 100 GiB to 1024 GiB, "
            f"{request.gib} GiB requested"
        )
    if (request.gib or 0) > (most := _MOST_GIB[tier]):
        return (
            "rpc error: code = InvalidArgument desc = volume size out of range: the maximum of "
            f"tier {tier} is {most} GiB, {request.gib} GiB requested"
        )
    if not _has_filestore(cluster):
        return f"driver name {_FILES} not found: the cluster has no gcpFilestoreCsiDriverConfig"
    if f"projects/{place.project}/services/{_FILES_API}" not in resources:
        return (
            "rpc error: code = PermissionDenied desc = googleapi: Error 403: Cloud Filestore API "
            f"has not been used in project {place.project} before or it is disabled. "
            f"({_FILES_API}), accessNotConfigured"
        )
    network = _filestore_network(place, request)
    if network not in resources:
        return (
            "rpc error: code = InvalidArgument desc = googleapi: Error 400: network "
            f"'{network.rpartition('/')[2]}' does not exist., badRequest"
        )
    host = network.split("/")[1]
    if host != place.project and _connect_mode(request) != "PRIVATE_SERVICE_ACCESS":
        return (
            "rpc error: code = InvalidArgument desc = googleapi: Error 400: network "
            f"'{network}' is a Shared VPC of project {host}, whose Filestore instances need "
            "connect-mode PRIVATE_SERVICE_ACCESS, badRequest"
        )
    return ""


def _filestore_network(place: Place, request: Wanted) -> str:
    """The network's full name; the parameter is one only with private services access."""
    given = request.parameters.get("network", _NETWORK)
    return given if "/" in given else f"projects/{place.project}/global/networks/{given}"


def _connect_mode(request: Wanted) -> str:
    return request.parameters.get("connect-mode", "DIRECT_PEERING")


def disk_zone(resources: Resources, handle: str) -> str:
    """The zone of a disk; empty for a regional one, and for a Filestore instance."""
    disk = resources.get(handle)
    regional = disk is None or "replicaZones" in disk.state or "/zones/" not in handle
    return "" if regional else handle.partition("/zones/")[2].partition("/")[0]


def why_not_mounted(resources: Resources, cluster: CloudResource, mount: Mount) -> str:
    """Why a pod cannot use a disk or Filestore instance; empty if it can.

    For a disk, the message is Compute Engine's, as in astronomer/astronomer issue 2463 and
    NVIDIA/aicr issue 2338; for a file system in another network, mount.nfs's.
    """
    if mount.driver == _FILES:
        instance = resources.get(mount.handle.removeprefix("modeInstance/").removesuffix("/vol1"))
        if instance is None or instance.depends_on[0] == _place(cluster).network:
            return _not_permitted(mount)
        return (
            f'MountVolume.MountDevice failed for volume "{mount.volume}" : rpc error: code = '
            "Internal desc = mount failed: exit status 32 Output: mount.nfs: Connection timed out: "
            f"the instance is in {instance.depends_on[0]}, and the node is not"
        )
    if size := mount.attributes.get(_SIZE):
        ssds = int(mount.node_labels.get(_CACHE, "0"))
        others = [row for name, row in mount.mounted.items() if name != mount.volume]
        sizes = [size, *(row[_SIZE] for row in others if row.get(_SIZE))]
        gib = ssds * local_ssds(mount.node_labels.get(_MACHINE, ""))[1]
        # The RAID and its volume group need some of it: setupCaching of the driver.
        if sum(int(cache.removesuffix("Gi")) for cache in sizes) >= gib:
            return (
                f'MountVolume.MountDevice failed for volume "{mount.volume}" : rpc error: code = '
                f"Internal desc = Error setting up cache: caches of {' and '.join(sizes)}, and the "
                f"node has less than {gib} GiB for it on local SSDs for Data Cache"
            )
    zone, place = disk_zone(resources, mount.handle), mount.node_labels.get(_ZONE)
    if zone and place and zone != place:
        return (
            f'AttachVolume.Attach failed for volume "{mount.volume}" : the disk is in zone {zone}, '
            f"and the node in {place}"
        )
    disk, machine = resources.get(mount.handle), mount.node_labels.get(_MACHINE)
    kind = disk.state["type"].rpartition("/")[2] if disk else ""
    if machine and kind and not attaches(machine, kind):
        return (
            f'AttachVolume.Attach failed for volume "{mount.volume}" : rpc error: code = '
            "InvalidArgument desc = Failed to Attach: failed cloud service attach disk call: "
            f"googleapi: Error 400: {kind} disk type cannot be used by {machine} machine type., "
            "badRequest"
        )
    return _not_permitted(mount)


def _wrong_cache(parameters: Mapping[str, str]) -> str:
    """What is wrong with a class's parameters of Data Cache: kubernetes-sigs/gcp-compute-
    persistent-disk-csi-driver, pkg/parameters/parameters.go."""
    size, mode = (parameters.get(f"data-cache-{key}") for key in ("size", "mode"))
    if mode not in (None, "writethrough", "writeback"):
        return f"data-cache-mode {mode} is not writethrough or writeback"
    if size is not None and not re.fullmatch("[1-9][0-9]*Gi", size):
        return f"data-cache-size {size} is not a number of Gi"
    return "data-cache-mode needs data-cache-size" if mode and not size else ""


_SIZE = "data-cache-size"
_CACHE = "cloud.google.com/gke-data-cache-disk"
_MACHINE = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"


def _not_permitted(mount: Mount) -> str:
    """The error of a container that may not write: a new file system belongs to root, mode 0755,
    unless the kubelet changes its group to the pod's `fsGroup`."""
    if not (mount.writes and mount.user) or mount.group is not None:
        return ""
    return (
        f"volume {mount.volume}: Permission denied: the file system is root's, the container runs "
        f"as user {mount.user}, and the pod has no fsGroup"
    )


def _open_also(wall: CloudResource, other: CloudResource) -> None:
    """Adds a load balancer's ports to the one firewall rule of all Ingresses of a cluster."""
    ports = {port for rule in (wall, other) for port in rule.state["allowed"][0].get("ports", ())}
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


def _resources(place: Place, request: Wanted) -> Iterator[CloudResource]:
    match request.kind:
        case "disk" if request.driver == _FILES:
            yield _instance(place, request)
        case "disk":
            yield _disk(place, request)
        case "load balancer":
            yield from _load_balancer(place, request)
        case _:
            yield from http_resources(place, request)


def _disk(place: Place, request: Wanted) -> CloudResource:
    namespace, _, name = request.name.partition("/")
    made_for = {
        "kubernetes.io/created-for/pvc/name": name,
        "kubernetes.io/created-for/pvc/namespace": namespace,
        "storage.gke.io/created-by": _DISKS,
    }
    kind = request.parameters.get("type", "pd-standard")
    zone = f"projects/{place.project}/zones/{request.zone or place.zones[0]}"
    regional = request.parameters.get("replication-type") == "regional-pd"
    body = {
        "sizeGb": str(request.gib or 1),
        "status": "READY",
        "type": f"{LINK}{zone}/diskTypes/{kind}",
        "description": json.dumps(made_for),
        "labels": {"goog-k8s-cluster-name": place.cluster},
        **({"replicaZones": [f"{LINK}{zone}"]} if regional else {}),
    }
    return new(f"{zone}/disks/pvc-{request.uid}", "compute.disks", "disk", body)


def _instance(place: Place, request: Wanted) -> CloudResource:
    network, tier = _filestore_network(place, request), request.parameters.get("tier", "standard")
    return CloudResource(
        token=_INSTANCE,
        display_name="Filestore instance",
        identity=f"projects/{place.project}/locations/{place.zones[0]}/instances/pvc-{request.uid}",
        state={
            "tier": tier.upper(),
            "networks": [{"network": network, "connectMode": _connect_mode(request)}],
            "fileShares": [{"name": "vol1", "capacityGb": str(request.gib)}],
            "state": "READY",
            "labels": {"storage_gke_io_created-by": _FILES.replace(".", "_")},
        },
        depends_on=[network],
    )


def _load_balancer(place: Place, need: Wanted) -> Iterator[CloudResource]:
    name, about = f"a{need.uid.replace('-', '')}"[:32], {"kubernetes.io/service-name": need.name}
    ports = [str(port) for port in need.ports]
    internal = need.class_name.lower() == "internal"
    rule = {
        "description": json.dumps(about),
        "IPProtocol": "TCP",
        "loadBalancingScheme": "INTERNAL" if internal else "EXTERNAL",
    }
    if internal:
        rule |= place.links | {"ports": ports}
    elif ports:
        rule["portRange"] = f"{min(need.ports)}-{max(need.ports)}"
    yield new(
        f"projects/{place.project}/regions/{place.region}/forwardingRules/{name}",
        "compute.forwardingRules",
        "forwarding rule",
        rule,
        uses=[place.network, place.subnetwork] if internal else [],
    )
    yield firewall(place, f"k8s-fw-{name}", about, ["0.0.0.0/0"], ports)


def _address(others: Sequence[CloudResource], rule: CloudResource) -> str:
    """The first free address: of the subnetwork's last ones, or of those for documentation."""
    taken = {rule.state.get("IPAddress") for rule in others}
    network = "198.51.100.0/24"
    if rule.state.get("subnetwork"):
        found = {LINK + row.identity: row.state for row in others}
        network = found[rule.state["subnetwork"]]["ipCidrRange"]
    block = ipaddress.ip_network(network)
    numbers = range(1, 255) if network.startswith("198") else range(-3, -200, -1)
    return next(str(block[n]) for n in numbers if str(block[n]) not in taken)
