"""`make`: no command is about anything else than what was meant, and `0` is no."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.nearest import instead
from tools.version import wrong

ROOT = Path(__file__).parents[3]
MAKEFILE = (ROOT / "Makefile").read_text()


def run_make(
    *arguments: str, cwd: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[str]:
    """make, started as if no other make ran these tests: its flags are not inherited."""
    outer = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"}
    clean = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(
        ["make", *arguments], cwd=cwd, env={**clean, **variables}, capture_output=True, text=True
    )


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a target would run; the packages count as installed."""
    return run_make("-n", "-o", ".venv/.ready", *arguments, **variables)


def recipe(*arguments: str, **variables: str) -> str:
    """The last command that a target would run, with single spaces."""
    done = make(*arguments, **variables)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.replace("\\\n", " ").splitlines()[-1].split())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["rehearse", "STAK=train"], "make rehearse takes no STAK: did you mean STACK?"),
        (["rehearse", "stack=train"], "make rehearse takes no stack: did you mean STACK?"),
        (["cost", "ceiling=5"], "make cost takes no ceiling: did you mean CEILING?"),
        (["gpus", "KUBECONFIG=x"], "make gpus takes no KUBECONFIG: did you mean KUBECONFIG_FILE?"),
        (["recover", "STACK=dev", "REHEARSAL=1"], "make recover takes no REHEARSAL; it takes"),
        (["cost", "REHEARSAL=1"], "make cost takes no REHEARSAL; it takes"),
        (["list", "STACK=dev"], "make list takes no STACK; it takes PYTHON"),
        (["recover", "STACK=dev", "UNHEARD=1"], "UNHEARD is called ADOPT_ORPHANS now"),
        (["down", "A=b", "STACK=dev"], "make down takes no A; it takes PYTHON, STACK"),
    ],
)
def test_a_variable_that_a_target_does_not_know_is_refused(given: list[str], says: str) -> None:
    """`make recover STAK=train` would be about dev."""
    done = make(*given)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_a_rehearsal_in_the_environment_is_not_forgotten_either() -> None:
    """`make recover` would ask the live backend."""
    assert "takes no REHEARSAL" in make("recover", "STACK=dev", REHEARSAL="1").stderr
    assert recipe("recover", "STACK=dev", REHEARSAL="0").endswith("-m stacks.recovery 'dev'")


def test_recovery_has_no_default_stack() -> None:
    """It changes a state: which one is said."""
    done = make("recover")
    assert done.returncode == 2
    assert "name the stack" in done.stderr
    assert recipe("recover", STACK="train").endswith("-m stacks.recovery 'train'")


@pytest.mark.parametrize("no", ["", "0", "n", "no", "No", "NO", "false", "False", "FALSE", "off"])
def test_no_is_no(no: str) -> None:
    """`YES=0` once meant yes."""
    assert recipe("recover", "STACK=dev", f"YES={no}", f"ADOPT_ORPHANS={no}").endswith(
        "recovery 'dev'"
    )
    assert recipe("rehearse", f"KEEP={no}", f"REPLACE={no}").endswith("rehearsal run 'dev'")
    assert recipe("gpus", f"JSON={no}", f"REHEARSAL={no}").endswith("-m cli gpus 'dev'")


def test_what_is_given_reaches_the_command() -> None:
    """Flags, values and words with spaces."""
    assert recipe("recover", "STACK=a", "ADOPT_ORPHANS=1", "YES=yes").endswith(
        "'a' --adopt-orphans --yes"
    )
    assert recipe("rehearse", "KEEP=1", "REPLACE=1").endswith("run 'dev' --keep --replace")
    assert recipe("rehearse", "NODE=gpu").endswith("run 'dev' --node 'gpu'")
    assert recipe("check", "KUBECONFIG_FILE=a b").endswith("'dev' --kubeconfig 'a b'")
    assert recipe("quota", "REHEARSAL=1", "JSON=1").endswith("'dev' --rehearsal --json")
    costs = "--json --compare 'main' --ceiling '5'"
    assert recipe("cost", "JSON=1", "COMPARE=main", "CEILING=5").endswith(costs)
    assert recipe("bench", "PARTS=b d").endswith("bench b d --runs 5 --docs")


def test_help_names_every_target_and_every_variable() -> None:
    """What is not there, nobody finds."""
    said = make("help").stdout
    phony = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)
    targets = phony[0].replace("\\\n", " ").split()
    assert "list" in targets
    assert [name for name in targets if name != "help" and f"make {name}" not in said] == []
    taken = re.findall(r"^TAKES_[\w-]+ := (.+)", MAKEFILE, re.MULTILINE)
    variables = {name for names in taken for name in names.split()} | {"PYTHON"}
    assert sorted(name for name in variables if name not in said) == []


def test_a_failed_test_has_failed() -> None:
    """A second try would make a build green that saw a failure."""
    assert "--last-failed" not in MAKEFILE
    assert recipe("unit") == ".venv/bin/python -m pytest -n 2 --dist loadfile"


@pytest.mark.parametrize(
    ("version", "fine"),
    [((3, 10, 14), False), ((3, 11, 2), True), ((3, 12, 3), True), ((3, 13, 5), True),
     ((3, 14, 0), False), ((2, 7, 18), False)],
)  # fmt: skip
def test_which_python(version: tuple[int, ...], fine: bool) -> None:
    """What was never tried is refused in one line."""
    said = wrong(version)
    assert (said == "") == fine
    assert fine or re.fullmatch(
        r"Python 3\.11, 3\.12 or 3\.13 is needed, and .* is \d\.\d+: .*", said
    )


def test_another_python_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    """No environment is made with it."""
    old = tmp_path / "python3"
    script = (
        "import runpy, sys\n"
        "sys.version_info = (3, 14, 0)\n"
        "assert sys.argv[1] == 'tools/version.py', sys.argv\n"
        "runpy.run_path(sys.argv[1], run_name='__main__')\n"
    )
    old.write_text(f"#!{sys.executable}\n{script}")
    old.chmod(0o755)
    for name in ("Makefile", "requirements.lock", "requirements-dev.lock"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    done = run_make("setup", f"PYTHON={old}", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Python 3.11, 3.12 or 3.13 is needed, and ")
    assert not (tmp_path / ".venv").exists()


def test_what_is_far_from_everything_gets_no_guess() -> None:
    """Only what is near is meant."""
    assert "did you mean" not in instead("FOO", "make down", ["PYTHON", "STACK"])
