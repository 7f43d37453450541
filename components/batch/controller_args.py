"""What differs between the controllers of `gpu_cluster.components.batch`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

from ..catalog.images import Image
from ..crds.definitions import Source

WEBHOOK_PORT = 10250
"""A port that GKE's default firewall rule lets a private control plane reach on nodes and pods,
like 443; the upstream port, 9443, would need its own rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A kind of object that the controller completes or refuses before it is stored."""

    kind: str
    """Singular, lowercase: `job`."""
    group: str
    version: str
    resources: Sequence[str]
    completes: bool = True
    """Whether it also changes them on creation."""
    updates: bool = True
    """Whether it also validates updates."""
    label: str | None = None
    """Only objects with this label; while the controller is down, others are still accepted."""

    def path(self, verb: str) -> str:
        group = self.group.replace(".", "-")
        return f"/{verb}-{group}-{self.version}-{self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerArgs:
    """The settings that differ between the controllers."""

    source: Source
    """The controller's name, which is the prefix of every object's name and of the namespace."""
    image: Image
    config: Mapping[str, Any]
    """Its configuration, without the parts that `Controller` adds."""
    lease: str
    rules: Sequence[PolicyRuleArgsDict] = field(default_factory=tuple)
    """Its cluster-wide RBAC rules."""
    webhooks: Sequence[Webhook] = ()
    memory: str = "512Mi"
    converted: Sequence[str] = ()
    """The names of its definitions whose versions it converts with a webhook."""
    protected: bool = True
    """Whether its definitions outlive it on a cluster that the stack does not own."""
