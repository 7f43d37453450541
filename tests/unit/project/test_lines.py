"""How many lines the project has, by package: growth is seen, and is a decision."""

import subprocess
from collections import Counter
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
LIMITS: dict[str, int] = yaml.safe_load(Path(__file__).with_name("lines.yaml").read_text())


def lines() -> Counter[str]:
    """Package -> its lines of Python; for tests also those of the data that people write."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", ".", ":!tests/program/declared"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    found: Counter[str] = Counter()
    for name in names:
        package, _, rest = name.partition("/")
        if not (ROOT / name).is_file() or not (name.endswith(".py") or package == "tests"):
            continue
        if package == "tests" and not name.endswith(".py"):
            package = "tests, data"
        found[package if rest else "top level"] += len((ROOT / name).read_bytes().splitlines())
    return found


def test_a_package_grows_only_on_purpose() -> None:
    """`lines.yaml` has the limits: raise one in the commit that needs it, and say why there."""
    found = lines()
    table = [f"{name:<12} {found[name]:>7,} of {LIMITS.get(name, 0):>7,}" for name in sorted(found)]
    print("\n".join(table))
    assert [row for row, name in zip(table, sorted(found), strict=True)
            if found[name] > LIMITS.get(name, 0)] == []  # fmt: skip
