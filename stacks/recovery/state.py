"""What a killed engine left in the state: operations that began and were never reported done.

The engine writes each operation down before it asks the cloud, so whatever a killed run may have
made is named there, with its inputs and its generated name.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from components.catalog.clouds import GOOGLE
from stacks.engine.state import (
    AWAITS_REPLACEMENT,
    PROVIDER_TYPE,
    Deployment,
    needs,
    pending,
    resources,
)
from stacks.engine.urn import Urn, reference

_ALERT = "gcp:monitoring/alertPolicy:AlertPolicy"
_UNREAD = "adopted, but not refreshed yet: run gpu-cluster recover again"
"""An error of its initialisation, to the engine: the next refresh takes it away."""
_NEW = ("id", "outputs", "initErrors")
"""What adoption adds to a resource that was being made."""


class NotOursError(Exception):
    """What is there under this name says that it is another stack's, or nobody's."""


def check_own(identity: str, wanted: str | None, found: str | None) -> None:
    """Raises NotOursError where `identity` is there and does not carry the stack's own label.

    `wanted`: the label in the inputs; None for those of a program that gave none, whose operation
    the state then has under its name.
    """
    if wanted is not None and found != wanted:
        whose = f"is labelled {found}" if found else "has no label of a stack"
        raise NotOursError(f"{identity} exists and {whose}, not {wanted}: it is not adopted")


def check_within(identity: str, found: object, wanted: object) -> None:
    """Raises NotOursError where `identity` is part of something else than the stack's own: by the
    last parts of their names, as the one may be a URL and the other none."""
    theirs, ours = (str(name).rpartition("/")[2] for name in (found, wanted))
    if theirs != ours:
        raise NotOursError(
            f"{identity} exists and belongs to {theirs}, not {ours}: it is not adopted"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """One operation that began."""

    urn: str
    operation: str
    """`creating`, `updating`, `deleting`, `reading` or `importing`."""
    inputs: Mapping[str, Any]
    custom: bool
    """Whether a provider made it: a component is made by nobody."""
    provider: Mapping[str, Any] = field(default_factory=dict)
    """The inputs of its provider: project, region."""
    orphaned: bool = False
    """Whether only the program says that it may be there; a generated name is then another one."""

    @property
    def type(self) -> str:
        """The resource type token."""
        return Urn.parse(self.urn).type

    @property
    def name(self) -> str:
        """Type and name, as people know it."""
        return Urn.parse(self.urn).label

    @property
    def may_be_there(self) -> bool:
        """Whether a cloud or cluster may have made it, and the state does not know."""
        made = self.operation == "creating" and self.custom
        return made and not self.type.startswith(PROVIDER_TYPE)


def interrupted(deployment: Deployment) -> list[Interrupted]:
    """Every operation that the state has as begun, in the order in which they began."""
    providers = {
        reference(row["urn"], row.get("id", "")): row.get("inputs") or {}
        for row in resources(deployment)
        if row["type"].startswith(PROVIDER_TYPE)
    }
    return [
        Interrupted(
            urn=row["resource"]["urn"],
            operation=row["type"],
            inputs=row["resource"].get("inputs") or {},
            custom=bool(row["resource"].get("custom")),
            provider=providers.get(row["resource"].get("provider", ""), {}),
            orphaned=row.get("orphaned", False),
        )
        for row in pending(deployment)
    ]


def reopened(deployment: Deployment) -> Deployment:
    """The state with what an earlier recovery adopted, and was ended before it read that, as an
    operation that began: nobody knows yet whether it is there."""
    found = deepcopy(deployment)
    body = found["deployment"]
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
    return found


def adopting(deployment: Deployment, found: Mapping[str, str]) -> Deployment:
    """The state without operations that began, and with what `found` (URN -> the cloud's name) says
    may be there; a refresh then reads it, or finds that it is not there and forgets it."""
    adopted = deepcopy(deployment)
    body = adopted["deployment"]
    # The engine never drops a row with both marks; earlier versions left some.
    rows: list[dict[str, Any]] = [
        row
        for row in body.get("resources") or ()
        if not (row.get("delete") and row.get(AWAITS_REPLACEMENT))
    ]
    body["resources"] = rows
    for operation in body.pop("pending_operations", None) or ():
        row = operation["resource"]
        if operation["type"] == "deleting":
            # With the mark, the engine takes it to be gone, and makes the next one beside it.
            for each in rows:
                if each["urn"] == row["urn"]:
                    each.pop(AWAITS_REPLACEMENT, None)
        if operation["type"] == "creating" and row["urn"] in found:
            identity, inputs = found[row["urn"]], row.get("inputs") or {}
            if auto_named(inputs):
                inputs["name"] = identity.rpartition("/")[2]
            known = {"id": identity, "inputs": inputs, "outputs": _outputs(row, identity)}
            _insert(rows, {**row, **known, "initErrors": [_UNREAD]})
    for row in rows:
        if row["type"] == GOOGLE.node_pool:
            _name_cluster(row)
    return adopted


def _name_cluster(row: Mapping[str, Any]) -> None:
    """Gives an imported node pool the full name of its cluster: `pulumi import` writes the short
    one, and the provider, to which that is another cluster, would replace the pool
    (resource_container_node_pool.go, `cluster`: ForceNew without a DiffSuppressFunc)."""
    whole = str(row.get("id") or "").partition("/nodePools/")[0]
    for part in ("inputs", "outputs"):
        values = row.get(part) or {}
        if "/" not in values.get("cluster", "/") and whole.endswith(f"/{values['cluster']}"):
            values["cluster"] = whole


def auto_named(inputs: Mapping[str, Any]) -> bool:
    """Whether a provider of the Terraform bridge made up the name, or the engine did."""
    return "name" in (inputs.get("__defaults") or ())


def _outputs(row: Mapping[str, Any], identity: str) -> dict[str, Any]:
    """As far as they are known. A provider of the Terraform bridge reads by them rather than by the
    name alone, and keeps what the cloud does not tell: `deletionProtection`, say. The Kubernetes
    provider has a format of its own and starts from the name."""
    if row["type"].startswith("kubernetes:"):
        return {}
    inputs = row.get("inputs") or {}
    known = {name: value for name, value in inputs.items() if not name.startswith("__")}
    # By its name, which Google chooses, the provider reads an alert policy, and by nothing else
    # (resource_monitoring_alert_policy.go): without one, it takes it to be gone.
    return known | ({"name": identity} if row["type"] == _ALERT else {})


def _insert(rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    """Puts a resource behind all that it depends on, and before what depends on it. The engine
    deletes next what it replaces, unless that was deleted before the replacement was begun."""
    for other in rows:
        if other["urn"] == row["urn"] and not other.get("delete"):
            behind = max(
                (at for at, each in enumerate(rows) if each["urn"] in needs(row)), default=-1
            )
            rows.insert(max(behind + 1, rows.index(other)), row)
            if other.get(AWAITS_REPLACEMENT):
                rows.remove(other)
            else:
                other["delete"] = True
            return
    dependent = (at for at, each in enumerate(rows) if row["urn"] in needs(each))
    rows.insert(next(dependent, len(rows)), row)
