"""The labels and taints that nodes of a pool on EKS can have."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from ..catalog import eks as catalog
from ..catalog import kubernetes as names
from ..cluster import POOL_LABEL, Taint
from ..scalers import SCALERS
from ..schema.limits import LABEL_KEY, LABEL_VALUE, node_label_key
from ..schema.refusal import Refusal, collected, refuse

NodeLabels = Mapping[
    Annotated[
        str,
        LABEL_KEY,
        node_label_key(
            "EKS", POOL_LABEL, names.GPU_PRESENT, domains=("amazonaws.com",), by_kubelets=True
        ),
    ],
    Annotated[str, LABEL_VALUE],
]
"""Labels that users may set and that kubelets accept."""
_OF_KARPENTER = re.compile(r"[^/]*karpenter[.](?:sh|k8s[.]aws)/.*")
"""Keys that a NodePool's definition refuses (`label domain "karpenter.sh" is restricted`), except
some that Karpenter sets itself (Karpenter 1.15.0, components/crds)."""


@collected
def check_marks(
    scaler: str,
    labels: Mapping[str, str],
    taints: Mapping[str, Sequence[Taint]],
    own: Sequence[Taint] = (),
) -> Iterator[Refusal]:
    """Raises `Refusal` for labels and taints that EKS refuses for a node group, that the tags of
    its Auto Scaling group cannot express, or that Karpenter refuses in a NodePool. `taints`: by
    key of the settings; `own`: those that every node has."""
    groups = SCALERS[scaler].node_groups
    most = catalog.LABEL_KEY_MAX
    for key, value in labels.items():
        if not groups and _OF_KARPENTER.fullmatch(key):
            yield refuse(("labels", key))("is set by Karpenter; choose another key")
        if groups and len(key) > most:
            yield refuse(("labels", key))(f"has {len(key)} characters; EKS allows at most {most}")
        if groups and not value:
            yield refuse(("labels", key))("has an empty value, which EKS refuses; give it a value")
    seen = {taint.key if groups else (taint.key, taint.effect) for taint in own}
    for path, position, taint in (
        (path, position, taint)
        for path, given in taints.items()
        for position, taint in enumerate(given)
    ):
        reason = None
        identity = taint.key if groups else (taint.key, taint.effect)
        if groups and not taint.value:
            reason = "has no value, and Cluster Autoscaler drops such a taint; give it one"
        elif groups and len(taint.key) > catalog.TAINT_KEY_MAX:
            reason = f"has {len(taint.key)} characters, EKS takes {catalog.TAINT_KEY_MAX}"
        elif identity in seen:
            holder = "the tag of the Auto Scaling group" if groups else "a node"
            what = "one effect" if groups else "one taint with this key and effect"
            reason = f"is a duplicate, and {holder} can hold only {what}; drop it"
        if reason is not None:
            yield refuse((path, position), taint.key)(reason)
        seen.add(identity)


@collected
def check_tag_count(
    scaler: str, tags: Mapping[str, str], labels: Mapping[str, str]
) -> Iterator[Refusal]:
    """Raises `Refusal` if the instances of a pool would have more tags than EC2 allows: the
    cluster's `tags`, the scaler's own, and in a node group one for each label of the nodes."""
    most = catalog.MAX_TAGS - (len(labels) if SCALERS[scaler].node_groups else 0)
    if len(tags) > most:
        yield refuse("labels")(
            f"an instance of the pool has a tag for each of its {len(labels)} labels, in addition "
            f"to the {len(tags)} of cluster.tags; drop some of them, so that cluster.tags has at "
            f"most {most}"
        )
