"""The node images that EKS publishes, their SSM parameters, and their content.

Paths: docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html and
retrieve-ami-id-bottlerocket.html (read 2026-11-24). An ID is derived from the parameter's path, so
that `latest` and the release that it names are the same image.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Literal

from gpu_cluster.components.catalog.eks import KUBERNETES_VERSIONS
from gpu_cluster.rehearsal.simulators.aws.account import NUMBER, Account
from gpu_cluster.rehearsal.simulators.aws.ami_types import newest_release
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, rule

_AL2023 = re.compile(
    r"/aws/service/eks/optimized-ami/(?P<minor>[\d.]+)/amazon-linux-2023/(?P<arch>x86_64|arm64)/"
    r"(?P<variant>standard|nvidia|neuron)/(?P<which>[^/]+)/image_id"
)
_BOTTLEROCKET = re.compile(
    r"/aws/service/bottlerocket/aws-k8s-(?P<minor>[\d.]+)(?P<nvidia>-nvidia)?/"
    r"(?P<arch>x86_64|arm64)/(?P<which>[^/]+)/image_id"
)
_ID = re.compile(r"ami-([0-9a-f]{8}|[0-9a-f]{17})")
_RELEASE = re.compile(r"v\d{8}")
_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9a-f]{8})?")
_NEWEST_BOTTLEROCKET = "1.69.0"
"""Of 2026-11-10, the newest with public notes on 2026-11-28."""
_NUMBER = "602401143452"
"""The account that owns EKS's images in most regions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image published by EKS."""

    family: Literal["al2023", "bottlerocket"]
    variant: str
    """`standard`, `nvidia` or `neuron`."""
    arch: str
    """`x86_64` or `arm64`."""
    minor: str
    release: str

    @property
    def name(self) -> str:
        """The name in DescribeImages."""
        if self.family == "al2023":
            return f"amazon-eks-node-al2023-{self.arch}-{self.variant}-{self.minor}-{self.release}"
        nvidia = "-nvidia" if self.variant == "nvidia" else ""
        return f"bottlerocket-aws-k8s-{self.minor}{nvidia}-{self.arch}-v{self.release}"

    @property
    def identity(self) -> str:
        """The image's ID."""
        return f"ami-0{hashlib.sha256(self.name.encode()).hexdigest()[:16]}"

    @property
    def ami_type(self) -> str:
        """The image's AMI type in a managed node group."""
        suffix = {"nvidia": "_NVIDIA", "neuron": "_NEURON"}.get(self.variant, "")
        arch = "ARM_64" if self.arch == "arm64" else self.arch
        if self.family == "al2023":
            return f"AL2023_{arch}{suffix or '_STANDARD'}"
        return f"BOTTLEROCKET_{arch}{suffix}"


def image_of(account: Account, identity: str) -> Image | None:
    """EKS's image with this ID; None for any other ID."""
    found: Image | None = account.images.get(identity)
    return found


def published(path: str) -> Image | None:
    """The image that a public parameter names; None if there is no such parameter."""
    if found := _AL2023.fullmatch(path):
        minor, arch, variant = found["minor"], found["arch"], found["variant"]
        newest = f"v{newest_release(minor).rpartition('-')[2]}"
        release = found["which"].rpartition("-")[2]
        full = f"amazon-eks-node-al2023-{arch}-{variant}-{minor}-{release}"
        if found["which"] == "recommended":
            release = newest
        elif found["which"] != full or not _RELEASE.fullmatch(release) or release > newest:
            return None
        if minor not in KUBERNETES_VERSIONS or (arch == "arm64" and variant == "neuron"):
            return None
        return Image(family="al2023", variant=variant, arch=arch, minor=minor, release=release)
    if found := _BOTTLEROCKET.fullmatch(path):
        release = _NEWEST_BOTTLEROCKET if found["which"] == "latest" else found["which"]
        if found["minor"] not in KUBERNETES_VERSIONS or not _VERSION.fullmatch(release):
            return None
        variant = "nvidia" if found["nvidia"] else "standard"
        return Image(
            family="bottlerocket",
            variant=variant,
            arch=found["arch"],
            minor=found["minor"],
            release=release,
        )
    return None


def _publish(account: Account, image: Image) -> None:
    """Makes the image available in EC2, once its ID may be known."""
    if image.identity in account.images:
        return
    account.images[image.identity] = image
    account.backend("ec2").amis[image.identity] = _ami(
        account,
        image.identity,
        image.name,
        _NUMBER,
        owner_alias="amazon",
        public=True,
        architecture=image.arch,
    )


def _ami(account: Account, identity: str, name: str, owner: str, **more: Any) -> Any:
    from moto.ec2.models.amis import Ami

    return Ami(
        account.backend("ec2"),
        identity,
        name=name,
        owner_id=owner,
        virtualization_type="hvm",
        root_device_name="/dev/xvda",
        root_device_type="ebs",
        hypervisor="xen",
        region_name=f"{account.region}a",
        **more,
    )


@operation("ssm", "GetParameter")
def get_parameter(account: Account, params: Params) -> dict[str, Any]:
    """Returns the public parameters of EKS's images, and those that a client has put."""
    name = params["Name"]
    image = published(name)
    if image is None:
        found = account.client("ssm").get_parameter(**params)
        return {"Parameter": found["Parameter"]}
    _publish(account, image)
    return {
        "Parameter": {
            "Name": name,
            "Type": "String",
            "Value": image.identity,
            "Version": 1,
            "ARN": f"arn:aws:ssm:{account.region}::parameter{name}",
            "DataType": "text",
        }
    }


@rule("ec2", "DescribeImages")
def publish_own(account: Account, params: Params) -> None:
    """Assumes that each other image that is named by a valid ID exists, as the account's own: the
    owner of a stack has built it before. Only a node group names one without asking for it."""
    filters = [row for row in params.get("Filters") or [] if row["Name"] == "image-id"]
    named = [*(params.get("ImageIds") or []), *(v for item in filters for v in item["Values"])]
    ec2 = account.backend("ec2")
    for identity in named:
        if _ID.fullmatch(identity) and identity not in ec2.amis:
            arch = account.image_architectures.get(identity, "x86_64")
            ec2.amis[identity] = _ami(account, identity, identity, NUMBER, architecture=arch)


@rule("ec2", "DescribeImages")
def publish_named(account: Account, params: Params) -> None:
    """Makes the newest release of EKS's images, for the clusters' versions, available by name."""
    if not any(condition["Name"] == "name" for condition in params.get("Filters") or []):
        return
    for minor in {cluster.row["version"] for cluster in account.clusters.values()}:
        for arch in ("x86_64", "arm64"):
            paths = [
                f"/aws/service/bottlerocket/aws-k8s-{minor}{nvidia}/{arch}/latest/image_id"
                for nvidia in ("", "-nvidia")
            ] + [
                f"/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/{arch}/{variant}/"
                "recommended/image_id"
                for variant in ("standard", "nvidia", "neuron")
            ]
            for path in paths:
                if image := published(path):
                    _publish(account, image)
