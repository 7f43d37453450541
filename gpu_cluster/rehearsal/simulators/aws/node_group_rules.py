"""EKS's rules for managed node groups, and the defaults that it fills in."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.catalog.eks import InstanceType
from gpu_cluster.rehearsal.simulators.aws.ami_types import has_driver, newest_release
from gpu_cluster.rehearsal.simulators.aws.cluster_rules import minor
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid
from gpu_cluster.rehearsal.simulators.aws.warm_pools import SPOT

_DEFAULT_TYPE = "t3.medium"
_AL2_LAST = (1, 32)
_RESERVED = ("kubernetes.io/", "k8s.io/", "eks.amazonaws.com/")
MAX_NODES = 450
_TEMPLATE_REFUSED = (
    "IamInstanceProfile",
    "HibernationOptions",
    "InstanceInitiatedShutdownBehavior",
)


def image_arch(ami_type: str) -> str | None:
    """The image's architecture, amd64 or arm64; None for CUSTOM."""
    if ami_type == "CUSTOM":
        return None
    return "arm64" if "ARM_64" in ami_type else "amd64"


def types_of(inputs: Mapping[str, Any], template: Mapping[str, Any] | None) -> list[str]:
    """The instance types, from either the group or its launch template; raises Refusal for both."""
    own, in_template = inputs.get("instanceTypes") or [], (template or {}).get("InstanceType")
    if own and in_template:  # terraform-aws-modules/terraform-aws-eks 1545
        raise Refusal(
            "InvalidRequestException",
            "Cannot specify instance types in launch template and API request",
        )
    if len(own) > catalog.MAX_INSTANCE_TYPES:
        raise invalid(f"at most {catalog.MAX_INSTANCE_TYPES} instance types, got {len(own)}")
    return list(own) or [in_template or _DEFAULT_TYPE]


def complete(
    inputs: dict[str, Any],
    types: Sequence[InstanceType],
    template: Mapping[str, Any] | None,
    version: str,
) -> dict[str, Any]:
    """The properties with EKS's defaults."""
    first = types[0]
    custom = bool(template and template.get("ImageId"))
    default_image = "CUSTOM" if custom else catalog.ami_type(
        "al2023", first.arch, gpu=first.vendor == "NVIDIA"
    )  # fmt: skip
    filled: dict[str, Any] = {
        "amiType": default_image,
        "capacityType": "ON_DEMAND",
        "instanceTypes": [row.name for row in types],
        "version": version,
        "releaseVersion": newest_release(version),
        "updateConfig": {"maxUnavailable": 1},
        "nodeRepairConfig": {"enabled": False},
        "labels": {},
        "tags": {},
    }
    if template is None:
        filled["diskSize"] = catalog.DEFAULT_DISK_GIB
    found = filled | {name: value for name, value in inputs.items() if value is not None}
    warm = found.pop("warmPoolConfig", {})
    # "Required to enable warm pool support".
    return found | ({"warmPoolConfig": _WARM_POOL | warm} if warm.get("enabled") else {})


_WARM_POOL: Mapping[str, Any] = {"minSize": 0, "poolState": "STOPPED", "reuseOnScaleIn": False}


