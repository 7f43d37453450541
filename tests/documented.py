"""Every command that a page tells its reader to type, in a block or in the text."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from gpu_cluster.tools.sections import DOCS, README, ROOT

PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
]
TABLE: Mapping[str, Mapping[str, str]] = yaml.safe_load(
    (ROOT / "tests" / "rehearsal" / "documented_commands.yaml").read_text()
)
"""How each command is tried -> its form -> the smallest case, the test or the reason."""
_BLOCK = re.compile(r"^( *)```(console|sh|bash)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_ANY_BLOCK = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_HEREDOC = re.compile(r"<<EOF\n.*?^EOF$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r" {2,}# .*$", re.MULTILINE)
_PROGRAMS = (
    "gpu-cluster",
    "make",
    "pulumi",
    "python",
    "python3",
    "kubectl",
    "gcloud",
    "aws",
    "pipx",
)
_VERBS = {"gpu-cluster": ("ci", "job", "completion"), "pulumi": ("stack", "config")}
"""Program -> its verbs that have verbs of their own."""


def commands(page: Path) -> Iterator[str]:
    """Each command line: of a block without its prompt, of the text where it begins with one of
    the programs that the documents speak of."""
    text = page.read_text()
    for _, kind, block in _BLOCK.findall(text):
        lines = _HEREDOC.sub("", _COMMENT.sub("", block)).replace("\\\n", " ").splitlines()
        for line in map(str.strip, lines):
            if kind != "console":
                yield from filter(None, [line])
            elif line.startswith(("$ ", "# ")):  # as a user, as root; anything else is output
                yield line[2:]
    for found in re.findall(r"`([^`\n]+)`", _ANY_BLOCK.sub("", text)):
        if found.split()[0].removeprefix(".venv/bin/") in _PROGRAMS and "|" not in found:
            yield found


def forms(line: str) -> Iterator[str]:
    """What a command line is an example of: program, verb, flags and variables, without values.

    One for each command of the line: `gpu-cluster cost --compare`, `make rehearse STACK`.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not re.fullmatch(r"[();<>|&]+", word):
            words.append(word)
        elif form := _form(words):
            yield form
            words = []
        if re.fullmatch(r"[<>]+", word):
            words = ["redirected-to"]


def _form(words: list[str]) -> str:
    while words and (words[0] == "env" or re.match(r"[A-Z_]+=", words[0])):
        words = words[1:]
    if not words or words[0] == "redirected-to":
        return ""
    program, *rest = words
    program = program.removeprefix(".venv/bin/").replace("python3", "python")
    if program.endswith("/run"):  # the environment of a rehearsal that was kept
        return _form(rest)
    if program == "python" and rest[:2] == ["-m", "quality"]:
        program, rest = "python -m quality", rest[2:]
    if program == "python":
        return " ".join([program, *rest[: 2 if rest[:1] == ["-m"] else 0]])
    if program not in ("gpu-cluster", "pulumi", "make", "python -m quality"):
        return program
    if program == "pulumi" and rest[:1] == ["-C"]:
        rest = rest[2:]
    depth = 2 if rest and rest[0] in _VERBS.get(program, ()) else 1
    verbs = [word for word in rest[:depth] if re.fullmatch(r"[a-z][a-z-]*", word)]
    flags = {word.partition("=")[0] for word in rest if re.match(r"--[a-z]|[A-Z_]+=", word)}
    return " ".join([program, *verbs, *sorted(flags)])


def documented() -> dict[str, list[str]]:
    """Form -> the lines that have it; `make help` names every target."""
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    found = {f"make {target}": [f"make {target}"] for target in phony[1].split()}
    for page in PAGES:
        for line in commands(page):
            for form in forms(line):
                found.setdefault(form, []).append(line)
    return found
