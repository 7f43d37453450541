"""A rehearsal's folder: nothing is deleted but what a rehearsal made, nobody is ended unasked."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from gpu_cluster.cli.main import main
from gpu_cluster.rehearsal import holder, lock, processes
from gpu_cluster.rehearsal.gpu_node import host_changes
from gpu_cluster.rehearsal.gpu_node.host_changes import HostChanges
from gpu_cluster.rehearsal.lock import FolderError, end, take_over
from gpu_cluster.stacks.definition.names import StackError, stack_name
from gpu_cluster.tools import clean, linux

ROOT = Path(__file__).parents[3]
HELD = """
import sys, time
from pathlib import Path
from gpu_cluster.rehearsal import run
from gpu_cluster.rehearsal import holder
from gpu_cluster.rehearsal.lock import take_over

def hold(stack, folder, *, keep, replace, **_):
    unlock = take_over(folder, stack, kept=keep is not None, replace=replace)
    print("up", flush=True)
    time.sleep(60)

run.hold, holder.built = hold, lambda *names: True
sys.exit(holder._hold(holder.Wanted(stack="dev", folder=sys.argv[1], keep=True), 1))
"""
"""A rehearsal without a sandbox: the process that holds the folder."""


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A kept rehearsal of dev in this folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HELD, str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        try:
            yield process
        finally:
            process.kill()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "gpu_cluster.cli", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True)


def precious(folder: Path) -> Path:
    """Somebody's folder with a file in it."""
    folder.mkdir(parents=True)
    (folder / "thesis").write_text("five years")
    return folder


@pytest.mark.parametrize("verb", ["rehearse", "down"])
@pytest.mark.parametrize("name", ["..", "../x", "a/b", "/tmp", "a..b", "", "~", "a b", "x" * 101])
def test_a_path_is_no_stack(verb: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused in one line, before any folder is looked at."""
    assert main([verb, "--", name]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"gpu-cluster \w+: .*'STACK': .* is not a valid stack name: .*\n", said)


def test_down_with_a_path_deletes_nothing(tmp_path: Path) -> None:
    """`down /some/folder` once deleted it."""
    folder = precious(tmp_path / "work")
    assert command("down", str(folder)).returncode == 2
    assert (folder / "thesis").read_text() == "five years"


@pytest.mark.parametrize("name", ["dev", "train-gke", "a.b_c", "0", "x" * 100])
def test_what_the_engine_takes_is_a_stack(name: str) -> None:
    """Letters, digits, hyphens, underscores and periods."""
    assert stack_name(name) == name


def test_a_trailing_newline_is_no_part_of_a_name() -> None:
    """A name is the whole text."""
    with pytest.raises(StackError):
        stack_name("dev\n")


@pytest.mark.parametrize("content", [None, "", "1234", "{}", '{"pid": 3}', "[]", "x"])
def test_a_folder_without_a_rehearsals_lock_is_left_alone(
    content: str | None, tmp_path: Path
) -> None:
    """Neither a run nor `down` touches what is somebody else's, whatever its lock says."""
    folder = precious(tmp_path / "work")
    if content is not None:
        (folder / "lock").write_text(content)
    before = sorted(folder.iterdir())
    with pytest.raises(FolderError, match="is not the folder of a rehearsal"):
        end(folder, "the test")
    with pytest.raises(FolderError, match="is not the folder of a rehearsal"):
        take_over(folder, "dev")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("verb", ["rehearse", "down"])
def test_somebody_elses_folder_is_refused_in_one_line(verb: str, tmp_path: Path) -> None:
    """`rehearse` once emptied whatever `--folder` named."""
    folder = precious(tmp_path / "work")
    done = command(verb, "dev", "--folder", str(folder))
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]  # what is built says so before
    assert re.fullmatch(r".*rehearsal of dev: .* is not the folder of a rehearsal.*", last)
    assert (folder / "thesis").is_file()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Neither as the folder nor as its lock."""
    own = tmp_path / "own"
    take_over(own, "dev")()
    link = tmp_path / "link"
    link.symlink_to(own)
    with pytest.raises(FolderError, match="is a symbolic link"):
        end(link, "the test")
    other = precious(tmp_path / "other")
    (other / "lock").symlink_to(own / "lock")
    with pytest.raises(FolderError, match="is not the folder of a rehearsal"):
        end(other, "the test")
    assert (own / "lock").is_file()
    assert (other / "thesis").is_file()


def test_what_a_link_in_the_folder_points_at_stays(tmp_path: Path) -> None:
    """Only the link itself is removed."""
    other = precious(tmp_path / "other")
    own = tmp_path / "own"
    take_over(own, "dev")()
    (own / "program").symlink_to(other)
    take_over(own, "dev")()
    assert not (own / "program").is_symlink()
    (own / "program").symlink_to(other)
    assert end(own, "the test") == "was not running; removed what it left"
    assert (other / "thesis").is_file()


def test_down_says_what_it_did(tmp_path: Path) -> None:
    """A run that had finished was not ended."""
    folder = tmp_path / "sandbox"
    assert end(folder, "the test") == "was not running"
    take_over(folder, "dev")()
    (folder / "report.txt").touch()
    assert end(folder, "the test") == "was not running; removed its report"
    assert not folder.exists()


def test_the_folder_is_closed_to_others(tmp_path: Path) -> None:
    """Keys, tokens, sockets and the state's passphrase lie in it."""
    folder = tmp_path / "sandbox"
    folder.mkdir(mode=0o755)
    take_over(folder, "dev")()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_rehearsal_that_was_killed_at_once_leaves_a_folder_that_can_be_used(
    tmp_path: Path,
) -> None:
    """Its lock is there, and nothing is in it yet."""
    (tmp_path / "lock").touch()
    take_over(tmp_path, "dev")()
    assert lock.holder(tmp_path) is not None


