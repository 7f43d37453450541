"""The labels and taints that nodes of an EKS node group can have."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from ..catalog import eks as catalog
from ..catalog import kubernetes as names
from ..cluster import GPU_RESOURCE, POOL_LABEL, Taint
from ..schema.limits import LABEL_KEY, LABEL_VALUE, Limit, node_label_key
from ..schema.refusal import refuse


def _length(key: str) -> str | None:
    most = catalog.LABEL_KEY_MAX
    return None if len(key) <= most else f"has {len(key)} characters; EKS allows at most {most}"


def _label_value(value: str) -> str | None:
    return None if value else "has an empty value, which EKS refuses; give it a value"


NodeLabels = Mapping[
    Annotated[
        str,
        LABEL_KEY,
        node_label_key("EKS", POOL_LABEL, names.GPU_PRESENT, domains=("amazonaws.com",)),
        Limit(_length, {"maxLength": catalog.LABEL_KEY_MAX}),
    ],
    Annotated[str, LABEL_VALUE, Limit(_label_value, {"minLength": catalog.LABEL_VALUE_MIN})],
]
"""Labels that users may set and that EKS accepts."""


def check_taints(taints: Sequence[Taint], startup: Sequence[Taint]) -> None:
    """Raises ValueError for a taint that EKS refuses, or that the group's tags cannot express."""
    seen = {GPU_RESOURCE}
    for path, taint in [
        *((f"taints[{position}]", taint) for position, taint in enumerate(taints)),
        *((f"startupTaints[{position}]", taint) for position, taint in enumerate(startup)),
    ]:
        reason = None
        if not taint.value:
            reason = "has no value, and Cluster Autoscaler drops such a taint; give it one"
        if reason is None and len(taint.key) > catalog.TAINT_KEY_MAX:
            reason = f"has {len(taint.key)} characters, EKS takes {catalog.TAINT_KEY_MAX}"
        if reason is None and taint.key in seen:
            reason = (
                "is a duplicate, and the tag of the Auto Scaling group can hold only one "
                "effect; drop it"
            )
        if reason is not None:
            raise refuse(path, taint.key)(f"{reason}")
        seen.add(taint.key)
