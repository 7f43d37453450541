"""The changes in a `pulumi preview --json`, resource by resource; pure functions.

Both of its formats are supported: the document, and the stream of events that it prints with
PULUMI_ENABLE_STREAMING_JSON_PREVIEW, the only one that contains policy reports.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.cluster import GPU_RESOURCE
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.stacks.outcome import CheckError

Verb = Literal["create", "update", "replace", "delete"]
Loss = Literal["cluster", "GPU pool", "system pool", "namespace", "definition", "claim"]
VERBS: tuple[Verb, ...] = ("replace", "delete", "update", "create")
"""The most expensive one first."""

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
_CODE = re.compile(r"\[GPUC-([A-Z-]+)\]")
_CLUSTERS = {cloud.cluster for cloud in CLOUDS.values()}
_POOLS = {
    *(cloud.node_pool for cloud in CLOUDS.values()),
    *(kind for scaler in SCALERS.values() for kind in scaler.pools),
}
NODES = {*_CLUSTERS, *_POOLS}
"""Types of resources with which nodes are lost."""
_GPU_POOLS = {scaler.declared_by for scaler in SCALERS.values()}
_KEEPS_NODES = {
    kind for scaler in SCALERS.values() for kind in scaler.pools if not scaler.nodes[kind]
}
"""Types of pools whose nodes outlive them, until they are empty."""
_CONTENTS: Mapping[str, Loss] = {
    "kubernetes:core/v1:Namespace": "namespace",
    "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition": "definition",
    "kubernetes:core/v1:PersistentVolumeClaim": "claim",
}
"""Types of objects whose deletion deletes what others have created or written."""
_CONSEQUENCES: Mapping[Loss, str] = {
    "cluster": "Every pod and everything else in the cluster is deleted with it.",
    "GPU pool": "Its nodes are deleted, and the pods on them start again.",
    "system pool": "Its nodes are deleted, and the pods on them start again.",
    "namespace": "Everything in it is deleted, also what others have created there.",
    "definition": "Every object of its kind is deleted, also the jobs that others have submitted.",
    "claim": "The data on its disk is deleted.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of one resource."""

    urn: str
    verb: Verb
    paths: tuple[str, ...] = ()
    """Properties that differ; for a replacement, those that force it. Never a value."""
    without_gpus: bool = False
    """Whether the preview says that a pool's nodes have no GPUs; else the component decides."""

    @property
    def type(self) -> str:
        return Urn.parse(self.urn).type

    @property
    def name(self) -> str:
        return Urn.parse(self.urn).name

    @property
    def loss(self) -> Loss | None:
        """What would be lost temporarily or permanently; None for everything else."""
        if self.verb not in ("replace", "delete"):
            return None
        if self.type in _CLUSTERS:
            return "cluster"
        if self.type in _POOLS:
            gpu = any(parent in _GPU_POOLS for parent in Urn.parse(self.urn).parents)
            return "GPU pool" if gpu and not self.without_gpus else "system pool"
        return _CONTENTS.get(self.type)

    @property
    def consequence(self) -> str:
        """One sentence on what is lost; empty if nothing is."""
        if self.type in _KEEPS_NODES:
            return "Its nodes stay until they are empty, and no others start for its pods."
        return _CONSEQUENCES[self.loss] if self.loss else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A preview."""

    changes: Sequence[Change]
    same: int
    """Number of unchanged resources."""
    errors: Sequence[str]
    """Errors of the engine, the program and mandatory policies."""
    advice: Sequence[str] = ()
    """Reports of advisory policies."""
    warnings: Sequence[str] = ()
    """Warnings of the program and the providers."""

    @property
    def recycled(self) -> list[str]:
        """The warnings about pools whose nodes an update replaces, without their code."""
        return self._coded(recycled=True)

    @property
    def noted(self) -> list[str]:
        """The program's other warnings about effects of the update, without their code."""
        return self._coded(recycled=False)

    def _coded(self, *, recycled: bool) -> list[str]:
        return [
            line.removesuffix(f" [GPUC-{code}]")
            for line in self.warnings
            for code in codes(line)
            if code.startswith("RECYCLE-") == recycled
        ]

    def count(self, verb: Verb) -> int:
        return sum(change.verb == verb for change in self.changes)

    @property
    def losses(self) -> list[Change]:
        """Clusters first, then GPU pools, then other pools, then what contains others' objects or
        data, unless the cluster is lost anyway."""
        order = list(_CONSEQUENCES)
        lost = [change for change in self.changes if change.loss]
        if any(change.loss == "cluster" for change in lost):
            lost = [change for change in lost if not change.type.startswith("kubernetes:")]
        return sorted(lost, key=lambda change: order.index(change.loss or "claim"))


