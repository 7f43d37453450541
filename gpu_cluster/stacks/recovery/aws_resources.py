"""The id of an AWS resource that was being created. If AWS chose it, AWS is queried by name, place
in the network, or tags. Read-only."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpu_cluster.clouds.rows.aws import Row, filled, rows
from gpu_cluster.components.lifecycle.ownership import AWS_TAG
from gpu_cluster.stacks.recovery.state import check_own, check_within

Inputs = Mapping[str, Any]
_GONE = ("deleting", "deleted", "failed")
"""States, in lowercase, of resources that will disappear: a failed NAT gateway does within an
hour."""
_NOT_FOUND = ("NotFound", "NotFoundException", "NoSuchEntity", "NonExistentQueue")


class Aws:
    """Finds resources in one account and region."""

    def __init__(self, client: Callable[[str], Any]) -> None:
        self._client = client
        """Service -> its client, such as boto3's."""
        self._finders: Mapping[str, Callable[[Inputs], list[str]]] = {
            "aws:ec2/internetGateway:InternetGateway": self._internet_gateway,
            "aws:ec2/route:Route": lambda i: [route_id(i)],
            "aws:ec2/routeTableAssociation:RouteTableAssociation": self._association,
            "aws:ec2/natGateway:NatGateway": self._nat_gateway,
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": self._ingress_rule,
            "aws:iam/role:Role": self._role,
            "aws:kms/key:Key": self._key,
            "aws:kms/alias:Alias": self._alias,
            "aws:cloudwatch/logGroup:LogGroup": self._log_group,
            "aws:sqs/queue:Queue": self._queue,
            "aws:eks/cluster:Cluster": self._cluster,
            "aws:eks/nodeGroup:NodeGroup": self._node_group,
            "aws:eks/accessEntry:AccessEntry": self._access_entry,
            "aws:eks/podIdentityAssociation:PodIdentityAssociation": self._pod_identity,
        }

    def knows(self, type_token: str) -> bool:
        """Whether AWS can be queried for resources of this type."""
        row = rows().get(type_token)
        known = row is not None and ("{" in row.id or row.found_by is not None)
        return type_token in self._finders or known

    def find(self, type_token: str, inputs: Inputs) -> list[str] | None:
        """Ids of possible matches, empty if AWS has none; None if they cannot be determined from
        the type or the inputs. Raises LookupError with AWS's message."""
        try:
            with _answering():
                if finder := self._finders.get(type_token):
                    return finder(inputs)
                known = self.knows(type_token)
                return self._by_row(rows()[type_token], inputs) if known else None
        except KeyError:  # An input that would identify it is missing.
            return None
        except _NoneError:  # The resource that it would be part of does not exist.
            return []

    def _by_row(self, row: Row, i: Inputs) -> list[str]:
        """By an id that follows from the inputs, else by the filters of the row."""
        from botocore import xform_name

        if "{" in row.id:
            return [filled(row.id, i)]
        by = row.found_by or {}
        wanted = {f: str(i[name]) for f, name in by.items() if f != "tags"}
        if "tags" in by:
            tags = i.get("tags", {}) if wanted else i["tags"]
            wanted |= {f"tag:{key}": str(text) for key, text in tags.items()}
        describe = getattr(self._client(row.api), xform_name(row.read.call))
        rows_at = row.read.at.partition("[")[0]
        if row.api == "ec2":
            filters = [{"Name": name, "Values": [text]} for name, text in wanted.items()]
            items = describe(Filters=filters)[rows_at]
        else:  # Other services have no filters, but return the tags.
            items = [item for item in describe()[rows_at] if wanted.items() <= _tags(item).items()]
        key = row.id.rpartition(".")[2]
        return [item[key] for item in items if str(item.get("State")).lower() not in _GONE]

    def caller(self) -> tuple[str, str]:
        """The account that answers, 12 digits, and the ARN of the current identity. Raises
        LookupError with AWS's message."""
        with _answering():
            identity = self._client("sts").get_caller_identity()
        return identity["Account"], identity["Arn"]

    def described(self, identity: str) -> Mapping[str, Any]:
        """An EKS cluster or node group as AWS describes it; empty if there is none. Raises
        LookupError with AWS's message."""
        cluster, _, group = identity.partition(":")
        try:
            with _answering():
                eks = self._client("eks")
                if group:
                    named = {"clusterName": cluster, "nodegroupName": group}
                    return dict(eks.describe_nodegroup(**named)["nodegroup"])
                return dict(eks.describe_cluster(name=cluster)["cluster"])
        except _NoneError:
            return {}

    def _queue(self, i: Inputs) -> list[str]:
        return [self._client("sqs").get_queue_url(QueueName=i["name"])["QueueUrl"]]

    def _internet_gateway(self, i: Inputs) -> list[str]:
        # Not by its VPC: it is created first and attached afterwards.
        tags = [{"Name": f"tag:{key}", "Values": [text]}
                for key, text in (i.get("tags") or {}).items()]  # fmt: skip
        found = self._client("ec2").describe_internet_gateways(Filters=tags)
        return [
            gateway["InternetGatewayId"]
            for gateway in found["InternetGateways"]
            if all(attachment["VpcId"] == i.get("vpcId") for attachment in gateway["Attachments"])
        ]

    def _association(self, i: Inputs) -> list[str]:
        filters = [{"Name": "association.subnet-id", "Values": [i["subnetId"]]}]
        tables = self._client("ec2").describe_route_tables(Filters=filters)["RouteTables"]
        return [
            association["RouteTableAssociationId"]
            for table in tables
            if table["RouteTableId"] == i["routeTableId"]
            for association in table["Associations"]
            if association.get("SubnetId") == i["subnetId"]
        ]

    def _nat_gateway(self, i: Inputs) -> list[str]:
        if gateways := self._by_row(rows()["aws:ec2/natGateway:NatGateway"], i):
            self._client("ec2").get_waiter("nat_gateway_available").wait(NatGatewayIds=gateways)
        return gateways

    def _ingress_rule(self, i: Inputs) -> list[str]:
        filters = [{"Name": "group-id", "Values": [i["securityGroupId"]]}]
        rows = self._client("ec2").describe_security_group_rules(Filters=filters)
        # EC2 has no two rules with the same values of these.
        asked = (False, i["ipProtocol"], i["cidrIpv4"], i["fromPort"], i["toPort"])
        names = ("IsEgress", "IpProtocol", "CidrIpv4", "FromPort", "ToPort")
        return [
            rule["SecurityGroupRuleId"]
            for rule in rows["SecurityGroupRules"]
            if tuple(rule.get(name) for name in names) == asked
        ]

    def _key(self, i: Inputs) -> list[str]:
        import botocore.exceptions

        kms, found = self._client("kms"), []
        for listed_key in _pages(kms, "list_keys", "Keys"):
            try:
                key = kms.describe_key(KeyId=listed_key["KeyId"])["KeyMetadata"]
            except botocore.exceptions.ClientError as error:
                if error.response["Error"]["Code"] == "AccessDeniedException":
                    continue  # The creator of a key may read it, so it is another team's.
                raise
            if key.get("Description") == i.get("description") and (
                key["KeyState"] != "PendingDeletion"
            ):
                found.append(listed_key["KeyId"])
        return [key for key in found if self._carries(key, _label(i))]

    def _carries(self, key: str, label: str | None) -> bool:
        """Whether a key has the stack's own tag, if the stack sets one."""
        if label is None:
            return True
        tags = self._client("kms").list_resource_tags(KeyId=key)["Tags"]
        return any(tag["TagKey"] == AWS_TAG and tag["TagValue"] == label for tag in tags)

    def _alias(self, i: Inputs) -> list[str]:
        for alias in _pages(self._client("kms"), "list_aliases", "Aliases"):
            if alias["AliasName"] == i["name"]:
                check_within(f"alias {i['name']}", alias.get("TargetKeyId"), i["targetKeyId"])
                return [i["name"]]
        return []

    def _role(self, i: Inputs) -> list[str]:
        name = i["name"]
        tags = self._client("iam").get_role(RoleName=name)["Role"].get("Tags") or ()
        values = {tag["Key"]: tag["Value"] for tag in tags}
        check_own(f"role {name}", _label(i), values.get(AWS_TAG))
        return [name]

    def _log_group(self, i: Inputs) -> list[str]:
        logs, name = self._client("logs"), i["name"]
        for group in _pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=name):
            if group["logGroupName"] == name:
                tags = logs.list_tags_for_resource(resourceArn=group["logGroupArn"])["tags"]
                check_own(f"log group {name}", _label(i), tags.get(AWS_TAG))
                return [name]
        return []

    # EKS completes a creation in any case; nothing can be done with the resource before that.

    def _cluster(self, i: Inputs) -> list[str]:
        eks, name = self._client("eks"), i["name"]
        if name in _pages(eks, "list_clusters", "clusters"):
            tags = eks.describe_cluster(name=name)["cluster"].get("tags") or {}
            check_own(f"cluster {name}", _label(i), tags.get(AWS_TAG))
            _until(eks, "cluster", name=name)
            return [name]
        return []

    def _node_group(self, i: Inputs) -> list[str]:
        eks, cluster = self._client("eks"), i["clusterName"]
        names = []
        for name in _pages(eks, "list_nodegroups", "nodegroups", clusterName=cluster):
            group = {"clusterName": cluster, "nodegroupName": name}
            description = eks.describe_nodegroup(**group)["nodegroup"]
            if _is_group(name, description, i):
                _until(eks, "nodegroup", **group)
                names.append(f"{cluster}:{name}")
        return names

    def _access_entry(self, i: Inputs) -> list[str]:
        by_name = {"clusterName": i["clusterName"], "principalArn": i["principalArn"]}
        tags = self._client("eks").describe_access_entry(**by_name)["accessEntry"].get("tags") or {}
        # In an existing cluster, it may be the owner's, and would be deleted with the stack.
        check_own(f"access entry of {i['principalArn']}", _label(i), tags.get(AWS_TAG))
        return [":".join(by_name.values())]

    def _pod_identity(self, i: Inputs) -> list[str]:
        account = {
            "clusterName": i["clusterName"],
            "namespace": i["namespace"],
            "serviceAccount": i["serviceAccount"],
        }
        eks, found = self._client("eks"), []
        for association in _pages(eks, "list_pod_identity_associations", "associations", **account):
            query = {"clusterName": i["clusterName"], "associationId": association["associationId"]}
            role = eks.describe_pod_identity_association(**query)["association"]["roleArn"]
            # In an existing cluster, it may be the owner's, and would be deleted with the stack.
            check_within(f"pod identity of {i['serviceAccount']}", role, i["roleArn"])
            found.append(association["associationId"])
        return found


