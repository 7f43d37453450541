"""Which labels and taints the nodes of an EKS node group can have."""

from collections.abc import Mapping, Sequence

from components.catalog import eks as catalog
from components.catalog import kubernetes as names
from components.cluster import GPU_RESOURCE, POOL_LABEL, Taint


def check_labels(labels: Mapping[str, str]) -> None:
    """Raises ValueError for a label that EKS or the kubelet refuses, or that is not the user's."""
    for key, value in labels.items():
        reason = names.invalid_label_key(key) or names.invalid_label_value(value)
        if reason is None and _is_reserved(key):
            reason = "is set by EKS or by this stack; choose another key"
        if reason is None and not value:
            reason = "has an empty value, which EKS refuses; give it one"
        if reason is None and len(key) > catalog.LABEL_KEY_MAX:
            reason = f"has {len(key)} characters, EKS takes {catalog.LABEL_KEY_MAX} at most"
        if reason is not None:
            raise ValueError(f"labels.{key}: {reason}")


def check_taints(taints: Sequence[Taint], startup: Sequence[Taint]) -> None:
    """Raises ValueError for a taint that EKS refuses, or that its group's tags cannot say."""
    seen = {GPU_RESOURCE}
    for path, taint in [
        *((f"taints[{position}]", taint) for position, taint in enumerate(taints)),
        *((f"startupTaints[{position}]", taint) for position, taint in enumerate(startup)),
    ]:
        reason = names.invalid_label_key(taint.key) or names.invalid_label_value(taint.value)
        if reason is None and not taint.value:
            reason = "has no value, and Cluster Autoscaler drops such a taint; give it one"
        if reason is None and len(taint.key) > catalog.TAINT_KEY_MAX:
            reason = f"has {len(taint.key)} characters, EKS takes {catalog.TAINT_KEY_MAX}"
        if reason is None and taint.key in seen:
            reason = "is a duplicate, and the group's tag has room for one effect; drop it"
        if reason is not None:
            raise ValueError(f"{path}: {taint.key!r} {reason}")
        seen.add(taint.key)


def _is_reserved(key: str) -> bool:
    domain = key.rpartition("/")[0]
    ours = (POOL_LABEL, names.GPU_PRESENT)
    return key in ours or bool(names.reserved_domain(key)) or domain.endswith("amazonaws.com")
