"""What a destroy of the cluster would leave in the cloud.

The cloud's controllers create load balancers, firewall rules and disks for Services, Ingresses,
Gateways and PersistentVolumeClaims, and delete them with those objects, not with the cluster: they
would still be billed, and prevent the deletion of the network.

A volume counts only if a provisioner in the cluster created its storage. A bucket, or anything else
that existed before its PersistentVolume, is a user's data and never mentioned here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import kubernetes.client

from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.catalog.gke_volumes import FILESTORE
from gpu_cluster.components.lifecycle.ownership import owner_of
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.stacks.definition.files import project_name
from gpu_cluster.stacks.definition.settings import CLUSTER, ROOT, config_of, platform_of
from gpu_cluster.stacks.live.cluster import NODE_POOLS, asked, client_of, full_name, listed_items
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode

Object = Mapping[str, Any]

_NEG, _NEGS = "cloud.google.com/neg", "standalone NEGs, one for each zone and port"
"""GKE's annotation for network endpoint groups of any type of Service, and their name for users.
https://docs.cloud.google.com/kubernetes-engine/docs/how-to/standalone-neg, read 2026-11-23."""
_DRIVERS = {
    "pd.csi.storage.gke.io": ("persistent disk", "disk snapshot"),
    "filestore.csi.storage.gke.io": ("Filestore instance", "Filestore backup"),
    "lustre.csi.storage.gke.io": ("Managed Lustre instance", "snapshot"),
    "ebs.csi.aws.com": ("EBS volume", "EBS snapshot"),
    "ebs.csi.eks.amazonaws.com": ("EBS volume", "EBS snapshot"),
    "efs.csi.aws.com": ("EFS access point", "snapshot"),
    "fsx.csi.aws.com": ("FSx for Lustre file system", "snapshot"),
}
"""CSI driver -> what it creates for a claim, and for a VolumeSnapshot."""
_BUCKETS = ("gcsfuse.csi.storage.gke.io", "s3.csi.aws.com")
"""CSI drivers that mount existing buckets and create none."""
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
"""A provisioner's annotation on each PersistentVolume whose storage it created:
`AnnDynamicallyProvisioned` of sig-storage-lib-external-provisioner."""
_GATEWAYS = ("gateway.networking.k8s.io", "v1", "gateways")
_NODE_CLAIMS = (*NODE_POOLS[:2], "nodeclaims")
_ON_EC2 = "karpenter.k8s.aws"
"""The API group of the node classes with which Karpenter launches EC2 instances. Those of EKS Auto
Mode have another, and EKS terminates their instances with the cluster."""
_SNAPSHOTS = ("snapshot.storage.k8s.io", "v1", "volumesnapshotcontents")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A Kubernetes object with resources in the cloud."""

    kind: str
    name: str
    """`namespace/name`."""
    what: str
    """What is in the cloud, in the cloud's terms, with its name or address if that is known."""
    remove: str | None
    """The command that deletes the object with its cloud resources. None if the object's own policy
    keeps its data: then nothing has to be done before a destroy."""
    keep: str | None = None
    """The command after which the data outlives the object; None if there is no data."""
    after: str | None = None
    """The command for what a destroy may leave although it deletes the object."""


def answer(stack: str, kubeconfig: str) -> Answer:
    """Exit code, document and text; 1 only if there is a decision to make before a destroy.

    Raises CheckError if the cluster does not answer.
    """
    config = config_of(stack)
    platform = PLATFORMS.get(platform_of(config))
    note = "an existing cluster is not deleted with its stack, so nothing of it is left behind"
    if platform is None or platform.cloud is None:
        return ExitCode.OK, {"stack": stack, "leftovers": [], "notes": [note]}, note
    client = client_of(kubeconfig)
    core, net = kubernetes.client.CoreV1Api(client), kubernetes.client.NetworkingV1Api(client)
    custom = _custom_objects(client, _GATEWAYS, _SNAPSHOTS, NODE_POOLS, _NODE_CLAIMS)
    owner = f"{project_name(ROOT)}/{stack}"
    found = Objects(
        services=listed_items(asked(core.list_service_for_all_namespaces)),
        ingresses=listed_items(asked(net.list_ingress_for_all_namespaces)),
        gateways=custom[_GATEWAYS],
        claims=listed_items(asked(core.list_persistent_volume_claim_for_all_namespaces)),
        volumes=listed_items(asked(core.list_persistent_volume)),
        snapshots=custom[_SNAPSHOTS],
        node_pools=custom[NODE_POOLS],
        node_claims=custom[_NODE_CLAIMS],
    )
    if platform.added:
        installed = config[CLUSTER].get("karpenter") is not None
        found = found.of_stack(owner, karpenter=installed)
    result = leftovers(platform.cloud, found, owner)
    document = {"stack": stack, "leftovers": [asdict(leftover) for leftover in result]}
    undecided = any(leftover.remove for leftover in result)
    message = note if platform.added and not result else leftovers_text(result)
    return (ExitCode.FINDING if undecided else ExitCode.OK), document, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects of a cluster that may have something in the cloud."""

    services: Sequence[Object] = ()
    ingresses: Sequence[Object] = ()
    gateways: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    volumes: Sequence[Object] = ()
    snapshots: Sequence[Object] = ()
    """VolumeSnapshotContents."""
    node_pools: Sequence[Object] = ()
    """Karpenter's, and so are `node_claims`."""
    node_claims: Sequence[Object] = ()

    def of_stack(self, owner: str, *, karpenter: bool) -> "Objects":
        """Those that a destroy in an existing cluster affects: claims of the stack, and all
        NodePools if it deletes its own Karpenter. Other objects stay there."""
        claims = [claim for claim in self.claims if owner_of(claim) == owner]
        names = {full_name(claim) for claim in claims}
        return Objects(
            claims=claims,
            volumes=[volume for volume in self.volumes if _claim_of(volume) in names],
            node_pools=self.node_pools if karpenter else (),
            node_claims=self.node_claims if karpenter else (),
        )


