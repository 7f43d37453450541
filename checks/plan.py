"""What a `pulumi preview --json` would do, resource by resource; pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from checks.report import CheckError

Verb = Literal["create", "update", "replace", "delete"]
VERBS: tuple[Verb, ...] = ("replace", "delete", "update", "create")
"""The dearest first."""

_VERB_OF: Mapping[str, Verb] = {
    "create": "create",
    "update": "update",
    "delete": "delete",
    "replace": "replace",
    "create-replacement": "replace",
    "delete-replaced": "replace",
    "import": "create",
    "import-replacement": "replace",
}
_CLUSTERS = ("gcp:container/cluster:Cluster", "aws:eks/cluster:Cluster")
_POOLS = ("gcp:container/nodePool:NodePool", "aws:eks/nodeGroup:NodeGroup")
_GPU_COMPONENTS = ("gpu-cluster:gke:GpuNodePool", "gpu-cluster:eks:GpuNodeGroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would happen to one resource."""

    urn: str
    verb: Verb
    paths: tuple[str, ...] = ()
    """Properties that differ; of a replacement, those that force it. Never a value."""

    @property
    def type(self) -> str:
        return self.urn.split("::")[2].rpartition("$")[2]

    @property
    def name(self) -> str:
        return self.urn.split("::", 3)[3]

    @property
    def loss(self) -> Literal["cluster", "GPU pool", "system pool"] | None:
        """What would be gone for a while, or for good; None for everything else."""
        if self.verb not in ("replace", "delete"):
            return None
        if self.type in _CLUSTERS:
            return "cluster"
        if self.type in _POOLS:
            chain = self.urn.split("::")[2]
            gpu = any(component in chain.split("$") for component in _GPU_COMPONENTS)
            return "GPU pool" if gpu else "system pool"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A preview."""

    changes: Sequence[Change]
    same: int
    """Resources that stay as they are."""
    errors: Sequence[str]

    def count(self, verb: Verb) -> int:
        return sum(change.verb == verb for change in self.changes)

    @property
    def losses(self) -> list[Change]:
        """Clusters first, then GPU pools, then other pools."""
        order = ("cluster", "GPU pool", "system pool")
        found = [change for change in self.changes if change.loss]
        return sorted(found, key=lambda change: order.index(change.loss or ""))


def read_plan(text: str, source: str) -> Plan:
    """The plan in a preview's output; raises CheckError where it is none."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CheckError(f"{source}: not the output of pulumi preview --json ({error})") from None
    if not isinstance(document, dict) or not {"steps", "diagnostics"} & set(document):
        raise CheckError(f"{source}: not the output of pulumi preview --json: it has no steps")
    changes: dict[str, Change] = {}
    for step in document.get("steps") or []:
        verb = _VERB_OF.get(step["op"])
        if verb is None:
            continue
        change = Change(urn=step["urn"], verb=verb, paths=_paths(step))
        known = changes.get(change.urn)
        # A replacement is three steps in the engine's eyes, and one thing in everybody else's.
        if known is None or not known.paths or VERBS.index(verb) < VERBS.index(known.verb):
            changes[change.urn] = change
    # Steps that change nothing are counted and not listed.
    same = int((document.get("changeSummary") or {}).get("same", 0))
    return Plan(changes=list(changes.values()), same=same, errors=_errors(document))


def _paths(step: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        step.get("replaceReasons") or step.get("diffReasons") or step.get("detailedDiff") or ()
    )


def _errors(document: Mapping[str, Any]) -> list[str]:
    said = [
        str(one.get("message", "")).strip()
        for one in document.get("diagnostics") or []
        if one.get("severity") == "error"
    ]
    return list(dict.fromkeys(message for message in said if message))
