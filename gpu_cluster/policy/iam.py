"""What the rules on permissions in all clouds have in common."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from gpu_cluster.components.catalog import broad_rights
from gpu_cluster.policy.reading import Resource


def granted(resource: Resource, right: Any, patterns: Sequence[str]) -> Iterator[str]:
    """Why a role or policy must not be granted, if it matches one of the patterns."""
    if isinstance(right, str) and (reason := broad_rights.too_broad(right, patterns)):
        yield f"{resource.name}: {reason}"


def parsed(text: Any) -> Any:
    """The contents of a policy document in JSON; None if they are not known."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
