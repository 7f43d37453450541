"""What a stack's platform wants asked of its cloud, and who asks."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from components.catalog.clouds import CLOUDS
from stacks.capacity import reserved
from stacks.capacity.offers import Offer, Wanted
from stacks.capacity.verdict import Finding, Known, Need, Unknown


def on_this_machine(url: str | None) -> bool:
    """Whether a URL leads to a simulator, which gets no credential of anybody's and needs none."""
    return url is not None and urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


def simulator(cloud: str) -> str | None:
    """The URL of the simulator on this machine that the environment names; None for the cloud."""
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
        """`cluster`: the stack's own, whose nodes do not count as somebody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Whom to ask, and what."""

    cloud: Cloud
    needs: Sequence[Need]
    wanted: Sequence[Wanted]
    """What the cloud has to offer, and where."""
    reservations: Sequence[reserved.Wanted] = ()
    """What pools want out of reservations."""
    notes: Sequence[str] = ()
    """What is left out of the needs."""
    findings: Sequence[Finding] = ()
    """What else was found on the way."""
    existing: Callable[[str], Sequence[Finding]] = lambda owner: ()
    """What of a cluster of another owner does not fit the stack `<project>/<stack>`."""
    kubeconfig: Callable[[], str] | None = None
    """How a cluster of another owner is reached before the stack's first update."""


class Capacity(Protocol):
    """The module that `Platform.capacity` names."""

    KEYS: Sequence[str]
    """Keys of the cloud's own namespace that are needed in plain text."""

    def questions(self, settings: Any, endpoint: str | None) -> Questions:
        """Of a stack with these `Settings`; `endpoint`: the URL of a simulator of the cloud's API.

        Raises ValueError with one line where nobody can be asked.
        """