def test_a_second_run_asks_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says whose the folder is and what to do, and ends nobody."""
    monkeypatch.setattr(lock, "PATIENCE_SECONDS", 0.2)
    folder = tmp_path / "sandbox"
    with holding(folder) as first:
        with pytest.raises(FolderError) as refused:
            take_over(folder, "dev")
        assert re.fullmatch(
            rf"a kept rehearsal of dev \(pid {first.pid}, since \d\d:\d\d\) is running: "
            "gpu-cluster down dev, or --replace",
            str(refused.value),
        )
        assert first.poll() is None
        assert lock.is_running(folder)


def test_one_that_is_not_kept_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So nobody is told to bring it down."""
    monkeypatch.setattr(lock, "PATIENCE_SECONDS", 0.2)
    unlock = take_over(tmp_path / "sandbox", "dev")
    with pytest.raises(FolderError, match=r"a rehearsal of dev .* is running: wait for it, or"):
        take_over(tmp_path / "sandbox", "dev")
    unlock()


def test_who_is_replaced_is_told_by_whom(tmp_path: Path) -> None:
    """The words are the command's that ended it."""
    folder = tmp_path / "sandbox"
    with holding(folder) as first:
        take_over(folder, "dev", replace="gpu-cluster rehearse dev --replace")()
        assert first.wait(60) == 130
        assert first.stderr is not None
        said = first.stderr.read()
    assert re.fullmatch(
        r"rehearsal of dev: ended by gpu-cluster rehearse dev --replace \(pid \d+\)\n", said
    )


def test_down_ends_the_one_that_runs(tmp_path: Path) -> None:
    """And that alone counts as ended."""
    folder = tmp_path / "sandbox"
    with holding(folder) as first:
        assert end(folder, "gpu-cluster down dev") == "ended"
        assert first.wait(60) == 130
    assert not folder.exists()


BUILDING = """
import sys, time
from gpu_cluster.rehearsal import holder

def built(*names):
    print("building", flush=True)
    time.sleep(60)

holder.built, sys.argv = built, sys.argv[2:]
sys.exit(holder.main())
"""
"""A rehearsal that still builds its programs."""


