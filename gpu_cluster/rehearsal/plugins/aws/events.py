"""EventBridge targets, as far as their row does not describe them."""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.plugins.aws.rowed import Rowed


class EventTarget(Rowed):
    """A target of a rule."""

    token = "aws:cloudwatch/eventTarget:EventTarget"

    def _context(self, identity: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The ID joins rule and target by a hyphen, which both may contain: the state has them."""
        found = super()._context(identity, state)
        known = {key: state[key] for key in ("rule", "targetId") if key in state}
        assert isinstance(found, dict)
        found.update(known)
        return found
