"""Which provider plugin serves each package: the official one if it can, else ours."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.rehearsal.plugins.official import installed, sdk_version
from gpu_cluster.stacks.outcome import CheckError

Choice = Literal["auto", "official", "offline"]

POINTED: Mapping[str, Callable[[Mapping[str, str]], Mapping[str, str]]] = {
    # A cloud's APIs are simulated; its provider reads their addresses from the environment.
    **{cloud.package: lambda points: points for cloud in CLOUDS.values()},
    # Also for the AWS SDK for Go, which on an AWS machine would request real credentials.
    "aws": lambda points: {**points, "AWS_EC2_METADATA_DISABLED": "true"},
    # The control plane is real, and the program passes its kubeconfig to the provider.
    "kubernetes": lambda points: {},
}
"""Package -> function that returns the environment in which its official plugin reaches only the
rehearsal, given the one that points any of the cloud's clients at it."""
TRIED = frozenset({"gcp", "kubernetes"})
"""Packages whose official plugin has run in a rehearsal: any other is used only on request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """The plugin that serves a package."""

    package: str
    program: Path | None
    """The official plugin; None if the offline one is used."""
    words: str
    """A description for the report."""


def chosen(
    packages: Collection[str], choice: Choice, environment: Mapping[str, str] | None = None
) -> dict[str, Plugin]:
    """The plugin for each package. Raises CheckError if `official` is requested and no official
    plugin of a package is usable."""
    return {package: _chosen(package, choice, environment) for package in sorted(packages)}


def _chosen(package: str, choice: Choice, environment: Mapping[str, str] | None) -> Plugin:
    offline = f"offline plugin for {sdk_version(package)}"
    if choice == "offline":
        return Plugin(package=package, program=None, words=offline)
    # The one that is built here is older than the SDK, and takes over objects that exist already.
    found = installed(package, environment, built=choice == "official")
    if found.program is not None and choice == "auto" and package not in TRIED:
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
