"""The Python language host for an engine that comes without one.

Like the official one, it runs each program in a child process, through the official
`pulumi-language-python-exec`, which the engine's Go module ships and `tools` keeps next to the
engine. Errors, tracebacks, exit codes and concurrency are therefore the official ones; this module
only has the gRPC service that starts it. It does not install dependencies, generate code, or look
for provider plugins: the engine requests those itself when the program registers a resource.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import IO

import grpc
from pulumi.runtime.proto import language_pb2 as messages
from pulumi.runtime.proto import language_pb2_grpc, plugin_pb2

from gpu_cluster.tools import ToolError, binary
from gpu_cluster.tools.peers import grpc_server

MESSAGE_SHOWN = 32
"""Exit code of the official executor after it has shown the user the error."""
ANALYZER = "pulumi.policy"
"""The module that runs a policy pack."""
LOOK_SECONDS = 1.0
"""How often it checks whether the engine is still running."""
_ENDING = (signal.SIGINT, signal.SIGTERM)


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Serves `pulumirpc.LanguageRuntime` for one run of the engine."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.children: set[subprocess.Popen[bytes]] = set()

    def Handshake(
        self, request: messages.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> messages.LanguageHandshakeResponse:
        self.engine = request.engine_address or self.engine
        return messages.LanguageHandshakeResponse()

    def Run(
        self, request: messages.RunRequest, context: grpc.ServicerContext
    ) -> messages.RunResponse:
        try:
            command = [_python(request.info), "-u", str(binary("pulumi-language-python-exec"))]
        except ToolError as error:
            return messages.RunResponse(error=str(error))
        command += self._arguments(request)
        env = dict(os.environ)
        if request.config:
            env["PULUMI_CONFIG"] = json.dumps(dict(request.config))
        if request.configSecretKeys:
            env["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        folder = request.pwd or request.info.program_directory
        with self._child(context, command, folder, env) as child:
            code = child.wait()
        if code == MESSAGE_SHOWN:
            return messages.RunResponse(bail=True)
        if code:
            return messages.RunResponse(error=f"Program exited with non-zero exit code: {code}")
        return messages.RunResponse()

    def RunPlugin(
        self, request: messages.RunPluginRequest, context: grpc.ServicerContext
    ) -> Iterator[messages.RunPluginResponse]:
        try:
            command = [_python(request.info), "-u", *_plugin(request)]
        except ToolError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        env = dict(os.environ) | dict(pair.split("=", 1) for pair in request.env if "=" in pair)
        with self._child(context, command, request.pwd, env, output=subprocess.PIPE) as child:
            for name, line in _lines(child):
                if name == "stdout":
                    yield messages.RunPluginResponse(stdout=line)
                else:
                    yield messages.RunPluginResponse(stderr=line)
            yield messages.RunPluginResponse(exitcode=child.wait())

    def Cancel(self, request: object, context: grpc.ServicerContext) -> object:
        self.stop()
        return request  # receives and returns Empty

    def GetRequiredPackages(
        self, request: messages.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> messages.GetRequiredPackagesResponse:
        return messages.GetRequiredPackagesResponse()

    def GetRequiredPlugins(
        self, request: messages.GetRequiredPluginsRequest, context: grpc.ServicerContext
    ) -> messages.GetRequiredPluginsResponse:
        return messages.GetRequiredPluginsResponse()

    def InstallDependencies(
        self, request: messages.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[messages.InstallDependenciesResponse]:
        return iter(())

    def RuntimeOptionsPrompts(
        self, request: messages.RuntimeOptionsRequest, context: grpc.ServicerContext
    ) -> messages.RuntimeOptionsResponse:
        return messages.RuntimeOptionsResponse()

    def GetProgramDependencies(
        self, request: messages.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> messages.GetProgramDependenciesResponse:
        return messages.GetProgramDependenciesResponse(
            dependencies=[
                messages.DependencyInfo(name=distribution.name, version=distribution.version)
                for distribution in metadata.distributions()
            ]
        )

    def About(
        self, request: messages.AboutRequest, context: grpc.ServicerContext
    ) -> messages.AboutResponse:
        version = ".".join(str(number) for number in sys.version_info[:3])
        return messages.AboutResponse(executable=sys.executable, version=version)

    def GetPluginInfo(
        self, request: object, context: grpc.ServicerContext
    ) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=metadata.version("pulumi"))

    def stop(self) -> None:
        """Ends the processes that are still running."""
        for child in list(self.children):
            child.terminate()

    def _arguments(self, request: messages.RunRequest) -> list[str]:
        flags = {
            "monitor": request.monitor_address,
            "engine": self.engine,
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": "true" if request.dryRun else "false",
            "parallel": str(request.parallel),
            "organization": request.organization,
        }
        given = [part for flag, value in flags.items() if value for part in (f"--{flag}", value)]
        return [*given, request.info.entry_point or ".", *request.args]

    @contextmanager
    def _child(
        self,
        context: grpc.ServicerContext,
        command: list[str],
        folder: str,
        env: dict[str, str],
        output: int | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A child process that ends no later than the engine's call."""
        with subprocess.Popen(
            command,
            cwd=folder or None,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        ) as child:
            self.children.add(child)
            if not context.add_callback(child.terminate):
                child.terminate()
            yield child
        self.children.discard(child)


