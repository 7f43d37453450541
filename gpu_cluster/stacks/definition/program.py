"""A copy of the Pulumi program for one stack, so that committed files are never changed."""

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.schema.decode import NAMESPACE
from gpu_cluster.components.settings.blocks import RUNNING
from gpu_cluster.stacks.definition.files import document_in, read_stack, stack_file, without_secrets

FILES = ("Pulumi.yaml", "__main__.py", "requirements.txt")
FOLDERS = ("components",)
PACKAGE = ("gpu_cluster/__init__.py", "gpu_cluster/components")
"""How the program imports the folder: the package, and the link in it. Revisions up to 2026-11-28
import `components` itself, and have neither."""
_LEFT = (".*", "Pulumi.*.yaml", "*.whl", "*.pyc.*", "kubeconfig*", "*.kubeconfig")
"""Files of a project that its program does not read."""

Mutation = Callable[[Path], None]


def environment(source: Path) -> Path:
    """The virtual environment that runs a program: its own, or if it has none, this process's."""
    own = source / ".venv"
    return own if (own / "bin" / "python").exists() else Path(sys.prefix)


def copy_program(source: Path, stack: str, target: Path, mutate: Mutation | None = None) -> None:
    """Copies the program and the stack's file; `mutate` may then change the copy. Of a checkout, a
    list of files is copied; of another project, all that may belong to its program.

    Raises StackError if the stack has no file, or an unusable one.
    """
    document = read_stack(source, stack)
    file = stack_file(source, stack)
    if all((source / name).is_dir() for name in FOLDERS):
        _copy_checkout(source, target)
    else:
        left = shutil.ignore_patterns(*_LEFT)
        shutil.copytree(source, target, symlinks=True, ignore=left)
    (target / ".venv").symlink_to(environment(source))
    shutil.copy2(file, target / file.name)
    for name in files_named(document):
        named, copy = (source / name).resolve(), target / name
        if named.is_file():  # The program itself reports what is wrong with other paths.
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            if named.is_relative_to(source.resolve()):
                shutil.copy2(named, copy)
            else:
                copy.symlink_to(named)  # The program refuses it, as it would the original.
    if mutate is not None:
        mutate(target)
    _write_without_secrets(target / file.name)


def _copy_checkout(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for name in FILES:
        shutil.copy2(source / name, target / name)
    for name in FOLDERS:
        # Not the temporary files of another process that compiles a module.
        shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    for name in PACKAGE:
        if (source / name).exists():
            (target / name).parent.mkdir(exist_ok=True)
            shutil.copy2(source / name, target / name, follow_symlinks=False)


def files_named(document: Mapping[str, Any]) -> list[str]:
    """The files in the repository that a stack's file names for volumes of its pods."""
    paths: list[str] = []
    config = document.get("config") or {}
    for room in (key for key, block in RUNNING.items() if block.takes_files):
        for entry in _entries(config.get(f"{NAMESPACE}:{room}")):
            for volume in _entries(entry.get("volumes")):
                files = volume.get("files")
                paths += [
                    name
                    for name in (files if isinstance(files, list) else [])
                    if isinstance(name, str)
                    and not name.startswith("/")
                    and ".." not in Path(name).parts
                ]
    return sorted(set(paths))


def _entries(block: object) -> list[Mapping[str, Any]]:
    values = block.values() if isinstance(block, dict) else ()
    return [entry for entry in values if isinstance(entry, dict)]


def _write_without_secrets(file: Path) -> None:
    document = document_in(file.read_bytes(), file.name)
    plain = without_secrets(document)
    if plain != document:
        file.write_text(yaml.safe_dump(plain, sort_keys=False))
