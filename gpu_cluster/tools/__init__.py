"""Pinned engine and Kubernetes binaries, built from their Go modules into a per-user cache."""

from pathlib import Path

from gpu_cluster.tools import on_machine
from gpu_cluster.tools.programs import HERE, Program, ToolError, program

__all__ = ["ToolError", "binary", "crds", "folder", "found", "pulumi", "where"]

SCRIPTS = HERE / "bin"
"""Contains the language host for an engine that has none."""


def folder(name: str) -> Path:
    """The folder of a built program, with its binaries and the files copied from its source."""
    wanted = program(name)
    built = where(wanted)
    if not built.is_dir():
        raise ToolError(
            f"{name} is not built yet: run `python -m gpu_cluster.tools build {wanted.name}`"
        )
    return built


def where(wanted: Program) -> Path:
    """The folder of a program's build: a complete one if it exists, else one without the binaries
    that the machine has."""
    whole = wanted.folder()
    return whole if whole.is_dir() else wanted.folder(tuple(on_machine.found(wanted)))


def found() -> dict[str, Path]:
    """Binary -> its path on the machine, for those of every rehearsal that are not built here."""
    plane, engine = program("control-plane"), _machines_engine()
    present = {} if plane.folder().is_dir() else on_machine.found(plane)
    return {**present, "pulumi": engine} if engine else present


def binary(name: str) -> Path:
    """The path of a binary that was built or is installed on the machine, such as
    `kube-apiserver`."""
    wanted = program(name)
    if name not in wanted.binaries:
        raise ToolError(f"{name} is several binaries: ask for {' or '.join(wanted.binaries)}")
    built = folder(name) / name
    return built if built.exists() else on_machine.found(wanted).get(name, built)


def crds(name: str) -> list[Path]:
    """The CustomResourceDefinition files of a built program, such as `karpenter`."""
    return sorted(folder(name).glob("crds/*.yaml"))


def pulumi() -> tuple[Path, list[Path]]:
    """The engine to use, and the folders that must be first in PATH so that it can run Python.

    The machine's engine, unless it is older than the one built here.
    """
    if engine := _machines_engine():
        return engine, []
    return binary("pulumi"), [folder("pulumi"), SCRIPTS]


def _machines_engine() -> Path | None:
    built, present = program("pulumi"), on_machine.engine()
    older = present is not None and not on_machine.fits(present, built)
    return None if older and built.folder().is_dir() else present
