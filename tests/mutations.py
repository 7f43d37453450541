"""`python -m tests.mutations components/gke`: what of these files could be deleted unnoticed.

Takes each entry of a dict or list literal and each keyword argument inside a function away, one at
a time, and looks whether any config of `tests/program/declared` then declares something else. What
none misses is a survivor: `tests/survivors.yaml` says what sees its loss instead.
"""

import ast
import importlib.machinery
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
SURVIVORS = Path(__file__).with_name("survivors.yaml")
LEFT_ALONE = {"ValueError", "warn", "info", "RunError"}
"""Calls whose arguments are words for people."""


class Switch:
    """Which line is away, and which were reached since it was last asked."""

    away: int | None = None
    reached: set[int] = set()  # noqa: RUF012

    def __call__(self, number: int) -> bool:
        """Whether the line is still there; the instrumented code asks."""
        self.reached.add(number)
        return number != self.away


SWITCH = Switch()
LINES: dict[int, str] = {}
"""Number -> `components/gke/network.py: Subnetwork(private_ip_google_access)`."""


class _Instrument(ast.NodeTransformer):
    """Makes each entry depend on the switch; what runs at import stays as it is."""

    def __init__(self, file: str) -> None:
        self._file, self._inside, self._names = file, 0, defaultdict[str, int](int)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._inside += 1
        node.body = [self.visit(each) for each in node.body]
        self._inside -= 1
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        if self._inside:
            for i, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
                entry = ast.Dict([key], [value])
                text = ast.unparse(key) if key else f"**{ast.unparse(value)[:40]}"
                node.keys[i] = None
                node.values[i] = ast.IfExp(self._ask(text), entry, ast.Dict([], []))
        return node

    def visit_List(self, node: ast.List) -> ast.AST:
        self.generic_visit(node)
        if self._inside and isinstance(node.ctx, ast.Load):
            node.elts = [
                ast.Starred(
                    ast.IfExp(
                        self._ask(f"[{ast.unparse(each)[:40]}]"),
                        ast.List([each], ast.Load()),
                        ast.List([], ast.Load()),
                    ),
                    ast.Load(),
                )
                for each in node.elts
            ]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = ast.unparse(node.func)
        if called.rpartition(".")[2] in LEFT_ALONE:
            return node
        self.generic_visit(node)
        if self._inside:
            for word in node.keywords:
                if word.arg is not None:
                    entry = ast.Dict([ast.Constant(word.arg)], [word.value])
                    asked = self._ask(f"{called.rpartition('.')[2]}({word.arg})")
                    word.arg, word.value = None, ast.IfExp(asked, entry, ast.Dict([], []))
        return node

    def _ask(self, text: str) -> ast.Call:
        self._names[text] += 1
        again = f" #{self._names[text]}" if self._names[text] > 1 else ""
        number = len(LINES)
        LINES[number] = f"{self._file}: {text}{again}"
        return ast.Call(ast.Name("__still__", ast.Load()), [ast.Constant(number)], [])


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        file = Path(self.path)
        tree = _Instrument(str(file.relative_to(ROOT))).visit(ast.parse(file.read_text()))
        return compile(ast.fix_missing_locations(tree), self.path, "exec")

    def exec_module(self, module: Any) -> None:
        module.__dict__["__still__"] = SWITCH
        super().exec_module(module)


class _Finder:
    def __init__(self, files: Sequence[Path]) -> None:
        self._files = {
            ".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files
        }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._files:
            return None
        file = str(self._files[name])
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(name, file))


def survivors() -> Iterator[str]:
    """The lines without which every config declares the same."""
    # Only now: what it imports has to be instrumented.
    from tests.program.declared import configs, declared

    given = list(configs())
    before, reach = [], defaultdict[int, list[int]](list)
    for position, (_, config, _) in enumerate(given):
        SWITCH.reached.clear()
        before.append(declared(config, again=True))
        for number in SWITCH.reached:
            reach[number].append(position)
    for number, line in LINES.items():
        SWITCH.away = number
        try:
            missed = any(
                declared(given[each][1], again=True) != before[each] for each in reach[number]
            )
        except Exception:  # whatever it is, the line was missed
            missed = True
        SWITCH.away = None
        if not missed:
            yield line if reach[number] else f"{line}, which no config reaches"


def main(arguments: Sequence[str]) -> int:
    """0 where every survivor has a row and every row a survivor."""
    chosen = [ROOT / name for name in arguments or ("components",)]
    files = [file for each in chosen for file in ([each] if each.is_file() else each.rglob("*.py"))]
    sys.meta_path.insert(0, _Finder(files))  # type: ignore[arg-type]
    for file in files:
        importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    rows = yaml.safe_load(SURVIVORS.read_text()) or {}
    names = {str(file.relative_to(ROOT)) for file in files}
    known = {f"{file}: {line}" for file, lines in rows.items() if file in names for line in lines}
    found = set(survivors())
    for line in sorted(found - known):
        print(f"can be deleted unnoticed: {line}")
    for line in sorted(known - found):
        print(f"is missed by a test, drop its row: {line}")
    print(f"{len(LINES)} lines, {len(found)} survive, {len(found & known)} of them with a reason")
    return int(found != known)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
