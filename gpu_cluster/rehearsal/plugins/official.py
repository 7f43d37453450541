"""Finds the installed official provider plugins, and decides whether a rehearsal can use them."""

import importlib.metadata
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2_grpc

from gpu_cluster import tools
from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.tools.peers import channel_to
from gpu_cluster.tools.programs import numbers_in

SECONDS = 30.0
"""How long a plugin may take to report its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The installed official plugin of a package."""

    program: Path | None = None
    """The plugin's program; None if none is usable."""
    version: str = ""
    """The program's version; that of the first one found, if none is usable."""
    why: str = ""
    """Why none is usable."""


def sdk_version(package: str) -> str:
    """The version of the installed SDK, and so of the plugin that the engine requests."""
    return importlib.metadata.version(f"pulumi-{package}")


def installed(
    package: str, environment: Mapping[str, str] | None = None, *, built: bool = False
) -> Installed:
    """The plugin that a rehearsal can use: one with the SDK's major version, on PATH or else the
    newest in the engine's plugin folder; with `built`, else the one that is built here."""
    wanted = sdk_version(package)
    seen = Installed(why=f"no official plugin pulumi-resource-{package} is installed")
    found = _found(package, os.environ if environment is None else environment, built=built)
    for program, known in found:
        version = known or _asked(program)
        if numbers_in(version)[:1] == numbers_in(wanted)[:1]:
            return Installed(program=program, version=version)
        if not seen.version:
            why = f"{program} is of version {version or 'unknown'}, the SDK of {wanted}"
            seen = Installed(version=version or "unknown", why=why)
    return seen


def first(package: str) -> Path | None:
    """An official plugin of the package, of any version."""
    return next((program for program, _ in _found(package, os.environ, built=True)), None)


@contextmanager
def running(program: Path, environment: Mapping[str, str]) -> Iterator[int]:
    """Runs the plugin as a process; yields its port. Raises CheckError."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    try:
        process = subprocess.Popen(
            # The engine's address: no server listens there, and logs are lost.
            [program, "127.0.0.1:9"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept | dict(environment),
            text=True,
        )
    except OSError as error:
        raise CheckError(f"{program}: {error.strerror}") from None
    with process:
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            if not port.isdigit():
                raise CheckError(f"{program} is not a provider plugin: it printed {port!r}")
            yield int(port)
        finally:
            process.kill()


def _found(
    package: str, environment: Mapping[str, str], *, built: bool
) -> Iterator[tuple[Path, str]]:
    """Program and version, empty if the program must be asked: the one on PATH, then the cached
    ones, then the one that `python -m gpu_cluster.tools build` has built."""
    name = f"pulumi-resource-{package}"
    if on_path := shutil.which(name, path=environment.get("PATH", os.defpath)):
        yield Path(on_path), ""
    home = environment.get("PULUMI_HOME") or Path(environment.get("HOME") or Path.home(), ".pulumi")
    cached = [
        (folder / name, folder.name.partition("-v")[2])
        for folder in Path(home, "plugins").glob(f"resource-{package}-v*")
        if (folder / name).is_file()
    ]
    yield from sorted(cached, key=lambda entry: numbers_in(entry[1]), reverse=True)
    if built:
        with suppress(tools.ToolError):  # only Kubernetes' can be built, and only by choice
            yield tools.binary(name), ""


def _asked(program: Path) -> str:
    """The version that the plugin reports to the engine; empty if it reports none."""
    try:
        with running(program, {}) as port, channel_to(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            return str(stub.GetPluginInfo(empty_pb2.Empty(), timeout=SECONDS).version)
    except (CheckError, grpc.RpcError):
        return ""
