"""Each sentence of a refusal in `components/` is expected by some test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.project.test_lines import ROOT

CLAUSE = re.compile(r"[;:,]|\{[^}]*\}")
"""What ends a clause: punctuation, or a value."""


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\\", "", text).replace("''", "'"))


def sentences(path: Path) -> Iterator[tuple[ast.Call, list[str]]]:
    """Each call of `refuse`, `only` or `never`, and how the first clauses of its reason begin; none
    that says nothing without a value."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Call(func=ast.Name("refuse" | "only" | "never")), args=[reason]):
                texts = [part.value for part in ast.walk(reason) if isinstance(part, ast.Constant)]
                clauses = [part for text in texts for part in CLAUSE.split(plain(str(text)))]
                begins = [" ".join(clause.split()[:4]) for clause in clauses[:3]]
                yield node, [begin for begin in begins if len(begin) >= 12]


def wordless() -> Iterator[tuple[Path, range, str]]:
    """The file, the lines and the text of each refusal that has no words to look for in tests."""
    for path in sorted((ROOT / "components").rglob("*.py")):
        for node, begins in sentences(path):
            if not begins:
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                yield path, lines, ast.unparse(node.args[0])


def test_each_sentence_of_a_refusal_is_expected_by_a_test() -> None:
    """In a row of `refused_*.yaml`, or in a test of its own; values and words around them aside."""
    tests = ROOT / "tests"
    paths = [path for kind in ("yaml", "py") for path in tests.rglob(f"*.{kind}")]
    # Parts of a text in several lines are joined.
    text = "\n".join(plain(re.sub(r'"\s*f?"', "", path.read_text())) for path in paths)
    found: dict[str, str] = {}
    for path in sorted((ROOT / "components").rglob("*.py")):
        for node, begins in sentences(path):
            for begin in begins[:1]:
                found[f"{path.relative_to(ROOT)}:{node.lineno}"] = begin
    assert len(found) > 300
    assert {where: begin for where, begin in found.items() if begin not in text} == {}
