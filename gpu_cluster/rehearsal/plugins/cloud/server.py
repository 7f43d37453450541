"""An offline plugin in place of a cloud's resource provider, over the engine's gRPC protocol.

It implements types, names, defaults and differences; the handlers implement the cloud's behaviour.
"""

import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from gpu_cluster.rehearsal.plugins import init_failed
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.diff import Comparison, Kind
from gpu_cluster.rehearsal.plugins.cloud.facts import Facts
from gpu_cluster.rehearsal.plugins.cloud.handler import (
    CloudError,
    Config,
    Handler,
    InitFailedError,
    NotFoundError,
    ProviderSettings,
)
from gpu_cluster.rehearsal.plugins.cloud.inputs import (
    as_declared,
    checked,
    merge,
    with_ignored,
    without_meta,
)
from gpu_cluster.rehearsal.plugins.cloud.planning import foreseen, left_out, planned
from gpu_cluster.rehearsal.plugins.cloud.schema import (
    UNKNOWN,
    ResourceSchema,
    UnknownTypeError,
    resource_schema,
)
from gpu_cluster.rehearsal.plugins.cloud.wire import decode, encode, mark_secrets
from gpu_cluster.rehearsal.plugins.official import sdk_version
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.tools.peers import grpc_server

_log = logging.getLogger(__name__)
DIFFERS = {False: provider_pb2.DiffResponse.DIFF_NONE, True: provider_pb2.DiffResponse.DIFF_SOME}
__all__ = ["Provider", "ProviderServer", "ProviderSettings"]


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """Serves the engine's requests. Thread-safe if the handlers are."""

    def __init__(self, settings: ProviderSettings) -> None:
        self.settings = settings
        self._configs: dict[str, Config] = {}
        self._last_config: Config = {}
        self._lock = threading.Lock()

    # Requests of the engine to any plugin.

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse(supports_autonaming_configuration=True)

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=sdk_version(self.settings.package))

    def GetSchema(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetSchemaResponse(schema=f'{{"name": "{self.settings.package}"}}')

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(
            inputs=request.news,
            failures=[
                provider_pb2.CheckFailure(reason=problem.line)
                for problem in self.settings.check_config(decode(request.news))
            ],
        )

    def DiffConfig(self, request: Any, context: Any) -> Any:
        changed = decode(request.old_inputs) != decode(request.news)
        return provider_pb2.DiffResponse(changes=DIFFERS[changed])

    def Configure(self, request: Any, context: Any) -> Any:
        # Each provider instance has its own connection, the only thing that distinguishes them.
        config = decode(request.args)
        with self._lock:
            self._configs[context.peer()] = self._last_config = config
        # Without acceptSecrets the engine sends plain values and tracks itself which of them are
        # secret.
        return provider_pb2.ConfigureResponse(
            supportsPreview=True, supports_autonaming_configuration=True
        )

    def _config(self, context: Any) -> Config:
        with self._lock:
            return self._configs.get(context.peer(), self._last_config)

    # Resources.

    def Check(self, request: Any, context: Any) -> Any:
        with self._answering(context):
            handler, schema, known = self._type(Urn.parse(request.urn).type)
            inputs, problems = checked(request, schema.inputs, known)
            problems += handler.validate_preview(self._config(context), inputs)
            return provider_pb2.CheckResponse(
                inputs=encode(inputs),
                failures=[
                    # Without `property`, for which the engine would show its own value: none, if
                    # the path is nested.
                    provider_pb2.CheckFailure(reason=problem.line)
                    for problem in dict.fromkeys(problems)
                ],
            )

    def Diff(self, request: Any, context: Any) -> Any:
        with self._answering(context):
            handler, schema, known = self._type(Urn.parse(request.urn).type)
            news, olds = decode(request.news), decode(request.olds)
            if reason := handler.plan(olds, news):
                raise CloudError(f"1 error occurred: * {reason}")
            comparison = Comparison(
                shape=schema.inputs,
                facts=known,
                same=handler.same,
                replaces=handler.forces_replacement,
                foreseen=foreseen({}, known.foreseen, self._config(context)),
            )
            for name in schema.misshaped(olds):
                # Like the official bridge, which knows the shapes of a state's properties.
                snake = re.sub(r"([A-Z])", lambda letter: f"_{letter[1].lower()}", name)
                raise CloudError(f"1 error occurred: * [{snake}] missing expected {{")
            changes = comparison.changes(
                decode(request.old_inputs), olds, news, request.ignoreChanges
            )
            explicit = any(
                news.get(path) is not None and path not in news.get("__defaults", ())
                for path in known.auto_named
            )
            replaced = any(change.replace for change in changes)
            return provider_pb2.DiffResponse(
                changes=DIFFERS[bool(changes)],
                diffs=list(dict.fromkeys(change.property for change in changes)),
                replaces=list(dict.fromkeys(c.property for c in changes if c.replace)),
                # Like the official bridge: an explicitly chosen name cannot exist twice.
                deleteBeforeReplace=replaced and (explicit or known.delete_before_replace),
                hasDetailedDiff=True,
                detailedDiff={
                    change.path: property_diff(change.kind, replaces=change.replace)
                    for change in changes
                },
            )

    def Create(self, request: Any, context: Any) -> Any:
        with self._answering(context):
            token = Urn.parse(request.urn).type
            handler, schema, known = self._type(token)
            config = self._config(context)
            inputs = without_meta(decode(request.properties))
            if reason := handler.plan({}, inputs):
                raise CloudError(f"1 error occurred: * {reason}")
            computed = {*handler.computed, *known.computed, *known.not_inputs}
            plan = planned(inputs, schema.output_only, computed, known.means_none)
            plan |= foreseen(inputs, known.known_early(inputs), config)
            if request.preview:
                return provider_pb2.CreateResponse(properties=_outputs(handler, plan))
            with (
                _keeping(context, "creating", request.urn, handler),
                self._changing("create", request.urn),
            ):
                identity, outputs = handler.on_create(config, inputs)
                if missing := left_out(plan, outputs):
                    # A defect of the rehearsal, never ignored: the preview of a program that reads
                    # the property fails.
                    raise CloudError(
                        f"the simulated preview of {token} left out {', '.join(missing)}: name it "
                        "in its row in gpu_cluster/clouds/rows, provider: kept_when_removed or "
                        "not_inputs"
                    )
        return provider_pb2.CreateResponse(id=identity, properties=_outputs(handler, outputs))

    def Read(self, request: Any, context: Any) -> Any:
        with self._answering(context):
            handler, schema, _ = self._type(Urn.parse(request.urn).type)
            inputs = decode(request.inputs)
            try:
                outputs = handler.on_read(
                    self._config(context), request.id, decode(request.properties)
                )
            except NotFoundError:
                return provider_pb2.ReadResponse()  # without an ID: the engine forgets the resource
            if not inputs:  # an import: all properties that could be inputs
                names = schema.inputs.properties
                inputs = {name: outputs[name] for name in names if name in outputs}
            return provider_pb2.ReadResponse(
                id=request.id,
                properties=_outputs(handler, outputs),
                inputs=encode(as_declared(inputs, outputs)),
            )

    def Update(self, request: Any, context: Any) -> Any:
        with self._answering(context):
            handler, _, known = self._type(Urn.parse(request.urn).type)
            olds = decode(request.olds)
            old_inputs, news = decode(request.old_inputs), decode(request.news)
            merged = without_meta(merge(old_inputs, olds, news, known))
            merged = with_ignored(merged, olds, request.ignoreChanges)
            if request.preview:
                unknown = dict.fromkeys(handler.recomputed(olds, merged), UNKNOWN)
                return provider_pb2.UpdateResponse(properties=_outputs(handler, merged | unknown))
            config, waits = self._config(context), request.timeout or handler.update_seconds
            with (
                _keeping(context, "updating", request.urn, handler),
                self._changing("update", request.urn),
            ):
                try:
                    outputs = handler.on_update(config, request.id, olds, merged)
                    if (lasts := handler.lasts(request.id, olds, outputs)) > waits:
                        raise CloudError(
                            f"timeout while waiting for the update, which takes some "
                            f"{lasts / 60:.0f} minutes and goes on in the cloud (timeout: "
                            f"{waits / 60:.0f}m0s)"
                        )
                except CloudError as error:
                    state = handler.after_failed_update(olds, merged, error)
                    if state is None:
                        raise
                    raise InitFailedError(request.id, state, str(error)) from None
        return provider_pb2.UpdateResponse(properties=_outputs(handler, outputs))

    def Delete(self, request: Any, context: Any) -> Any:
        with self._answering(context):
            handler, _, _ = self._type(Urn.parse(request.urn).type)
            with self._changing("delete", request.urn):
                try:
                    handler.on_delete(self._config(context), request.id, decode(request.properties))
                except NotFoundError:
                    _log.info("%s is gone already", request.urn)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        with self._answering(context):
            function = self.settings.functions.get(request.tok)
            if function is None:
                raise CloudError(f"a rehearsal does not simulate the function {request.tok}")
            answer = function(self._config(context), decode(request.args))
            return provider_pb2.InvokeResponse(**{"return": encode(answer)})

    def _type(self, token: str) -> tuple[Handler, ResourceSchema, Facts]:
        handler = self.settings.handlers.get(token)
        if handler is None:
            simulated = ", ".join(sorted(self.settings.handlers))
            raise CloudError(
                f"a rehearsal does not simulate the resource type {token}; it has {simulated}"
            )
        return handler, resource_schema(token), facts.of(token)

    @contextmanager
    def _answering(self, context: Any) -> Iterator[None]:
        """Turns the cloud's refusals into errors on the resource, with the reason as their text."""
        try:
            yield
        except (CloudError, UnknownTypeError) as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))

    @contextmanager
    def _changing(self, kind: str, urn: str) -> Iterator[None]:
        """Applies the faults that are set for the operation, and reports its success."""
        with self.settings.faults.around(kind, urn):
            yield
            self.settings.changed()