def test_down_ends_the_one_that_is_starting(tmp_path: Path) -> None:
    """Between the command and the lock are the programs that it builds, which take minutes."""
    folder = tmp_path / "sandbox"
    wanted = json.dumps(asdict(holder.Wanted(stack="dev", folder=str(folder), keep=True)))
    command = [
        sys.executable,
        "-c",
        BUILDING,
        "-m",
        "gpu_cluster.rehearsal.holder",
        "1",
        wanted,
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as starting:
        assert starting.stdout is not None
        assert starting.stdout.readline() == b"building\n"
        other = tmp_path / "other"
        other.mkdir()
        assert holder.down("dev", other) == ("was not running; removed what it left", [])
        assert starting.poll() is None
        assert holder.down("dev", folder) == ("ended while it was starting", [])
        assert starting.poll() is not None


def test_down_waits_for_the_process_that_has_unlocked(tmp_path: Path) -> None:
    """Until then, a second `down` would take it for one that is starting."""
    folder = tmp_path / "sandbox"
    ending = "    try: time.sleep(60)\n    finally: unlock(); time.sleep(1)"
    slow = HELD.replace("    time.sleep(60)", ending)
    with subprocess.Popen(
        [sys.executable, "-c", slow, str(folder)], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert holder.down("dev", folder) == ("ended", [])
        assert process.poll() is not None


def test_the_report_of_the_one_that_ran_stays(tmp_path: Path) -> None:
    """It is what there is to show of it; all else goes, and the second time the report too."""
    folder = tmp_path / "sandbox"
    with holding(folder):
        for name in ("report.txt", "timeline.svg", "kubeconfig"):
            (folder / name).write_text(name)
        said = end(folder, "gpu-cluster down dev")
    assert said == f"ended; its report is kept: {folder / 'report.txt'}"
    assert {file.name for file in folder.iterdir()} == {"lock", "report.txt", "timeline.svg"}
    assert (folder / "report.txt").read_text() == "report.txt"
    assert end(folder, "gpu-cluster down dev") == "was not running; removed its report"
    assert not folder.exists()


def test_a_killed_one_is_in_nobodys_way(tmp_path: Path) -> None:
    """Its lock went with it."""
    folder = tmp_path / "sandbox"
    with holding(folder) as first:
        first.send_signal(signal.SIGKILL)
        first.wait(60)
        take_over(folder, "dev")()


def test_the_list_has_what_runs_and_what_has_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other folders beside them are nobody's rehearsal."""
    monkeypatch.setattr(holder, "REHEARSALS", tmp_path)
    assert main(["list"]) == 0
    assert capsys.readouterr().out == "no rehearsal is running, and there are no reports\n"
    precious(tmp_path / "bench")
    for stack in ("train", "onprem"):
        take_over(tmp_path / stack, stack)()
    (tmp_path / "train" / "report.json").write_text('{"ok": false}')
    with holding(tmp_path / "dev") as first:
        assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        rf"dev: a kept rehearsal of dev \(pid {first.pid}, since .*\) is running; "
        rf"KUBECONFIG={tmp_path}/dev/kubeconfig",
        lines[0],
    )
    assert lines[1:] == [
        "onprem: ended early, without a report",
        f"train: failed; {tmp_path}/train/report.txt",
    ]
    assert main(["list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rehearsals"][2] == {
        "stack": "train",
        "state": "failed",
        "see": f"{tmp_path}/train/report.txt",
    }


def test_what_is_another_users_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as a rehearsal that root has kept."""

    def denied(*_: object) -> str:
        raise PermissionError(13, "Permission denied", "/somewhere/lock")

    monkeypatch.setattr(lock, "end", denied)
    assert main(["down", "dev"]) == 2
    said = "gpu-cluster down: rehearsal of dev: /somewhere/lock: permission denied\n"
    assert capsys.readouterr().err == said


def test_down_of_an_unknown_stack_names_those_that_there_are() -> None:
    """A misspelt name has nothing to bring down."""
    done = command("down", "nosuch")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gpu-cluster down: there is no Pulumi.nosuch.yaml: the stacks")
    assert done.stderr.count("\n") == 1


MOUNTED = """
import json, subprocess, sys
from pathlib import Path
from gpu_cluster.rehearsal import lock
from gpu_cluster.rehearsal.gpu_node import host_changes
root = Path(sys.argv[1])
(root / "data").mkdir()
(root / "data" / "file").touch()
for place in sys.argv[2:]:
    Path(place).mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", root / "data", place], check=True)
try:
    print(lock.end(root / "sandbox", "the test"))
except lock.FolderError as error:
    print(error)
print(sorted(str(path) for path in (root / "data").iterdir()))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("place", ["kubelet", "kubelet/pods/u/volumes/nfs", "sandbox/x", "run"])
def test_nothing_is_deleted_through_a_mount(place: str, tmp_path: Path) -> None:
    """Neither in a folder that the record names, nor in the rehearsal's own ones."""
    sandbox = tmp_path / "sandbox"
    lock.take_over(sandbox, "onprem")()
    run = host_changes.run_folder(sandbox)
    HostChanges(
        file=sandbox / "node.json",
        bridge="none",
        subnet="198.18.7",
        cgroup="none-of-mine",
        boot=host_changes.boot(),
        folders=host_changes.make_folders([str(tmp_path / "kubelet")]),
    ).write()
    target = run / "x" if place == "run" else tmp_path / place
    program = [sys.executable, "-c", MOUNTED, str(tmp_path), str(target)]
    done = subprocess.run(["unshare", "-m", *program], capture_output=True, text=True, cwd=ROOT)
    shutil.rmtree(run, ignore_errors=True)
    if "unshare" in done.stderr:
        pytest.skip(f"this machine allows no mounts: {done.stderr}")
    said, data = done.stdout.splitlines()
    assert data == str([str(tmp_path / "data" / "file")])
    assert ("is a mount point" in said) == (place == "sandbox/x")


def test_a_rehearsal_of_another_container_is_ended_there(tmp_path: Path) -> None:
    """Its process ID is another process's here; the folder and its lock are shared."""
    folder = tmp_path / "sandbox"
    with holding(folder) as first:
        owner = json.loads((folder / "lock").read_text())
        assert owner["namespace"] == linux.process_namespace()
        owner["namespace"] = f"{linux.boot()} pid:[1]"
        (folder / "lock").write_text(json.dumps(owner))
        with pytest.raises(FolderError, match=r"dev .* in another container, .*: end it there"):
            end(folder, "the test")
        assert first.poll() is None


def test_one_that_does_not_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that waits for a disk, which not even SIGKILL ends."""
    monkeypatch.setattr(lock, "END_SECONDS", 0.2)
    monkeypatch.setattr(lock, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(lock, "_signal", lambda pid, number: None)
    with (
        holding(tmp_path / "sandbox"),
        pytest.raises(FolderError, match=r"dev .* does not end; .* is locked"),
    ):
        end(tmp_path / "sandbox", "the test")


def test_processes_of_another_namespace_are_not_seen() -> None:
    """A container's rehearsal has the same path in its environment, and another folder."""
    sleep = ["unshare", "--pid", "--fork", "sleep", "60"]
    with subprocess.Popen(sleep, env={**os.environ, "REHEARSAL": "/a/folder"}) as outside:
        try:
            (inside,) = _children(outside.pid)
            assert [process.pid for process in processes.marked("/a/folder")] == [outside.pid]
        finally:
            outside.kill()
            psutil.Process(inside).kill()


def _children(pid: int) -> list[int]:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if found := [child.pid for child in psutil.Process(pid).children()]:
            return found
        time.sleep(0.01)
    raise AssertionError("unshare has started nothing")


def test_make_clean_leaves_a_rehearsal_alone(tmp_path: Path) -> None:
    """Without its lock and its record, nothing could end it, or undo what its node changed."""
    assert clean.refusal(tmp_path) == ""
    with holding(tmp_path / "dev"):
        assert clean.refusal(tmp_path).endswith("end it: gpu-cluster down dev")
    (tmp_path / "dev" / "node.json").touch()
    assert clean.refusal(tmp_path).endswith("undo that: gpu-cluster down dev")
