"""The folder of the stack files, and valid names of a stack, which become parts of paths."""

import re
from pathlib import Path

from gpu_cluster.stacks.outcome import CheckError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_PROGRAM = Path(__file__).resolve().parents[3]
IN_CHECKOUT = (_PROGRAM / "Pulumi.yaml").is_file()
"""Whether this is a checkout or a copy of it, and not the wheel."""
_FILE = re.compile(r"(.*/|)Pulumi\.(.+)\.ya?ml")


class StackError(CheckError):
    """The stack or its file cannot be used; the message says what to do."""


def project_folder(folder: Path) -> Path:
    """The folder with the Pulumi.yaml of a project, as the engine looks for it; if there is none,
    the folder itself."""
    above = (path for path in (folder, *folder.parents) if (path / "Pulumi.yaml").is_file())
    return next(above, folder)


ROOT = _PROGRAM if IN_CHECKOUT else project_folder(Path.cwd())
"""The folder of the stack files: a checkout, or with the wheel the project that one is in."""


def stack_name(text: str) -> str:
    """The name, unchanged; raises StackError if it is not a valid name of a stack.

    The engine accepts letters, digits, hyphens, underscores and periods, at most 100; a name that
    begins with a period or a hyphen, or has two periods in a row, would be a path or a flag here.
    """
    if file := _FILE.fullmatch(text):
        elsewhere = "" if file[1] in ("", "./") else ", once it is in the folder of Pulumi.yaml"
        raise StackError(f"{text!r} is the file of a stack: give its name, {file[2]}{elsewhere}")
    if not NAME.fullmatch(text) or ".." in text:
        raise StackError(
            f"{text!r} is not a valid stack name: give letters, digits, hyphens, underscores and "
            "single periods, a letter or digit first, such as dev"
        )
    return text


def not_kept(stack: str) -> StackError:
    """The error of a command for a kept rehearsal, which belongs to the folder of a project."""
    return StackError(
        f"no rehearsal of {stack} is kept in {ROOT}: gpu-cluster rehearse {stack} --keep, or run "
        "this in the folder of the project that has it"
    )