@contextmanager
def _keeping(context: Any, doing: str, urn: str, handler: Handler) -> Iterator[None]:
    """Reports a partial create or update to the engine, with the official bridge's messages."""
    try:
        yield
    except InitFailedError as error:
        reason = f"{doing} {urn}: 1 error occurred:\n\t* {error}\n\n"
        state = encode(mark_secrets(error.state, handler.secrets), nulls=True)
        init_failed.abort(context, error.identity, state, [reason])


def _outputs(handler: Handler, outputs: Mapping[str, Any]) -> Any:
    return encode(mark_secrets(outputs, handler.secrets))


def property_diff(kind: Kind, *, replaces: bool, of_input: bool = False) -> Any:
    """One property's difference on the wire. `of_input`: whether only the inputs differ."""
    name = kind.upper() + ("_REPLACE" if replaces else "")
    value = provider_pb2.PropertyDiff.Kind.Value(name)
    return provider_pb2.PropertyDiff(kind=value, inputDiff=of_input)


class ProviderServer:
    """A provider that listens on loopback, for `PULUMI_DEBUG_PROVIDERS=<package>:<port>`."""

    def __init__(self, settings: ProviderSettings) -> None:
        self.provider = Provider(settings)
        self._server, self.port = grpc_server(16, settings.package)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(self.provider, self._server)
        self._server.start()

    def stop(self) -> None:
        """Stops the server; operations in progress get a second."""
        self._server.stop(1).wait()

    def __enter__(self) -> "ProviderServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
