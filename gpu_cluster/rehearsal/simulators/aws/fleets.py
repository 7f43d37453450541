"""Instances launched by a fleet request, such as Karpenter's: why an offering is used or not.

CreateFleet of the type `instant` tries the overrides in the order of its allocation strategy, and
returns the instances and an error for each offering that failed (EC2 API reference, CreateFleet;
messages of "Troubleshoot instance launch issues", read 2026-11-24).
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.components.catalog.eks import InstanceType
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, rule
from gpu_cluster.rehearsal.simulators.aws.disk_snapshots import disks_refusal
from gpu_cluster.rehearsal.simulators.aws.eks import subnets
from gpu_cluster.rehearsal.simulators.aws.images import image_of
from gpu_cluster.rehearsal.simulators.aws.instances import (
    instance,
    is_offered,
    no_capacity,
    quota_name,
    sold_out,
    used_vcpus,
    vcpu_limit,
    why_no_addresses,
)
from gpu_cluster.rehearsal.simulators.aws.launch_templates import (
    groups_refusal,
    named_template,
    tags_refusal,
)
from gpu_cluster.rehearsal.simulators.aws.network_interfaces import interfaces_refusal
from gpu_cluster.rehearsal.simulators.aws.placement_groups import placement_refusal
from gpu_cluster.rehearsal.simulators.aws.pod_calls import (
    caller,
    launch_needs,
    refusal,
    request_tags,
)
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.reservations import names_reservation, take_reservation

_MARKETS = {"spot": "spot", "capacity-block": "capacity-block"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offering:
    """An override of a fleet request, with its launch template."""

    template: Any
    override: Mapping[str, Any]
    type: InstanceType
    subnet: Any
    market: str
    """`on-demand`, `spot` or `capacity-block`."""

    @property
    def data(self) -> Mapping[str, Any]:
        data: Mapping[str, Any] = self.template.versions[-1].data
        return data

    @property
    def image(self) -> str:
        return str(self.override.get("ImageId") or self.data.get("ImageId"))

    @property
    def groups(self) -> list[str]:
        """The IDs of the security groups."""
        interfaces = self.data.get("NetworkInterfaces") or []
        inside = [group for interface in interfaces[:1] for group in interface.get("Groups") or []]
        return inside or list(self.data.get("SecurityGroupIds") or [])

    def shown(self) -> dict[str, Any]:
        """The offering's part of a response, with an instance or an error."""
        template = {
            "LaunchTemplateId": self.template.id,
            "Version": str(self.template.versions[-1].number),
        }
        overrides = {
            "InstanceType": self.type.name,
            "SubnetId": self.subnet.id,
            "AvailabilityZone": self.subnet.availability_zone,
            "ImageId": self.image,
        }
        return {
            "LaunchTemplateAndOverrides": {
                "LaunchTemplateSpecification": template,
                "Overrides": overrides,
            },
            "Lifecycle": "spot" if self.market == "spot" else "on-demand",
        }


@rule("ec2", "RunInstances")
def check_launch(account: Account, params: Params) -> None:
    """Refuses a launch template with an instance profile that does not exist, or with volumes that
    cannot be created."""
    template = named_template(account, params.get("LaunchTemplate") or {})
    if template is None:
        return
    data = template.versions[-1].data
    if wrong := _why_no_profile(account, data) or disks_refusal(account, data):
        raise Refusal(*wrong)


