"""KEDA as a user's cluster has it, as far as a stack sees it: its type, and a scale that changes.

Kubernetes' own HorizontalPodAutoscaler runs in the control plane, but a rehearsal has no metrics
for it: what either autoscaler would do on a metric, the step *services scale out* does.
"""

from typing import Any

from components.settings.model import Settings

NOTE = (
    "the stack needs KEDA: the rehearsed cluster has the type ScaledObject from the start and "
    "scales services itself, but a cluster that the stack creates has no KEDA until somebody "
    "installs it"
)
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
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""Any fields: what upstream's schema requires, the program's own tests have."""


def wanted(settings: Settings[Any] | None) -> bool:
    """Whether a service of the stack is scaled by KEDA."""
    services = settings.running["services"].values() if settings else ()
    return any(one.scaling and one.scaling.prometheus for one in services)
