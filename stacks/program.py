"""A copy of the Pulumi program for one stack: the committed files are never written."""

import shutil
from collections.abc import Callable
from pathlib import Path

import yaml

from stacks.files import EngineLoader, read_stack, stack_file, without_secrets

FILES = ("Pulumi.yaml", "__main__.py", "requirements.txt")
FOLDERS = ("components",)

Mutation = Callable[[Path], None]


def copy_program(source: Path, stack: str, target: Path, mutate: Mutation | None = None) -> None:
    """Copies the program and the stack's file; `mutate` may then change the copy.

    Raises StackError where the stack has no file, or one that cannot be used.
    """
    read_stack(source, stack)
    file = stack_file(source, stack)
    target.mkdir(parents=True)
    for name in FILES:
        shutil.copy2(source / name, target / name)
    for name in FOLDERS:
        shutil.copytree(source / name, target / name)
    (target / ".venv").symlink_to(source / ".venv")
    shutil.copy2(file, target / file.name)
    if mutate is not None:
        mutate(target)
    _write_without_secrets(target / file.name)


def _write_without_secrets(file: Path) -> None:
    document = yaml.load(file.read_text(), EngineLoader) or {}
    plain = without_secrets(document)
    if plain != document:
        file.write_text(yaml.safe_dump(plain, sort_keys=False))
