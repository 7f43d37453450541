"""The cloud resources that controllers create for a cluster's Services, Ingresses and volumes.

A Service of type LoadBalancer gets a load balancer and an address, and so do an Ingress and a
Gateway if the cloud has a controller for them; a PersistentVolumeClaim gets a disk; if its class
waits for a consumer, once the scheduler has chosen a node for the first pod that uses it. Each is
deleted with its object, unless the reclaim policy of a disk's volume is `Retain`. Deleting a
cluster deletes none of them: they remain, are billed, and block the network's deletion.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import urllib3

from gpu_cluster.components.catalog.kubernetes import ZONE
from gpu_cluster.components.kube import quantity
from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.pods import allocatable_gpus, full_name
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.simulators.cloud import Attaching, Wanted

Object = Mapping[str, Any]

FOLLOWED = (
    "Service", "PersistentVolumeClaim", "StorageClass", "Ingress", "Gateway", "HTTPRoute", "Node",
)  # fmt: skip
_PLURALS = {
    "load balancer": ("/api/v1", "services"),
    "ingress": ("/apis/networking.k8s.io/v1", "ingresses"),
    "gateway": ("/apis/gateway.networking.k8s.io/v1", "gateways"),
}
"""Kind -> API group and plural of the objects whose status shows an address."""
_BALANCERS = ("networking.gke.io/load-balancer-type", "cloud.google.com/load-balancer-type")
"""Annotations of a Service, the newer one first."""
PROVISIONER = "csi-provisioner"
"""The component that reports a CSI driver's refusals as events on a claim."""
_NODE = "volume.kubernetes.io/selected-node"
"""Annotation for the node that the scheduler chose, on a claim whose class waits for a pod."""


def wanted(objects: Mapping[str, Sequence[Object]]) -> list[Wanted]:
    """The attachments that a cluster's objects, by their kinds of `FOLLOWED`, need from the
    cloud."""
    ports = {
        full_name(obj): {port.get("name"): port["port"] for port in obj["spec"].get("ports", ())}
        for obj in objects.get("Service", ())
    }
    classes = {item["metadata"]["name"]: item for item in objects.get("StorageClass", ())}
    return [
        *(
            Wanted(**_named(service), kind="load balancer", class_name=_noted(service, _BALANCERS),
                   ports=tuple(ports[full_name(service)].values()))
            for service in objects.get("Service", ())
            if service["spec"].get("type") == "LoadBalancer"
        ),
        *(
            Wanted(**_named(claim), kind="disk", gib=_gib(claim), node=_noted(claim, (_NODE,)),
                   **_driver(classes.get(_class(claim))))
            for claim in objects.get("PersistentVolumeClaim", ())
            if _has_volume(claim) or _provisioned(claim, classes.get(_class(claim)))
        ),
        *(
            Wanted(**_named(ingress), kind="ingress",
                   class_name=_noted(ingress, ("kubernetes.io/ingress.class",)),
                   spec_class=ingress["spec"].get("ingressClassName"),
                   backends=_known(_of_ingress(ingress), ports))
            for ingress in objects.get("Ingress", ())
        ),
        *(
            Wanted(**_named(obj), kind="gateway", class_name=obj["spec"]["gatewayClassName"],
                   backends=_known(_of_routes(obj, objects.get("HTTPRoute", ())), ports))
            for obj in objects.get("Gateway", ())
        ),
    ]  # fmt: skip


def _named(obj: Object) -> dict[str, Any]:
    return {"uid": obj["metadata"]["uid"], "name": full_name(obj)}


def _noted(obj: Object, names: Sequence[str]) -> str:
    """The value of the first of these annotations that the object has."""
    notes = obj["metadata"].get("annotations") or {}
    return next((str(notes[name]) for name in names if name in notes), "")


def _class(claim: Object) -> str:
    """The claim's storage class; empty if it uses an existing volume."""
    return claim["spec"].get("storageClassName") or ""


def _has_volume(claim: Object) -> bool:
    """Whether the claim is bound to a volume that was created for it."""
    return bool(claim["spec"].get("volumeName") == f"pvc-{claim['metadata']['uid']}")


def _provisioned(claim: Object, its: Object | None) -> bool:
    """Whether the class's driver creates the volume now."""
    if its is None or its["provisioner"] == "kubernetes.io/no-provisioner":
        return False
    if claim["spec"].get("volumeName"):  # it asks for one that exists
        return False
    return bool(_noted(claim, (_NODE,))) or its.get("volumeBindingMode") != "WaitForFirstConsumer"


def _driver(its: Object | None) -> dict[str, Any]:
    """The parameters that the claim's class gives its driver. A bound claim may have no class."""
    its = its or {}
    return {"driver": its.get("provisioner", ""), "parameters": its.get("parameters") or {}}


