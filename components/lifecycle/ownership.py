"""Marks that distinguish a stack's resources from those of another stack with the same names.

Recovery only adopts resources that have them. They are set only on resources that a cloud updates
in place, because elsewhere a change would replace the resource or its nodes: a launch template's
tag specifications create a new version of the template, and a node pool's labels new nodes, so
these are identified by their cluster.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import pulumi

AWS_TAG = "gpu-cluster/stack"
ANNOTATION = "gpu-cluster/stack"
GOOGLE_LABEL = "gpu-cluster-stack"
_PLAIN = re.compile(r"[a-z0-9-]+")


def aws_tags() -> dict[str, str]:
    """The tag of this stack, `<project>/<stack>`, which has only characters allowed in tags."""
    return {AWS_TAG: f"{pulumi.get_project()}/{pulumi.get_stack()}"}


def google_labels() -> dict[str, str]:
    """The label of this stack."""
    return {GOOGLE_LABEL: google_label(pulumi.get_project(), pulumi.get_stack())}


def description() -> str:
    """Names the stack in the description of resources that have no labels."""
    return f"stack {pulumi.get_project()}/{pulumi.get_stack()}"


def annotated(
    args: pulumi.ResourceTransformationArgs,
) -> pulumi.ResourceTransformationResult | None:
    """A transformation that adds the stack's annotation to a Kubernetes object."""
    metadata = args.props.get("metadata")
    if not args.type_.startswith("kubernetes:") or not isinstance(metadata, Mapping):
        return None
    annotation = {ANNOTATION: f"{pulumi.get_project()}/{pulumi.get_stack()}"}
    annotations = {**(metadata.get("annotations") or {}), **annotation}
    props = {**args.props, "metadata": {**metadata, "annotations": annotations}}
    return pulumi.ResourceTransformationResult(props, args.opts)


def owner_of(inputs: Mapping[str, Any] | None) -> str | None:
    """The stack that declares an object, `<project>/<stack>`; None for a user's object."""
    metadata = (inputs or {}).get("metadata") or {}
    owner: str | None = (metadata.get("annotations") or {}).get(ANNOTATION)
    return owner


def google_label(project: str, stack: str) -> str:
    """`<project>_<stack>` as a label's value: at most 63 lowercase letters, digits, `-` and `_`.

    A checksum replaces what a label cannot express, so that no two stacks have the same one.
    """
    text = f"{project}_{stack}"
    if _PLAIN.fullmatch(project) and _PLAIN.fullmatch(stack) and len(text) <= 63:
        return text
    checksum = hashlib.sha256(f"{project}/{stack}".encode()).hexdigest()[:8]
    return f"{re.sub(r'[^a-z0-9_-]', '-', text.lower())[:54]}-{checksum}"
