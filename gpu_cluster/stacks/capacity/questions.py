"""The questions of a stack's platform to its cloud, and the client that answers them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.settings.endpoints import on_this_machine
from gpu_cluster.stacks.capacity import advice, reserved
from gpu_cluster.stacks.capacity.offers import Offer, Wanted
from gpu_cluster.stacks.capacity.verdict import Finding, Known, Need, Unknown


def simulator(cloud: str) -> str | None:
    """The URL of the simulator on this machine in the environment; None for the real cloud."""
    url = os.environ.get(CLOUDS[cloud].endpoint) if cloud in CLOUDS else None
    if url is None or not on_this_machine(url):
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class Cloud(Protocol):
    """A cloud's answers."""

    def answer(self, need: Need) -> Known | Unknown: ...

    def own_use(self, need: Need, cluster: str) -> float | None: ...

    def offer(self, wanted: Wanted) -> Offer: ...

    def reserved(self, wanted: reserved.Wanted, cluster: str) -> reserved.Reserved:
        """`cluster`: the stack's own, whose nodes are not counted as others'."""

    def advise(self, wanted: advice.Wanted) -> advice.Advice | None:
        """Whether machines are free; None if the cloud tells nothing of machines bought so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The client to query, and the questions."""

    cloud: Cloud
    needs: Sequence[Need]
    wanted: Sequence[Wanted]
    """What the cloud has to offer, and in which zones."""
    reservations: Sequence[reserved.Wanted] = ()
    """The reservations that pools name."""
    machines: Sequence[advice.Wanted] = ()
    """The machines of which the cloud tells whether they are free."""
    notes: Sequence[str] = ()
    """Notes about what is not counted in the needs."""
    findings: Sequence[Finding] = ()
    """Other problems that were found."""
    existing: Callable[[str], Sequence[Finding]] = lambda owner: ()
    """Called with `<project>/<stack>`; returns reasons why an existing cluster does not suit it."""
    kubeconfig: Callable[[], str] | None = None
    """The kubeconfig of an existing cluster before the stack's first update."""
    reads_aws_auth: Callable[[], bool] = lambda: True
    """Whether an existing EKS cluster uses the ConfigMap aws-auth."""


class Capacity(Protocol):
    """The module that `Platform.capacity` names."""

    KEYS: Sequence[str]
    """Keys in the cloud's own namespace that are needed in plain text."""

    def questions(self, settings: Any, endpoint: str | None) -> Questions:
        """The questions for a stack with these `Settings`; `endpoint`: the URL of a simulator of
        the cloud's API.

        Raises ValueError with one line if no client can be created.
        """
