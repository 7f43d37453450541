"""Whether pods would get their images, volumes and credentials: disks, file systems and buckets as
their drivers see them, files, and their own permissions in the cloud.

No kubelet pulls or mounts anything here, so a pod without permissions would run like any other.
Secrets belong to other owners, which a rehearsal does not include: they are assumed to exist.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpu_cluster.rehearsal.control_plane.pods import full_name, phase, workload
from gpu_cluster.rehearsal.simulators.cloud import (
    Cloud,
    Identifying,
    Mount,
    Mounting,
    NodeTaint,
    Pulling,
)

Object = Mapping[str, Any]
VOLUMES = "/api/v1/persistentvolumes"


def unmounted(
    cloud: Cloud,
    pods: Sequence[Object],
    nodes: Sequence[Object],
    claims: Sequence[Object],
    volumes: Sequence[Object],
) -> list[str]:
    """One line for each volume that a workload's pods would not get."""
    if not isinstance(cloud, Mounting):
        return []
    by_name = {node["metadata"]["name"]: node for node in nodes}
    found = []
    mounted: dict[str, dict[str, Mapping[str, str]]] = {}
    for pod in pods:
        name = pod["spec"].get("nodeName") or ""
        ended = phase(pod) in ("succeeded", "failed")
        before = {} if ended else mounted.setdefault(name, {})
        for mount in mounts(pod, by_name.get(name), claims, volumes):
            reason = cloud.why_not_mounted(replace(mount, mounted=dict(before)))
            before[mount.volume] = mount.attributes
            if reason:
                found.append(f"{workload(pod)} starts no container: {reason}")
    return list(dict.fromkeys(found))


def unpulled(cloud: Cloud, pods: Sequence[Object]) -> list[str]:
    """One line for each image that a workload's pods would not get."""
    if not isinstance(cloud, Pulling):
        return []
    found = []
    for pod in pods:
        for container in [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]:
            if reason := cloud.why_not_pulled(container["image"]):
                found.append(f"{workload(pod)} starts no container: {reason}")
    return list(dict.fromkeys(found))


def unbound(claims: Sequence[Object]) -> list[str]:
    """One line for each claim that names its volume but is not bound to it: its pods never start.

    A claim without a volume name may wait for its first pod.
    """
    return [
        f"PersistentVolumeClaim {full_name(claim)} is {claim['status']['phase']}, not Bound: "
        f"PersistentVolume {claim['spec']['volumeName']} does not exist or is not free for it"
        for claim in claims
        if claim["spec"].get("volumeName") and claim["status"]["phase"] != "Bound"
    ]


def unidentified(cloud: Cloud, pods: Sequence[Object]) -> list[str]:
    """One line for each workload whose pods would lack their service account's permissions."""
    if not isinstance(cloud, Identifying):
        return []
    found = []
    for pod in pods:
        account = pod["spec"].get("serviceAccountName", "default")
        made = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
        if reason := cloud.why_no_credentials(pod["metadata"]["namespace"], account, made):
            found.append(
                f"{workload(pod)}: pod {full_name(pod)} has no permissions in the cloud: {reason}"
            )
    return list(dict.fromkeys(found))


def mounts(
    pod: Object, node: Object | None, claims: Sequence[Object], volumes: Sequence[Object]
) -> Iterator[Mount]:
    """The CSI volumes that a pod mounts, directly or through a claim."""
    by_claim = {full_name(claim): claim["spec"].get("volumeName") for claim in claims}
    by_name = {volume["metadata"]["name"]: volume["spec"] for volume in volumes}
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or []:
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        bound = by_claim.get(f"{namespace}/{claim}")
        spec = by_name.get(bound, {}) if claim else volume
        source = spec.get("csi") or {}
        if not source:
            continue
        security = pod["spec"].get("securityContext") or {}
        yield Mount(
            volume=bound or volume["name"],
            handle=source.get("volumeHandle", ""),
            node_labels=((node or {}).get("metadata") or {}).get("labels") or {},
            user=_user(pod, volume["name"]),
            group=security.get("fsGroup"),
            namespace=namespace,
            service_account=pod["spec"].get("serviceAccountName", "default"),
            driver=source["driver"],
            attributes=source.get("volumeAttributes") or {},
            options=tuple(spec.get("mountOptions") or ()),
            writes=not source.get("readOnly") and _writes(pod, volume["name"]),
            annotations=pod["metadata"].get("annotations") or {},
            taints=tuple(
                NodeTaint(key=taint["key"], value=taint.get("value", ""), effect=taint["effect"])
                for taint in ((node or {}).get("spec") or {}).get("taints") or []
            ),
        )


def _mounted(pod: Object, volume: str) -> Iterator[tuple[Object, Object]]:
    """Each container that mounts the volume, with its mount."""
    for container in pod["spec"]["containers"]:
        for mount in container.get("volumeMounts") or []:
            if mount["name"] == volume:
                yield container, mount


def _writes(pod: Object, volume: str) -> bool:
    return any(not mount.get("readOnly") for _, mount in _mounted(pod, volume))


def _user(pod: Object, volume: str) -> int:
    """The first non-root user among the containers that mount the volume."""
    of_pod = pod["spec"].get("securityContext") or {}
    users = [
        (of_pod | (container.get("securityContext") or {})).get("runAsUser") or 0
        for container, _ in _mounted(pod, volume)
    ]
    return next((int(user) for user in users if user), 0)


def without_files(pods: Sequence[Object], config_maps: Sequence[Object]) -> list[str]:
    """One line for each missing ConfigMap that pods mount, with the kubelet's message."""
    names = {full_name(policy) for policy in config_maps}
    found = []
    for pod in pods:
        namespace = pod["metadata"]["namespace"]
        for volume in pod["spec"].get("volumes") or []:
            source = volume.get("configMap")
            if not source or source.get("optional") or f"{namespace}/{source['name']}" in names:
                continue
            found.append(
                f"{workload(pod)} starts no container: MountVolume.SetUp failed for volume "
                f'"{volume["name"]}" : configmap "{source["name"]}" not found'
            )
    return list(dict.fromkeys(found))
