"""Which cluster a stack makes, and that no two stacks of a folder make the same one.

The second `up` would end in "already exists", and whoever then recovers, or destroys, has the
other stack's cluster in his hands. A stack's file that is copied keeps the name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.platforms import PLATFORMS
from stacks.files import document_in, stack_file, stacks
from stacks.names import StackError

_CLUSTER = "gpu-cluster:cluster"


def owned(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What tells the cluster that this config makes from any other: cloud, project or account,
    location and name. None for one that is there already, and where a part is missing.

    An AWS account is known by the profile and the role alone: nobody is asked.
    """
    cluster = config.get(_CLUSTER)
    if not isinstance(cluster, dict):
        return None
    platform = PLATFORMS.get(str(cluster.get("platform")))
    if platform is None or platform.cloud is None:
        return None
    values = {**config, **{f"cluster.{key}": value for key, value in cluster.items()}}
    account = " ".join(str(values.get(key)) for key in platform.account)
    found = (platform.cloud, account, *map(values.get, (*platform.home, "cluster.name")))
    if not all(found[2:]):
        return None
    return tuple(map(str, found))


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
