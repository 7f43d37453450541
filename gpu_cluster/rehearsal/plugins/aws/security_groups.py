"""Security groups and their rules, as far as their rows do not describe them."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.aws.api_request import pascal
from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed

_ANYWHERE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


class SecurityGroup(Rowed):
    """A security group, with the rules declared in it."""

    token = "aws:ec2/securityGroup:SecurityGroup"

    def create(self, inputs: dict[str, Any]) -> str:
        identity = super().create(inputs)
        # Like the official provider: EC2, not the program, adds the rule for outgoing traffic.
        self.client.revoke_security_group_egress(GroupId=identity, IpPermissions=[_ANYWHERE])
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
                    call = getattr(self.client, f"{verb}_security_group_{way}")
                    call(GroupId=identity, IpPermissions=rules)

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._set_rules(identity, old, new)


def _permission(rule: Mapping[str, Any], group: str) -> dict[str, Any]:
    described = {"Description": rule["description"]} if rule.get("description") else {}
    permission: dict[str, Any] = {"IpProtocol": str(rule["protocol"])}
    if permission["IpProtocol"] != "-1":
        permission |= {"FromPort": rule["fromPort"], "ToPort": rule["toPort"]}
    permission["IpRanges"] = [{"CidrIp": item} | described for item in rule.get("cidrBlocks") or []]
    peers = [*(rule.get("securityGroups") or []), *([group] if rule.get("self") else [])]
    permission["UserIdGroupPairs"] = [{"GroupId": peer} | described for peer in peers]
    return {name: value for name, value in permission.items() if value != []}


class SecurityGroupIngressRule(Rowed):
    """A rule for incoming traffic."""

    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"

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
        request = {"GroupId": inputs["securityGroupId"], "IpPermissions": [permission]}
        answer = self.call(self.row.create, request)
        identity: str = answer["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        self.set_tags(identity, inputs, inputs.get("tagsAll") or {}, [])
        return identity

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = super().read(identity, state)
        if now["ipProtocol"] == "-1":  # all ports, which the provider does not return as -1
            now |= {"fromPort": None, "toPort": None}
        return now


class SecurityGroupEgressRule(SecurityGroupIngressRule):
    """A rule for outgoing traffic."""

    token = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
