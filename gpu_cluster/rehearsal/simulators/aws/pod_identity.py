"""Pod identity associations, which moto lacks."""

import hashlib
import time
from collections.abc import Iterator
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params
from gpu_cluster.rehearsal.simulators.aws.collection import Collection, Rows
from gpu_cluster.rehearsal.simulators.aws.eks import cluster_of, now
from gpu_cluster.rehearsal.simulators.aws.roles import require_pod_trust
from gpu_cluster.rehearsal.simulators.aws.rows import Row

_SUMMARY = (
    "clusterName", "namespace", "serviceAccount", "associationArn", "associationId", "ownerArn",
)  # fmt: skip


class _Associations(Collection):
    """Refused: a role that does not exist or does not trust EKS Pod Identity, a second association
    of a service account, and the change or deletion of one that nodes need."""

    noun, member, key = "PodIdentityAssociation", "association", "associationId"
    exists = (
        "ResourceInUseException",
        "Association already exists: {associationId}, for {namespace}/{serviceAccount}",
    )
    unknown = (
        "ResourceNotFoundException",
        "No association found with association ID {associationId}",
    )
    updates = ("roleArn", "disableSessionTags", "targetRoleArn")

    def rows(self, account: Account, params: Params) -> Rows:
        return cluster_of(account, params["clusterName"]).associations

    def new(self, account: Account, params: Params) -> Row:
        of = "/".join(params[name] for name in ("clusterName", "namespace", "serviceAccount"))
        identity, at = f"a-{hashlib.sha256(of.encode()).hexdigest()[:17]}", now()
        path = f"podidentityassociation/{params['clusterName']}/{identity}"
        return {
            "tags": {},
            "disableSessionTags": False,
            **{name: params[name] for name in params if name != "clientRequestToken"},
            "associationArn": account.arn("eks", path),
            "associationId": identity,
            "createdAt": at,
            "modifiedAt": at,
        }

    def check(self, account: Account, row: Row, params: Params) -> None:
        names = ("roleArn", "clusterName", "namespace", "serviceAccount")
        require_pod_trust(account, *(row[name] for name in names))

    def add(self, account: Account, params: Params) -> Row:
        """`ownerArn` among the parameters is the ARN of the addon that binds the role."""
        row = super().add(account, params)
        cluster = cluster_of(account, row["clusterName"])
        cluster.identified.setdefault((row["namespace"], row["serviceAccount"]), time.time())
        return row

    def listed(self, account: Account, params: Params) -> Iterator[Any]:
        for row in self.rows(account, params).values():
            if all(
                params.get(key, row[key]) == row[key] for key in ("namespace", "serviceAccount")
            ):
                yield {name: row[name] for name in _SUMMARY if name in row}


ASSOCIATIONS = _Associations()
ASSOCIATIONS.serve()
