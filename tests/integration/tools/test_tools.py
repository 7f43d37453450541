"""The bootstrap of `tools`, with a shell script in the place of Go."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_cluster import tools
from gpu_cluster.tools import build, go, programs
from gpu_cluster.tools.__main__ import _wanted, main
from gpu_cluster.tools.scripts import script

ROOT = Path(__file__).parents[3]
FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go${FAKE_VERSION:-1.99.0}; exit; fi
while [ "$1" != -o ]; do shift; done
echo half >"$2/server"
echo $$ >>"$FAKE_LOG"
if [ -n "$FAKE_ERROR" ]; then mkdir -p "$GOCACHE"; echo "$FAKE_ERROR"; exit 1; fi
exec sleep ${FAKE_SLEEP:-0}
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache whose only `go` is the script above."""
    path = tmp_path / "bin"
    path.mkdir()
    _script(path / "go", FAKE_GO)
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path


def test_a_built_binary_is_found(machine: Path) -> None:
    """A build gives the binary its own name, whatever name its Go package has."""
    assert main(["build", "actionlint"]) == 0
    assert tools.binary("actionlint").read_text() == "half\n"
    assert main(["build", "actionlint"]) == 0
    assert len(_builds(machine)) == 1


def test_a_missing_binary_says_what_to_run(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A binary that is not built is one line on stderr with the command that builds it."""
    assert main(["path", "kube-apiserver"]) == 1
    error = "kube-apiserver is not built yet: run `python -m gpu_cluster.tools build control-plane`"
    assert capsys.readouterr().err == f"error: {error}\n"
    with pytest.raises(tools.ToolError, match="is not built yet"):
        tools.crds("karpenter")


def test_an_unknown_name_is_refused_with_the_known_ones(machine: Path) -> None:
    """A misspelt name is answered with the names there are."""
    with pytest.raises(tools.ToolError, match=r"no tool is called 'etdc': choose one of .*etcd"):
        tools.binary("etdc")


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "karpenter/main.go"])
def test_the_cache_key_covers_the_source(file: str, tmp_path: Path) -> None:
    """A change of a pin, or of what is built of our own, moves the build to another folder."""
    shutil.copytree(ROOT / "gpu_cluster" / "tools" / "control-plane", tmp_path / "control-plane")
    program = replace(programs.program("control-plane"), tools=tmp_path)
    before = program.folder()
    assert program.folder() == before == programs.program("control-plane").folder()
    with (tmp_path / "control-plane" / file).open("a") as pins:
        pins.write("\n")
    assert program.folder() != before


def test_every_program_is_pinned() -> None:
    """Every program has its version in its own go.mod, and a go.sum beside it."""
    for program in programs.PROGRAMS:
        assert program.version().startswith("v")
        assert (program.source / "go.sum").stat().st_size > 0
        for module, _, _ in program.copies:
            assert program.version(module).startswith("v")


def test_two_builds_at_once_build_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second build waits for the first and then finds the work done."""
    monkeypatch.setenv("FAKE_SLEEP", "0.2")
    first, second = _start("build", "actionlint"), _start("build", "actionlint")
    assert (first.wait(), second.wait()) == (0, 0)
    assert len(_builds(machine)) == 1


def test_a_killed_build_leaves_nothing_behind(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build killed half way counts as not built, ends its Go, and does not hinder the next."""
    monkeypatch.setenv("FAKE_SLEEP", "30")
    killed = _start("build", "actionlint")
    _eventually(lambda: bool(_builds(machine)))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    compiler = Path("/proc", _builds(machine)[0])
    _eventually(lambda: not compiler.exists() or "Z" in (compiler / "stat").read_text())
    with pytest.raises(tools.ToolError):
        tools.binary("actionlint")
    monkeypatch.setenv("FAKE_SLEEP", "0")
    assert main(["build", "actionlint"]) == 0
    left = {entry.name for entry in (machine / "cache").iterdir()}
    assert left == {".actionlint.lock", ".go.lock", tools.folder("actionlint").name}


def test_a_failing_build_shows_why(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failing build shows what Go printed, then one line of ours, and keeps what Go did."""
    monkeypatch.setenv("FAKE_ERROR", "main.go:1: undefined: everything")
    assert main(["build", "actionlint"]) == 1
    *_, cause, summary = capsys.readouterr().err.splitlines()
    assert cause == "main.go:1: undefined: everything"
    assert summary == "error: actionlint: go build failed with exit code 1, see above"
    assert {entry.name for entry in (machine / "cache").iterdir()} == {
        ".actionlint.lock",
        ".go.lock",
        "go",
    }


def test_what_go_keeps_is_removed_with_the_last_build(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while another build still uses it; and a cache that the user names is the user's."""
    kept = machine / "cache" / "go"
    monkeypatch.delenv("GOCACHE", raising=False)
    monkeypatch.delenv("GOMODCACHE", raising=False)
    _script(machine / "bin" / "go", FAKE_GO.replace("echo half", 'mkdir -p "$GOCACHE"; echo half'))
    (machine / "cache").mkdir()
    with go.caches():
        assert main(["build", "actionlint"]) == 0
        assert list(kept.iterdir()) == [kept / "build"]
    assert not kept.exists()
    monkeypatch.setenv("GOCACHE", str(machine / "own"))
    shutil.rmtree(tools.folder("actionlint"))
    assert main(["build", "actionlint"]) == 0
    assert (machine / "own").is_dir()


def test_a_long_build_says_that_it_goes_on(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A build says when it starts, that it still runs, and when it is done."""
    monkeypatch.setenv("FAKE_SLEEP", "0.3")
    monkeypatch.setattr(build, "HEARTBEAT", 0.1)
    assert main(["build", "actionlint"]) == 0
    started, going, *_, done, _ = capsys.readouterr().err.splitlines()
    assert started == "[1/1] actionlint: building v1.7.7, usually 30 s"
    assert re.fullmatch(r"\[1/1\] actionlint: still building, [01] s", going)
    assert re.fullmatch(r"\[1/1\] actionlint: done in \d+ s", done)


@pytest.mark.parametrize(
    ("version", "used"), [("1.99.0", "path"), ("1.26.0", "path"), ("1.25.9", "pypi")]
)
def test_an_old_go_is_passed_over(
    version: str, used: str, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `go` on PATH is used unless it is older than the program's go.mod asks for."""
    monkeypatch.setenv("FAKE_VERSION", version)
    monkeypatch.setattr(go, "_from_pypi", lambda: Path("pypi"))
    asked = go.command(programs.program("control-plane"))
    assert asked == (machine / "bin" / "go" if used == "path" else Path("pypi"))


def test_programs_with_parts_in_c_say_what_the_machine_lacks(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No compiler, or no header: one line with what to install, before anything is built."""
    monkeypatch.setenv("CC", "no-such-compiler")
    assert main(["build", "runc"]) == 1
    assert capsys.readouterr().err == (
        "error: runc has parts in C, and no-such-compiler is not installed; install gcc\n"
    )
    _script(machine / "bin" / "cc", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("CC", "cc")
    assert main(["build", "runc"]) == 1
    assert "runc needs seccomp.h: install Debian's libseccomp-dev" in capsys.readouterr().err
    assert _builds(machine) == []


def test_c_and_build_tags_are_the_programs_own(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go may use C, and gets the tags, only for a program that says so."""
    seen = machine / "seen"
    _script(
        machine / "bin" / "go",
        FAKE_GO.replace("#!/bin/sh", f'#!/bin/sh\necho "$CGO_ENABLED $*" >>{seen}'),
    )
    _script(machine / "bin" / "cc", "#!/bin/sh\n")
    assert main(["build", "runc", "actionlint"]) == 0
    calls = [line for line in seen.read_text().splitlines() if " build " in line]
    assert calls[0].startswith("1 build ")
    assert "-tags seccomp,netgo,osusergo" in calls[0]
    assert calls[1].startswith("0 build ")
    assert "-tags" not in calls[1]


def test_an_installed_engine_is_used(machine: Path) -> None:
    """A `pulumi` on PATH together with its language host is used as it is, nothing beside it."""
    _script(machine / "bin" / "pulumi", "#!/bin/sh\n")
    with pytest.raises(tools.ToolError, match="pulumi is not built yet"):
        tools.pulumi()
    _script(machine / "bin" / "pulumi-language-python", "#!/bin/sh\n")
    assert tools.pulumi() == (machine / "bin" / "pulumi", [])


def test_our_own_engine_on_path_is_not_taken_for_an_installed_one(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine that we built counts as ours even where its folder is on PATH already."""
    own = programs.program("pulumi").folder()
    own.mkdir(parents=True)
    for name in ("pulumi", "pulumi-language-python"):
        _script(own / name, "#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")
    assert tools.pulumi() == (own / "pulumi", [own, ROOT / "gpu_cluster" / "tools" / "bin"])


def test_an_engine_that_is_older_than_ours_is_used_only_where_ours_is_not_built(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`build` then builds ours."""
    ours = programs.program("pulumi")
    for name in ("pulumi", "pulumi-language-python"):
        _script(machine / "bin" / name, "#!/bin/sh\necho v3.1.0\n")
    assert tools.pulumi() == (machine / "bin" / "pulumi", [])
    assert [each.name for each in _wanted([])] == ["control-plane", "pulumi"]
    ours.folder().mkdir(parents=True)
    assert tools.pulumi()[0] == ours.folder() / "pulumi"
    newer = machine / "newer"
    newer.mkdir()
    for name in ("pulumi", "pulumi-language-python"):
        _script(newer / name, "#!/bin/sh\necho v3.999.0\n")
    monkeypatch.setenv("PATH", f"{newer}:{os.environ['PATH']}")
    assert tools.pulumi() == (newer / "pulumi", [])
    assert [each.name for each in _wanted([])] == ["control-plane"]


SAYS = {
    "etcd": "etcd Version: 3.6.99",
    "kube-apiserver": "Kubernetes v1.36.99",
    "kube-controller-manager": "Kubernetes v1.36.99",
    "kube-scheduler": "Kubernetes v1.35.4",
    "kwok": "kwok version v0.8.99 go1.99.0 (linux/amd64)",
}
"""What a machine's own programs say of themselves; the scheduler is of another Kubernetes."""
LISTING_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.99.0; exit; fi
if [ "$1" = list ]; then echo "$FAKE_MODULE"; exit; fi
echo "$*" >>"$FAKE_LOG"
while [ "$1" != -o ]; do shift; done
out=$2; shift 2
for package in "$@"; do echo built >"$out/${package##*/}"; done
"""


def test_what_the_machine_has_in_the_same_version_is_not_built(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In KUBEBUILDER_ASSETS or on PATH; the rest is. Where all of it was built, that is used."""
    assets, module = machine / "assets", machine / "module"
    assets.mkdir()
    for name, says in SAYS.items():
        where = machine / "bin" if name == "kwok" else assets
        _script(where / name, f"#!/bin/sh\necho '{says}'\n")
    plane = programs.program("control-plane")
    for _, pattern, _ in plane.copies:
        file = module / pattern.replace("*", "x")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    _script(machine / "bin" / "go", LISTING_GO)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    monkeypatch.setenv("FAKE_MODULE", str(module))
    assert main(["build", "control-plane"]) == 0
    (asked,) = (machine / "log").read_text().splitlines()
    assert asked.endswith(
        "/ gpu-cluster/tools/control-plane/karpenter k8s.io/kubernetes/cmd/kube-scheduler"
    )
    assert f"etcd v3.6.99 is at {assets / 'etcd'}" in capsys.readouterr().err
    assert tools.binary("etcd") == assets / "etcd"
    assert tools.binary("kwok") == machine / "bin" / "kwok"
    assert tools.binary("kube-scheduler") == tools.where(plane) / "kube-scheduler"
    assert sorted(tools.found()) == ["etcd", "kube-apiserver", "kube-controller-manager", "kwok"]
    plane.folder().mkdir()
    (plane.folder() / "etcd").touch()
    assert tools.binary("etcd") == plane.folder() / "etcd"


@pytest.mark.parametrize("option", ["", "-IS"])
@pytest.mark.parametrize("folder", ["short", "a b", "it's ü", "x" * 120])
def test_a_script_is_run_by_an_interpreter_of_any_path(
    folder: str, option: str, tmp_path: Path
) -> None:
    """The kernel splits a script's first line at blanks, and cuts a long one."""
    python, file = tmp_path / folder / "python", tmp_path / folder / "script"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    program = "import sys\nprint(*sys.argv[1:], sys.executable, sys.flags.isolated, sep='\\n')\n"
    _script(file, script(program, str(python), option))
    done = subprocess.run([file, "a b", "$c"], capture_output=True, text=True)
    said = f"a b\n$c\n{python}\n{1 if option else 0}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _builds(machine: Path) -> list[str]:
    log = machine / "log"
    return log.read_text().split() if log.exists() else []


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gpu_cluster.tools", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stderr=subprocess.DEVNULL)


def _eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