def _gib(claim: Object) -> int:
    return math.ceil(quantity.parse(claim["spec"]["resources"]["requests"]["storage"]) / 2**30)


def _of_ingress(ingress: Object) -> Iterator[tuple[str, Any]]:
    """The backend Services of an Ingress, each with a port's number or name."""
    rules = ingress["spec"].get("rules") or ()
    paths = [path for rule in rules for path in (rule.get("http") or {}).get("paths", ())]
    for backend in [ingress["spec"].get("defaultBackend"), *(path["backend"] for path in paths)]:
        if service := (backend or {}).get("service"):
            port = service.get("port") or {}
            yield _beside(ingress, service), port.get("number") or port.get("name")


def _of_routes(gateway: Object, routes: Sequence[Object]) -> Iterator[tuple[str, Any]]:
    for route in routes:
        parents = [_beside(route, ref) for ref in route["spec"].get("parentRefs") or ()]
        for rule in route["spec"].get("rules") or () if full_name(gateway) in parents else ():
            for backend in rule.get("backendRefs") or ():
                yield _beside(route, backend), backend.get("port")


def _beside(obj: Object, reference: Object) -> str:
    """The full name of the referenced object; its namespace defaults to that of `obj`."""
    return f"{reference.get('namespace') or obj['metadata']['namespace']}/{reference['name']}"


def _known(
    found: Iterable[tuple[str, Any]], ports: Mapping[str, Mapping[str, int]]
) -> tuple[tuple[str, int], ...]:
    """The existing Services, with port names resolved to numbers."""
    backends = [
        (service, ports[service].get(port, port)) for service, port in found if service in ports
    ]
    return tuple(dict.fromkeys(backend for backend in backends if isinstance(backend[1], int)))


