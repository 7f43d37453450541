"""Access entries, access policies and pod identity associations, which moto does not have."""

import datetime
import hashlib
import re
import time
from collections.abc import Mapping
from typing import Any

from simulators.aws.account import Account, ClusterParts
from simulators.aws.kind import CloudError, Kind, NotFoundError
from simulators.aws.node_join_checks import guarded
from simulators.aws.roles import require_pod_trust

_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:(user|role)/.+|arn:aws:iam::[0-9]{12}:root")
_POLICY = re.compile(r"arn:aws[a-z-]*:eks::aws:cluster-access-policy/(?P<name>.+)")
ACCESS_POLICIES = frozenset(
    {
        "AmazonEKSAdminPolicy", "AmazonEKSClusterAdminPolicy", "AmazonEKSAdminViewPolicy",
        "AmazonEKSEditPolicy", "AmazonEKSViewPolicy", "AmazonEKSSecretReaderPolicy",
    }
)  # fmt: skip
"""Those that a STANDARD entry takes (general knowledge; `aws eks list-access-policies`)."""


def cluster_of(account: Account, name: str) -> ClusterParts:
    """The cluster; raises NotFoundError in EKS's words."""
    if name not in account.clusters:
        raise NotFoundError(f"ResourceNotFoundException: No cluster found for name: {name}.")
    return account.clusters[name]


