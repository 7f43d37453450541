"""Runs Pulumi code against recording mocks: every registration lands, then one asserts."""

import asyncio
import contextvars
import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any

import pulumi
from google.protobuf.struct_pb2 import Struct
from pulumi import _types
from pulumi.runtime import _callbacks, mocks, resource, rpc, stack
from pulumi.runtime.proto import resource_pb2, source_pb2

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.stacks.engine.state import ROOT_TYPE
from gpu_cluster.stacks.engine.urn import Urn, of_reference

DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"

# What no test reads of a recording: where in the source a resource is registered, its URN without
# an engine, and what the SDK tells its developers.
resource._get_stack_trace = source_pb2.StackTrace
resource.create_urn = lambda *_: SimpleNamespace(future=lambda: asyncio.sleep(0))
resource.log.debug = lambda *_: None

# What the SDK finds out about a class again for each resource.
for _name in (
    "_is_optional_type", "_py_name_for", "input_type_py_to_pulumi_names",
    "resource_pulumi_to_py_names", "resource_py_to_pulumi_names", "resource_types",
    "unwrap_optional_type", "unwrap_type",
):  # fmt: skip
    setattr(_types, _name, cache(getattr(_types, _name)))

_serialize = rpc.serialize_property
_PLAIN = {bool, float, int, str, type(None)}


async def _serialize_property(value: Any, *others: Any, **more: Any) -> Any:
    """A plain value is as it is: the SDK first looks whether it is any of a dozen other things."""
    return value if type(value) in _PLAIN else await _serialize(value, *others, **more)


rpc.serialize_property = _serialize_property


class _Unheard:
    """In place of the server at which an engine would call a program's hooks: none does here, and
    each recording would start and stop one."""

    def add_generic_rpc_handlers(self, *_: object) -> None: ...
    def add_registered_method_handlers(self, *_: object) -> None: ...
    def add_insecure_port(self, address: str) -> int:
        return 0

    async def start(self) -> None: ...
    async def stop(self, grace: float) -> None: ...


_callbacks.aio = SimpleNamespace(server=lambda **_: _Unheard())


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One resource as the engine would be asked to register it."""

    type: str
    name: str
    inputs: Mapping[str, Any]
    """Wire names (camelCase), secrets unwrapped; an unknown value is missing."""
    custom: bool
    parent: str
    provider: str
    depends_on: frozenset[str]
    property_dependencies: tuple[str, ...]
    """Of each input, the resources whose outputs are in it; `depends_on` has them too."""
    ignore_changes: tuple[str, ...]
    protect: bool
    deleted_with: str
    delete_before_replace: bool
    former_names: frozenset[str]
    """Names under which the resource may be in the state, by its aliases."""
    update_timeout: str
    """As the engine passes it on: `75m`; empty where the provider's own holds."""
    replace_on_changes: tuple[str, ...]
    secret_outputs: tuple[str, ...]
    hooks: tuple[str, ...]
    """`before_update=lasting-settings`."""

    @property
    def urn(self) -> tuple[str, str, str]:
        """What makes the resource unique, without the stack's own part."""
        return self.parent, self.type, self.name

    @property
    def key(self) -> str:
        """`type::name`."""
        return f"{self.type}::{self.name}"

    def above(self) -> list[str]:
        """The key of its parent, which is registered before it, unless that is the stack."""
        urn = Urn.parse(self.parent) if self.parent else None
        return [] if urn is None or urn.type == ROOT_TYPE else [f"{urn.type}::{urn.name}"]

    def behind(self) -> list[str]:
        """Keys of what it waits for, as often as the engine would look there."""
        provider = [of_reference(self.provider)[0]] if self.provider else []
        cluster = [self.deleted_with] if self.deleted_with else []
        urns = map(Urn.parse, (*self.depends_on, *self.property_dependencies, *provider, *cluster))
        return [f"{urn.type}::{urn.name}" for urn in urns]


