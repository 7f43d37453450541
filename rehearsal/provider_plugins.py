"""Which provider plugin serves each package: the official one if it can, else ours."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from components.catalog.clouds import CLOUDS
from rehearsal.plugins.official import installed, sdk_version
from stacks.outcome import CheckError

Choice = Literal["auto", "official", "offline"]

POINTED: Mapping[str, Callable[[Mapping[str, str]], Mapping[str, str]]] = {
    # A cloud's APIs are simulated, and its provider sends requests where the environment says.
    **{cloud.package: lambda points: points for cloud in CLOUDS.values()},
    # The AWS SDK for Go reads these too; on a machine of AWS it would ask for real credentials.
    "aws": lambda points: {**points, "AWS_EC2_METADATA_DISABLED": "true"},
    # The control plane is a real one, and the program gives the provider a kubeconfig for it.
    "kubernetes": lambda points: {},
}
"""Package -> the environment in which its official plugin reaches the rehearsal and nothing else,
given the one that points any client of the cloud at it."""
UNTRIED = frozenset({"aws"})
"""Packages whose official plugin never ran in a rehearsal: used only on request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """The plugin that serves a package."""

    package: str
    program: Path | None
    """The official plugin; None if the offline one does."""
    words: str
    """For the report."""


def chosen(
    packages: Collection[str], choice: Choice, environment: Mapping[str, str] | None = None
) -> dict[str, Plugin]:
    """What serves each package. Raises CheckError if `official` is asked for and none of a
    package will do that a rehearsal can use."""
    return {package: _chosen(package, choice, environment) for package in sorted(packages)}


def _chosen(package: str, choice: Choice, environment: Mapping[str, str] | None) -> Plugin:
    offline = f"offline plugin for {sdk_version(package)}"
    if choice == "offline":
        return Plugin(package=package, program=None, words=offline)
    found = installed(package, environment)
    if found.program is not None and choice == "auto" and package in UNTRIED:
        untried = (
            f"official plugin {found.version} has never been used in a rehearsal; use "
            "--plugins official"
        )
        return Plugin(package=package, program=None, words=f"{offline} ({untried} tries it)")
    if found.program is not None:
        words = f"official plugin {found.version}"
        return Plugin(package=package, program=found.program, words=words)
    if choice == "official":
        raise CheckError(f"--plugins official: {found.why}; --plugins auto uses the offline one")
    words = f"{offline} ({found.why})" if found.version else offline
    return Plugin(package=package, program=None, words=words)