def _python(info: messages.ProgramInfo) -> str:
    """The interpreter for a program: the project's `virtualenv` option, else this one, which is
    also that environment's if it may be a launcher (GPU_CLUSTER_PYTHON)."""
    chosen = info.options.fields["virtualenv"].string_value
    folder, given = Path(info.root_directory, chosen), "GPU_CLUSTER_PYTHON" in os.environ
    python, same = folder / "bin" / "python", folder.resolve() == Path(sys.prefix).resolve()
    if not chosen or (given and (same or not python.exists())):
        return sys.executable
    if not python.exists():
        raise ToolError(
            f"the 'virtualenv' option in Pulumi.yaml is {chosen!r}, and {python} does not exist: "
            "create it, or set GPU_CLUSTER_PYTHON to an interpreter that has the requirements"
        )
    return str(python)


def _plugin(request: messages.RunPluginRequest) -> list[str]:
    """The interpreter's arguments for a plugin. For a policy pack, its folder comes last. Any other
    plugin is a folder with `__main__.py`, or a distribution whose module of the same name is run.

    `RunPlugin` in pulumi/pulumi sdk/python/cmd/pulumi-language-python/main.go, 2026-11-24.
    """
    folder = Path(request.info.program_directory)
    if request.kind == "analyzer":
        return ["-m", ANALYZER, *request.args, str(folder)]
    if (folder / "__main__.py").is_file():
        return [str(folder), *request.args]
    try:
        name = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"]
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        raise ToolError(
            f"{folder} is not a plugin in Python: it has neither __main__.py nor a pyproject.toml "
            "with the project's name"
        ) from None
    return ["-m", "pulumi.run.plugin", name, *request.args]


def _lines(child: subprocess.Popen[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yields the lines of both output streams as they arrive."""
    lines: queue.Queue[tuple[str, bytes] | None] = queue.Queue()

    def read(name: str, stream: IO[bytes]) -> None:
        for line in stream:
            lines.put((name, line))
        lines.put(None)

    assert child.stdout is not None
    assert child.stderr is not None
    streams = {"stdout": child.stdout, "stderr": child.stderr}
    for name, stream in streams.items():
        threading.Thread(target=read, args=(name, stream), daemon=True).start()
    for _ in streams:
        yield from iter(lines.get, None)


class _Ended(Exception):
    """The engine has interrupted this process."""


def _end(*_: object) -> None:
    # Not `Event.set`: it needs a lock that the main thread may hold in `Event.wait`.
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise _Ended


def main() -> None:
    """Serves until the engine interrupts this process or dies; the engine reads the port from the
    first line of the output."""
    engine_process = os.getppid()
    server, port = grpc_server(64, "language-host")
    host = LanguageHost(engine=sys.argv[-1] if len(sys.argv) > 1 else "")
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    server.start()
    try:
        for number in _ENDING:
            signal.signal(number, _end)
        print(port, flush=True)
        while os.getppid() == engine_process:
            time.sleep(LOOK_SECONDS)
    except _Ended:
        pass
    host.stop()
    server.stop(grace=1).wait()
