"""KEDA, as far as a stack depends on it: its resource type, and a scale that changes.

Kubernetes' own HorizontalPodAutoscaler runs in the control plane, but a rehearsal has no metrics
for it. The step *services scale out* stands in for both autoscalers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.settings.model import Settings

NOTE = (
    "the stack needs KEDA: the rehearsed cluster has the type ScaledObject from the start and "
    "scales services itself, but a cluster that the stack creates has no KEDA until somebody "
    "installs it"
)
DEFINITION: Mapping[str, Any] = yaml.safe_load(
    Path(__file__).with_name("scaled_object.yaml").read_text(encoding="utf-8")
)
"""The type ScaledObject."""


def wanted(settings: Settings[Any] | None) -> bool:
    """Whether a service of the stack is scaled by KEDA."""
    entries = settings.entries.values() if settings else ()
    scalings = (getattr(args, "scaling", None) for args in entries)
    return any(scaling and scaling.prometheus for scaling in scalings)
