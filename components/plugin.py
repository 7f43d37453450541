"""The component package, which the engine runs for programs in TypeScript, Go, YAML and others.

The engine calls `Construct` for a `GpuStack`, which registers its resources as in a Python program.
"""

import asyncio
import json
import logging
import sys
import traceback
from importlib.resources import files
from typing import Any, Final

import grpc
import pulumi
from pulumi.provider import ConstructResult, Provider
from pulumi.provider.server import ProviderServicer
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from .schema.decode import camel
from .siblings import MONITOR
from .stack import GpuStack

SCHEMA: Final = "schema.json"
"""The file in this package that `make docs` writes."""
OUTPUTS: Final = (
    "platform", "cluster_name", "kubeconfig", "gpu_pools", "endpoint", "certificate_authority",
)  # fmt: skip
"""Attributes of a `GpuStack` that are available to programs in other languages."""
_LARGEST_MESSAGE: Final = 400 << 20
"""In bytes, as in the SDK's own provider."""


class ComponentPackage(Provider):
    """The components of this package, by type token."""

    def __init__(self) -> None:
        text = files(__package__).joinpath(SCHEMA).read_text()
        super().__init__(json.loads(text)["version"], text)

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: pulumi.Inputs,
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        """Declares the component; `inputs` are the keys of a stack file."""
        if resource_type != GpuStack.TOKEN:
            raise pulumi.RunError(f"{resource_type}: is not known; allowed: {GpuStack.TOKEN}")
        blocks = {"cluster": None, **_with_integers(inputs)}
        stack = GpuStack(name, blocks, options)
        return ConstructResult(stack.urn, {camel(key): getattr(stack, key) for key in OUTPUTS})


class _Servicer(ProviderServicer):
    """Reports an error as one line: the SDK would add the line in this package that raised it."""

    async def Construct(
        self, request: provider_pb2.ConstructRequest, context: Any
    ) -> provider_pb2.ConstructResponse:
        # Each request has a context of its own.
        MONITOR.set(request.monitorEndpoint)
        try:
            response: provider_pb2.ConstructResponse = await self._construct(request, context)
        except Exception as error:
            reason: BaseException = error
            # The SDK prefixes an output's error with the input and the resource that use it.
            while reason.__cause__ is not None:
                reason = reason.__cause__
            if not isinstance(reason, ValueError | pulumi.RunError | grpc.RpcError):
                traceback.print_exc()
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(reason))
            raise
        return response


def _with_integers(value: Any) -> Any:
    """A value from the engine, in which all numbers are floats; outputs are not changed."""
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


async def _serve(engine: str) -> None:
    size = [(f"grpc.max_{way}_message_length", _LARGEST_MESSAGE) for way in ("receive", "send")]
    server = grpc.aio.server(options=size)
    servicer = _Servicer(ComponentPackage(), [], engine)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


def serve() -> None:
    """Serves the engine whose address is the first argument, until it is interrupted."""
    # It would print to stderr, with a traceback, the error that `Construct` has already returned.
    logging.getLogger("asyncio").disabled = True
    try:
        asyncio.run(_serve(sys.argv[1]))
    except KeyboardInterrupt:
        return
