"""The offline plugin's gRPC server: one process for every Kubernetes provider of a stack.

The engine attaches all provider resources of the package to this one port, each over its own
connection, which identifies the provider that a request is for.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
import yaml
from google.protobuf import empty_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
)

from rehearsal.plugins import init_failed
from rehearsal.plugins.cloud.handler import CloudError
from rehearsal.plugins.faults import Faults
from rehearsal.plugins.kubernetes import provider_args
from rehearsal.plugins.kubernetes.provider import Provider
from rehearsal.plugins.kubernetes.resource import (
    Autonaming,
    InitializationFailed,
    Level,
    ProviderError,
    Resource,
)
from rehearsal.plugins.kubernetes.wire import decode, encode
from rehearsal.plugins.official import sdk_version
from tools.peers import channel_to, grpc_server

_OPERATIONS = 128
"""The most resources in progress at once; a wait occupies one of these threads."""
_MODES = {0: "propose", 1: "enforce", 2: "disable"}
_YAML_DECODE = "kubernetes:yaml:decode"


class KubernetesProviderServer:
    """Serves `pulumirpc.ResourceProvider` on loopback; the engine finds it through
    `PULUMI_DEBUG_PROVIDERS=kubernetes:<port>`."""

    def __init__(
        self,
        environment: Mapping[str, str],
        faults: Faults | None = None,
        *,
        only: str | None = None,
    ) -> None:
        """`environment`: that of a plugin's process; its PATH finds the kubeconfig's programs.
        `only`: host and port of the only API server that it connects to; None if any will do."""
        self._server, self.port = grpc_server(_OPERATIONS, "kubernetes-provider")
        self._servicer = Servicer(dict(environment), faults or Faults(), only)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(self._servicer, self._server)

    def start(self) -> None:
        self._server.start()

    def drop(self) -> None:
        """Ends all waits and connections, as when the plugin is killed with the engine."""
        self._servicer.close()

    def stop(self) -> None:
        """Ends all waits, then the server."""
        self.drop()
        self._server.stop(grace=1.0).wait()


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Translates requests to calls of the connection's provider. Thread-safe."""

    def __init__(
        self, environment: Mapping[str, str], faults: Faults, only: str | None = None
    ) -> None:
        self._environment, self._only = environment, only
        self._faults = faults
        self._providers: dict[str, Provider] = {}
        self._engines: dict[str, Any] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            for provider in self._providers.values():
                provider.close()
            for channel in self._engines.values():
                channel.close()
            self._providers.clear()
            self._engines.clear()

    def _provider(self, context: Any) -> Provider:
        with self._lock:
            found = self._providers.get(context.peer())
        if found is None:
            raise ProviderError("the engine's connection was lost after Configure: run it again")
        return found

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True, supports_autonaming_configuration=True
        )

    def Attach(self, request: Any, context: Any) -> Any:
        with self._lock:
            # A new connection may use the port of an earlier one.
            if old := self._providers.pop(context.peer(), None):
                old.close()
            if channel := self._engines.pop(context.peer(), None):
                channel.close()
            self._engines[context.peer()] = channel_to(request.address)
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=sdk_version("kubernetes"))

    def GetSchema(self, request: Any, context: Any) -> Any:
        # The engine needs a schema only for programs in YAML; Python's resources have their own.
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "kubernetes"}))

    def CheckConfig(self, request: Any, context: Any) -> Any:
        name = Resource(urn=request.urn).name
        return provider_pb2.CheckResponse(
            inputs=request.news,
            failures=_failures(
                provider_args.faults(
                    decode(request.news), default_provider=name.startswith("default")
                )
            ),
        )

    def DiffConfig(self, request: Any, context: Any) -> Any:
        old = request.old_inputs if request.HasField("old_inputs") else request.olds
        names, replaces = provider_args.changed(
            decode(old), decode(request.news), self._environment
        )
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME
            if names
            else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=names,
            replaces=replaces,
        )

    def Configure(self, request: Any, context: Any) -> Any:
        configured = Provider(
            provider_args.read(decode(request.args), self._environment),
            self._environment,
            self._log(context.peer()),
            self._only,
        )
        with self._lock:
            self._providers[context.peer()] = configured
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, supports_autonaming_configuration=True
        )

    def Check(self, request: Any, context: Any) -> Any:
        autonaming = None
        if request.HasField("autonaming"):
            said = request.autonaming
            autonaming = Autonaming(mode=_MODES[said.mode], name=said.proposedName)  # type: ignore[arg-type]
        with _refusing(context):
            inputs, faults = self._provider(context).check(
                Resource(urn=request.urn),
                decode(request.olds),
                decode(request.news),
                request.randomSeed,
                autonaming,
            )
        return provider_pb2.CheckResponse(inputs=encode(inputs), failures=_failures(faults))

    def Diff(self, request: Any, context: Any) -> Any:
        resource = Resource(urn=request.urn, ignore_changes=tuple(request.ignoreChanges))
        with _refusing(context):
            found = self._provider(context).diff(
                resource, decode(request.olds), decode(request.news)
            )
        kinds = provider_pb2.PropertyDiff.Kind
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME
            if found.changes
            else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=sorted(found.changes),
            replaces=found.replaces,
            deleteBeforeReplace=found.delete_before_replace,
            hasDetailedDiff=True,
            detailedDiff={
                path: provider_pb2.PropertyDiff(
                    kind=kinds.Value(change.upper() + ("_REPLACE" if replaces else "")),
                    inputDiff=change == "delete",
                )
                for path, (change, replaces) in found.changes.items()
            },
        )

    def Create(self, request: Any, context: Any) -> Any:
        resource = Resource(urn=request.urn, timeout=request.timeout, preview=request.preview)
        with _refusing(context), self._around("create", resource):
            id, state = self._provider(context).create(resource, decode(request.properties))
        return provider_pb2.CreateResponse(id=id, properties=encode(state))

    def Read(self, request: Any, context: Any) -> Any:
        with _refusing(context):
            found = self._provider(context).read(
                Resource(urn=request.urn),
                request.id,
                decode(request.properties),
                decode(request.inputs),
            )
        if found is None:
            return provider_pb2.ReadResponse()
        id, state, inputs = found
        return provider_pb2.ReadResponse(id=id, properties=encode(state), inputs=encode(inputs))

    def Update(self, request: Any, context: Any) -> Any:
        resource = Resource(
            urn=request.urn,
            timeout=request.timeout,
            preview=request.preview,
            ignore_changes=tuple(request.ignoreChanges),
        )
        with _refusing(context), self._around("update", resource):
            state = self._provider(context).update(
                resource, decode(request.olds), decode(request.news)
            )
        return provider_pb2.UpdateResponse(properties=encode(state))

    def Delete(self, request: Any, context: Any) -> Any:
        resource = Resource(urn=request.urn, timeout=request.timeout)
        with _refusing(context), self._around("delete", resource):
            self._provider(context).delete(resource, request.id, decode(request.properties))
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        if request.tok != _YAML_DECODE:
            context.abort(
                grpc.StatusCode.UNIMPLEMENTED,
                f"{request.tok}: the offline plugin has only {_YAML_DECODE}; use plain resources",
            )
        text = decode(request.args).get("text", "")
        objects = [each for each in yaml.safe_load_all(text) if each]
        return provider_pb2.InvokeResponse(**{"return": encode({"result": objects})})

    def Cancel(self, request: Any, context: Any) -> Any:
        with self._lock:
            found = self._providers.get(context.peer())
        if found is not None:
            found.cancelled.set()
        return empty_pb2.Empty()

    @contextmanager
    def _around(self, kind: str, resource: Resource) -> Iterator[None]:
        """Applies the faults that are set for an operation; none in a preview."""
        if resource.preview:
            yield
            return
        try:
            with self._faults.around(kind, resource.urn):
                yield
        except CloudError as error:
            raise ProviderError(str(error)) from None

    def _log(self, peer: str) -> Callable[[Level, str, str, bool], None]:
        """Sends messages to the engine that is connected."""
        with self._lock:
            channel = self._engines.get(peer)
        if channel is None:
            return lambda level, urn, message, passing: None
        engine = engine_pb2_grpc.EngineStub(channel)

        def log(level: Level, urn: str, message: str, passing: bool) -> None:
            severity = engine_pb2.LogSeverity.Value(level.upper())
            # The response is not awaited: a lost message must not stop an operation.
            engine.Log.future(
                engine_pb2.LogRequest(
                    severity=severity, message=message, urn=urn, ephemeral=passing
                )
            )

        return log


def _failures(faults: Iterable[tuple[str, str]]) -> list[Any]:
    # The engine shows a nested property's value as nil, so the path is part of the reason.
    return [
        provider_pb2.CheckFailure(reason=f"{path}: {reason}" if path else reason)
        for path, reason in faults
    ]


@contextmanager
def _refusing(context: Any) -> Iterator[None]:
    """Returns the provider's errors in the form that the engine expects."""
    try:
        yield
    except ProviderError as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))
    except InitializationFailed as error:
        inputs = None if error.inputs is None else encode(error.inputs)
        init_failed.abort(context, error.id, encode(error.state), error.reasons, inputs)
