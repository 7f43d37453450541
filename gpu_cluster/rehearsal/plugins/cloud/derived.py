"""Facts about a resource type from the SDK's classes, as `clouds/overrides.yaml` has them."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.cloud.schema import ResourceSchema, resource_schema

_UNLIKE_THEIR_OUTPUT = {"aws": frozenset({"region"}), "gcp": frozenset({"deletionPolicy"})}
"""Inputs that always have an output, but that the provider does not keep once they are removed."""
_FORESEEN = {"project": "{project}", "deletionPolicy": "DELETE"}


def derived(token: str) -> Mapping[str, Any]:
    """The row of a type, as far as it follows from the SDK's classes.

    The cloud fills in an optional input whose output always has a value: removing it changes
    nothing. An optional name is generated, and excludes the corresponding prefix. A resource cannot
    move to another region (AWS) or project (Google Cloud).
    """
    cloud, schema = token.partition(":")[0], resource_schema(token)
    inputs = schema.inputs.properties
    optional = inputs.keys() - schema.inputs.required
    filled_in = (optional & schema.always_set) - _UNLIKE_THEIR_OUTPUT.get(cloud, set())
    auto_named = filled_in & {"name"}
    prefixes = {
        name for name in inputs if name.endswith("Prefix") and name.removesuffix("Prefix") in inputs
    }
    home = "region" if cloud == "aws" else "project"
    return {
        "immutable": sorted(prefixes | (inputs.keys() & {home})),
        "kept_when_removed": sorted(filled_in - auto_named),
        "auto_named": sorted(auto_named),
        "conflicts": [[name.removesuffix("Prefix"), name] for name in sorted(prefixes)],
        "foreseen": _foreseen(schema, optional) if cloud == "gcp" else {},
    }


def _foreseen(schema: ResourceSchema, optional: set[str]) -> dict[str, Any]:
    """Outputs that Google's provider knows before a create, such as its own labels."""
    found: dict[str, Any] = {name: value for name, value in _FORESEEN.items() if name in optional}
    for labels in optional & {"labels", "resourceLabels"}:
        found |= {
            name: {"of": labels, "with": {"goog-pulumi-provisioned": "true"}}
            for name in schema.output_only & {"effectiveLabels", "pulumiLabels"}
        }
    return found