@operation("ec2", "CreateFleet")
def create_fleet(account: Account, params: Params) -> dict[str, Any]:
    """Refuses anything but an instant fleet, and launch templates that do not exist."""
    if params.get("Type") != "instant":
        words = f"a rehearsal simulates no fleet of the type {params.get('Type', 'maintain')}"
        raise Refusal("InvalidParameterValue", words)
    offerings = list(_offerings(account, params))
    if params.get("DryRun"):
        raise _would_succeed()
    wanted = int(params["TargetCapacitySpecification"]["TotalTargetCapacity"])
    tags = request_tags(params)
    errors, launched = list[dict[str, Any]](), list[dict[str, Any]]()
    for offering in sorted(offerings, key=_price):
        while len(launched) < wanted:
            wrong = _why_not(account, offering, tags)
            if wrong is not None:
                code, message = wrong
                errors.append({**offering.shown(), "ErrorCode": code, "ErrorMessage": message})
                break
            identity = _launch(account, offering, tags)
            made = {"InstanceIds": [identity], "InstanceType": offering.type.name}
            launched.append({**offering.shown(), **made})
    pool = tags.get("instance", {}).get("karpenter.sh/nodepool")
    if pool is not None:
        reasons = dict.fromkeys(f"{item['ErrorCode']}: {item['ErrorMessage']}" for item in errors)
        attempt = _bought_as(offerings[0]), "" if launched else "; ".join(reasons)
        if attempt not in (attempts := account.attempts.setdefault(pool, []))[-1:]:
            attempts.append(attempt)
    fleet = f"fleet-{secrets.token_hex(18)}"
    return {"FleetId": fleet, "Errors": errors, "Instances": launched}


def _bought_as(offering: _Offering) -> str:
    return "reservation" if names_reservation(offering.data) else offering.market


def _would_succeed() -> Refusal:
    words = "Request would have succeeded, but DryRun flag is set."
    return Refusal("DryRunOperation", words)


def _offerings(account: Account, params: Params) -> Iterator[_Offering]:
    market = params["TargetCapacitySpecification"].get("DefaultTargetCapacityType") or "on-demand"
    for config in params["LaunchTemplateConfigs"]:
        reference = config["LaunchTemplateSpecification"]
        template = named_template(account, reference)
        if template is None:
            raise Refusal(
                "InvalidLaunchTemplateName.NotFoundException",
                "At least one of the launch templates specified in the request does not exist.",
            )
        for override in config.get("Overrides") or [{}]:
            data = template.versions[-1].data
            interfaces = data.get("NetworkInterfaces") or [{}]
            place = override.get("SubnetId") or interfaces[0].get("SubnetId")
            (subnet,) = subnets(account, [place])
            name = override.get("InstanceType") or data.get("InstanceType")
            yield _Offering(
                template=template,
                override=override,
                type=instance(account, name),
                subnet=subnet,
                market=market,
            )


def _price(offering: _Offering) -> tuple[float, float]:
    """The lowest price first; without prices, by the request's own priority."""
    priority = float(offering.override.get("Priority") or 0)
    return offering.type.on_demand if offering.type.on_demand is not None else priority, priority


def _why_not(account: Account, offer: _Offering, tags: Mapping[str, Any]) -> tuple[str, str] | None:
    """Error code and message if EC2 launches no instance of this offering; None if it does."""
    zone, name = offer.subnet.availability_zone, offer.type.name
    pod = caller(account)
    if pod is not None:
        for need in launch_needs(account, offer.data, tags, spot=offer.market == "spot"):
            if (refused := refusal(account, pod, need)) is not None:
                return refused.code, refused.message
    if wrong := (
        _why_misfit(account, offer)
        or _why_no_profile(account, offer.data)
        or tags_refusal(offer.data, tags.get("instance", {}))
    ):
        return wrong
    if full := why_no_addresses(account, [offer.subnet.id], name, 1):
        return "InsufficientFreeAddressesInSubnet", full
    # EC2 keeps reserved instances for the reservation's owner.
    if reserved := take_reservation(account, offer.data, name, zone):
        return None if reserved[0] else (reserved[1].partition(" - ")[0], reserved[1])
    if sold_out(account, name, zone, offer.market):
        return "InsufficientInstanceCapacity", no_capacity(name, zone, offer.market)
    return _why_no_quota(account, offer)


