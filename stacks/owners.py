"""No two stacks of a folder make the same cluster: commands refuse it, and a preview warns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.owners import owned
from stacks.files import document_in, stack_file, stacks
from stacks.names import StackError


def refuse_shared(source: Path, stack: str, config: Mapping[str, Any]) -> None:
    """Raises StackError where another stack file of the folder makes the same cluster."""
    mine = owned(config)
    if mine is None:
        return
    for other in stacks(source):
        if other == stack:
            continue
        file = stack_file(source, other)
        try:
            theirs = document_in(file.read_bytes(), file.name).get("config")
        except (StackError, OSError):  # its own commands say what is wrong with it
            continue
        if isinstance(theirs, dict) and owned(theirs) == mine:
            raise StackError(
                f"Pulumi.{stack}.yaml and {file.name} make the same cluster, {mine[-1]} in "
                f"{mine[-2]}: give one of them another cluster.name"
            )