class _Loop(asyncio.SelectorEventLoop):
    """Answers the SDK's requests when it makes them: nothing waits for a thread, so they are
    recorded in the program's order, whatever the load."""

    get_debug = bool  # False, for each future that asks

    def run_in_executor(self, _: Any, request: Any, *args: Any) -> asyncio.Future[Any]:
        answered = self.create_future()
        try:
            answered.set_result(request(*args))
        except Exception as error:
            answered.set_exception(error)
        return answered


class Recorder(mocks.MockMonitor):
    """Notes what is registered, and answers with the inputs and what a test adds to them."""

    def __init__(self, answers: pulumi.runtime.Mocks) -> None:
        super().__init__(answers)
        self.requests: list[Any] = []
        self.outputs: dict[str, Any] = {}

    def RegisterResource(self, request: Any) -> Any:
        """Does not decode the inputs and encode them again, as the mock that it replaces."""
        self.requests.append(request)
        urn = self.make_urn(request.parent, request.type, request.name)
        answered = Struct()
        if request.type == DEFINITION:  # large, and no test reads its outputs
            answered.update({"metadata": request.object["metadata"], "spec": {}})
        else:
            answered.CopyFrom(request.object)
        answered.update(answers_of(self.mocks.outputs, request))
        return resource_pb2.RegisterResourceResponse(
            urn=urn, id=f"{request.name}-id", object=answered
        )

    def ReadResource(self, request: Any) -> Any:
        """An object of somebody else, of which `outputs` has the type."""
        answered = Struct()
        answered.update(answers_of(self.mocks.outputs, request))
        urn = self.make_urn(request.parent, request.type, request.name)
        return resource_pb2.ReadResourceResponse(urn=urn, properties=answered)

    def RegisterResourceOutputs(self, request: Any) -> Any:
        if "pulumi:pulumi:Stack" in request.urn:
            self.outputs.update(rpc.deserialize_properties(request.outputs))
        return super().RegisterResourceOutputs(request)


_READ: Mapping[str, Any] = {
    "kubernetes:networking.gke.io/v1:Network": {
        "spec": {"type": "Device",
                 "parametersRef": {"kind": "GKENetworkParamSet", "name": "{name}-set"}},
    },
    "kubernetes:networking.gke.io/v1:GKENetworkParamSet": {
        "spec": {"vpc": "vpc-{name}", "vpcSubnet": "sub-{name}", "deviceMode": "NetDevice"},
    },
}  # fmt: skip
"""What is read of an existing cluster."""
PACKAGES = {cloud.package for cloud in CLOUDS.values()}


def answers_of(outputs: Mapping[str, Any], request: Any) -> dict[str, Any]:
    """What a cloud answers to a resource beyond its inputs: `{name}` in a text of `outputs` is the
    resource's, so that no two of them have the same ARN. Nothing is known without `outputs`; with
    them, a resource that is named automatically has its own name."""

    def named(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: named(each) for key, each in value.items()}
        if isinstance(value, list):
            return [named(each) for each in value]
        return value.replace("{name}", request.name) if isinstance(value, str) else value

    automatic = request.type.partition(":")[0] in PACKAGES and "name" not in request.object
    default = {"name": request.name} if outputs and automatic else {}
    default |= _READ.get(request.type, {}) if getattr(request, "id", None) else {}
    return {**named(default), **named(outputs.get(request.type, {}))}