def _why_misfit(account: Account, item: _Offering) -> tuple[str, str] | None:
    zone, name = item.subnet.availability_zone, item.type.name
    if not is_offered(account, name, zone):
        return (
            "Unsupported",
            f"Your requested instance type ({name}) is not supported in your requested "
            f"Availability Zone ({zone}).",
        )
    if (
        wrong := groups_refusal(item.groups)
        or interfaces_refusal(item.data, name)
        or disks_refusal(account, item.data)
        or placement_refusal(account, item.data, [name], [zone])
    ):
        return wrong
    for group in item.groups:
        known = account.backend("ec2").get_security_group_from_id(group)
        if known is None:
            return "InvalidGroup.NotFound", f"The security group '{group}' does not exist"
        if known.vpc_id != item.subnet.vpc_id:
            return (
                "InvalidParameter",
                f"Security group {group} and subnet {item.subnet.id} belong to different networks.",
            )
    if item.image not in account.backend("ec2").amis:
        return "InvalidAMIID.NotFound", f"The image id '[{item.image}]' does not exist"
    image = image_of(account, item.image)
    if image is not None and (image.arch == "arm64") != (item.type.arch == "arm64"):
        return (
            "InvalidParameterValue",
            f"The architecture '{image.arch}' of the specified image does not match that of the "
            f"instance type {name}",
        )
    return None


def _why_no_profile(account: Account, data: Mapping[str, Any]) -> tuple[str, str] | None:
    name = (data.get("IamInstanceProfile") or {}).get("Name")
    known = [profile.name for profile in account.backend("iam").instance_profiles.values()]
    if name is None or name in known:
        return None
    return (
        "InvalidParameterValue",
        f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance "
        "Profile name",
    )


def _why_no_quota(account: Account, offer: _Offering) -> tuple[str, str] | None:
    spot = offer.market == "spot"
    quota = quota_name(offer.type, spot=spot)
    if offer.market == "capacity-block" or (
        account.quota_suffices and quota not in account.faults.quota
    ):
        return None
    limit, used = vcpu_limit(account, quota), used_vcpus(account, quota)
    if used + offer.type.vcpu <= limit:
        return None
    if spot:
        return "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
    return (
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows for "
        f"the instance bucket that the specified instance type belongs to: {offer.type.name} needs "
        f"{offer.type.vcpu}, {used} are in use (quota {quota})",
    )


def _launch(account: Account, offer: _Offering, tags: Mapping[str, Any]) -> str:
    version = offer.template.versions[-1]
    reservation = account.backend("ec2").run_instances(
        offer.image,
        1,
        None,
        [],
        security_group_ids=offer.groups,
        instance_type=offer.type.name,
        is_instance_type_default=False,
        region_name=account.region,
        tags=tags,
        subnet_id=offer.subnet.id,
        launch_template={"LaunchTemplateId": offer.template.id, "Version": str(version.number)},
        associate_public_ip=None,
        iam_instance_profile=_profile(account, offer.data),
    )
    (made,) = reservation.instances
    made.launch_data = offer.data
    pod = caller(account)
    made.automatic = pod is not None and pod.automatic
    made.instance_lifecycle = _MARKETS.get(offer.market)
    if offer.market == "spot":
        made.spot_instance_request_id = f"sir-{secrets.token_hex(4)}"
    if reserved := take_reservation(
        account, offer.data, offer.type.name, offer.subnet.availability_zone
    ):
        made.capacity_reservation_id = reserved[0]
        specification = offer.data["CapacityReservationSpecification"]
        made.capacity_reservation_specification = specification
    for interface in made.nics.values():
        interface.delete_on_termination = True
    return str(made.id)


def _profile(account: Account, data: Mapping[str, Any]) -> dict[str, str] | None:
    name = (data.get("IamInstanceProfile") or {}).get("Name")
    for profile in account.backend("iam").instance_profiles.values():
        if profile.name == name:
            return {"Arn": profile.arn, "Id": profile.id}
    return None
