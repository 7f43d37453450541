"""What a cloud's controllers make for the objects of a cluster's users.

A Service of type LoadBalancer gets a load balancer and an address, a PersistentVolumeClaim a disk,
and each is taken away with its object. A cluster that is deleted takes nobody's along: what its
controllers had made stays, bills, and keeps the network from being deleted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from plugins.kubernetes.api_error import ApiError
from rehearsal.control_plane.api import Api
from rehearsal.nodes.pods import full_name
from simulators.cloud import Attaching, Wanted

Object = Mapping[str, Any]


def wanted(services: Sequence[Object], claims: Sequence[Object]) -> list[Wanted]:
    """What the objects of a cluster ask of its cloud."""
    found = [
        Wanted(uid=each["metadata"]["uid"], kind="load balancer", name=full_name(each))
        for each in services
        if each["spec"].get("type") == "LoadBalancer"
    ]
    return found + [
        Wanted(uid=each["metadata"]["uid"], kind="disk", name=full_name(each))
        for each in claims
        if each["spec"].get("storageClassName") != ""  # it takes a volume that is there
    ]


class Attachments:
    """Follows one cluster."""

    def __init__(self, cloud: object, api: Api) -> None:
        self._cloud, self._api = cloud, api
        self._known: list[Wanted] = []

    def follow(self, services: Sequence[Object], claims: Sequence[Object]) -> None:
        """Tells the cloud what changed, and the objects what they got."""
        now = wanted(services, claims)
        if now == self._known or not isinstance(self._cloud, Attaching):
            return
        made = self._cloud.attach(now)
        before = {each.uid for each in self._known}
        for each in now:
            if each.uid not in before and each.uid in made:
                self._tell(each, made[each.uid], claims)
        for gone in before - {each.uid for each in now}:
            self._api.delete(f"/api/v1/persistentvolumes/pvc-{gone}")
        self._known = now

    def _tell(self, one: Wanted, what: str, claims: Sequence[Object]) -> None:
        namespace, _, name = one.name.partition("/")
        if one.kind == "load balancer":
            key = "ip" if what.replace(".", "").isdigit() else "hostname"
            status = {"status": {"loadBalancer": {"ingress": [{key: what}]}}}
            self._api.patch(f"/api/v1/namespaces/{namespace}/services/{name}/status", status)
            return
        claim = next(each for each in claims if each["metadata"]["uid"] == one.uid)
        try:
            self._api.create("/api/v1/persistentvolumes", volume(one, what, claim))
        except ApiError as error:
            if error.status != 409:  # it was told before, and the claim seen again
                raise


def volume(one: Wanted, handle: str, claim: Object) -> dict[str, Any]:
    """The PersistentVolume that a CSI driver's provisioner makes for a claim."""
    namespace, _, name = one.name.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{one.uid}"},
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim["spec"].get("storageClassName") or "",
            "claimRef": {"namespace": namespace, "name": name, "uid": one.uid,
                         "apiVersion": "v1", "kind": "PersistentVolumeClaim"},
            "csi": {"driver": handle.partition(":")[0], "volumeHandle": handle.partition(":")[2]},
        },
    }  # fmt: skip
