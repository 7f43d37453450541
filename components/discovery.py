"""The labels of GPU feature discovery, for nodes on which it does not run, or does not run yet.

The values are those that it writes itself (NVIDIA/k8s-device-plugin v0.20.0, internal/lm, read
2026-11-24), so they do not change on nodes that it labels too. SkyPilot, dstack and dashboards use
them to find GPUs, and autoscalers need them in the template of a pool without nodes.
"""

from collections.abc import Mapping

from .catalog.accelerators import GPUS
from .cluster import GPU_RESOURCE, Sharing
from .schema.refusal import refuse


def discovery_labels(model: str, gpus: int, sharing: Sharing | None) -> Mapping[str, str]:
    """The labels of nodes with this many GPUs of this model, a key of `GPUS`.

    Raises `Refusal` if its values are not known.
    """
    gpu = GPUS[model]
    if gpu.product is None:
        raise refuse("discoveryLabels")(
            f"the name that GPU feature discovery gives the {model} is not known",
            remedy=f"drop the key, or set {GPU_RESOURCE}.product in labels",
        )
    if sharing is not None and sharing.partition is not None:
        raise refuse("discoveryLabels")(
            "GPU feature discovery labels MIG partitions by their own memory, which is not known",
            remedy="drop the key",
        )
    shared = sharing is not None and sharing.replicas > 1
    labels = {
        "product": f"{gpu.product}-SHARED" if shared else gpu.product,
        "count": str(gpus),
        "memory": str(gpu.memory_mib),
        **({"replicas": str(sharing.replicas)} if sharing is not None and shared else {}),
    }
    return {f"{GPU_RESOURCE}.{key}": value for key, value in labels.items()}
