"""KEDA, as far as a stack depends on it: its resource type, and a scale that changes.

Kubernetes' own HorizontalPodAutoscaler runs in the control plane, but a rehearsal has no metrics
for it. The step *services scale out* stands in for both autoscalers.
"""

from typing import Any

from components.settings.model import Settings

NOTE = (
    "the stack needs KEDA: the rehearsed cluster has the type ScaledObject from the start and "
    "scales services itself, but a cluster that the stack creates has no KEDA until somebody "
    "installs it"
)
_TEXT, _FLAG = {"type": "string"}, {"type": "boolean"}
_WINDOW = {
    "type": "object",
    "properties": {
        "stabilizationWindowSeconds": {"type": "integer"},
        "selectPolicy": _TEXT,
        "policies": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["periodSeconds", "type", "value"],
                "properties": {
                    "periodSeconds": {"type": "integer"},
                    "type": _TEXT,
                    "value": {"type": "integer"},
                },
            },
        },
    },
}


def _count(least: int) -> dict[str, Any]:
    return {"type": "integer", "format": "int32", "minimum": least}


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed}


_SPEC = {
    **_object(
        "scaleTargetRef",
        "triggers",
        scaleTargetRef=_object(
            "name", name={**_TEXT, "minLength": 1}, kind=_TEXT, apiVersion=_TEXT
        ),
        pollingInterval=_count(1),
        cooldownPeriod=_count(0),
        initialCooldownPeriod=_count(0),
        idleReplicaCount=_count(0),
        minReplicaCount=_count(0),
        maxReplicaCount=_count(1),
        advanced=_object(
            restoreToOriginalReplicaCount=_FLAG,
            horizontalPodAutoscalerConfig=_object(
                name=_TEXT, behavior=_object(scaleDown=_WINDOW, scaleUp=_WINDOW)
            ),
        ),
        triggers={
            "type": "array",
            "minItems": 1,
            "items": _object(
                "metadata",
                "type",
                type={**_TEXT, "minLength": 1},
                name=_TEXT,
                metricType=_TEXT,
                useCachedMetrics=_FLAG,
                metadata={"type": "object", "additionalProperties": _TEXT},
                authenticationRef=_object("name", name=_TEXT, kind=_TEXT),
            ),
        },
    ),
    "x-kubernetes-validations": [
        {
            "message": "minReplicaCount must be less than or equal to maxReplicaCount",
            "rule": "!has(self.minReplicaCount) || self.minReplicaCount <= "
            "(has(self.maxReplicaCount) ? self.maxReplicaCount : 100)",
        }
    ],
}
"""The fields, requirements and bounds of KEDA's `config/crd/bases/keda.sh_scaledobjects.yaml`, as
far as a stack can use them (v2.20.1, 2026-11-24)."""
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": _object("spec", metadata={"type": "object"}, spec=_SPEC)
                },
            }
        ],
    },
}


def wanted(settings: Settings[Any] | None) -> bool:
    """Whether a service of the stack is scaled by KEDA."""
    services = settings.running["services"].values() if settings else ()
    return any(one.scaling and one.scaling.prometheus for one in services)
