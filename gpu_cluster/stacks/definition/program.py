"""A copy of the Pulumi program for one stack, so that committed files are never changed."""

import shutil
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

Mutation = Callable[[Path], None]


def copy_program(source: Path, stack: str, target: Path, mutate: Mutation | None = None) -> None:
    """Copies the program and the stack's file; `mutate` may then change the copy.

    Raises StackError if the stack has no file, or an unusable one.
    """
    document = read_stack(source, stack)
    file = stack_file(source, stack)
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
    (target / ".venv").symlink_to(source / ".venv")
    shutil.copy2(file, target / file.name)
    for name in files_named(document):
        named, copy = (source / name).resolve(), target / name
        if named.is_file():  # The program itself reports what is wrong with other paths.
            copy.parent.mkdir(parents=True, exist_ok=True)
            if named.is_relative_to(source.resolve()):
                shutil.copy2(named, copy)
            else:
                copy.symlink_to(named)  # The program refuses it, as it would the original.
    if mutate is not None:
        mutate(target)
    _write_without_secrets(target / file.name)


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
