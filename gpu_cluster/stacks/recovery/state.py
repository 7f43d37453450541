"""What a killed engine left in the state: operations that were started but not reported as done.

The engine records each operation before it calls the cloud, so everything that a killed run may
have created is named there, with its inputs and its generated name.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.components.catalog.clouds import GOOGLE
from gpu_cluster.stacks.engine.state import (
    AWAITS_REPLACEMENT,
    PROVIDER_TYPE,
    Deployment,
    needs,
    pending,
    resources,
)
from gpu_cluster.stacks.engine.urn import Urn, reference

_ALERT = "gcp:monitoring/alertPolicy:AlertPolicy"
_UNREAD = "adopted, but not refreshed yet: run gpu-cluster recover again"
"""Marks an unread resource as an initialization error, which a refresh removes."""
_NEW = ("id", "outputs", "initErrors")
"""Fields that adoption adds to a resource that was being created."""


class NotOursError(Exception):
    """An existing resource with this name belongs to another stack, or has no owner."""


def check_own(identity: str, wanted: str | None, found: str | None) -> None:
    """Raises NotOursError if `identity` exists and does not have the stack's own label.

    `wanted`: the label in the inputs; None if the program set none, in which case the state has the
    operation under its name.
    """
    if wanted is not None and found != wanted:
        whose = f"is labelled {found}" if found else "has no label of a stack"
        raise NotOursError(f"{identity} exists and {whose}, not {wanted}: it is not adopted")


def check_within(identity: str, found: object, wanted: object) -> None:
    """Raises NotOursError if `identity` does not belong to the stack's own resource: compares the
    last parts of their names, because one may be a URL."""
    theirs, ours = (str(name).rpartition("/")[2] for name in (found, wanted))
    if theirs != ours:
        raise NotOursError(
            f"{identity} exists and belongs to {theirs}, not {ours}: it is not adopted"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """An operation that was started."""

    urn: str
    operation: str
    """`creating`, `updating`, `deleting`, `reading` or `importing`."""
    inputs: Mapping[str, Any]
    custom: bool
    """Whether a provider creates it, unlike a component."""
    provider: Mapping[str, Any] = field(default_factory=dict)
    """The inputs of its provider: project, region."""
    orphaned: bool = False
    """Whether only the program says that it may exist; then a generated name is different."""

    @property
    def type(self) -> str:
        """The resource type token."""
        return Urn.parse(self.urn).type

    @property
    def name(self) -> str:
        """Type and name, as shown to people."""
        return Urn.parse(self.urn).label

    @property
    def may_be_there(self) -> bool:
        """Whether a cloud or cluster may have created it without a record in the state."""
        creates = self.operation == "creating" and self.custom
        return creates and not self.type.startswith(PROVIDER_TYPE)


def interrupted(deployment: Deployment) -> list[Interrupted]:
    """Every operation that the state records as started, in that order."""
    providers = {
        reference(entry["urn"], entry.get("id", "")): entry.get("inputs") or {}
        for entry in resources(deployment)
        if entry["type"].startswith(PROVIDER_TYPE)
    }
    return [
        Interrupted(
            urn=entry["resource"]["urn"],
            operation=entry["type"],
            inputs=entry["resource"].get("inputs") or {},
            custom=bool(entry["resource"].get("custom")),
            provider=providers.get(entry["resource"].get("provider", ""), {}),
            orphaned=entry.get("orphaned", False),
        )
        for entry in pending(deployment)
    ]


def reopened(deployment: Deployment) -> Deployment:
    """The state in which resources that an interrupted recovery adopted, but did not read, are
    started operations again, because it is not known whether they exist."""
    result = deepcopy(deployment)
    body = result["deployment"]
    rows: list[dict[str, Any]] = body.get("resources") or []
    unread = [row for row in rows if _UNREAD in (row.get("initErrors") or ())]
    if unread:
        body["resources"] = [row for row in rows if row not in unread]
        body["pending_operations"] = [
            *pending(deployment),
            *(
                {"type": "creating", "resource": {k: v for k, v in row.items() if k not in _NEW}}
                for row in unread
            ),
        ]
    return result


def adopting(deployment: Deployment, found: Mapping[str, str]) -> Deployment:
    """The state without started operations, and with the resources in `found` (URN -> the cloud's
    name); a refresh then reads them, or removes those that do not exist."""
    adopted = deepcopy(deployment)
    body = adopted["deployment"]
    # The engine never removes a row with both marks; earlier versions left some.
    rows: list[dict[str, Any]] = [
        row
        for row in body.get("resources") or ()
        if not (row.get("delete") and row.get(AWAITS_REPLACEMENT))
    ]
    body["resources"] = rows
    for operation in body.pop("pending_operations", None) or ():
        row = operation["resource"]
        if operation["type"] == "deleting":
            # With the mark, the engine assumes it is deleted, and creates its successor too early.
            for item in rows:
                if item["urn"] == row["urn"]:
                    item.pop(AWAITS_REPLACEMENT, None)
        if operation["type"] == "creating" and row["urn"] in found:
            identity, inputs = found[row["urn"]], row.get("inputs") or {}
            if auto_named(inputs):
                inputs["name"] = identity.rpartition("/")[2]
            fields = {"id": identity, "inputs": inputs, "outputs": _outputs(row, identity)}
            _insert(rows, {**row, **fields, "initErrors": [_UNREAD]})
    for row in rows:
        if row["type"] == GOOGLE.node_pool:
            _name_cluster(row)
    return adopted


def _name_cluster(row: Mapping[str, Any]) -> None:
    """Gives an imported node pool the full name of its cluster: `pulumi import` writes the short
    name, which the provider considers another cluster, so it would replace the pool
    (resource_container_node_pool.go, `cluster`: ForceNew without a DiffSuppressFunc)."""
    whole = str(row.get("id") or "").partition("/nodePools/")[0]
    for part in ("inputs", "outputs"):
        values = row.get(part) or {}
        if "/" not in values.get("cluster", "/") and whole.endswith(f"/{values['cluster']}"):
            values["cluster"] = whole


def auto_named(inputs: Mapping[str, Any]) -> bool:
    """Whether the name was generated, by a provider of the Terraform bridge or by the engine."""
    return "name" in (inputs.get("__defaults") or ())


def _outputs(row: Mapping[str, Any], identity: str) -> dict[str, Any]:
    """The known outputs. A provider of the Terraform bridge needs them to read the resource, and
    keeps those that the cloud does not return, such as `deletionProtection`. The Kubernetes
    provider has another format and starts from the name."""
    if row["type"].startswith("kubernetes:"):
        return {}
    inputs = row.get("inputs") or {}
    outputs = {name: value for name, value in inputs.items() if not name.startswith("__")}
    # The provider reads an alert policy only by its name, which Google chooses
    # (resource_monitoring_alert_policy.go): without it, it assumes that the policy is gone.
    return outputs | ({"name": identity} if row["type"] == _ALERT else {})


def _insert(rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    """Inserts a resource after its dependencies, and before its dependents. The engine then deletes
    the one that it replaces, unless it was deleted before the replacement."""
    for other in rows:
        if other["urn"] == row["urn"] and not other.get("delete"):
            behind = max(
                (at for at, other in enumerate(rows) if other["urn"] in needs(row)), default=-1
            )
            rows.insert(max(behind + 1, rows.index(other)), row)
            if other.get(AWAITS_REPLACEMENT):
                rows.remove(other)
            else:
                other["delete"] = True
            return
    dependent = (at for at, item in enumerate(rows) if row["urn"] in needs(item))
    rows.insert(next(dependent, len(rows)), row)
