"""Pod identity associations, which moto lacks."""

import hashlib
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from rehearsal.simulators.aws.account import Account
from rehearsal.simulators.aws.api import Params, operation, page
from rehearsal.simulators.aws.eks import cluster_of, found, now
from rehearsal.simulators.aws.node_join_checks import guarded
from rehearsal.simulators.aws.refusal import Refusal
from rehearsal.simulators.aws.roles import require_pod_trust
from rehearsal.simulators.aws.rows import Cluster, Row

_SUMMARY = (
    "clusterName", "namespace", "serviceAccount", "associationArn", "associationId", "ownerArn",
)  # fmt: skip


def associate(account: Account, params: Mapping[str, Any], *, owner: str = "") -> Row:
    """Binds a role to a service account. `owner`: the ARN of the addon that does so."""
    cluster = cluster_of(account, params["clusterName"])
    key = (params["namespace"], params["serviceAccount"])
    if known := cluster.association(*key):
        words = f"Association already exists: {known['associationId']}, for {key[0]}/{key[1]}"
        raise Refusal("ResourceInUseException", words)
    require_pod_trust(account, params["roleArn"], params["clusterName"], *key)
    digest = hashlib.sha256("/".join((params["clusterName"], *key)).encode()).hexdigest()
    identity, at = f"a-{digest[:17]}", now()
    path = f"podidentityassociation/{params['clusterName']}/{identity}"
    cluster.associations[identity] = row = {
        "tags": {},
        "disableSessionTags": False,
        **{name: params[name] for name in params if name != "clientRequestToken"},
        "associationArn": account.arn("eks", path),
        "associationId": identity,
        "createdAt": at,
        "modifiedAt": at,
        **({"ownerArn": owner} if owner else {}),
    }
    cluster.identified.setdefault(key, time.time())
    return row


@operation("eks", "CreatePodIdentityAssociation")
def create_association(account: Account, params: Params) -> Row:
    """Refuses a role that does not exist or does not trust EKS Pod Identity, and a second
    association for the service account."""
    return {"association": associate(account, params)}


def _row(account: Account, params: Params) -> tuple[Cluster, Row]:
    cluster, identity = cluster_of(account, params["clusterName"]), params["associationId"]
    words = f"No association found with association ID {identity}"
    return cluster, found(cluster.associations, identity, words)


@operation("eks", "DescribePodIdentityAssociation")
def describe_association(account: Account, params: Params) -> Row:
    """Describes the association."""
    return {"association": _row(account, params)[1]}


@operation("eks", "ListPodIdentityAssociations")
def list_associations(account: Account, params: Params) -> Row:
    """Lists summaries, filtered by namespace and service account if given."""
    rows = [
        {name: row[name] for name in _SUMMARY if name in row}
        for row in cluster_of(account, params["clusterName"]).associations.values()
        if all(params.get(key, row[key]) == row[key] for key in ("namespace", "serviceAccount"))
    ]
    return page(params, "associations", rows)


@operation("eks", "UpdatePodIdentityAssociation")
def update_association(account: Account, params: Params) -> Row:
    """Changes the association's role."""
    cluster, row = _row(account, params)
    key, identity = (row["namespace"], row["serviceAccount"]), row["associationId"]
    names = ("roleArn", "disableSessionTags", "targetRoleArn")
    new = row | {name: params[name] for name in names if name in params} | {"modifiedAt": now()}
    require_pod_trust(account, new["roleArn"], params["clusterName"], *key)
    with guarded(account, undo=partial(cluster.associations.__setitem__, identity, row)):
        cluster.associations[identity] = new
    return {"association": new}


@operation("eks", "DeletePodIdentityAssociation")
def delete_association(account: Account, params: Params) -> Row:
    """Refuses to delete an association that nodes need."""
    cluster, row = _row(account, params)
    identity = row["associationId"]
    with guarded(account, undo=partial(cluster.associations.__setitem__, identity, row)):
        del cluster.associations[identity]
    return {"association": row}
