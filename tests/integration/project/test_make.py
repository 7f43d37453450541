"""`make`: no command is about anything else than what was meant, and `0` is no."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_cluster.tools.nearest import instead
from gpu_cluster.tools.scripts import script
from gpu_cluster.tools.version import wrong

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
        (["down", "A=b", "STACK=dev"], "make down takes no A; it takes PYTHON, STACK"),
    ],
)
def test_a_variable_that_a_target_does_not_know_is_refused(given: list[str], says: str) -> None:
    """`make rehearse STAK=train` would be about dev."""
    done = make(*given)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


@pytest.mark.parametrize("no", ["", "0", "n", "no", "No", "NO", "false", "False", "FALSE", "off"])
def test_no_is_no(no: str) -> None:
    """`KEEP=0` once meant yes."""
    assert recipe("rehearse", f"KEEP={no}", f"REPLACE={no}").endswith(
        "-m gpu_cluster.cli rehearse 'dev'"
    )


def test_what_is_given_reaches_the_command() -> None:
    """Flags, values and words with spaces."""
    assert recipe("rehearse", "KEEP=1", "REPLACE=1").endswith("'dev' --keep --replace")
    assert recipe("rehearse", "STACK=a b", "NODE=gpu").endswith("'a b' --node 'gpu'")
    assert recipe("down", "STACK=train").endswith("-m gpu_cluster.cli down 'train'")
    assert recipe("inject-faults", "PARTS=dev-kills", "MINUTES=5").endswith(
        "-m quality inject-faults dev-kills --minutes '5'"
    )


def test_what_python_has_compiled_is_kept() -> None:
    """Whatever the environment says: a rehearsal's processes would each compile the SDKs again."""
    show = "show: ; @echo [$$PYTHONDONTWRITEBYTECODE]"
    done = run_make("--eval", show, "show", PYTHONDONTWRITEBYTECODE="1")
    assert "[]" in done.stdout.splitlines(), done


def test_help_names_every_target_and_every_variable() -> None:
    """What is not there, nobody finds."""
    said = make("help").stdout
    phony = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)
    targets = phony[0].replace("\\\n", " ").split()
    assert "rehearse" in targets
    assert [name for name in targets if name != "help" and f"make {name}" not in said] == []
    taken = re.findall(r"^TAKES_[\w-]+ := (.+)", MAKEFILE, re.MULTILINE)
    variables = {name for names in taken for name in names.split()} | {"PYTHON"}
    assert sorted(name for name in variables if name not in said) == []


def test_a_failed_test_has_failed() -> None:
    """A second try would make a build green that saw a failure."""
    assert "--last-failed" not in MAKEFILE
    assert recipe("unit").startswith(".venv/bin/python -m pytest -n auto --dist loadgroup ")


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
    program = (
        "import runpy, sys\n"
        "sys.version_info = (3, 14, 0)\n"
        "assert sys.argv[1] == 'gpu_cluster/tools/version.py', sys.argv\n"
        "runpy.run_path(sys.argv[1], run_name='__main__')\n"
    )
    old.write_text(script(program))
    old.chmod(0o755)
    for name in ("Makefile", "requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "gpu_cluster").symlink_to(ROOT / "gpu_cluster")
    done = run_make("setup", f"PYTHON={old}", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Python 3.11, 3.12 or 3.13 is needed, and ")
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    ("given", "builds"),
    [
        (["rehearse"], True),
        (["rehearse", "STACK=train"], True),
        (["rehearse", "STACK=trian"], False),
        (["test"], True),
        (["lint"], False),
        (["down"], False),
    ],
)
def test_programs_are_built_while_packages_are_installed(
    tmp_path: Path, given: list[str], builds: bool
) -> None:
    """By targets that run them, and not for a stack that is not there."""
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml",
                 "Pulumi.dev.yaml", "Pulumi.train.yaml"):  # fmt: skip
        (tmp_path / name).touch()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    said = run_make("-n", *given, cwd=tmp_path).stdout
    beside = ".venv/bin/python -m gpu_cluster.tools build" if builds else ""
    assert f".venv/bin/python -m gpu_cluster.tools.meanwhile '{beside}' \\\n" in said


BESIDE = "import sys, time; open(sys.argv[1], 'w').write('begun'); time.sleep(float(sys.argv[2]))"
WAIT = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"


def meanwhile(folder: Path, seconds: float, *commands: str) -> int:
    """The exit code of commands beside one that takes so long once it has begun."""
    program = [sys.executable, "-c", f"{BESIDE}; open(sys.argv[1], 'w').write('done')"]
    beside = shlex.join([*program, str(folder / "beside"), str(seconds)])
    script = [sys.executable, "-m", "gpu_cluster.tools.meanwhile", beside]
    done = subprocess.run([*script, *commands], cwd=ROOT, timeout=60, stderr=subprocess.DEVNULL)
    return done.returncode


def test_both_are_waited_for(tmp_path: Path) -> None:
    """The commands run while the other does, and it ends before what comes after."""
    wait = shlex.join([sys.executable, "-c", WAIT, str(tmp_path / "beside")])
    assert meanwhile(tmp_path, 0.2, wait) == 0
    assert (tmp_path / "beside").read_text() == "done"


def test_a_command_that_fails_ends_the_one_beside(tmp_path: Path) -> None:
    """And those after it do not run."""
    wait = shlex.join([sys.executable, "-c", f"{WAIT}\nsys.exit(3)", str(tmp_path / "beside")])
    assert meanwhile(tmp_path, 60, wait, f"touch {tmp_path}/after") == 3
    assert (tmp_path / "beside").read_text() == "begun"
    assert not (tmp_path / "after").exists()


def test_what_is_far_from_everything_gets_no_guess() -> None:
    """Only what is near is meant."""
    assert "did you mean" not in instead("FOO", "make down", ["PYTHON", "STACK"])


def test_the_packages_alone_build_nothing(tmp_path: Path) -> None:
    """Whoever writes and prices an environment waits for no control plane; `setup` builds one."""
    for name in ("Makefile", "requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    planned = {
        target: run_make("--dry-run", target, cwd=tmp_path).stdout
        for target in ("packages", "setup")
    }
    assert all("--require-hashes -r requirements-dev.lock" in one for one in planned.values())
    assert ["tools build" in planned[target] for target in ("packages", "setup")] == [False, True]
