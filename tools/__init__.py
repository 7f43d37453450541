"""Pinned engine and Kubernetes binaries, built from their Go modules into a per-user cache."""

import os
import shutil
from pathlib import Path

from tools.programs import HERE, ToolError, cache_folder, program

__all__ = ["ToolError", "binary", "crds", "folder", "pulumi"]

SCRIPTS = HERE / "bin"
"""Holds the language host for an engine that comes without one."""


def folder(name: str) -> Path:
    """The folder of a built program, with its binaries and the files kept from its source."""
    wanted = program(name)
    built = wanted.folder()
    if not built.is_dir():
        raise ToolError(f"{name} is not built yet: run `python -m tools build {wanted.name}`")
    return built


def binary(name: str) -> Path:
    """The path of a built binary, such as `kube-apiserver`."""
    wanted = program(name)
    if name not in wanted.binaries:
        raise ToolError(f"{name} is several binaries: ask for {' or '.join(wanted.binaries)}")
    return folder(name) / name


def crds(name: str) -> list[Path]:
    """The CustomResourceDefinition files of a built program, such as `karpenter`."""
    return sorted(folder(name).glob("crds/*.yaml"))


def pulumi() -> tuple[Path, list[Path]]:
    """The engine to use, and the folders that PATH needs in front for it to run Python."""
    if (engine := engine_on_path()) is not None:
        return engine, []
    return binary("pulumi"), [folder("pulumi"), SCRIPTS]


def engine_on_path() -> Path | None:
    """The `pulumi` on PATH, if its Python language host is there too and neither is ours."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(entry for entry in entries if cache_folder() not in Path(entry).parents)
    engine = shutil.which("pulumi", path=path)
    return Path(engine) if engine and shutil.which("pulumi-language-python", path=path) else None
