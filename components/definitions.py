"""The resource definitions of JobSet, Kueue and Karpenter, from the files in `crds`.

`python -m tools.definitions` writes those from the modules that `tools/` pins: what is declared
here is what a rehearsal runs. All are under the Apache License 2.0.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pulumi
import pulumi_kubernetes as kubernetes

from .catalog.kubernetes import BATCH_DEFINITIONS
from .cluster import Cluster

Source = Literal["jobset", "kueue", "karpenter-aws"]
FIRST = {**BATCH_DEFINITIONS, "karpenter-aws": "nodepools.karpenter.sh"}
"""The definition that every version of a controller has."""


def declare(
    source: Source,
    *,
    cluster: Cluster,
    parent: pulumi.Resource,
    protected: bool,
    conversions: Mapping[str, Mapping[str, Any]],
) -> list[kubernetes.apiextensions.v1.CustomResourceDefinition]:
    """One resource for each definition.

    The provider creates none that exists already, and the others wait for the first one: where
    somebody else has installed the controller, of whatever version, an update ends there.

    `protected`: on a cluster that the stack does not own, they are not deleted, as every object of
    these kinds would be, whoever created it. `conversions`: how a definition's versions are
    converted into each other, by its name, unless they differ only in name.
    """
    found: list[kubernetes.apiextensions.v1.CustomResourceDefinition] = []
    for definition in sorted(
        read(source), key=lambda one: one["metadata"]["name"] != FIRST[source]
    ):
        name = definition["metadata"]["name"]
        conversion = {"conversion": conversions[name]} if name in conversions else {}
        spec: Any = {**definition["spec"], **conversion}
        found.append(
            kubernetes.apiextensions.v1.CustomResourceDefinition(
                name,
                metadata={"name": name},
                spec=spec,
                opts=cluster.options(parent, depends_on=found[:1], protects_others=protected),
            )
        )
    return found


def read(source: Source) -> list[dict[str, Any]]:
    """The definitions, with extensions of the schema named as the SDK names them."""
    text = Path(__file__).parent.joinpath("crds", f"{source}.json").read_text()
    definitions: list[dict[str, Any]] = json.loads(text, object_hook=_renamed)["definitions"]
    return definitions


def _renamed(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        name.replace("-", "_") if name.startswith("x-kubernetes-") else name: value
        for name, value in schema.items()
    }
