"""The settings of a pod's files: where each volume is mounted, and its source."""

import math
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ..access.service_accounts import BUCKET_NAME
from ..catalog import kubernetes as names
from ..kube import quantity
from ..schema.effect import Sent
from ..schema.limits import DNS_LABEL, QUANTITY, SIZE, SUBDOMAIN, Limit, none_of
from ..schema.refusal import refuse
from ..schema.rules import Checked, rule

VolumeName = Annotated[
    str,
    DNS_LABEL,
    none_of("shared-memory", "driver", why="is the name of a volume of this stack; choose another"),
]
TAKEN = {"/dev/shm": "the pod's shared memory", names.DRIVER_MOUNT: "the driver's libraries"}
"""Mount path of a volume that the stack itself adds -> what is mounted there."""
LARGEST_DISK, LARGEST_FILE_SYSTEM = "64Ti", "8Pi"
"""Maximum size of a gp3 volume, a Persistent Disk or a Hyperdisk; and of Managed Lustre, the
largest file system that either cloud provisions for a claim."""
FILES_LIMIT = 1_000_000
"""Maximum size of all files of a volume in bytes: the API server accepts ConfigMaps of 1 MiB."""
_SOURCES = (
    "claim", "existing_claim", "bucket", "files", "secret", "memory", "disk", "host_file",
)  # fmt: skip
_WORDS = {"existing_claim": "existingClaim", "host_file": "hostFile"}
_WRITABLE = ("claim", "existingClaim", "bucket")
_EMPTY = ("memory", "disk")
"""Sources that are empty when the pod starts, and so are writable by default."""

AccessMode = Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]


def _below_root(example: str) -> Limit:
    """An absolute path below the root, in its only canonical spelling."""

    def refusal(path: str) -> str | None:
        if not path.startswith("/"):
            return f"{path!r} is not an absolute path; begin it with a slash, such as {example}"
        if not (short := posixpath.normpath(path).lstrip("/")):
            return f"{path!r} is the root directory; give a path below it, such as {example}"
        if path == f"/{short}":
            return None
        return f"{path!r} is another spelling of /{short}; write that"

    return Limit(refusal, {"pattern": "^/[^/]"})


def _taken(path: str) -> str | None:
    for taken, why in TAKEN.items():
        if path == taken or path.startswith(f"{taken}/"):
            return f"{path} is already used for {why}; choose another"
    return None


def _not_a_file(file: str) -> str | None:
    path = Path(file)
    if path.is_absolute() or ".." in path.parts or not path.name:
        return (
            f"{file!r} is not a file of this repository; give its path from the folder of the "
            "stack's file"
        )
    if names.CONFIG_KEY.fullmatch(path.name):
        return None
    return (
        f"{path.name!r} cannot be a file of a ConfigMap; allowed: letters, digits, '-', '_' and '.'"
    )


