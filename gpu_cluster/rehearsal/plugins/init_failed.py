"""Reports that a created resource did not become ready: the engine keeps it in the state, and
updates it the next time even if nothing has changed."""

from collections.abc import Sequence
from typing import Any, NoReturn

import grpc
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2, status_pb2


def abort(
    context: Any, identity: str, state: Struct, reasons: Sequence[str], inputs: Struct | None = None
) -> NoReturn:
    """Ends the call with an `ErrorResourceInitFailed`; without inputs the engine keeps its own."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=identity, properties=state, inputs=inputs, reasons=reasons
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reasons[0])
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, reasons[0])
    raise AssertionError("a context that is aborted raises")
