"""What an interrupted update created in AWS."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.stacks.recovery.protocols import Clouds
from gpu_cluster.stacks.recovery.state import Interrupted


def names(operation: Interrupted, clouds: Clouds) -> list[str] | None:
    """What `stacks.recovery.protocols.Recovers` asks for."""
    region = operation.inputs.get("region") or operation.provider.get("region")
    return clouds.aws(str(region)).find(operation.type, operation.inputs)


def described(resource: Mapping[str, Any], clouds: Clouds) -> Mapping[str, Any]:
    """What `stacks.recovery.protocols.Recovers` asks for."""
    region = (resource.get("outputs") or {}).get("region")
    return clouds.aws(str(region)).described(resource["id"]) if region else {}
