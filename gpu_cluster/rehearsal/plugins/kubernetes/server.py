"""The offline plugin's gRPC server: one process for every Kubernetes provider of a stack.

The engine attaches all provider resources of the package to this one port, each over its own
connection, which identifies the provider that a request is for.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from gpu_cluster.rehearsal.plugins import init_failed
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.plugins.cloud.server import DIFFERS, property_diff
from gpu_cluster.rehearsal.plugins.cloud.wire import encode
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.plugins.kubernetes.cluster import Settings
from gpu_cluster.rehearsal.plugins.kubernetes.properties import decode, plain
from gpu_cluster.rehearsal.plugins.kubernetes.provider import Provider
from gpu_cluster.rehearsal.plugins.kubernetes.resource import (
    InitializationFailed,
    ProviderError,
    Resource,
)
from gpu_cluster.rehearsal.plugins.official import sdk_version
from gpu_cluster.tools.peers import grpc_server

_OPERATIONS = 128
"""The most resources in progress at once; a wait occupies one of these threads."""


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
        self._lock = threading.Lock()

    def close(self) -> None:
        """Ends the waits and connections of all providers."""
        with self._lock:
            for provider in self._providers.values():
                provider.close()
            self._providers.clear()

    def _provider(self, context: Any) -> Provider:
        with self._lock:
            found = self._providers.get(context.peer())
        if found is None:
            raise ProviderError("the engine's connection was lost after Configure: run it again")
        return found

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: Any, context: Any) -> Any:
        with self._lock:
            # A new connection may use the port of an earlier one.
            if old := self._providers.pop(context.peer(), None):
                old.close()
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=sdk_version("kubernetes"))

    def GetSchema(self, request: Any, context: Any) -> Any:
        # The engine needs a schema only for programs in YAML; Python's resources have their own.
        return provider_pb2.GetSchemaResponse(schema='{"name": "kubernetes"}')

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        """A provider of another cluster replaces everything that the first one created."""
        old = plain(decode(request.old_inputs))
        new = plain(decode(request.news))
        names = sorted(
            name
            for name in (old.keys() | new.keys()) - {"version"}
            if old.get(name) != new.get(name)
        )
        identifiers = old.get("clusterIdentifier"), new.get("clusterIdentifier")
        replaces = all(identifiers) and "clusterIdentifier" in names
        return provider_pb2.DiffResponse(
            changes=DIFFERS[bool(names)],
            diffs=names,
            replaces=["clusterIdentifier"] if replaces else [],
        )

    def Configure(self, request: Any, context: Any) -> Any:
        given = plain(decode(request.args))
        names = ("kubeconfig", "context", "namespace")
        settings = Settings(**{name: given[name] for name in names if name in given})
        configured = Provider(settings, self._environment, self._only)
        with self._lock:
            self._providers[context.peer()] = configured
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        with _refusing(context):
            inputs = self._provider(context).check(
                Resource(urn=request.urn),
                decode(request.olds),
                decode(request.news),
                request.randomSeed,
            )
        return provider_pb2.CheckResponse(inputs=encode(inputs))

    def Diff(self, request: Any, context: Any) -> Any:
        resource = Resource(urn=request.urn, ignore_changes=tuple(request.ignoreChanges))
        with _refusing(context):
            found = self._provider(context).diff(
                resource, decode(request.olds), decode(request.news)
            )
        return provider_pb2.DiffResponse(
            changes=DIFFERS[bool(found.changes)],
            # The engine prints these in a preview's line; they are keys, not paths (provider.go).
            diffs=sorted({re.split(r"[.\[]", path)[0] for path in found.changes}),
            replaces=found.replaces,
            deleteBeforeReplace=found.delete_before_replace,
            hasDetailedDiff=True,
            detailedDiff={
                path: property_diff(change, replaces=replaces, of_input=change == "delete")
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
