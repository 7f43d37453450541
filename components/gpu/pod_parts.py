"""The parts of a pod that workloads, training jobs and submitted jobs share.

Keys are spelled as in the API, as JobSets and the Kubernetes client need them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..access.service_accounts import BucketDriver, bucket_claim
from ..schema.decode import at
from .pod_args import PodArgs
from .volume_args import VolumeArgs

Contents = Mapping[str, Mapping[str, str]]
"""Volume -> file name -> content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodParts:
    """The parts of a pod that follow from its `PodArgs`, without empty values."""

    spec: Mapping[str, Any]
    """Keys of the pod's spec, without volumes."""
    container: Mapping[str, Any]
    """Keys of the container, without mounts."""
    env: list[dict[str, Any]]
    """Environment variables from single keys of Secrets and ConfigMaps."""
    volumes: list[dict[str, Any]]
    mounts: list[dict[str, Any]]
    annotations: Mapping[str, str]


def contents_of(args: PodArgs, root: Path) -> Contents:
    """The contents of the files in its volumes. Raises `Refusal` for one that cannot be read."""
    contents = {}
    for name, volume in args.volumes.items():
        if volume.files:
            contents[name] = at(("volumes", name), volume.contents, root)
    return contents


def config_map_name(owner: str, volume: str, content: Mapping[str, str]) -> str:
    """A name that depends on the content: running pods keep the files that they started with, and
    the declaration of a pod changes with its files."""
    text = "\0".join(f"{name}\0{content[name]}" for name in sorted(content))
    return f"{owner}-{volume}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def pod_parts(
    owner: str, args: PodArgs, contents: Contents, buckets: BucketDriver | None
) -> PodParts:
    """The parts of a pod. `owner`: the workload's name. `buckets`: how the cluster mounts them."""
    security: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if args.run_as_user is not None:
        # With the group, Kubernetes and the drivers make volumes writable, which otherwise belong
        # to root.
        security |= {"runAsUser": args.run_as_user, "fsGroup": args.run_as_user}
    spec: dict[str, Any] = {"automountServiceAccountToken": False, "securityContext": security}
    container: dict[str, Any] = {}
    if args.service_account is not None:
        # The cloud identifies it without a token for the Kubernetes API: GKE's metadata server and
        # EKS's Pod Identity agent identify the pod itself.
        spec["serviceAccountName"] = args.service_account
    if args.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in args.image_pull_secrets]
    if whole := [source for source in args.env_from if source.key is None]:
        container["envFrom"] = [
            {"secretRef": {"name": source.secret}}
            if source.secret
            else {"configMapRef": {"name": source.config_map}}
            for source in whole
        ]
    mounted = any(volume.bucket for volume in args.volumes.values())
    return PodParts(
        spec=spec,
        container=container,
        env=[
            {
                "name": source.name,
                "valueFrom": {
                    "secretKeyRef" if source.secret else "configMapKeyRef": {
                        "name": source.secret or source.config_map,
                        "key": source.key,
                    }
                },
            }
            for source in args.env_from
            if source.key is not None
        ],
        volumes=[
            {"name": name, **_source(owner, name, volume, args, contents, buckets)}
            for name, volume in args.volumes.items()
        ],
        mounts=[
            {
                "name": name,
                "mountPath": volume.mount_path,
                **({} if volume.writable else {"readOnly": True}),
            }
            for name, volume in args.volumes.items()
        ],
        annotations=buckets.pod_annotations if mounted and buckets else {},
    )


def _source(
    owner: str,
    name: str,
    volume: VolumeArgs,
    args: PodArgs,
    contents: Contents,
    buckets: BucketDriver | None,
) -> dict[str, Any]:
    if volume.claim_name:
        return {"persistentVolumeClaim": {"claimName": volume.claim_name}}
    if volume.files:
        return {"configMap": {"name": config_map_name(owner, name, contents[name])}}
    if volume.secret:
        return {"secret": {"secretName": volume.secret}}
    if volume.memory:
        return {"emptyDir": {"medium": "Memory", "sizeLimit": volume.memory}}
    if volume.disk:
        return {"emptyDir": {"sizeLimit": volume.disk}}
    if volume.host_file:
        return {"hostPath": {"path": volume.host_file, "type": "File"}}
    assert volume.bucket is not None
    assert args.service_account is not None
    assert buckets is not None, "settings refuse buckets where the platform mounts none"
    if not buckets.inline:
        claim = bucket_claim(args.service_account, volume.bucket)
        return {"persistentVolumeClaim": {"claimName": claim}}
    csi = {
        "driver": buckets.driver,
        "volumeAttributes": {"bucketName": volume.bucket, **buckets.attributes},
        **({} if volume.writable else {"readOnly": True}),
    }
    return {"csi": csi}