class _NoneError(Exception):
    """AWS does not have it."""


@contextmanager
def _answering() -> Iterator[None]:
    """Raises LookupError with AWS's message, and _NoneError for what does not exist."""
    import botocore.exceptions  # Imported late: only stacks on AWS need it.

    try:
        yield
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        answer = getattr(error, "response", {}).get("Error", {})
        if answer.get("Code", "").endswith(_NOT_FOUND):
            raise _NoneError from None
        raise LookupError(f"AWS: {error}") from None


def _tags(row: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a description, with the names that filters use for them."""
    return {f"tag:{tag['Key']}": tag["Value"] for tag in row.get("Tags") or ()}


def _label(i: Inputs) -> str | None:
    """The stack's own tag in the inputs."""
    tag: str | None = (i.get("tags") or {}).get(AWS_TAG)
    return tag


def _pages(client: Any, call: str, rows: str, **request: Any) -> list[Any]:
    pages = client.get_paginator(call).paginate(**request)
    return [item for page in pages for item in page[rows]]


def _until(eks: Any, noun: str, **names: str) -> None:
    """Waits until it is active. A failed one cannot become part of the stack, because an `up` would
    find nothing to change in it."""
    import botocore.exceptions

    try:
        eks.get_waiter(f"{noun}_active").wait(**names)
    except botocore.exceptions.WaiterError as error:
        reason = " ".join(str(error.kwargs["reason"]).split())
        options = {"region": eks.meta.region_name} | names
        words = (f"--{botocore.xform_name(key, '-')} {value}" for key, value in options.items())
        raise LookupError(
            f"AWS: {noun} {'/'.join(names.values())} did not become active ({reason}): delete it "
            f"with aws eks delete-{noun} {' '.join(words)}, then recover again"
        ) from None


def _is_group(name: str, row: Mapping[str, Any], i: Inputs) -> bool:
    """Whether it is the node group; each of this stack's has its own launch template."""
    if "nodeGroupName" in i:
        return bool(name == i["nodeGroupName"])
    template = (i.get("launchTemplate") or {}).get("id")
    ours = name.startswith(i.get("nodeGroupNamePrefix") or "")
    return ours and (row.get("launchTemplate") or {}).get("id") == template


def route_id(i: Inputs) -> str:
    """The id that the provider generates: the table and a checksum of the destination.

    https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/ec2/vpc_route.go
    """
    return f"r-{i['routeTableId']}{zlib.crc32(str(i['destinationCidrBlock']).encode())}"
