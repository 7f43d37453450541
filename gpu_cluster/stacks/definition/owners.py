"""No two stacks of a folder may declare the same cluster: commands refuse it, a preview warns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_cluster.components.settings.owners import others, owned
from gpu_cluster.stacks.definition.files import folder_of
from gpu_cluster.stacks.definition.names import StackError


def refuse_shared(source: Path, stack: str, config: Mapping[str, Any]) -> None:
    """Raises StackError if another stack file in the folder declares the same cluster."""
    mine = owned(config)
    if mine is None:
        return
    for file in others(folder_of(source), stack, mine):
        raise StackError(
            f"Pulumi.{stack}.yaml and {file.name} declare the same cluster, {mine[-1]} in "
            f"{mine[-2]}: give one of them another cluster.name"
        )
