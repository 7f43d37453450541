"""Stacks that are not the project's: a folder that has the program and one such stack."""

from pathlib import Path

from gpu_cluster.rehearsal.sandbox import ROOT

STACKS = ROOT / "tests" / "fixtures" / "stacks"
INVENTORIES = STACKS / "inventories"
_PROGRAM = ("Pulumi.yaml", "__main__.py", "requirements.txt", "components", "gpu_cluster", ".venv")


def folder_of(stack: str, parent: Path, text: str | None = None) -> Path:
    """A folder with the program and the stack's file: a fixture, or `text`."""
    folder = parent / "own"
    folder.mkdir()
    for name in _PROGRAM:
        (folder / name).symlink_to(ROOT / name)
    file = f"Pulumi.{stack}.yaml"
    (folder / file).write_text(text if text is not None else (STACKS / file).read_text())
    return folder
