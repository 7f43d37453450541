"""The custom resource definitions of JobSet, Kueue and Karpenter, from the files beside this one.

`python -m gpu_cluster.tools.definitions` writes those from the modules that `gpu_cluster/tools/`
pins, so that a stack declares the same definitions that a rehearsal runs. All are under the Apache
License 2.0.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pulumi
import pulumi_kubernetes as kubernetes

from ..catalog.kubernetes import BATCH_DEFINITIONS
from ..cluster import Cluster

Source = Literal["jobset", "kueue", "karpenter-aws"]
FIRST = {**BATCH_DEFINITIONS, "karpenter-aws": "nodepools.karpenter.sh"}
"""A definition that every version of a controller has."""


def declare(
    source: Source,
    *,
    cluster: Cluster,
    parent: pulumi.Resource,
    protected: bool,
    conversions: Mapping[str, Mapping[str, Any]],
) -> list[kubernetes.apiextensions.v1.CustomResourceDefinition]:
    """Declares one resource for each definition.

    The provider refuses to create an existing one, and the others depend on the first: if the
    controller is already installed, in any version, an update ends there.

    `protected`: on a cluster that the stack does not own, they are not deleted, because every
    object of these kinds would be deleted too, also those of others. `conversions`: name of a
    definition -> how its versions are converted into each other, unless they differ only in name.
    """
    declared: list[kubernetes.apiextensions.v1.CustomResourceDefinition] = []
    for definition in sorted(
        read_definitions(source),
        key=lambda definition: definition["metadata"]["name"] != FIRST[source],
    ):
        name = definition["metadata"]["name"]
        conversion = {"conversion": conversions[name]} if name in conversions else {}
        spec: Any = {**definition["spec"], **conversion}
        declared.append(
            kubernetes.apiextensions.v1.CustomResourceDefinition(
                name,
                metadata={"name": name},
                spec=spec,
                opts=cluster.options(parent, depends_on=declared[:1], protects_others=protected),
            )
        )
    return declared


def read_definitions(source: Source) -> list[dict[str, Any]]:
    """The definitions, with the schema's extensions renamed as the SDK expects."""
    text = Path(__file__).with_name(f"{source}.json").read_text()
    definitions: list[dict[str, Any]] = json.loads(text, object_hook=_renamed)["definitions"]
    return definitions


def _renamed(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        name.replace("-", "_") if name.startswith("x-kubernetes-") else name: value
        for name, value in schema.items()
    }