_FREE, _FILE = Limit(_taken), Limit(_not_a_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeArgs(Checked):
    """Files at one path of a container, from exactly one source."""

    mount_path: Annotated[
        str, _below_root("/data"), _FREE, Sent("PodSpec containers[].volumeMounts[].mountPath")
    ]
    """The absolute path of the files in the container."""
    claim: Annotated[
        Annotated[str, SUBDOMAIN] | None, Sent("PodSpec volumes[].persistentVolumeClaim.claimName")
    ] = None
    """The name of one of `volumeClaims`."""
    existing_claim: Annotated[
        Annotated[str, SUBDOMAIN] | None, Sent("PodSpec volumes[].persistentVolumeClaim.claimName")
    ] = None
    """An existing PersistentVolumeClaim in the pod's namespace."""
    bucket: Annotated[
        Annotated[str, BUCKET_NAME] | None,
        Sent(
            "PodSpec volumes[].csi.volumeAttributes.bucketName",
            "PodSpec volumes[].persistentVolumeClaim.claimName",
        ),
    ] = None
    """A bucket of Cloud Storage (GKE) or S3 (EKS), with the permissions of the `serviceAccount`."""
    files: Annotated[
        Sequence[Annotated[str, _FILE]], Sent("PodSpec volumes[].configMap.name", "ConfigMap")
    ] = ()
    """Text files of this repository, such as `[train.py]`, which the stack puts into a ConfigMap. A
    changed file replaces the jobs that mount it."""
    secret: Annotated[str | None, SUBDOMAIN, Sent("PodSpec volumes[].secret.secretName")] = None
    """An existing Secret in the pod's namespace; each of its keys is a file."""
    memory: Annotated[str | None, QUANTITY, Sent("PodSpec volumes[].emptyDir.sizeLimit")] = None
    """The size of a volume in memory, part of the pod's; empty when the pod starts."""
    disk: Annotated[str | None, QUANTITY, Sent("PodSpec volumes[].emptyDir.sizeLimit")] = None
    """The size of a volume on the node's disk, part of the pod's `ephemeralStorage`; empty when the
    pod starts."""
    host_file: Annotated[
        str | None, _below_root("/etc/nccl.conf"), Sent("PodSpec volumes[].hostPath.path")
    ] = None
    """A file of the node, for images of nodes that provide a file that the container needs."""
    read_only: Annotated[bool | None, Sent("PodSpec containers[].volumeMounts[].readOnly")] = None
    """Whether it is mounted read-only; by default, it is, except `memory` and `disk`."""

    @rule
    def _check_source(self) -> None:
        sources = [_WORDS.get(key, key) for key in _SOURCES if getattr(self, key)]
        keys = [_WORDS.get(key, key) for key in _SOURCES]
        if not sources:
            raise refuse("mountPath")("has no source", remedy=f"give one of {', '.join(keys)}")
        source, *others = sources
        if others:
            reason = f"a volume has only one source, and this one already has {source}"
            raise refuse(others[0])(reason, remedy="drop one of the two")
        if self.read_only is False and source not in (*_WRITABLE, *_EMPTY):
            raise refuse("readOnly")(f"nothing can be written to {source}; drop the key")
        if self.read_only and source in _EMPTY:
            where = "in memory" if source == "memory" else "on the node's disk"
            reason = f"a read-only volume {where} would stay empty; drop the key"
            raise refuse("readOnly")(reason)

    @rule
    def _check_names(self) -> None:
        seen: dict[str, str] = {}
        for position, file in enumerate(self.files):
            name = Path(file).name
            if name in seen:
                raise refuse(("files", position), file)(
                    f"and {seen[name]!r} have the same name, and a ConfigMap has no folders",
                    remedy="rename one",
                )
            seen[name] = file

    @property
    def writable(self) -> bool:
        """Whether the container may write to it."""
        return not self.read_only if self.memory or self.disk else self.read_only is False

    @property
    def claim_name(self) -> str | None:
        """The PersistentVolumeClaim in the pod's namespace, no matter who creates it."""
        return self.claim or self.existing_claim

    def contents(self, root: Path) -> dict[str, str]:
        """Name -> content of each of `files` below `root`. Raises `Refusal` for a
        file elsewhere, that is unreadable, no text, too large, or with a private key."""
        contents: dict[str, str] = {}
        for position, file in enumerate(self.files):
            key = ("files", position)
            path = root / file
            if not path.resolve().is_relative_to(root.resolve()):
                raise refuse(key, file)(
                    f"is a link to a file outside {root.resolve()}; put the file itself there"
                )
            try:
                text = path.read_text(encoding="utf-8")
            except OSError as error:
                raise refuse(key)(f"cannot read {file!r}: {error.strerror}") from None
            except UnicodeDecodeError:
                raise refuse(key, file)(
                    "is not a text file", remedy="put it into the image"
                ) from None
            if "-----BEGIN" in text and "PRIVATE KEY-----" in text:
                raise refuse(key, file)(
                    "holds a private key, which everyone who can read ConfigMaps could see",
                    remedy="create a Secret and name it in secret",
                )
            contents[Path(file).name] = text
        if (size := sum(len(text.encode()) for text in contents.values())) > FILES_LIMIT:
            raise refuse("files")(
                f"have {size:,} bytes together, and a ConfigMap at most {FILES_LIMIT:,}",
                remedy="put them into the image or a bucket",
            )
        return contents


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaimArgs(Checked):
    """A PersistentVolumeClaim of this stack: a disk or file system that outlives the jobs that use
    it, and is deleted when its block is removed."""

    size: Annotated[str, SIZE, Sent("PersistentVolumeClaim spec.resources.requests.storage")]
    """The size, such as `100Gi`; it can grow later if the class allows that, but never shrink."""
    storage_class: Annotated[
        Annotated[str, SUBDOMAIN] | None, Sent("PersistentVolumeClaim spec.storageClassName")
    ] = None
    """The StorageClass; by default, the cluster's default, which on GKE is a disk that only one
    node can mount. On GKE the stack creates `gpu-cluster-hyperdisk`, for machines that only support
    Hyperdisk, and `gpu-cluster-filestore`, `gpu-cluster-filestore-ssd`,
    `gpu-cluster-filestore-zonal`, `gpu-cluster-filestore-regional` and
    `gpu-cluster-filestore-enterprise`, for file systems that many nodes mount. On EKS it cannot be
    set: the stack creates an encrypted gp3 volume."""
    zone: Annotated[str | None, Sent("Volume availabilityZone")] = None
    """EKS only: the zone of the disk, and of the nodes that mount it; by default, the first zone of
    the cluster's network, if the stack creates it. It cannot change while the claim exists: a disk
    cannot move, and its data would be lost."""
    access_mode: Annotated[AccessMode, Sent("PersistentVolumeClaim spec.accessModes[]")] = (
        "ReadWriteOnce"
    )
    """Which pods may mount it: those of one node (`ReadWriteOnce`), of several nodes
    (`ReadWriteMany`, `ReadOnlyMany`), or only one pod (`ReadWriteOncePod`). Except on EKS, access
    mode, class and namespace cannot change while the claim exists: its disk would be deleted."""
    namespace: Annotated[str, DNS_LABEL, Sent("ObjectMeta namespace")] = "default"
    """The namespace: one of `namespaces`, or an existing one."""

    @rule
    def _check_size(self) -> None:
        disk = self.storage_class is None
        most = LARGEST_DISK if disk else LARGEST_FILE_SYSTEM
        if quantity.parse(self.size) > quantity.parse(most):
            what = "a disk of the default class" if disk else "a file system"
            raise refuse("size")(f"{self.size} is too large", remedy=f"{what} has at most {most}")

    @rule
    def _check_mode(self) -> None:
        if self.storage_class is None and self.several_nodes:
            raise refuse("accessMode")(
                f"{self.access_mode} needs a file system that several nodes can mount, and the "
                "default class creates a disk for one node; on EKS use a bucket, on GKE name a "
                "storageClass such as gpu-cluster-filestore"
            )

    def possible(self, key: str) -> Sequence[str]:
        """What the other settings allow for this one."""
        if key != "accessMode" or self.storage_class is not None:
            return ()
        return ["ReadWriteOnce", "ReadWriteOncePod"]

    @property
    def gib(self) -> int:
        """The size in GiB, rounded up, because clouds only offer whole GiB."""
        return math.ceil(quantity.parse(self.size) / 2**30)

    @property
    def several_nodes(self) -> bool:
        """Whether pods of several nodes may mount it at the same time."""
        return self.access_mode in ("ReadOnlyMany", "ReadWriteMany")
