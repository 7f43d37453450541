"""What differs between the controllers of `components.batch`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

from ..catalog.images import Image
from ..definitions import Source

READ = ("get", "list", "watch")
WEBHOOK_PORT = 10250
"""What GKE's own firewall rule lets a private control plane reach on nodes and pods, beside 443;
the upstream 9443 would need a rule of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Objects that the controller completes or refuses before they are stored."""

    kind: str
    """Singular, lower case: `job`."""
    group: str
    version: str
    resources: Sequence[str]
    completes: bool = True
    """Whether it also changes them when they are created."""
    updates: bool = True
    """Whether it also judges changes."""
    label: str | None = None
    """Only objects that have this label. While the controller is down, no other is refused."""

    def path(self, verb: str) -> str:
        group = self.group.replace(".", "-")
        return f"/{verb}-{group}-{self.version}-{self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerArgs:
    """What differs between them."""

    source: Source
    """Begins every name, with the namespace's."""
    image: Image
    config: Mapping[str, Any]
    """Its configuration, without what `Controller` adds to it."""
    lease: str
    rules: Sequence[PolicyRuleArgsDict] = field(default_factory=tuple)
    """In the whole cluster."""
    webhooks: Sequence[Webhook] = ()
    memory: str = "512Mi"
    converted: Sequence[str] = ()
    """Its definitions whose versions it converts into each other, by a webhook."""
    protected: bool = True
    """Whether its definitions outlive it on a cluster that the stack does not own."""


def rule(group: str, resources: Sequence[str], *verbs: str) -> PolicyRuleArgsDict:
    """What a controller may do with some resources of an API group."""
    return {"api_groups": [group], "resources": list(resources), "verbs": list(verbs)}
