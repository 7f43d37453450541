"""The copy of the program that a rehearsal runs, with its stack file, read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.rehearsal.control_plane.controllers import provide
from gpu_cluster.stacks.definition.files import document_in
from gpu_cluster.stacks.definition.program import Mutation, copy_program
from gpu_cluster.stacks.definition.settings import (
    CLUSTER,
    NOWHERE,
    REACHED_BY,
    config_from,
    platform_of,
    settings_of,
)
from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.tools.programs import HERE


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCopy:
    """A copy of the program for one stack, and the stack's settings."""

    stack: str
    folder: Path
    platform: str
    """The stack file's platform; if the program will refuse that, the first in `PLATFORMS`."""
    settings: Settings[Any] | None
    """None if the program will refuse the stack file."""
    notes: tuple[str, ...] = ()
    """Notes about the copy, for the report."""

    @property
    def file(self) -> Path:
        """The copy of the stack file."""
        return self.folder / f"Pulumi.{self.stack}.yaml"


def copied(stack: str, source: Path, folder: Path, mutate: Mutation | None = None) -> ProgramCopy:
    """Copies the program from `source` to `folder`, for `stack`, and prepares the copy.

    Raises StackError if the stack has no file, or one that cannot be read.
    """
    copy_program(source, stack, folder, mutate)
    return prepared(stack, folder)


def prepared(stack: str, folder: Path, pinned: Path = HERE) -> ProgramCopy:
    """Builds the controllers that the copy's stack needs, in the versions of `pinned`, and directs
    the stack of an existing cluster to the rehearsal's own cluster."""
    file = folder / f"Pulumi.{stack}.yaml"
    document = document_in(file.read_bytes(), file.name)
    notes: tuple[str, ...] = ()
    if document.get("environment"):
        config_from(document, file.name)
        # The rehearsal's engine has no ESC, and refuses a file that names an environment of it.
        del document["environment"]
        notes = ("environment left out: a rehearsal reads no values from Pulumi ESC",)
    config = document.get("config")
    provide(config if isinstance(config, dict) else {}, pinned)
    named = platform_of(config) if isinstance(config, dict) else ""
    platform = named if named in PLATFORMS else next(iter(PLATFORMS))
    if not PLATFORMS[platform].owned:
        notes += on_its_own_cluster(document)
    if notes:
        file.write_text(yaml.safe_dump(document, sort_keys=False))
    return ProgramCopy(
        stack=stack,
        folder=folder,
        platform=platform,
        settings=_settings(stack, document, file.name),
        notes=notes,
    )


def on_its_own_cluster(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Removes the access to the existing cluster from a stack file's document: a rehearsal has its
    own cluster, and must not reach another one. Returns notes for the report."""
    cluster = document["config"][CLUSTER]
    given = [key for key in REACHED_BY if key in cluster]
    for key in given:
        del cluster[key]
    if not given:
        return ()
    return (f"cluster.{', cluster.'.join(given)} left out: a rehearsal has its own cluster",)


def _settings(stack: str, document: Mapping[str, Any], name: str) -> Settings[Any] | None:
    try:
        return settings_of(stack, config_from(document, name), kubeconfig=NOWHERE)
    except CheckError:
        return None
