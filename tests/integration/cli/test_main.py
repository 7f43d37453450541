"""`gpu-cluster`: its help, one line for a mistake, and which code reaches the shell."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from gpu_cluster.cli.main import COMMANDS, NAME, gpu_cluster, main
from gpu_cluster.cli.output import for_terminal
from gpu_cluster.stacks.definition.files import stacks
from gpu_cluster.stacks.outcome import CLOSED, INTERRUPTED, CheckError, ExitCode, worst
from quality.__main__ import main as quality_main

ROOT = Path(__file__).parents[3]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "gpu_cluster.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def commands() -> list[tuple[str, click.Command]]:
    """Every command with its name, those of groups as `ci offline`."""
    found = []
    context = click.Context(gpu_cluster)
    for name in gpu_cluster.list_commands(context):
        command = gpu_cluster.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += [(f"{name} {inner}", one) for inner, one in command.commands.items()]
        else:
            found.append((name, command))
    return found


@pytest.mark.parametrize(("name", "command"), commands(), ids=str)
def test_each_command_shows_an_example_that_it_takes(name: str, command: click.Command) -> None:
    """`--help` says what it does and ends with one example, with this command's own options."""
    assert command.help
    example = re.search(rf"Example: {NAME} ({name}\b.*)", command.epilog or "")
    assert example, name
    arguments = shlex.split(example[1].partition(" > ")[0], comments=True)
    context = command.make_context(name, arguments[len(name.split()) :])
    assert context.args == []