def check_node_group(
    group: Mapping[str, Any],
    given: Mapping[str, Any],
    types: Sequence[InstanceType],
    template: Mapping[str, Any] | None,
    cluster_version: str,
) -> None:
    """Raises Refusal, with EKS's message if it is known. `group` is complete, `given` is not.

    https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    name = group["nodegroupName"]
    if not catalog.NODE_GROUP_NAME.fullmatch(name) or len(name) > catalog.NODE_GROUP_NAME_MAX:
        raise invalid(
            f"nodegroupName '{name}' must be 1 to {catalog.NODE_GROUP_NAME_MAX} letters, digits, "
            "'-' and '_', no sign first"
        )
    check_scaling(group["scalingConfig"])
    _check_marks(group)
    _check_image(group, types)
    _check_template(given, group, template)
    if "warmPoolConfig" in group:
        _check_warm_pool(group, group["warmPoolConfig"])
    if minor(group["version"]) > minor(cluster_version):
        raise invalid(
            f"Nodegroup Kubernetes version {group['version']} cannot be newer than the cluster's "
            f"{cluster_version}"
        )


def check_scaling(scaling: Mapping[str, int]) -> None:
    """Raises Refusal unless min <= desired <= max."""
    least, most, wanted = (scaling[name] for name in ("minSize", "maxSize", "desiredSize"))
    if least > most:
        raise invalid(f"Minimum capacity {least} can't be greater than maximum size {most}")
    if least > wanted:
        raise invalid(f"Minimum capacity {least} can't be greater than desired size {wanted}")
    if wanted > most:
        raise invalid(f"desired capacity {wanted} can't be greater than max size {most}")
    if most > MAX_NODES:
        raise invalid(f"max size {most} is above the quota of {MAX_NODES} nodes per node group")


def _check_marks(group: Mapping[str, Any]) -> None:
    for key, value in (group.get("labels") or {}).items():
        if len(key) > catalog.LABEL_KEY_MAX:
            raise invalid(f"label key '{key}' is longer than {catalog.LABEL_KEY_MAX} characters")
        if not catalog.LABEL_VALUE_MIN <= len(value) <= catalog.LABEL_VALUE_MAX:
            raise invalid(
                f"the value of label '{key}' must have 1 to 63 characters, got {len(value)}"
            )
        if key.startswith(_RESERVED):
            raise invalid(
                f"label '{key}' cannot contain reserved prefixes [{', '.join(_RESERVED)}]"
            )
    taints = group.get("taints") or []
    for taint in taints:
        if len(taint["key"]) > catalog.TAINT_KEY_MAX:
            raise invalid(f"taint key '{taint['key']}' is longer than {catalog.TAINT_KEY_MAX}")
        if len(taint.get("value") or "") > catalog.TAINT_VALUE_MAX:
            raise invalid(
                f"the value of taint '{taint['key']}' is longer than {catalog.TAINT_VALUE_MAX}"
            )
    seen = [(taint["key"], taint["effect"]) for taint in taints]
    if len(set(seen)) < len(seen):
        raise invalid("Duplicate taint keys with the same effect are not allowed")


def _check_image(group: Mapping[str, Any], types: Sequence[InstanceType]) -> None:
    image, version = group["amiType"], group["version"]
    if image in catalog.REMOVED_AMI_TYPES and minor(version) > _AL2_LAST:
        raise invalid(
            f"AMI Type {image} is only supported for kubernetes versions 1.32 or earlier: use "
            f"{catalog.REMOVED_AMI_TYPES[image]}"
        )
    arch = image_arch(image)
    wrong = [row.name for row in types if arch is not None and row.arch != arch]
    if image != "CUSTOM" and has_driver(image):
        wrong += [row.name for row in types if row.vendor != "NVIDIA"]
    if wrong:
        raise invalid(
            f"[{', '.join(dict.fromkeys(wrong))}] is not a valid instance type for requested "
            f"amiType {image}"
        )
    if len({row.arch for row in types}) > 1:
        raise invalid("instance types of one node group must have the same architecture")


def _check_warm_pool(group: Mapping[str, Any], warm: Mapping[str, Any]) -> None:
    """https://docs.aws.amazon.com/eks/latest/userguide/warm-pools-managed-node-groups.html, read
    2026-11-24; the words are not EKS's, but for Spot, where they are EC2 Auto Scaling's."""
    if group["capacityType"] == "SPOT":
        raise invalid(SPOT)
    if group["capacityType"] == "CAPACITY_BLOCK":
        raise invalid("a rehearsal does not simulate a warm pool of a Capacity Block")
    if group["amiType"] == "CUSTOM":
        raise invalid("warm pools are not supported with custom AMIs")
    if warm["poolState"] not in ("STOPPED", "RUNNING", "HIBERNATED"):
        raise invalid(f"poolState '{warm['poolState']}' is not STOPPED, RUNNING or HIBERNATED")
    if warm["minSize"] < 0:
        raise invalid(f"minSize {warm['minSize']} must be 0 or more")
    if warm["poolState"] == "HIBERNATED":
        # EKS takes no launch template that configures hibernation.
        raise invalid("the instances are not configured for hibernation")
    if group["amiType"].startswith("BOTTLEROCKET") and warm["reuseOnScaleIn"]:
        raise invalid("reuseOnScaleIn is not supported with Bottlerocket AMIs")


def _check_template(
    given: Mapping[str, Any], group: Mapping[str, Any], template: Mapping[str, Any] | None
) -> None:
    block = group["capacityType"] == "CAPACITY_BLOCK"
    if template is None:
        if block:
            raise invalid(
                "capacityType CAPACITY_BLOCK needs a launch template with "
                "instanceMarketOptions.marketType capacity-block"
            )
        return
    if given.get("diskSize"):
        raise invalid("Disk size must be specified within the launch template.")
    if given.get("remoteAccess"):
        raise invalid("Remote access configuration cannot be specified with a launch template.")
    for member in _TEMPLATE_REFUSED:
        if template.get(member):
            raise invalid(f"the launch template must not set {member}")
    for interface in template.get("NetworkInterfaces") or []:
        if interface.get("SubnetId"):
            raise invalid("the launch template must not set a subnet: the node group has them")
    if template.get("ImageId") and given.get("amiType", "CUSTOM") != "CUSTOM":
        raise invalid("amiType must be CUSTOM or unset where the launch template has an imageId")
    if group["amiType"] == "CUSTOM" and not template.get("ImageId"):
        raise invalid("amiType CUSTOM needs a launch template with an imageId")
    if template.get("ImageId") and (given.get("releaseVersion") or given.get("version")):
        raise invalid("version and releaseVersion cannot be given with an imageId of one's own")
    _check_market(given, template, block)


def _check_market(given: Mapping[str, Any], template: Mapping[str, Any], block: bool) -> None:
    market = (template.get("InstanceMarketOptions") or {}).get("MarketType")
    target = (template.get("CapacityReservationSpecification") or {}).get(
        "CapacityReservationTarget"
    ) or {}
    if market == "spot":
        raise invalid("the launch template must not ask for Spot: set capacityType to SPOT")
    if block != (market == "capacity-block"):
        raise invalid(
            "capacityType CAPACITY_BLOCK and instanceMarketOptions.marketType capacity-block go "
            f"together, got {given.get('capacityType', 'ON_DEMAND')} and {market}"
        )
    if block and not target.get("CapacityReservationId"):
        raise invalid("a capacity block needs capacityReservationTarget.capacityReservationId")
    if block and (given.get("instanceTypes") or not template.get("InstanceType")):
        raise invalid("with a capacity block the instance type is in the launch template only")
