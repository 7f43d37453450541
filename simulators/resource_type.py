"""One type of AWS's simulated resources, and where a rule of AWS goes.

What the cloud or its provider does, and the place of the rule:

- replaces the resource when this input changes; has a default, an enum, a pattern of names:
  `plugins/cloud/immutable.yaml`
- refuses it in a preview, before it asks the cloud: `validate_preview`; where the old state
decides, `plan`
- refuses it in the API when it is created: `validate_create`; where the check needs what a
  creation computes, the beginning of `create`
- refuses a change, or to delete what something uses: `update`, `delete`
- fills something in: `computed`, and what `read` returns
- takes an input that a rehearsal does not simulate: leave it out of `supported_inputs`
- needs longer for an update than the provider waits: `lasts`

The engine's requests arrive at `on_create`, `on_read`, `on_update` and `on_delete`. `aws/kind.py`
answers them once for all types, under the cloud's lock, and calls the hooks `create`, `read`,
`update` and `delete` of the type.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from plugins.cloud.handler import Config, Handler


class ResourceType(Handler):
    """What all resource types have in common."""

    token: ClassVar[str]
    """The engine's name of the type, e.g. `aws:ec2/vpc:Vpc`."""
    display_name: ClassVar[str] = "resource"
    """What messages and the leak check call it, e.g. `subnetwork`."""
    supported_inputs: ClassVar[tuple[str, ...] | None] = None
    """The inputs that have a meaning here; any other is refused, never dropped. None: all that the
    provider's SDK knows."""

    def depends_on(self, config: Config, state: Mapping[str, Any]) -> list[str]:
        """Ids of the resources that must exist before this one and cannot be deleted before it."""
        return []