def test_help_names_every_command_and_is_there_at_once() -> None:
    """No room of the program is loaded for it."""
    began = time.monotonic()
    done = run("--help")
    seconds = time.monotonic() - began
    assert done.returncode == 0
    for section in COMMANDS.values():
        assert all(f"  {name} " in done.stdout for name in section)
    script = (
        "import sys; from gpu_cluster.cli.main import main; main(['--help']); "
        "main(['job', '--help']); print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    modules = set(loaded.stdout.splitlines()[-1].split())
    assert not modules & {"yaml", "rich", "pulumi", "kubernetes", "moto"}
    assert not modules & {"gpu_cluster.components", "gpu_cluster.rehearsal"}
    assert seconds < 3  # 0.1 s on an idle machine; this one may be busy


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["capcity"], "gpu-cluster: No such command 'capcity'. Did you mean 'capacity'?"),
        (["capacity"], "gpu-cluster capacity: Missing argument 'STACK'."),
        (["cost", "dev", "--cieling=5"], "No such option '--cieling'. Did you mean"),
        (["gpus", "dev", "--rehearsal", "--kubeconfig", "x"], "give --kubeconfig or --rehearsal"),
        (["job", "list", "--rehearsal", "dev", "--kubeconfig", "x"], "or --rehearsal, not both"),
        (["rehearse", "dev", "--deadline=abc"], "'abc' is not a valid number of seconds."),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do, and exit code 2."""
    code, said = main(arguments), capsys.readouterr()
    assert (code, said.out) == (ExitCode.UNKNOWN, "")
    assert said.err.count("\n") == 1
    assert says in said.err


@pytest.mark.parametrize(
    ("main", "arguments"),
    [(main, ["capacity", "nosuch"]), (quality_main, ["compare-plugins", "gcp"])],
)
def test_an_error_is_in_the_json_as_well(
    main: Callable[[list[str]], int],
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that reads the output need not look elsewhere."""
    monkeypatch.setattr("gpu_cluster.rehearsal.plugins.official.first", lambda package: None)
    assert main([*arguments, "--json"]) == ExitCode.UNKNOWN
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["command"] == arguments[0]
    assert document["exit"] == 2
    assert printed.err == f"gpu-cluster {arguments[0]}: {document['error']}\n"


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (lambda: ExitCode.FINDING, 1),
        (lambda: None, 0),
        (lambda: (_ for _ in ()).throw(CheckError("it is not there")), 2),
        (lambda: (_ for _ in ()).throw(KeyboardInterrupt), INTERRUPTED),
    ],
)
def test_how_a_command_ends_is_what_the_shell_gets(
    ends: "object", code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Findings, errors and Ctrl-C alike."""
    monkeypatch.setattr(
        type(gpu_cluster), "get_command", lambda *_: click.Command("x", callback=ends)
    )
    assert main(["x"]) == code


def test_the_worst_answer_counts() -> None:
    """What is wrong counts before what is not known."""
    assert worst([]) == ExitCode.OK
    assert worst([0, 2, 0]) == ExitCode.UNKNOWN
    assert worst([2, 1, 0]) == ExitCode.FINDING


@pytest.mark.parametrize(
    ("package", "code"), [("click", 2), ("psutil", 2), ("gpu_cluster.cli.rehearse", 1)]
)
def test_a_clone_that_is_not_set_up_is_one_line(package: str, code: int) -> None:
    """It names the package and `make setup`; what this program itself lacks is a traceback."""
    script = f"import sys; sys.modules[{package!r}] = None; import gpu_cluster.cli.__main__"
    line = [sys.executable, "-c", script, "rehearse", "dev"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    says = (
        f"gpu-cluster: {sys.executable} has no package {package}; run `make setup` in your clone, "
        "then use .venv/bin/gpu-cluster there\n"
    )
    assert (done.stderr == says) == (code == 2), done.stderr


def test_the_command_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """That of the installed package."""
    assert main(["--version"]) == ExitCode.OK
    assert capsys.readouterr().out == f"{NAME} {version(NAME)}\n"


def test_nobody_reads_to_the_end() -> None:
    """`gpu-cluster cost dev | head -1` is no failure of the program's."""
    script = (
        "import click, sys\n"
        "from gpu_cluster.cli.main import Commands, main\n"
        "long = click.Command('x', callback=lambda: print('x' * 1_000_000))\n"
        "Commands.get_command = lambda *_: long\n"
        "sys.exit(main(['x']))\n"
    )
    line = f"{shlex.join([sys.executable, '-c', script])} | head -c 1"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    line = f"set -o pipefail; {line}"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == CLOSED


def test_stacks_are_completed() -> None:
    """The shell is told of the stacks that have a file."""
    said = run(
        COMP_WORDS="gpu-cluster cost tr", COMP_CWORD="2", _GPU_CLUSTER_COMPLETE="bash_complete"
    )
    names = {line.partition(",")[2] for line in said.stdout.splitlines()}
    assert names == {name for name in stacks(ROOT) if name.startswith("tr")}


ELSEWHERE = """
import contextlib, io, json, sys, sysconfig, types
sysconfig.get_config_vars()  # how Python was built is in a module that is named after its platform
sys.platform = "darwin"
sys.modules["_scproxy"] = proxies = types.ModuleType("_scproxy")
proxies._get_proxy_settings = proxies._get_proxies = dict
for name in ("fcntl", "resource", "termios", "pty"):
    sys.modules[name] = None
from gpu_cluster.cli.main import main
def run(line):
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        return main(line.split()), said.getvalue()
print(json.dumps({line: run(line) for line in sys.argv[1:]}))
"""
"""The command on a Mac, but without what Windows has not either."""
CODES = {
    "rehearse dev": 2,
    "down dev": 2,
    "list": 2,
    "--help": 0,
    "cost dev": 0,
    "capacity onprem": 0,
    "leftovers onprem --kubeconfig tests/program/kubeconfig.yaml": 0,
    "gpus dev --kubeconfig nowhere": 2,
}
"""Command -> how it ends there."""


def test_only_rehearsals_need_linux() -> None:
    """Elsewhere they say what to do; what asks a cloud or a cluster works there."""
    line = [sys.executable, "-c", ELSEWHERE, *CODES]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {line: code for line, (code, _) in found.items()} == CODES, found
    for line, (code, said) in found.items():
        assert said.count("\n") == (code != 0), said
        refused = "a rehearsal needs Linux" in said and ".devcontainer" in said
        assert refused == line.startswith(("rehearse", "down", "list"))


@pytest.mark.parametrize(("terminal", "shown"), [(True, "a\tb]0;x\nred[31m\n"), (False, None)])
def test_a_terminal_gets_no_control_characters(terminal: bool, shown: str | None) -> None:
    """What pods print could rename the window, or write over a line. A file gets it as it is."""
    text = "a\tb\x1b]0;x\x07\nred\x1b[31m\x9b\r\n"

    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    assert for_terminal(text, Stream()) == (text if shown is None else shown)
