"""The files of the tree, for tests that read its code."""

from collections.abc import Iterator
from pathlib import Path

from gpu_cluster.stacks.definition.files import ROOT

ROOMS = ("components", "gpu_cluster", "quality")
"""Folders with the project's code; `gpu_cluster` has links, which are not followed."""


def sources(*folders: str) -> Iterator[Path]:
    """Yields the Python files of the folders, or else of all rooms."""
    for folder in folders or ROOMS:
        yield from sorted(f for f in (ROOT / folder).rglob("*.py") if not f.is_symlink())
