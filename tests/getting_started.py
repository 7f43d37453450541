"""The pages of docs/getting-started as a reader follows them: commands, and files to write."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.tools.sections import DOCS

PAGES = sorted((DOCS / "getting-started").glob("*.md"))
_BLOCK = re.compile(r"^```(console|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r" {2,}# .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Command:
    """What a reader types."""

    text: str

    @property
    def words(self) -> list[str]:
        """The command's words, as a shell splits them."""
        return shlex.split(self.text)


@dataclass(frozen=True, slots=True)
class Snippet:
    """What a reader puts into a file."""

    text: str


def steps(page: Path) -> Iterator[Command | Snippet]:
    """What the page asks for, in its order: commands one by one, and YAML snippets."""
    for kind, content in _BLOCK.findall(page.read_text()):
        if kind == "yaml":
            yield Snippet(content)
            continue
        joined = _COMMENT.sub("", content).replace("\\\n", " ")
        for line in joined.splitlines():
            assert line.startswith("$ "), f"{page.name}: {line!r} is no command"
            yield Command(line.removeprefix("$ ").strip())


def commands(page: Path) -> list[Command]:
    """The commands alone."""
    return [step for step in steps(page) if isinstance(step, Command)]