def now() -> str:
    """The time as the AWS provider shows it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class AccessEntry(Kind):
    """An IAM principal that a cluster knows. Refused: a principal that does not exist, groups that
    begin with system:, a cluster in the mode CONFIG_MAP, a second entry for the same principal."""

    token = "aws:eks/accessEntry:AccessEntry"
    supported_inputs = (
        "clusterName",
        "principalArn",
        "kubernetesGroups",
        "type",
        "userName",
        "tags",
    )
    computed = ("kubernetesGroups", "userName")

    def create(self, inputs: dict[str, Any]) -> str:
        cluster = cluster_of(self.account, inputs["clusterName"])
        principal = inputs["principalArn"]
        mode = (cluster.inputs.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
        if mode == "CONFIG_MAP":
            raise CloudError(
                "InvalidRequestException: The cluster's authentication mode must be set to one of "
                "[API, API_AND_CONFIG_MAP] to perform this operation."
            )
        if not _PRINCIPAL.fullmatch(principal):
            raise CloudError(
                "InvalidParameterException: The specified principalArn is invalid: it is the ARN "
                f"of an IAM user or role, not '{principal}'"
            )
        if principal in cluster.entries:
            raise CloudError(
                "ResourceInUseException: The specified access entry resource is already in use on "
                f"this cluster: {principal}"
            )
        self._check(inputs)
        made = now()
        cluster.entries[principal] = dict(inputs) | {"policies": {}, "createdAt": made}
        return f"{inputs['clusterName']}:{principal}"

    def _check(self, inputs: Mapping[str, Any]) -> None:
        if inputs["type"] == "STANDARD":
            if any(group.startswith("system:") for group in inputs.get("kubernetesGroups") or []):
                raise CloudError(
                    "InvalidParameterException: The kubernetes group name cannot start with system:"
                )
        elif inputs.get("kubernetesGroups") or inputs.get("userName"):
            raise CloudError(
                "InvalidParameterException: kubernetesGroups and userName are only for the type "
                "STANDARD"
            )

    def _entry(self, identity: str) -> tuple[str, dict[str, Any]]:
        cluster, _, principal = identity.partition(":")
        entries = cluster_of(self.account, cluster).entries
        if principal not in entries:
            raise NotFoundError(
                "ResourceNotFoundException: The specified principalArn could not be found: "
                f"{principal}"
            )
        return principal, entries[principal]

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        principal, entry = self._entry(identity)
        cluster = identity.partition(":")[0]
        digest = hashlib.sha256(principal.encode()).hexdigest()[:32]
        path = "/".join(principal.split(":")[4:])
        return {
            "accessEntryArn": self.account.arn("eks", f"access-entry/{cluster}/{path}/{digest}"),
            "createdAt": entry["createdAt"],
            "modifiedAt": entry.get("modifiedAt", entry["createdAt"]),
            "kubernetesGroups": entry.get("kubernetesGroups", []),
            "userName": entry.get("userName", principal),
            "type": entry["type"],
            "tagsAll": entry["tagsAll"],
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._check(new)
        entry = self._entry(identity)[1]
        for name in ("kubernetesGroups", "userName"):
            entry[name] = new.get(name, entry.get(name))
        entry["modifiedAt"] = now()

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        self._entry(identity)[1]["tagsAll"] = dict(tags)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        cluster, _, principal = identity.partition(":")
        del self.account.clusters[cluster].entries[principal]


class AccessPolicyAssociation(Kind):
    """A policy of EKS for an access entry. Refused: a policy that EKS does not have, an entry that
    does not exist or whose type is not STANDARD, namespaces in the scope of the cluster."""

    token = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
    supported_inputs = ("accessScope", "clusterName", "policyArn", "principalArn")

    def create(self, inputs: dict[str, Any]) -> str:
        entries = cluster_of(self.account, inputs["clusterName"]).entries
        principal, policy, scope = (
            inputs[name] for name in ("principalArn", "policyArn", "accessScope")
        )
        if principal not in entries:
            raise CloudError(
                "ResourceNotFoundException: The specified principalArn could not be found. You "
                f"need an access entry for it first: {principal}"
            )
        if entries[principal]["type"] != "STANDARD":
            raise CloudError(
                "InvalidRequestException: Access policies can only be associated with entries of "
                f"the type STANDARD, {principal} has {entries[principal]['type']}"
            )
        found = _POLICY.fullmatch(policy)
        if not found or found["name"] not in ACCESS_POLICIES:
            raise CloudError(
                "InvalidParameterException: The policyArn parameter format is not valid: "
                f"{policy}: there are {', '.join(sorted(ACCESS_POLICIES))} under "
                "arn:aws:eks::aws:cluster-access-policy/"
            )
        if (scope["type"] == "namespace") != bool(scope.get("namespaces")):
            raise CloudError(
                "InvalidParameterException: accessScope.namespaces goes with the type namespace, "
                "and only with it"
            )
        entries[principal]["policies"][policy] = dict(scope) | {"associatedAt": now()}
        self.account.clusters[inputs["clusterName"]].granted[principal] = time.monotonic()
        return f"{inputs['clusterName']}#{principal}#{policy}"

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        cluster, principal, policy = identity.split("#")
        entry = cluster_of(self.account, cluster).entries.get(principal, {"policies": {}})
        if policy not in entry["policies"]:
            raise NotFoundError(f"ResourceNotFoundException: {policy} is not associated")
        at = entry["policies"][policy]["associatedAt"]
        return {"associatedAt": at, "modifiedAt": at}

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        raise CloudError("an access policy association cannot be changed")

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        cluster, principal, policy = identity.split("#")
        del self.account.clusters[cluster].entries[principal]["policies"][policy]


class PodIdentityAssociation(Kind):
    """A role for the pods of a service account. Refused: a role that does not exist or does not
    trust EKS Pod Identity, a second association for the account."""

    token = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    supported_inputs = (
        "clusterName",
        "namespace",
        "serviceAccount",
        "roleArn",
        "disableSessionTags",
        "tags",
    )
    computed = ("policy", "targetRoleArn")

    def create(self, inputs: dict[str, Any]) -> str:
        return associate(self.account, inputs)

    def _row(self, identity: str) -> tuple[ClusterParts, tuple[str, str], dict[str, Any]]:
        for cluster in self.account.clusters.values():
            for key, row in cluster.associations.items():
                if row["associationId"] == identity:
                    return cluster, key, row
        raise NotFoundError(
            f"ResourceNotFoundException: No association found with association ID {identity}"
        )

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        row = self._row(identity)[2]
        path = f"podidentityassociation/{row['clusterName']}/{identity}"
        return {
            "associationId": identity,
            "associationArn": self.account.arn("eks", path),
            "roleArn": row["roleArn"],
            "disableSessionTags": row.get("disableSessionTags", False),
            "tagsAll": row.get("tagsAll", {}),
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        cluster, key, row = self._row(identity)
        require_pod_trust(self.account, new["roleArn"], new["clusterName"], *key)

        def undo() -> None:
            cluster.associations[key] = row

        with guarded(self.account, undo=undo):
            cluster.associations[key] = row | new

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        self._row(identity)[2]["tagsAll"] = dict(tags)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        cluster, key, _ = self._row(identity)
        disassociate(self.account, cluster, key)


def associate(account: Account, inputs: Mapping[str, Any]) -> str:
    """Binds a role to a service account; returns the association's id."""
    cluster = cluster_of(account, inputs["clusterName"])
    key = (inputs["namespace"], inputs["serviceAccount"])
    if key in cluster.associations:
        taken = cluster.associations[key]["associationId"]
        raise CloudError(
            f"ResourceInUseException: Association already exists: {taken}, for {key[0]}/{key[1]}"
        )
    require_pod_trust(account, inputs["roleArn"], inputs["clusterName"], *key)
    digest = hashlib.sha256("/".join((inputs["clusterName"], *key)).encode()).hexdigest()
    identity = f"a-{digest[:17]}"
    cluster.associations[key] = dict(inputs) | {"associationId": identity}
    cluster.identified.setdefault(key, time.time())
    return identity


def disassociate(account: Account, cluster: ClusterParts, key: tuple[str, str]) -> None:
    """Takes a role from a service account; refused while nodes cannot do without it."""
    row = cluster.associations[key]

    def undo() -> None:
        cluster.associations[key] = row

    with guarded(account, undo=undo):
        del cluster.associations[key]
