"""Rewrites imports between modules of `components/` as relative imports.

In the wheel the folder is the package `gpu_cluster`, in which an import of `components` would fail.

python -m tools.relative_imports
"""

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = "components"
_IMPORT = re.compile(rf"^(\s*)from {PACKAGE}((?:\.\w+)*) import ", re.MULTILINE)


def relative(text: str, package: tuple[str, ...]) -> str:
    """The source with relative imports. `package`: the module's, without `components`."""

    def rewritten(match: re.Match[str]) -> str:
        target = tuple(match[2].split(".")[1:])
        common = 0
        while target[common : common + 1] == package[common : common + 1] != ():
            common += 1
        dots = "." * (1 + len(package) - common)
        return f"{match[1]}from {dots}{'.'.join(target[common:])} import "

    return _IMPORT.sub(rewritten, text)


def main(root: Path = Path(PACKAGE)) -> None:
    """Rewrites and sorts imports that are not relative yet."""
    for path in root.rglob("*.py"):
        text = path.read_text()
        if (changed := relative(text, path.parent.relative_to(root).parts)) != text:
            path.write_text(changed)
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--fix", "--select", "I"], ["format"]):
        subprocess.run([*ruff, *command, "--quiet", str(root)], check=True)


if __name__ == "__main__":
    main()
