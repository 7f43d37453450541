"""Builds programs into the cache, one at a time, each complete or not at all."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gpu_cluster.tools import go, on_machine, where
from gpu_cluster.tools.linux import supervised
from gpu_cluster.tools.locks import locked
from gpu_cluster.tools.programs import BUILD_FLAGS, SPEED_FLAGS, Program, ToolError, cache_folder

HEARTBEAT = 30.0


def build_programs(programs: Sequence[Program]) -> None:
    """Builds those of the programs that the cache lacks."""
    missing = [program for program in programs if not where(program).is_dir()]
    if missing:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with go.caches():
            for number, program in enumerate(missing, start=1):
                _build(program, f"[{number}/{len(missing)}] {program.name}")
        _say(f"{len(programs)} of {len(programs)} programs are in {cache_folder()}")


def _build(program: Program, label: str) -> None:
    with locked(program.name, label):
        folder = where(program)
        if folder.is_dir():
            _say(f"{label}: done by the other build")
            return
        _check_machine(program)
        started = time.monotonic()
        found = on_machine.found(program)
        for name, path in found.items():
            _say(f"{label}: {name} {on_machine.version(path)} is at {path}")
        _say(f"{label}: building {program.version()}, usually {_clock(program.usually)}")
        compiler = go.command(program)
        with tempfile.TemporaryDirectory(prefix=f".{program.name}-", dir=cache_folder()) as name:
            binaries = tuple(binary for binary in program.binaries if binary not in found)
            _compile(program, binaries, compiler, Path(name), label)
            os.rename(Path(name) / "out", folder)
        _say(f"{label}: done in {_clock(time.monotonic() - started)}")


def _check_machine(program: Program) -> None:
    """Raises ToolError if the machine lacks what the program's C code needs."""
    if not program.c:
        return
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        raise ToolError(
            f"{program.name} has parts in C, and {compiler} is not installed; install gcc"
        )
    for header, package in program.headers:
        asked = [compiler, "-E", "-x", "c", "-o", os.devnull, "-"]
        done = subprocess.run(asked, input=f"#include <{header}>\n", text=True, capture_output=True)
        if done.returncode:
            raise ToolError(
                f"{program.name} needs {header}: install Debian's {package}, or what has it here"
            )


def _compile(
    program: Program, binaries: tuple[str, ...], compiler: Path, scratch: Path, label: str
) -> None:
    out, work = scratch / "out", scratch / "work"
    out.mkdir()
    work.mkdir()
    env = go.environment(compiler, work, c=program.c)
    flags = [*BUILD_FLAGS, *SPEED_FLAGS, "-ldflags", program.linker_flags(), "-o", f"{out}/"]
    if program.tags:
        flags += ["-tags", ",".join(program.tags)]
    packages = program.packages(binaries)
    _run([str(compiler), "build", *flags, *packages], program, env, scratch, label)
    built = sorted(out.iterdir())
    if len(built) == 1:  # a package path like .../server/v3 gives the binary another name
        built[0].rename(out / binaries[0])
    for module, pattern, folder in program.copies:
        listing = [str(compiler), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]
        source = Path(_run(listing, program, env, scratch, label).splitlines()[-1])
        (out / folder).mkdir(parents=True, exist_ok=True)
        files = sorted(source.glob(pattern))
        if not files:
            raise ToolError(f"{program.name}: {module} has no files {pattern}")
        for file in files:
            copy = out / folder / file.name
            shutil.copyfile(file, copy)
            copy.chmod(0o644)
    for script in program.scripts:
        shutil.copy(program.source / script, out / script)
    if absent := [binary for binary in binaries if not (out / binary).is_file()]:
        raise ToolError(f"{program.name}: the build yielded no {', '.join(absent)}")


def _run(
    command: list[str], program: Program, env: dict[str, str], scratch: Path, label: str
) -> str:
    """Runs `go` in the program's folder, and prints from time to time that it is still running."""
    started = time.monotonic()
    log = scratch / "log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            supervised(command),  # an orphan would continue to build into a deleted folder
            cwd=program.source,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while (code := _wait(child)) is None:
                _say(f"{label}: still building, {_clock(time.monotonic() - started)}")
        finally:
            child.kill()
            child.wait()
    if code:
        sys.stderr.write(log.read_text(errors="replace"))
        raise ToolError(f"{program.name}: go {command[1]} failed with exit code {code}, see above")
    return log.read_text()


def _wait(child: subprocess.Popen[bytes]) -> int | None:
    try:
        return child.wait(timeout=HEARTBEAT)
    except subprocess.TimeoutExpired:
        return None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
