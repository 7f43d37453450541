"""Security groups and their rules: what EC2 refuses and moto does not, and what moto loses.

moto keeps the description of a rule only if its source is a range, answers with the rules of the
last permission only, and of a change ignores the group and refuses a rule without ports (EC2 API
reference, AuthorizeSecurityGroupIngress and ModifySecurityGroupRules; read 2026-11-28).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import NUMBER, Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, rule
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal

_GONE = ("deleting", "deleted")
_SOURCES = {
    "CidrIpv4": "an IPv4 CIDR",
    "CidrIpv6": "an IPv6 CIDR",
    "PrefixListId": "a prefix list ID",
    "ReferencedGroupId": "a referenced group ID",
}
"""A source of a rule in a change of it -> its name in EC2's message."""


@rule("ec2", "CreateSecurityGroup")
def create_security_group(account: Account, params: Params) -> None:
    """Refuses a name that looks like an ID."""
    if params["GroupName"].startswith("sg-"):
        words = "Group names may not be in the format sg-*."
        raise Refusal("InvalidParameterValue", words)


@rule("ec2", "DeleteSecurityGroup")
def delete_security_group(account: Account, params: Params) -> None:
    """Refuses to delete a group that interfaces or rules of other groups use."""
    ec2, identity = account.backend("ec2"), params.get("GroupId")
    users = [
        f"{interface.id} ({interface.description})" if interface.description else interface.id
        for interface in ec2.enis.values()
        if identity in [group.id for group in interface.group_set]
    ]
    users += [
        endpoint.id
        for endpoint in ec2.vpc_end_points.values()
        if identity in endpoint.security_group_ids and endpoint.state not in _GONE
    ]
    users += [
        f"a rule of {group.id}"
        for groups in ec2.groups.values()
        for group in groups.values()
        if group.id != identity
        for entry in (*group.ingress_rules, *group.egress_rules)
        if entry.source_group.get("GroupId") == identity
    ]
    if users:
        raise Refusal(
            "DependencyViolation",
            f"resource {identity} has a dependent object: {', '.join(sorted(users))}",
        )


def _authorize(way: str, account: Account, params: Params) -> dict[str, Any]:
    """Adds all rules or none; refuses rules that exist, whatever their description."""
    group, ec2 = _group(account, params), account.backend("ec2")
    before = list(getattr(group, f"{way}_rules"))
    tags = {
        tag["Key"]: tag["Value"]
        for specification in params.get("TagSpecifications") or []
        for tag in specification.get("Tags") or []
    }
    added = []
    try:
        for permission in _permissions(params):
            _check(account, permission)
            made, _ = getattr(ec2, f"authorize_security_group_{way}")(
                group.id, **_arguments(permission), sgrule_tags=tags
            )
            sources = [*_ranges(permission), *permission.get("UserIdGroupPairs", []),
                       *permission.get("PrefixListIds", [])]  # fmt: skip
            for entry, source in zip(made, sources, strict=True):
                _describe(entry, source.get("Description"))
            added += made
        keys = [_key(entry) for entry in getattr(group, f"{way}_rules")]
        if len(keys) > len(set(keys)):
            words = "the specified rule already exists"
            raise Refusal("InvalidPermission.Duplicate", words)
    except Exception:
        setattr(group, f"{way}_rules", before)
        raise
    return {"Return": True, "SecurityGroupRules": [_shown(entry) for entry in added]}


def _revoke(way: str, account: Account, params: Params) -> dict[str, Any]:
    """Removes rules by ID or by what they admit, whatever their description."""
    group, ec2 = _group(account, params), account.backend("ec2")
    rules = getattr(group, f"{way}_rules")
    identities = params.get("SecurityGroupRuleIds") or []
    asked = set(identities)
    if not identities:
        for permission in _permissions(params):
            arguments = _arguments(permission)
            arguments["source_groups"] = ec2._add_source_group(arguments["source_groups"], None)
            asked |= {
                _key(entry)
                for entry in ec2._iterate_security_rules(
                    group_id=group.id, is_egress=way == "egress", **arguments
                )
            }
    gone = [entry for entry in rules if asked & {entry.id, _key(entry)}]
    if len(gone) < len(asked):
        words = "The specified rule does not exist in this security group."
        raise Refusal("InvalidPermission.NotFound", words)
    setattr(group, f"{way}_rules", [entry for entry in rules if entry not in gone])
    return {"Return": True}


for _way in ("ingress", "egress"):
    operation("ec2", f"AuthorizeSecurityGroup{_way.title()}")(partial(_authorize, _way))
    operation("ec2", f"RevokeSecurityGroup{_way.title()}")(partial(_revoke, _way))