class Answers(pulumi.runtime.Mocks):
    """A cloud that says yes: outputs are the inputs, plus what a test adds by type token."""

    def __init__(self, outputs: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__()
        self.outputs = outputs or {}

    def new_resource(self, args: object) -> tuple[str | None, dict[Any, Any]]:
        raise NotImplementedError  # `Recorder` answers

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:
        raise AssertionError(f"the program called {args.token}: a preview would need the network")


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a program registered, in order, and the stack outputs that it exported."""

    resources: list[Registration]
    outputs: Mapping[str, Any]

    def of(self, type_token: str) -> list[Registration]:
        """The resources of one type."""
        return [resource for resource in self.resources if resource.type == type_token]

    def one(self, type_token: str, name: str | None = None) -> Registration:
        """The only resource of one type, or the one of that name."""
        (found,) = [resource for resource in self.of(type_token) if name in (None, resource.name)]
        return found

    @cached_property
    def _direct(self) -> Mapping[str, list[str]]:
        """The key of each resource -> the keys of what it waits for itself."""
        return {each.key: [*each.behind(), *each.above()] for each in self.resources}

    def before(self, resource: Registration) -> frozenset[str]:
        """`type::name` of all that must stand before the resource, and are deleted after it."""
        seen: set[str] = set()
        waiting = [resource.key]
        while waiting:
            new = set(self._direct.get(waiting.pop(), ())) - seen
            seen |= new
            waiting += new
        return frozenset(seen)


def record(
    program: Callable[[], object],
    *,
    outputs: Mapping[str, Mapping[str, Any]] | None = None,
    preview: bool = False,
    config: Mapping[str, str] | None = None,
) -> Recording:
    """Runs `program` in a context of its own. Raises what it raises, also inside `apply`.

    `outputs` maps a type token to what the cloud answers beyond the inputs; `config` is as the
    engine passes it: `namespace:key` -> text.
    """
    recorder = Recorder(Answers(outputs))

    def run() -> None:
        loop = _Loop()
        asyncio.set_event_loop(loop)
        try:
            mocks.set_mocks(Answers(outputs), "gpu-cluster", "test", preview, monitor=recorder)
            pulumi.runtime.set_all_config(dict(config or {}))
            loop.run_until_complete(stack.run_pulumi_func(lambda: _run(program)))
        finally:
            # Tasks of a program that failed stay in the SDK, which shares this set with the next.
            stack.SETTINGS.outputs.clear()
            loop.close()
            asyncio.set_event_loop(None)

    # The SDK keeps its state in context variables: a fresh context is a fresh engine.
    # What is made stays until the end: to look for garbage meanwhile takes a quarter of the time.
    gc.disable()
    try:
        contextvars.copy_context().run(run)
    finally:
        gc.enable()
    return Recording(
        resources=[
            _registration(request)
            for request in recorder.requests
            if request.type != "pulumi:pulumi:Stack"
        ],
        outputs=recorder.outputs,
    )


async def _run(program: Callable[[], object]) -> None:
    program()
    root = pulumi.runtime.settings.get_root_resource()
    assert isinstance(root, stack.Stack)
    root.register_outputs(root.outputs)


@cache
def _definition(encoded: bytes) -> dict[str, Any]:
    """The inputs of a definition of a resource type: a hundred recordings share it."""
    return _inputs(Struct.FromString(encoded))


def _inputs(encoded: Any) -> dict[str, Any]:
    inputs: dict[str, Any] = _plain(rpc.deserialize_properties(encoded))
    return inputs


def _registration(request: Any) -> Registration:
    shared = request.type == DEFINITION
    return Registration(
        type=request.type,
        name=request.name,
        inputs=_definition(request.object.SerializeToString(deterministic=True))
        if shared
        else _inputs(request.object),
        custom=request.custom,
        parent=request.parent,
        provider=request.provider,
        depends_on=frozenset(request.dependencies),
        property_dependencies=tuple(
            urn for found in request.propertyDependencies.values() for urn in found.urns
        ),
        ignore_changes=tuple(request.ignoreChanges),
        protect=request.protect,
        deleted_with=request.deletedWith,
        delete_before_replace=request.deleteBeforeReplace,
        former_names=frozenset(alias.spec.name for alias in request.aliases if alias.spec.name),
        update_timeout=request.customTimeouts.update,
        replace_on_changes=tuple(request.replaceOnChanges),
        secret_outputs=tuple(request.additionalSecretOutputs),
        hooks=tuple(
            f"{kind.name}={name}" for kind, names in request.hooks.ListFields() for name in names
        ),
    )


def _plain(value: Any) -> Any:
    if rpc.is_rpc_secret(value):
        return _plain(rpc.unwrap_rpc_secret(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