class Attachments:
    """Keeps the cloud's attachments in line with one cluster's objects."""

    def __init__(self, cloud: object, api: Api) -> None:
        self._cloud, self._api = cloud, api
        self._known: list[Wanted] = []
        self._classes: set[str] = set()
        self._due: set[str] = set()
        """Claims whose disk the cloud could not create yet because its driver is not running."""
        self._refused: dict[str, str] = {}
        """Claim's uid -> why the driver does not create its volume, as in the claim's events."""
        self._released: set[str] = set()
        """Deleted claims whose disk the driver has not deleted yet."""
        self._retained: set[str] = set()
        """Deleted claims whose volume has the reclaim policy `Retain`."""
        self._zones: dict[str, str] = {}
        """Claim's uid -> the zone of its disk."""

    def follow(self, objects: Mapping[str, Sequence[Object]]) -> None:
        """Reports changes to the cloud, and writes addresses and volumes to the cluster."""
        if not isinstance(self._cloud, Attaching):
            return
        for its in self._cloud.storage_classes():
            if (name := its["metadata"]["name"]) not in self._classes:
                self._api.apply(f"/apis/storage.k8s.io/v1/storageclasses/{name}", dict(its))
                self._classes.add(name)
        now = self._wanted(objects)
        if now == self._known and not self._due | self._released:
            return
        refused = self._provisioning_errors(now, objects)
        made = self._cloud.attach([request for request in now if request.uid not in refused])
        before = {need.uid for need in self._known} - self._due
        for item in now:
            if item.uid not in before and item.uid in made:
                self._tell(item, made[item.uid], objects)
        self._released |= {old.uid for old in self._known if old.kind == "disk"}
        self._released -= {new.uid for new in now}
        for uid in self._released - made.keys():
            self._api.delete(f"/api/v1/persistentvolumes/pvc-{uid}")
        self._released &= made.keys()
        self._known = now
        self._due = {need.uid for need in now if need.kind == "disk" and need.uid not in made}

    def _wanted(self, objects: Mapping[str, Sequence[Object]]) -> list[Wanted]:
        """The attachments of existing objects, and the retained disks of deleted claims."""
        now = [
            replace(request, zone=self._zone(request, objects.get("Node", ())))
            if request.kind == "disk"
            else request
            for request in wanted(objects)
        ]
        uids = {need.uid for need in now}
        gone = [item for item in self._known if item.kind == "disk" and item.uid not in uids]
        self._retained |= {
            item.uid for item in gone if item.uid not in self._retained and self._retains(item.uid)
        }
        return [*now, *(old for old in gone if old.uid in self._retained)]

    def _zone(self, request: Wanted, nodes: Iterable[Object]) -> str:
        """The zone in which a disk is created, and stays. If its class does not wait for a pod, any
        zone with a node may be chosen: here one without GPUs, as pods must not rely on another."""
        if request.uid not in self._zones:
            zones = [(zone, node) for node in nodes if (zone := _labels(node).get(ZONE))]
            named = [zone for zone, node in zones if node["metadata"]["name"] == request.node]
            plain = [zone for zone, node in zones if not allocatable_gpus(node)]
            found = named if request.node else plain or [zone for zone, _ in zones]
            if not found:
                return ""
            self._zones[request.uid] = min(found)
        return self._zones[request.uid]

    def _retains(self, uid: str) -> bool:
        try:
            its = self._api.get(f"/api/v1/persistentvolumes/pvc-{uid}")
        except (ApiError, urllib3.exceptions.HTTPError):
            return False
        spec: Object = its.get("spec") or {}
        return spec.get("persistentVolumeReclaimPolicy") == "Retain"

    def _provisioning_errors(
        self, now: Sequence[Wanted], objects: Mapping[str, Sequence[Object]]
    ) -> dict[str, str]:
        """Uid -> error for claims whose disk cannot be created. A new error is written as an event
        on the claim, as the external provisioner does."""
        assert isinstance(self._cloud, Attaching)
        claims = {
            claim["metadata"]["uid"]: claim for claim in objects.get("PersistentVolumeClaim", ())
        }
        disks = [
            need
            for need in now
            if need.kind == "disk" and need.uid in claims and not _has_volume(claims[need.uid])
        ]
        errors = {disk.uid: self._cloud.why_not_provisioned(disk) for disk in disks}
        errors = {uid: error for uid, error in errors.items() if error}
        for uid, error in errors.items():
            if self._refused.get(uid) != error:
                self._api.create(*_failed(claims[uid], error))
        self._refused = errors
        return errors

    def end(self, objects: Mapping[str, Sequence[Object]]) -> None:
        """Handles the deletion of the cluster: controllers still act on what they have seen, since
        they run for the minutes that the deletion takes. A driver in pods has no nodes left."""
        now = self._wanted(objects)
        if now != self._known and isinstance(self._cloud, Attaching):
            self._cloud.attach([request for request in now if request.uid not in self._refused])

    def _tell(self, request: Wanted, what: str, objects: Mapping[str, Sequence[Object]]) -> None:
        if request.kind in _PLURALS:
            namespace, _, name = request.name.partition("/")
            key = "ip" if what.replace(".", "").isdigit() else "hostname"
            status: dict[str, Any] = {"loadBalancer": {"ingress": [{key: what}]}}
            if request.kind == "gateway":
                status = {"addresses": [{"type": "IPAddress", "value": what}]}
            group, plural = _PLURALS[request.kind]
            path = f"{group}/namespaces/{namespace}/{plural}/{name}/status"
            self._api.patch(path, {"status": status})
            return
        claims = objects["PersistentVolumeClaim"]
        claim = next(item for item in claims if item["metadata"]["uid"] == request.uid)
        try:
            assert isinstance(self._cloud, Attaching)
            zone = self._cloud.disk_zone(what.partition(":")[2])
            self._api.create("/api/v1/persistentvolumes", volume(request, what, claim, zone))
        except ApiError as error:
            if error.status != 409:  # already created; the claim was seen again
                raise


def _failed(claim: Object, error: str) -> tuple[str, dict[str, Any]]:
    """Path and manifest of the event that a CSI driver's provisioner writes to a claim."""
    metadata = claim["metadata"]
    about = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": metadata["uid"],
             "namespace": metadata["namespace"], "name": metadata["name"]}  # fmt: skip
    return f"/api/v1/namespaces/{metadata['namespace']}/events", {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": about,
        "type": "Warning",
        "reason": "ProvisioningFailed",
        "message": f'failed to provision volume with StorageClass "{_class(claim)}": {error}',
        "source": {"component": PROVISIONER},
    }


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def volume(request: Wanted, handle: str, claim: Object, zone: str) -> dict[str, Any]:
    """The PersistentVolume that a CSI driver's provisioner creates for a claim. `zone`: the only
    one whose nodes can use it, if there is one; drivers write labels of their own with that value.
    """
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zone else {}
    namespace, _, name = request.name.partition("/")
    driver, _, volume_id = handle.partition(":")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"pvc-{request.uid}",
            "annotations": {"pv.kubernetes.io/provisioned-by": driver},
        },
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": _class(claim),
            "claimRef": {"namespace": namespace, "name": name, "uid": request.uid,
                         "apiVersion": "v1", "kind": "PersistentVolumeClaim"},
            "csi": {"driver": driver, "volumeHandle": volume_id, "volumeAttributes": {
                key: value for key, value in request.parameters.items() if "data-cache" in key
            }},
            **affinity,
        },
    }  # fmt: skip