@operation("ec2", "ModifySecurityGroupRules")
def modify_security_group_rules(account: Account, params: Params) -> dict[str, Any]:
    """Replaces everything but the kind of a rule's source."""
    group = _group(account, params)
    for update in params["SecurityGroupRules"]:
        identity, new = update["SecurityGroupRuleId"], update.get("SecurityGroupRule") or {}
        entry = group.get_rule(identity)
        if entry is None:
            words = f"The security group rule ID '{identity}' does not exist"
            raise Refusal("InvalidSecurityGroupRuleId.NotFound", words)
        given = [name for name in _SOURCES if new.get(name)]
        if len(given) != 1:
            words = f"exactly one of {', '.join(_SOURCES)} must be given"
            raise Refusal("InvalidParameterCombination" if given else "MissingParameter", words)
        (kind,), old = given, _kind(entry)
        if kind != old:
            raise Refusal(
                "InvalidParameterValue",
                f"Invalid rule type for security group rule '{identity}'. You may not specify "
                f"{_SOURCES[kind]} for an existing {_SOURCES[old].partition(' ')[2]} rule.",
            )
        _check(account, new | {"UserIdGroupPairs": [{"GroupId": new[kind]}]}
               if kind == "ReferencedGroupId" else new)  # fmt: skip
        entry.ip_protocol = new.get("IpProtocol", "-1")
        ports = entry.ip_protocol != "-1"
        entry.from_port = new.get("FromPort") if ports else None
        entry.to_port = new.get("ToPort") if ports else None
        if kind == "PrefixListId":
            entry.prefix_list_id = new[kind]
        elif kind == "ReferencedGroupId":
            entry.source_group = entry.source_group | {"GroupId": new[kind]}
        else:
            entry.ip_range = {kind.removesuffix("v4"): new[kind]}
        _describe(entry, new.get("Description"))
    return {"Return": True}


def _group(account: Account, params: Params) -> Any:
    name = params.get("GroupId") or params.get("GroupName")
    group = account.backend("ec2").get_security_group_by_name_or_id(name)
    if group is None:
        raise Refusal("InvalidGroup.NotFound", f"The security group '{name}' does not exist")
    return group


def _permissions(params: Params) -> list[dict[str, Any]]:
    """The request's permissions, or the one that its own members are."""
    if "IpPermissions" in params:
        return list(params["IpPermissions"])
    names = ("IpProtocol", "FromPort", "ToPort")
    flat: dict[str, Any] = {name: params[name] for name in names if name in params}
    if "CidrIp" in params:
        flat["IpRanges"] = [{"CidrIp": params["CidrIp"]}]
    if "SourceSecurityGroupName" in params:
        flat["UserIdGroupPairs"] = [{"GroupName": params["SourceSecurityGroupName"]}]
    return [flat] if flat else []


def _check(account: Account, permission: Mapping[str, Any]) -> None:
    """Refuses a protocol without its ports, and a group that does not exist."""
    if permission.get("IpProtocol", "-1") not in ("-1", "all") and not (
        {"FromPort", "ToPort"} <= permission.keys()
    ):
        raise Refusal("InvalidParameterValue", "'fromPort' and 'toPort' are needed")
    for pair in permission.get("UserIdGroupPairs") or []:
        name = pair.get("GroupId")
        if name and account.backend("ec2").get_security_group_from_id(name) is None:
            words = f"The security group '{name}' does not exist"
            raise Refusal("InvalidGroup.NotFound", words)


def _ranges(permission: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*(permission.get("IpRanges") or []), *(permission.get("Ipv6Ranges") or [])]


def _arguments(permission: Mapping[str, Any]) -> dict[str, Any]:
    """A permission as moto takes it."""
    return {
        "ip_protocol": permission.get("IpProtocol", "-1"),
        "from_port": permission.get("FromPort"),
        "to_port": permission.get("ToPort"),
        "ip_ranges": _ranges(permission),
        "source_groups": permission.get("UserIdGroupPairs") or [],
        "prefix_list_ids": permission.get("PrefixListIds") or [],
    }


def _describe(entry: Any, text: str | None) -> None:
    """Sets a rule's description where each of moto's responses looks for it."""
    for source in (entry.ip_range, entry.source_group):
        source.pop("Description", None)
        if text and (source or source is entry.ip_range):
            source["Description"] = text


def _kind(entry: Any) -> str:
    if entry.source_group:
        return "ReferencedGroupId"
    if entry.prefix_list_id:
        return "PrefixListId"
    return "CidrIpv6" if entry.cidr_ipv6 else "CidrIpv4"


def _key(entry: Any) -> tuple[Any, ...]:
    """Everything by which EC2 tells rules of a group and direction apart."""
    return (entry.ip_protocol, entry.from_port, entry.to_port, entry.cidr_ipv4, entry.cidr_ipv6,
            entry.source_group.get("GroupId"), entry.prefix_list_id)  # fmt: skip


def _shown(entry: Any) -> dict[str, Any]:
    """A rule in the API, which has no ports as -1."""
    pair = {"GroupId": entry.source_group.get("GroupId"), "UserId": NUMBER}
    row = {
        "SecurityGroupRuleId": entry.id,
        "GroupId": entry.group_id,
        "GroupOwnerId": NUMBER,
        "IsEgress": entry.is_egress,
        "IpProtocol": entry.ip_protocol,
        "FromPort": -1 if entry.from_port is None else int(entry.from_port),
        "ToPort": -1 if entry.to_port is None else int(entry.to_port),
        "CidrIpv4": entry.cidr_ipv4,
        "CidrIpv6": entry.cidr_ipv6,
        "PrefixListId": entry.prefix_list_id,
        "ReferencedGroupInfo": pair if entry.source_group else None,
        "Description": entry.ip_range.get("Description"),
        "Tags": entry.get_tags(),
    }
    return {name: value for name, value in row.items() if value is not None}
