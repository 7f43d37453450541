"""The states of a cloud's resources, by their line in `list_resources`, to find changes to another
owner's resources."""

import json
from collections.abc import Mapping

from gpu_cluster.rehearsal.simulators.google.state import CloudState

_RESTLESS = ("status", "statusMessage")
"""Fields that change automatically."""


def states(cloud: CloudState) -> Mapping[str, str]:
    """Line -> state of every resource."""
    return {
        f"{resource.display_name} {resource.identity}": json.dumps(
            {key: value for key, value in resource.state.items() if key not in _RESTLESS},
            sort_keys=True,
            default=str,
        )
        for resource in cloud.resources.values()
    }
