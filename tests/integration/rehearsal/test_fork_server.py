"""The launcher that stands for a Python with the SDKs imported, against what Python does."""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.engine.fork_server import KILLED, LAUNCHER, SHARED, launcher
from gpu_cluster.stacks.definition.files import ROOT


def warm() -> str:
    return str(launcher())


def run(python: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments], capture_output=True, text=True, timeout=60, **options
    )  # type: ignore[call-overload, no-any-return]


PROGRAM = """
import os, sys
print(sys.argv[1:], os.getcwd(), os.environ.get("A"), len(os.environ), __name__)
print("complained", file=sys.stderr)
{end}
"""


@pytest.mark.parametrize(
    "end", ["", "sys.exit(7)", "sys.exit('said')", "sys.exit()", "raise KeyError('x')"]
)
def test_a_program_cannot_tell_the_difference(tmp_path: Path, end: str) -> None:
    """Arguments, folder, environment, both streams and the exit code, as a script and by `-c`."""
    (tmp_path / "program.py").write_text(PROGRAM.format(end=end))
    for how in (["-u", "program.py", "a b"], ["-P", "-c", PROGRAM.format(end=end), "a b"]):
        real, ours = (
            run(each, *how, cwd=tmp_path, env={"A": "1"}) for each in (sys.executable, warm())
        )
        assert (ours.returncode, ours.stdout) == (real.returncode, real.stdout)
        assert ours.stderr.splitlines()[::-1][:1] == real.stderr.splitlines()[::-1][:1]


def test_a_module_is_run_by_its_name(tmp_path: Path) -> None:
    """As policy packs are."""
    (tmp_path / "pack.py").write_text("import sys; print(sys.argv[1:], __name__)")
    real, ours = (
        run(each, "-u", "-m", "pack", "x", cwd=tmp_path) for each in (sys.executable, warm())
    )
    assert ours.stdout == real.stdout == "['x'] __main__\n"


def test_the_sdks_are_kept_and_a_programs_own_modules_are_not(tmp_path: Path) -> None:
    """Whoever changes the program sees the change. What starts threads could not be forked."""
    own, sdk = tmp_path / "own.py", "pulumi_aws.chime.voice_connector"
    look = f"import sys; print({sdk!r} in sys.modules, 'colorsys' in sys.modules)"
    assert run(warm(), "-c", look).stdout == "False False\n"
    for word in ("first", "second"):
        own.write_text(f"import colorsys, {sdk}; word = {word!r}")
        code = "import own; print(own.word)"
        assert run(warm(), "-c", code, cwd=tmp_path).stdout == f"{word}\n"
    assert run(warm(), "-c", look).stdout == "True False\n"


def test_what_a_program_left_lazy_stays_so() -> None:
    """All of Google's SDK takes 13 s, and a program uses three of its 150 packages."""
    code = (
        "import sys, pulumi_gcp; pulumi_gcp.compute.Network; "
        "print(*(type(sys.modules[f'pulumi_gcp.{name}']).__name__ for name in ('compute', 'ces')))"
    )
    assert {run(warm(), "-c", code).stdout for _ in range(3)} == {"module _LazyModule\n"}


def test_classes_are_not_hidden_by_the_modules_that_they_are_in() -> None:
    """The Kubernetes SDK has `apiextensions.CustomResource.CustomResource`."""
    code = (
        "import pulumi_kubernetes; kind = pulumi_kubernetes.apiextensions.CustomResource; "
        "print(type(kind).__name__, type(pulumi_kubernetes.core.v1.Pod).__name__)"
    )
    assert {run(warm(), "-c", code).stdout for _ in range(3)} == {"type type\n"}


