"""What tells a stack's resources from those of another stack with the same names.

Recovery adopts only what carries it. It is on what a cloud updates in place, and on nothing whose
change would replace it or its nodes: a launch template's tag specifications make a new version of
the template, and a node pool's labels new nodes, so these are known by their cluster.
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
    """The tag of this stack, `<project>/<stack>`: both names are of letters that a tag may have."""
    return {AWS_TAG: f"{pulumi.get_project()}/{pulumi.get_stack()}"}


def google_labels() -> dict[str, str]:
    """The label of this stack."""
    return {GOOGLE_LABEL: google_label(pulumi.get_project(), pulumi.get_stack())}


def description() -> str:
    """Says which stack it is of, for what has no labels."""
    return f"stack {pulumi.get_project()}/{pulumi.get_stack()}"


def annotated(
    args: pulumi.ResourceTransformationArgs,
) -> pulumi.ResourceTransformationResult | None:
    """A transformation by which an object of Kubernetes carries its stack."""
    metadata = args.props.get("metadata")
    if not args.type_.startswith("kubernetes:") or not isinstance(metadata, Mapping):
        return None
    own = {ANNOTATION: f"{pulumi.get_project()}/{pulumi.get_stack()}"}
    annotations = {**(metadata.get("annotations") or {}), **own}
    props = {**args.props, "metadata": {**metadata, "annotations": annotations}}
    return pulumi.ResourceTransformationResult(props, args.opts)


def owner_of(one: Mapping[str, Any] | None) -> str | None:
    """The stack that declares an object of Kubernetes, `<project>/<stack>`; None for a user's."""
    metadata = (one or {}).get("metadata") or {}
    found: str | None = (metadata.get("annotations") or {}).get(ANNOTATION)
    return found


def google_label(project: str, stack: str) -> str:
    """`<project>_<stack>` as a label's value: at most 63 lowercase letters, digits, `-` and `_`.

    A checksum stands for what a label cannot say, so that no two stacks have the same one.
    """
    text = f"{project}_{stack}"
    if _PLAIN.fullmatch(project) and _PLAIN.fullmatch(stack) and len(text) <= 63:
        return text
    checksum = hashlib.sha256(f"{project}/{stack}".encode()).hexdigest()[:8]
    return f"{re.sub(r'[^a-z0-9_-]', '-', text.lower())[:54]}-{checksum}"