def leftovers(cloud: str, objects: Objects, owner: str = "") -> list[Leftover]:
    """What the objects of a cluster leave in this cloud, sorted.

    Claims and NodePools of `owner`, `<project>/<stack>`, are omitted: its destroy deletes them with
    their disks and instances.
    """
    services, claims = objects.services, objects.claims
    result = [
        _balancer(cloud, kind, obj)
        for kind, objects in (
            ("Service", [obj for obj in services if obj["spec"].get("type") == "LoadBalancer"]),
            ("Ingress", objects.ingresses),
            ("Gateway", objects.gateways),
        )
        for obj in objects
    ]
    if cloud == "google":
        result += [
            Leftover(kind="Service", name=full_name(service), what=_NEGS,
                     remove=_delete("Service", service["metadata"]))
            for service in services
            if service["spec"].get("type") != "LoadBalancer" and _exposed(service)
        ]  # fmt: skip
    owned = {full_name(claim) for claim in claims if owner and owner_of(claim) == owner}
    claim_names = {full_name(claim) for claim in claims}
    for volume in objects.volumes:
        leftover = _of_volume(volume, claim_names, owned)
        result += [leftover] if leftover else []
    result += [
        _of_snapshot(obj) for obj in objects.snapshots if "volumeHandle" in obj["spec"]["source"]
    ]
    for pool in objects.node_pools:
        if not owner or owner_of(pool) != owner:
            result += _of_node_pool(pool, objects.node_claims)
    return sorted(result, key=lambda row: (row.kind, row.name))


def leftovers_text(found: Sequence[Leftover]) -> str:
    """Some lines for each, and what to do about all of them."""
    if not found:
        return (
            "nothing: no Service, Ingress, Gateway, volume, snapshot or NodePool has resources in "
            "the cloud"
        )
    lines = []
    for leftover in found:
        lines.append(f"{leftover.kind} {leftover.name}: {leftover.what}")
        if leftover.keep:
            lines.append(f"  to keep the data: {leftover.keep}")
        if leftover.remove:
            lines.append(f"  to delete {'the data' if leftover.keep else 'it'}: {leftover.remove}")
        if leftover.after:
            lines.append(f"  if the network cannot be deleted: {leftover.after}")
    undecided = [row for row in found if row.remove]
    kept = [item for item in found if not item.remove and not item.after]
    if undecided:
        lines.append(
            f"{len(undecided)} would remain in the cloud, continue to be billed, and may prevent "
            "the deletion of the network: decide on each before pulumi destroy, and run this "
            "again"
        )
    if kept:
        lines.append(
            f"{len(kept)} will remain in the cloud and continue to be billed, because of "
            "its own policy"
        )
    return "\n".join(lines)


def _balancer(cloud: str, kind: str, obj: Object) -> Leftover:
    status = obj.get("status") or {}
    balancer = (status.get("loadBalancer") or {}).get("ingress") or []
    addresses = [
        str(address.get("ip") or address.get("hostname") or address.get("value"))
        for address in [*balancer, *(status.get("addresses") or [])]
    ]
    return Leftover(
        kind=kind,
        name=full_name(obj),
        what=CLOUDS[cloud].creates[kind]
        + (f"; address {', '.join(addresses)}" if addresses else ""),
        remove=_delete(kind, obj["metadata"]),
    )


def _exposed(service: Object) -> bool:
    """Whether a Service requests network endpoint groups that no Ingress owns."""
    note = (service["metadata"].get("annotations") or {}).get(_NEG, "{}")
    try:
        return bool(json.loads(note).get("exposed_ports"))
    except (ValueError, AttributeError):
        return True  # GKE refuses it today, but groups from before still exist


