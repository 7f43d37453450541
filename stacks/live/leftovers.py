"""What a destroy of the cluster would leave in the cloud.

The cloud's controllers make load balancers, firewall rules and disks for Services, Ingresses,
Gateways and PersistentVolumeClaims, and remove them with those objects, not with the cluster: they
would bill on, and keep the network from being deleted.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import kubernetes.client

from components.ownership import owner_of
from components.platforms import PLATFORMS
from stacks.live.cluster import asked, client_of, items
from stacks.outcome import Answer, CheckError, ExitCode
from stacks.settings import config_of, platform_of

Object = Mapping[str, Any]

_MADE = {
    "google": {
        "Service": "forwarding rule, firewall rules k8s-*, perhaps target pool or NEGs",
        "Ingress": "forwarding rules, URL map, backend services, NEGs, firewall rule k8s-*",
        "Gateway": "forwarding rules, URL map, backend services, NEGs, firewall rule",
        "PersistentVolumeClaim": "persistent disk",
    },
    "aws": {
        "Service": "load balancer, target groups, network interfaces, security group",
        "Ingress": "load balancer, target groups, network interfaces, security group",
        "Gateway": "load balancer, target groups, network interfaces, security group",
        "PersistentVolumeClaim": "EBS volume",
    },
}
"""Cloud -> kind of object -> what its controllers make for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """An object for which something stands in the cloud."""

    kind: str
    name: str
    """`namespace/name`."""
    what: str
    """What stands there, as the cloud calls it, with its name or address where that is known."""
    remove: str
    """The command that removes the object, and with it what stands there."""


def answer(stack: str, kubeconfig: str) -> Answer:
    """Exit code, document and text. Raises CheckError where the cluster cannot be asked."""
    platform = platform_of(config_of(stack))
    cloud = PLATFORMS[platform].cloud if platform in PLATFORMS else None
    if cloud is None:
        note = "an existing cluster is not deleted with its stack, so nothing of it is left over"
        return ExitCode.OK, {"stack": stack, "leftovers": [], "notes": [note]}, note
    client = client_of(kubeconfig)
    core, net = kubernetes.client.CoreV1Api(client), kubernetes.client.NetworkingV1Api(client)
    found = leftovers(
        cloud,
        services=items(asked(core.list_service_for_all_namespaces)),
        ingresses=items(asked(net.list_ingress_for_all_namespaces)),
        gateways=_gateways(client),
        claims=items(asked(core.list_persistent_volume_claim_for_all_namespaces)),
        volumes=items(asked(core.list_persistent_volume)),
        stack=stack,
    )
    document = {"stack": stack, "leftovers": [asdict(one) for one in found]}
    return (ExitCode.FINDING if found else ExitCode.OK), document, text(found)


def leftovers(
    cloud: str,
    *,
    services: Iterable[Object] = (),
    ingresses: Iterable[Object] = (),
    gateways: Iterable[Object] = (),
    claims: Iterable[Object] = (),
    volumes: Iterable[Object] = (),
    stack: str = "",
) -> list[Leftover]:
    """What the objects of a cluster left in this cloud, sorted; without the claims of `stack`
    itself, which its destroy deletes with their disks."""
    made = _MADE[cloud]
    by_claim = {_claim(volume): volume for volume in volumes}
    balanced = [one for one in services if one["spec"].get("type") == "LoadBalancer"]
    found = []
    for kind, objects in (
        ("Service", balanced),
        ("Ingress", ingresses),
        ("Gateway", gateways),
        ("PersistentVolumeClaim", claims),
    ):
        for one in objects:
            namespace, name = one["metadata"]["namespace"], one["metadata"]["name"]
            volume = by_claim.pop((namespace, name), None)
            words = made[kind]
            if kind == "PersistentVolumeClaim":
                if volume is None:
                    continue  # no disk was made yet
                if stack and (owner_of(one) or "").endswith(f"/{stack}") and not _kept(volume):
                    continue
                words = f"{words} {_handle(volume)}"
            elif addresses := _addresses(one):
                words = f"{words}; address {', '.join(addresses)}"
            found.append(
                Leftover(
                    kind=kind,
                    name=f"{namespace}/{name}",
                    what=words,
                    remove=f"kubectl delete {kind.lower()} {name} --namespace {namespace}"
                    + _kept(volume),
                )
            )
    found += [_orphan(made["PersistentVolumeClaim"], each) for each in by_claim.values()]
    return sorted(found, key=lambda one: (one.kind, one.name))


def text(found: Sequence[Leftover]) -> str:
    """Two lines for each, and what to do with all of them."""
    if not found:
        return "nothing: no Service, Ingress, Gateway or volume has anything in the cloud"
    lines = [f"{one.kind} {one.name}: {one.what}\n  {one.remove}" for one in found]
    return "\n".join(
        [
            *lines,
            f"{len(found)} would stay in the cloud, bill on, and may keep the network from being "
            "deleted: remove them before pulumi destroy, and run this again",
        ]
    )


def _orphan(word: str, volume: Object) -> Leftover:
    """A volume whose claim is gone."""
    name = volume["metadata"]["name"]
    return Leftover(
        kind="PersistentVolume",
        name=name,
        what=f"{word} {_handle(volume)}",
        remove=f"kubectl delete persistentvolume {name}{_kept(volume)}",
    )


def _claim(volume: Object) -> tuple[str, str]:
    claim = volume["spec"].get("claimRef") or {}
    # One that nobody claims has a key of its own.
    return claim.get("namespace", ""), claim.get("name", volume["metadata"]["name"])


def _handle(volume: Object) -> str:
    source = volume["spec"].get("csi") or {}
    return str(source.get("volumeHandle") or volume["metadata"]["name"])


def _kept(volume: Object | None) -> str:
    """What is to be done before, for a disk that outlives its claim."""
    if volume is None or volume["spec"].get("persistentVolumeReclaimPolicy") != "Retain":
        return ""
    return (
        f"  (its reclaim policy is Retain: the disk stays until you delete {_handle(volume)} in "
        "the cloud)"
    )


def _addresses(one: Object) -> list[str]:
    status = one.get("status") or {}
    balancer = (status.get("loadBalancer") or {}).get("ingress") or []
    return [
        str(each.get("ip") or each.get("hostname") or each.get("value"))
        for each in [*balancer, *(status.get("addresses") or [])]
    ]


def _gateways(client: Any) -> list[Object]:
    """None where the cluster does not know the kind."""
    groups = kubernetes.client.ApisApi(client)
    names = [group["name"] for group in _groups(asked(groups.get_api_versions))]
    if "gateway.networking.k8s.io" not in names:
        return []
    custom = kubernetes.client.CustomObjectsApi(client)
    group, version, plural = "gateway.networking.k8s.io", "v1", "gateways"
    return items(asked(custom.list_cluster_custom_object, group, version, plural))


def _groups(body: bytes) -> list[Any]:
    try:
        found = json.loads(body)["groups"]
    except (ValueError, TypeError, KeyError):
        raise CheckError("what answers is no Kubernetes API server") from None
    return list(found)
