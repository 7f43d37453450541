"""Security groups and their rules."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rehearsal.plugins.aws.ec2 import Ec2Kind, one
from rehearsal.plugins.aws.kind import pascal

_ANYWHERE = {
    "IpProtocol": "-1",
    "IpRanges": [{"CidrIp": "0.0.0.0/0"}],
}


class SecurityGroup(Ec2Kind):
    """A security group."""

    token = "aws:ec2/securityGroup:SecurityGroup"
    noun = "security_group"
    supported_inputs: tuple[str, ...] = (
        "name", "description", "vpcId", "ingress", "egress", "revokeRulesOnDelete", "tags",
    )  # fmt: skip
    outputs = {  # noqa: RUF012
        "name": "GroupName",
        "description": "Description",
        "vpcId": "VpcId",
        "ownerId": "OwnerId",
        "arn": "SecurityGroupArn",
    }

    @property
    def id_key(self) -> str:
        return "GroupId"

    def create(self, inputs: dict[str, Any]) -> str:
        given = {"VpcId": inputs["vpcId"]} if "vpcId" in inputs else {}
        identity: str = self.ec2.create_security_group(
            GroupName=inputs["name"],
            Description=inputs["description"],
            **given,
            **self.specification(inputs),
        )["GroupId"]
        # As the official provider: the rule that lets everything out is EC2's, not the program's.
        self.ec2.revoke_security_group_egress(GroupId=identity, IpPermissions=[_ANYWHERE])
        self._set_rules(identity, {}, inputs)
        return identity

    def _set_rules(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        for way in ("ingress", "egress"):
            before = [_permission(rule, identity) for rule in old.get(way) or []]
            after = [_permission(rule, identity) for rule in new.get(way) or []]
            for verb, rules in (
                ("revoke", [rule for rule in before if rule not in after]),
                ("authorize", [rule for rule in after if rule not in before]),
            ):
                if rules:
                    call = getattr(self.ec2, f"{verb}_security_group_{way}")
                    call(GroupId=identity, IpPermissions=rules)

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._set_rules(identity, old, new)


class DefaultSecurityGroup(SecurityGroup):
    """A VPC's own group, taken over: its rules become the declared ones. It cannot be deleted."""

    token = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
    supported_inputs = ("vpcId", "ingress", "egress", "revokeRulesOnDelete", "tags")
    computed = ("region", "vpcId", "ingress", "egress")

    def create(self, inputs: dict[str, Any]) -> str:
        filters = {"vpc-id": inputs.get("vpcId", ""), "group-name": "default"}
        found = one(self.ec2.describe_security_groups, "SecurityGroups", filters)
        identity: str = found["GroupId"]
        rules = self.ec2.describe_security_group_rules(
            Filters=[{"Name": "group-id", "Values": [identity]}]
        )["SecurityGroupRules"]
        for way, egress in (("ingress", False), ("egress", True)):
            ids = [rule["SecurityGroupRuleId"] for rule in rules if rule["IsEgress"] == egress]
            if ids:
                call = getattr(self.ec2, f"revoke_security_group_{way}")
                call(GroupId=identity, SecurityGroupRuleIds=ids)
        self._set_rules(identity, {}, inputs)
        self.set_tags(identity, inputs, inputs.get("tagsAll") or {}, [])
        return identity

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        """Only forgotten: it is deleted with its VPC."""


def _permission(rule: Mapping[str, Any], group: str) -> dict[str, Any]:
    described = {"Description": rule["description"]} if rule.get("description") else {}
    permission: dict[str, Any] = {"IpProtocol": str(rule["protocol"])}
    if permission["IpProtocol"] != "-1":
        permission |= {"FromPort": rule["fromPort"], "ToPort": rule["toPort"]}
    permission["IpRanges"] = [{"CidrIp": each} | described for each in rule.get("cidrBlocks") or []]
    peers = [*(rule.get("securityGroups") or []), *([group] if rule.get("self") else [])]
    permission["UserIdGroupPairs"] = [{"GroupId": each} | described for each in peers]
    return {name: value for name, value in permission.items() if value != []}


class SecurityGroupIngressRule(Ec2Kind):
    """A rule for incoming traffic."""

    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    noun = "security_group_rule"
    way: ClassVar[str] = "ingress"
    supported_inputs = (
        "securityGroupId", "ipProtocol", "cidrIpv4", "fromPort", "toPort",
        "referencedSecurityGroupId", "description", "tags",
    )  # fmt: skip
    outputs = {  # noqa: RUF012
        "securityGroupId": "GroupId",
        "ownerId": "GroupOwnerId",
        "ipProtocol": "IpProtocol",
        "cidrIpv4": "CidrIpv4",
        "fromPort": "FromPort",
        "toPort": "ToPort",
        "referencedSecurityGroupId": "ReferencedGroupInfo.GroupId",
        "description": "Description",
    }

    def create(self, inputs: dict[str, Any]) -> str:
        described = {"Description": inputs["description"]} if inputs.get("description") else {}
        permission: dict[str, Any] = {"IpProtocol": inputs["ipProtocol"]}
        for name in ("fromPort", "toPort"):
            if inputs["ipProtocol"] != "-1" and name in inputs:
                permission[pascal(name)] = inputs[name]
        if peer := inputs.get("referencedSecurityGroupId"):
            permission["UserIdGroupPairs"] = [{"GroupId": peer} | described]
        else:
            permission["IpRanges"] = [{"CidrIp": inputs["cidrIpv4"]} | described]
        call = getattr(self.ec2, f"authorize_security_group_{self.way}")
        answer = call(GroupId=inputs["securityGroupId"], IpPermissions=[permission])
        identity: str = answer["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        self.set_tags(identity, inputs, inputs.get("tagsAll") or {}, [])
        return identity

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        arn = self.arn("security-group-rule", identity, now)
        del now["ownerId"]
        if now["ipProtocol"] == "-1":  # all ports, which the provider does not show as -1
            now |= {"fromPort": None, "toPort": None}
        return now | {
            "securityGroupRuleId": identity,
            "arn": arn,
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        names = ("ipProtocol", "cidrIpv4", "fromPort", "toPort", "description")
        rule = {pascal(name): new[name] for name in names if name in new}
        if peer := new.get("referencedSecurityGroupId"):
            rule["ReferencedGroupId"] = peer
        self.ec2.modify_security_group_rules(
            GroupId=new["securityGroupId"],
            SecurityGroupRules=[{"SecurityGroupRuleId": identity, "SecurityGroupRule": rule}],
        )

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        call = getattr(self.ec2, f"revoke_security_group_{self.way}")
        call(GroupId=state["securityGroupId"], SecurityGroupRuleIds=[identity])


class SecurityGroupEgressRule(SecurityGroupIngressRule):
    """A rule for outgoing traffic."""

    token = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
    way = "egress"