def _of_volume(volume: Object, claims: set[str], owned: set[str]) -> Leftover | None:
    """What a volume leaves; None if no claim created it, or it is deleted with the stack."""
    name, spec = volume["metadata"]["name"], volume["spec"]
    csi = spec.get("csi") or {}
    provisioner = (volume["metadata"].get("annotations") or {}).get(_PROVISIONED_BY)
    if not provisioner or csi.get("driver") in _BUCKETS:
        return None
    driver = str(csi.get("driver") or provisioner)
    what = f"{_words(driver)[0]} {csi.get('volumeHandle') or name}"
    claim = _claim_of(volume)
    retained = spec.get("persistentVolumeReclaimPolicy") == "Retain"
    if claim in owned and not retained:
        if driver != FILESTORE:
            return None
        return Leftover(
            kind="PersistentVolumeClaim",
            name=claim,
            what=f"{what}, which pulumi destroy deletes; its peering filestore-peer-NNN may "
            "outlive it and keep the stack's network from being deleted",
            remove=None,
            after="gcloud compute networks peerings list --network NETWORK, and delete it there",
        )
    kind, metadata = "PersistentVolume", {"name": name}
    if claim in claims:
        kind, metadata = "PersistentVolumeClaim", spec["claimRef"]
    patch = """--patch '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'"""
    keep = f"kubectl patch persistentvolume {name} {patch}"
    return _data(kind, metadata, what, keep, "reclaim policy" if retained else "")


def _data(kind: str, metadata: Object, what: str, keep: str, retained_by: str) -> Leftover:
    """What a volume or a snapshot leaves: `what`, in a cloud. `keep`: the command that keeps it;
    `retained_by`: the policy that does so already."""
    where = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return Leftover(
        kind=kind,
        name=f"{where}{metadata['name']}",
        what=f"{what}, which {retained_by} Retain keeps" if retained_by else what,
        remove=None if retained_by else _delete(kind, metadata),
        keep=None if retained_by else keep,
    )


def _claim_of(volume: Object) -> str:
    reference = volume["spec"].get("claimRef") or {}
    return f"{reference.get('namespace')}/{reference.get('name')}"


def _of_snapshot(content: Object) -> Leftover:
    spec, status = content["spec"], content.get("status") or {}
    reference, name = spec["volumeSnapshotRef"], content["metadata"]["name"]
    what = f"{_words(spec['driver'])[1]} {status.get('snapshotHandle') or name}"
    retained_by = "deletion policy" if spec["deletionPolicy"] == "Retain" else ""
    patch = """--type merge --patch '{"spec":{"deletionPolicy":"Retain"}}'"""
    keep = f"kubectl patch volumesnapshotcontent {name} {patch}"
    return _data("VolumeSnapshot", reference, what, keep, retained_by)


def _of_node_pool(pool: Object, claims: Sequence[Object]) -> Iterator[Leftover]:
    """The instances of a NodePool outside the stack: its destroy deletes Karpenter, which would
    terminate them, and the cluster; then nothing terminates them."""
    name, template = pool["metadata"]["name"], pool["spec"]["template"]["spec"]
    if (template.get("nodeClassRef") or {}).get("group") != _ON_EC2:
        return
    running = sorted(
        str(claim["status"]["providerID"]).rpartition("/")[2]
        for claim in claims
        if (claim["metadata"].get("labels") or {}).get(names.NODE_POOL) == name
        and (claim.get("status") or {}).get("providerID")
    )
    if running:
        yield Leftover(
            kind="NodePool",
            name=name,
            what=f"EC2 instances {', '.join(running)}, which Karpenter launched and bill on",
            remove=f"kubectl delete nodepool {name}",
        )


def _words(driver: str) -> tuple[str, str]:
    return _DRIVERS.get(driver, (f"volume of {driver}", f"snapshot of {driver}"))


def _delete(kind: str, metadata: Object) -> str:
    where = f" --namespace {metadata['namespace']}" if "namespace" in metadata else ""
    return f"kubectl delete {kind.lower()} {metadata['name']}{where}"


def _custom_objects(
    client: Any, *kinds: tuple[str, str, str]
) -> dict[tuple[str, str, str], list[Object]]:
    """The objects of each kind (group, version, plural); empty for a kind that is not served."""
    groups = _groups(asked(kubernetes.client.ApisApi(client).get_api_versions))
    served = {version["groupVersion"] for group in groups for version in group["versions"]}
    ask = kubernetes.client.CustomObjectsApi(client).list_cluster_custom_object
    return {
        kind: listed_items(asked(ask, *kind)) if "/".join(kind[:2]) in served else []
        for kind in kinds
    }


def _groups(body: bytes) -> list[Any]:
    try:
        groups = json.loads(body)["groups"]
    except (ValueError, TypeError, KeyError):
        raise CheckError("the server that responds is not a Kubernetes API server") from None
    return list(groups)
