"""What things of a cloud are like, by the line that `list_resources` has of each: whoever finds
another state of something that is not his has changed it."""

import json
from collections.abc import Mapping

from rehearsal.simulators.google.state import CloudState

_RESTLESS = ("status", "statusMessage")
"""What changes by itself."""


def states(cloud: CloudState) -> Mapping[str, str]:
    """Line -> state, of every resource."""
    return {
        f"{one.display_name} {one.identity}": json.dumps(
            {key: value for key, value in one.state.items() if key not in _RESTLESS},
            sort_keys=True,
            default=str,
        )
        for one in cloud.resources.values()
    }
