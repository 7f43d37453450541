"""Sends a provider plugin the engine's requests, over the engine's protocol."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpu_cluster.rehearsal.plugins.cloud.wire import decode, encode
from gpu_cluster.rehearsal.plugins.official import running
from gpu_cluster.stacks.outcome import CheckError

_SEED = b"the same generated names on both sides"
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_metadata_size", 2**24),
    ("grpc.enable_http_proxy", 0),
]
"""An error may contain a whole state in its metadata."""
_PATIENCE = 600
"""Seconds within which a plugin responds even on the busiest machine."""
_KINDS = provider_pb2.PropertyDiff.Kind


@dataclass(frozen=True, slots=True)
class Checked:
    """The response to `Check`: inputs with defaults and names, and their problems."""

    inputs: Mapping[str, Any]
    refused: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The response to `Diff`."""

    what: str
    """`same`, `update`, `replace`, or `refused`."""
    reason: str = ""
    keys: tuple[str, ...] = ()
    """The top-level properties that force a replacement."""
    first_delete: bool = False


class Refused(Exception):
    """The plugin returned an error; its text is the reason."""


class Plugin:
    """A plugin that listens on a port of this machine, configured as in a stack."""

    def __init__(
        self, port: int, config: Mapping[str, str], again: Callable[[], int] | None = None
    ) -> None:
        """`again` restarts a crashed plugin and returns its port; without it, a crash is an
        error."""
        self._config, self._again = config, again
        self.version = self._connect(port)

    def _connect(self, port: int) -> str:
        """Configures the plugin on this port; returns its version."""
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=_OPTIONS)
        self._stub = provider_pb2_grpc.ResourceProviderStub(self._channel)
        version: str = self._stub.GetPluginInfo(empty_pb2.Empty(), timeout=_PATIENCE).version
        self._stub.Configure(
            provider_pb2.ConfigureRequest(
                args=encode(self._config),
                variables=dict(self._config),
                acceptSecrets=True,
                acceptResources=True,
            )
        )
        return version

    def close(self) -> None:
        self._channel.close()

    def check(
        self, token: str, name: str, inputs: Mapping[str, Any], old: Mapping[str, Any]
    ) -> Checked:
        """`old`: the checked inputs in the state; empty for a new resource."""
        try:
            answer = self._asked(
                "Check",
                provider_pb2.CheckRequest(
                    urn=_urn(token, name), news=_struct(inputs), olds=_struct(old), randomSeed=_SEED
                ),
            )
        except Refused as error:
            return Checked({}, [str(error)])
        return Checked(decode(answer.inputs), [failure.reason for failure in answer.failures])

    def diff(
        self,
        token: str,
        name: str,
        *,
        state: Mapping[str, Any],
        old: Mapping[str, Any],
        new: Mapping[str, Any],
    ) -> Step:
        """The plugin's plan for a resource with this state and these checked inputs."""
        try:
            answer = self._asked(
                "Diff",
                provider_pb2.DiffRequest(
                    id=str(state["id"]),
                    urn=_urn(token, name),
                    olds=_struct(state),
                    old_inputs=_struct(old),
                    news=_struct(new),
                ),
            )
        except Refused as error:
            return Step(what="refused", reason=str(error))
        some = answer.changes == provider_pb2.DiffResponse.DIFF_SOME
        found = {path: _KINDS.Name(change.kind) for path, change in answer.detailedDiff.items()}
        replacing = [path for path, kind in found.items() if kind.endswith("_REPLACE")]
        # The official bridge plans a replacement from nothing, and also lists properties that stay
        # empty: only an input that differs can be the cause.
        changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        keys = {re.split(r"[.[]", path)[0] for path in replacing or answer.replaces} & changed
        return Step(
            what="replace" if answer.replaces else "update" if some else "same",
            keys=tuple(sorted(keys)),
            first_delete=bool(answer.replaces) and answer.deleteBeforeReplace,
        )

    def preview(self, token: str, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """A new resource's outputs in a preview. Raises Refused."""
        answer = self._asked(
            "Create",
            provider_pb2.CreateRequest(
                urn=_urn(token, name), properties=_struct(inputs), preview=True
            ),
        )
        return decode(answer.properties)

    def update(
        self, token: str, name: str, *, state: Mapping[str, Any], new: Mapping[str, Any]
    ) -> None:
        """Previews an update; raises Refused."""
        self._asked(
            "Update",
            provider_pb2.UpdateRequest(
                id=str(state["id"]),
                urn=_urn(token, name),
                olds=_struct(state),
                news=_struct(new),
                preview=True,
            ),
        )

    def _asked(self, question: str, request: Any, *, again: bool = True) -> Any:
        try:
            return getattr(self._stub, question)(request, timeout=_PATIENCE)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise CheckError(f"the plugin has not answered for {_PATIENCE} seconds") from None
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise Refused(str(error.details())) from None
            if self._again is None:
                raise CheckError(f"the plugin ended: {error.details()}") from None
            self.close()
            self._connect(self._again())
            if again:  # a busy machine loses connections as well
                return self._asked(question, request, again=False)
            raise Refused("the plugin crashed") from None


def _urn(token: str, name: str) -> str:
    return f"urn:pulumi:fidelity::gpu-cluster::{token}::{name}"


def _struct(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    """Keeps nulls, which a program can pass, unlike `encode`, which drops them."""
    struct = struct_pb2.Struct()
    struct.update(properties)
    return struct


@contextmanager
def official(
    program: Path, config: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[Plugin]:
    """An official plugin, which cannot reach any server; a plugin that crashes counts as having
    refused the request, and is restarted. Raises CheckError."""
    with ExitStack() as process:

        def start() -> int:
            process.close()
            # It allocates much and keeps little: with rare garbage collection it is twice as fast.
            return process.enter_context(running(program, {"GOGC": "400", **environment}))

        plugin = Plugin(start(), config, start)
        try:
            yield plugin
        finally:
            plugin.close()