def begun(code: str) -> tuple["subprocess.Popen[str]", int]:
    """A program that is running, and its own process id."""
    code = f"import os, time; print(os.getpid(), flush=True); {code}; time.sleep(60)"
    program = subprocess.Popen([warm(), "-c", code], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    return program, int(program.stdout.readline())


def test_a_killed_launcher_takes_the_program_along() -> None:
    """As a killed engine's program must not go on."""
    program, pid = begun("pass")
    program.kill()
    program.wait()
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_program_ends_the_launcher() -> None:
    """Nobody waits for an answer that does not come."""
    program, pid = begun("pass")
    os.kill(pid, signal.SIGKILL)
    assert program.wait(5) == KILLED


def test_a_program_that_dies_before_it_reads_a_signal_ends_its_launcher_quietly(
    tmp_path: Path,
) -> None:
    """The engine that refuses a preview sends one signal and then another; the second one is lost
    with the program, and its connection is reset."""
    address, file = str(tmp_path / "socket"), tmp_path / "python"
    file.write_text(LAUNCHER.format(folder=str(tmp_path), file=str(file), killed=KILLED))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        program = subprocess.Popen(
            [sys.executable, "-IS", file, "-c", ""], stderr=subprocess.PIPE, text=True
        )
        client, _ = server.accept()
        with client:
            head, streams, _, _ = socket.recv_fds(client, 8, 3)
            for stream in streams:
                os.close(stream)
            left = int.from_bytes(head, "big")
            while left:
                left -= len(client.recv(left))
            # It passes on signals once it has sent everything, and is killed by one before that.
            status = Path(f"/proc/{program.pid}/status")
            caught = 1 << (signal.SIGTERM - 1)
            while not int(status.read_text().split("SigCgt:")[1].split()[0], 16) & caught:
                assert program.poll() is None
            program.send_signal(signal.SIGTERM)
            assert select.select([client], [], [], 10)[0]
        assert program.wait(10) == KILLED
    assert program.stderr is not None
    assert program.stderr.read() == ""


def test_a_program_whose_launcher_dies_before_it_reads_the_exit_code_ends_quietly() -> None:
    """Its connection is reset as well, and its streams are those of the engine."""
    code = (
        "import socket; from gpu_cluster.rehearsal.engine.fork_server import _obey; "
        "one, other = socket.socketpair(); one.sendall(b'x'); other.close(); _obey(one)"
    )
    ended = run(sys.executable, "-c", code, cwd=ROOT)
    assert (ended.returncode, ended.stderr) == (KILLED, "")


def test_signals_are_passed_on() -> None:
    """The engine asks the language host to end by one."""
    program, _ = begun(
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); "
        "print(flush=True)"
    )
    assert program.stdout is not None
    program.stdout.readline()
    program.terminate()
    assert program.wait(5) == 5


def test_the_interpreter_is_the_launcher_for_what_a_program_starts() -> None:
    """So that the language host's programs are warm as well."""
    assert run(warm(), "-c", "import sys; print(sys.executable)").stdout.strip() == warm()


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """And what a process that ends left, by itself; what a running one uses stays."""
    module = "gpu_cluster.rehearsal.engine.fork_server"
    code = f"from {module} import launcher; print(launcher(), flush=True)"
    end = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    env = {name: value for name, value in os.environ.items() if name != SHARED}
    started = {"cwd": ROOT, "env": env | {"TMPDIR": str(tmp_path)}, "stdout": subprocess.PIPE}
    for more, left in ((end, 1), (end, 1), ("", 0)):
        subprocess.run([sys.executable, "-c", f"{code}; {more}"], **started)
        assert len(list(tmp_path.glob("fork-server-*"))) == left
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; input()"], stdin=subprocess.PIPE, text=True, **started
    ) as running:
        assert running.stdout
        assert running.stdin
        used = Path(running.stdout.readline().strip())
        subprocess.run([sys.executable, "-c", code], **started)
        assert used.exists()
        running.stdin.close()


@pytest.mark.parametrize("folder", ["a b", "ü#%41?", "x" * 120])
def test_paths_may_be_long_and_have_blanks(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel splits a script's first line at blanks; a socket's path has at most 107 bytes."""
    (tmp_path / folder).mkdir()
    python = tmp_path / folder / "python"
    python.symlink_to(sys.executable)
    monkeypatch.delenv(SHARED, raising=False)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / folder))
    file = launcher.__wrapped__()
    done = run(str(file), "-c", "import sys; print(sys.argv[1:], sys.executable)", "a b")
    assert (done.stdout, done.stderr) == (f"['a b'] {file}\n", "")


def a_pipe(log: Path) -> None:
    os.mkfifo(log)


def a_link(log: Path) -> None:
    log.symlink_to("/etc/hostname")


def another_users(log: Path) -> None:
    log.touch()
    os.chown(log, 1, 1)


@pytest.mark.parametrize("left", [a_pipe, a_link, another_users])
def test_what_another_user_left_in_the_temporary_folder_is_ignored(
    left: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a pipe would wait for a writer, in everybody's rehearsals."""
    if left is another_users and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    (tmp_path / "fork-server-x").mkdir()
    left(tmp_path / "fork-server-x" / "log")
    monkeypatch.delenv(SHARED, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(str(launcher.__wrapped__()), "-c", "print(1)").stdout == "1\n"
    assert (tmp_path / "fork-server-x").exists() == (left is not a_pipe)
