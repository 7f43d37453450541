"""Launch templates, as EKS reads them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, rule
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid


@rule("ec2", "CreateLaunchTemplate")
def create_launch_template(account: Account, params: Params) -> Iterator[None]:
    """Takes the template's own tags out of its data, to which moto adds them."""
    yield
    template = named_template(account, params)
    given = (params.get("LaunchTemplateData") or {}).get("TagSpecifications") or []
    (version,) = template.versions
    version.data["TagSpecifications"] = version.data.get("TagSpecifications", [])[: len(given)]
    if not given:
        del version.data["TagSpecifications"]


@rule("ec2", "CreateTags", "DeleteTags")
def change_tags(account: Account, params: Params) -> Iterator[None]:
    """Renews the copy of a template's tags that moto keeps from its creation."""
    yield
    for template in account.backend("ec2").launch_templates.values():
        template.tags = template.get_tags()


_INTERFACE_GROUPS = 5
"""Security groups of a network interface, by default (VPC's quota L-2AFB9258)."""


def groups_refusal(groups: Sequence[str]) -> tuple[str, str] | None:
    """EC2's error, code and message, for the security groups of a network interface."""
    if len(set(groups)) < len(groups):
        return "InvalidParameterValue", "Duplicate security groups are not allowed"
    if len(groups) > _INTERFACE_GROUPS:
        return (
            "SecurityGroupsPerInterfaceLimitExceeded",
            "You have exceeded the number of security groups allowed per network interface.",
        )
    return None


_INSTANCE_TAGS = 50


def tags_refusal(data: Mapping[str, Any], more: Mapping[str, str]) -> tuple[str, str] | None:
    """EC2's error, code and message, for the tags of an instance: a launch template's and `more`.

    Using_Tags.html of EC2's user guide: 50, without those that begin with `aws:`.
    """
    keys = {
        tag["Key"]
        for specification in data.get("TagSpecifications") or []
        if specification.get("ResourceType") == "instance"
        for tag in specification.get("Tags") or []
    } | set(more)
    if sum(not key.startswith("aws:") for key in keys) <= _INSTANCE_TAGS:
        return None
    return (
        "TagLimitExceeded",
        "You have reached the limit on the number of tags that you can assign to the specified "
        "resource.",
    )


def template_data(account: Account, reference: Mapping[str, Any] | None) -> dict[str, Any]:
    """The data of the version in `{id|name, version}`; empty without a reference. Raises Refusal if
    it does not exist."""
    if not reference:
        return {}
    ec2, name = account.backend("ec2"), reference.get("id") or reference.get("name")
    identity = reference.get("id") or ec2.launch_template_name_to_ids.get(name)
    template = ec2.launch_templates.get(identity)
    if template is None:
        raise invalid(f"The launch template {name} does not exist")
    version = str(reference.get("version") or "$Default")
    number = {"$Default": template.default_version_number, "$Latest": len(template.versions)}.get(
        version, version
    )
    for item in template.versions:
        if str(item.number) == str(number):
            data: dict[str, Any] = item.data
            if refusal := groups_refusal(data.get("SecurityGroupIds") or []):
                raise Refusal(*refusal)
            for group in data.get("SecurityGroupIds") or []:
                if ec2.get_security_group_from_id(group) is None:
                    words = f"The security group '{group}' does not exist"
                    raise Refusal("InvalidGroup.NotFound", words)
            return data
    raise invalid(
        f"You requested an invalid launch template version: {name} has no version {version}"
    )


def named_template(account: Account, reference: Mapping[str, Any]) -> Any:
    """moto's launch template for EC2's `LaunchTemplateId` or `LaunchTemplateName`, or None."""
    ec2, name = account.backend("ec2"), reference.get("LaunchTemplateName")
    identity = reference.get("LaunchTemplateId") or ec2.launch_template_name_to_ids.get(name)
    return ec2.launch_templates.get(identity)
