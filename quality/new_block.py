"""Copies the example of a block of workloads, `tests/fixtures/toy_block`, under another name."""

import re
import subprocess
import sys
from pathlib import Path

from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.outcome import CheckError

_BLOCKS = Path("components/settings/blocks.py")
_ROW = """\
    "{block}": RunningBlock(
        args={Class}Args,
        page="workloads",
        names=[DNS_LABEL],
        read=read_{names},
        module="gpu_cluster.components.batch.{file}",
    ),
"""
_LAST_ROW = '})  # fmt: skip\n"""Key -> the block'
_IMPORT = "from ..batch.{file}_args import {Class}Args, read_{names}\n"
_LAST_IMPORT = "from ..batch.team_args"


def add_block(block: str, root: Path = ROOT) -> str:
    """Adds args, their reader, a component, a test and a row; returns what to do next.

    `block` is the key in a stack file, in the plural. Raises CheckError for a name that is not, or
    whose files exist.
    """
    if not re.fullmatch(r"[a-z]+(?:[A-Z][a-z]+)*s", block):
        raise CheckError(f"{block}: expected a plural in camelCase, such as notebooks")
    parts = re.split(r"(?=[A-Z])", block.removesuffix("s"))
    file, spoken = "_".join(parts).lower(), " ".join(parts).lower()
    words = {
        "block": block, "file": file, "names": f"{file}s",
        "Class": "".join(part[0].upper() + part[1:] for part in parts),
    }  # fmt: skip
    copies = {
        "components/batch/site.py": f"components/batch/{file}.py",
        "components/batch/site_args.py": f"components/batch/{file}_args.py",
        "tests/components/sites.py": f"tests/components/test_{file}s.py",
    }
    if taken := [name for name in copies.values() if (root / name).exists()]:
        raise CheckError(f"{', '.join(taken)}: the file exists; choose another name")
    for source, copy in copies.items():
        text = (ROOT / "tests" / "fixtures" / "toy_block" / source).read_text()
        for pattern, replacement in (
            (r"from gpu_cluster\.components\.batch\.", "from ."),
            (r"from gpu_cluster\.components\.", "from .."),
            (r"(?<=`|:)sites\b", block),  # the key
            (r"\bsite\b", spoken),  # in a docstring
            (r"\bSites\b", f"{spoken.capitalize()}s"),
            (r"\bSite(?=Args\b|\b)", words["Class"]),
            (r"(?<![A-Za-z])site(?=s\b|s?_)", file),
        ):
            text = re.sub(pattern, replacement, text)
        (root / copy).parent.mkdir(parents=True, exist_ok=True)
        (root / copy).write_text(text)
    table = (root / _BLOCKS).read_text()
    table = table.replace(_LAST_ROW, _ROW.format(**words) + _LAST_ROW)
    table = table.replace(_LAST_IMPORT, _IMPORT.format(**words) + _LAST_IMPORT)
    (root / _BLOCKS).write_text(table)
    written = [*copies.values(), _BLOCKS.as_posix()]
    for tidied in ("check --quiet --select I --fix", "format --quiet"):
        ruff = [sys.executable, "-m", "ruff", *tidied.split()]
        config = ["--config", str(ROOT / "pyproject.toml")]
        subprocess.run([*ruff, *config, *written], cwd=root, check=True)
    listed = "\n".join(f"  {name}" for name in written)
    return (
        f"written:\n{listed}\n"
        f"Change {words['Class']}Args and what {words['Class']} declares, then run make change."
    )