def read_plan(text: str, source: str) -> Plan:
    """The plan in a preview's output; raises CheckError if it is something else."""
    try:
        lines = [text] if text.lstrip().startswith("{\n") else text.splitlines()
        documents = [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise CheckError(f"{source}: not the output of pulumi preview --json ({error})") from None
    first = documents[0] if documents else None
    if isinstance(first, dict) and "sequence" in first:
        return _from_events(documents)
    if isinstance(first, dict) and {"steps", "diagnostics"} & set(first):
        counts, diagnostics = first.get("changeSummary"), first.get("diagnostics") or []
        return Plan(
            changes=_changes(first.get("steps") or []),
            # Steps that change nothing are counted but not listed.
            same=int((counts or {}).get("same", 0)),
            errors=_messages("error", diagnostics) or ([] if counts else _unfinished(diagnostics)),
            warnings=_messages("warning", diagnostics),
        )
    raise CheckError(f"{source}: not the output of pulumi preview --json: it has no steps")


def _from_events(events: Sequence[Mapping[str, Any]]) -> Plan:
    def of(kind: str) -> list[Any]:
        return [event[kind] for event in events if kind in event]

    steps = [
        {
            **(step := event["metadata"]),
            "replaceReasons": step.get("keys"),
            "diffReasons": step.get("diffs"),
        }
        for event in of("resourcePreEvent")
    ]
    policies = [
        (event["enforcementLevel"], f"policy {event['policyName']}: {_last_line(event['message'])}")
        for event in of("policyEvent")
    ]
    summary = of("summaryEvent")
    same = (summary[-1].get("resourceChanges") or {}).get("same", 0) if summary else 0
    errors = [text for level, text in policies if level == "mandatory"]
    return Plan(
        changes=_changes(steps),
        same=int(same),
        errors=list(dict.fromkeys([*errors, *_messages("error", of("diagnosticEvent"))]))
        or ([] if summary else _unfinished(of("diagnosticEvent"))),
        advice=list(dict.fromkeys(text for level, text in policies if level != "mandatory")),
        warnings=_messages("warning", of("diagnosticEvent")),
    )


def _unfinished(diagnostics: Sequence[Mapping[str, Any]]) -> list[str]:
    """The engine ends every preview with a summary: one that was killed, or whose language host
    could not be started, has none, and its plan is incomplete."""
    message = "the preview did not finish: the engine printed no summary"
    return [*_messages("info#err", diagnostics), message]


def _last_line(message: str) -> str:
    """A policy's message begins with the policy's description, and ends with what is wrong."""
    return message.strip().rpartition("\n")[2]


def _changes(steps: Sequence[Mapping[str, Any]]) -> list[Change]:
    changes: dict[str, Change] = {}
    for step in steps:
        verb = _VERB_OF.get(step["op"])
        if verb is None:
            continue
        change = Change(
            urn=step["urn"], verb=verb, paths=_paths(step), without_gpus=_without_gpus(step)
        )
        earlier = changes.get(change.urn)
        # The engine lists a replacement as three steps, but it is one change.
        if earlier is None or not earlier.paths or VERBS.index(verb) < VERBS.index(earlier.verb):
            changes[change.urn] = change
    return list(changes.values())


def _without_gpus(step: Mapping[str, Any]) -> bool:
    """Whether it deletes a NodePool of Karpenter for nodes without the taint of GPU nodes."""
    pools = {pool for row in SCALERS.values() if row.node_pools for pool in row.pools}
    if Urn.parse(step["urn"]).type not in pools:
        return False
    old = step.get("oldState") or step.get("old") or {}
    template = ((old.get("inputs") or {}).get("spec") or {}).get("template")
    if not template:
        return False
    return all(taint["key"] != GPU_RESOURCE for taint in template["spec"].get("taints") or ())


def _paths(step: Mapping[str, Any]) -> tuple[str, ...]:
    detailed = step.get("detailedDiff") or {}
    kinds = {path: str(item.get("diffKind") or item.get("kind")) for path, item in detailed.items()}
    # The engine's own lists of reasons only have top-level properties.
    forcing = [path for path, kind in kinds.items() if kind.endswith("replace")]
    return tuple(forcing or step.get("replaceReasons") or detailed or step.get("diffReasons") or ())


def _messages(severity: str, diagnostics: Sequence[Mapping[str, Any]]) -> list[str]:
    messages = [
        str(diagnostic.get("message", "")).strip()
        for diagnostic in diagnostics
        if diagnostic.get("severity") == severity
    ]
    return list(dict.fromkeys(message for message in messages if message))


def codes(message: str) -> list[str]:
    """The codes that identify a message of the program, such as `REPLACE-CLUSTER`."""
    return _CODE.findall(message)
