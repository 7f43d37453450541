"""Speaks to the Kubernetes offline plugin as the engine does: one connection for each provider."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import grpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from gpu_cluster.rehearsal.plugins.cloud.wire import encode
from gpu_cluster.rehearsal.plugins.kubernetes.properties import decode

Object = dict[str, Any]


class Refused(Exception):
    """The provider's error; `state` is what it left behind, if anything."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.details())
        self.state: Object | None = None
        self.reasons: list[str] = []
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                failed = provider_pb2.ErrorResourceInitFailed()
                status_pb2.Status.FromString(value).details[0].Unpack(failed)
                self.state, self.reasons = decode(failed.properties), list(failed.reasons)


class Connection:
    """One provider resource, configured."""

    def __init__(self, port: int, *, attached: bool = True, **arguments: Any) -> None:
        """`attached`: whether the plugin runs already, as the offline one does."""
        self.channel = grpc.insecure_channel(
            # Channels to one address otherwise share their connection, as the engine's do not.
            f"127.0.0.1:{port}",
            options=[("grpc.use_local_subchannel_pool", 1)],
        )
        self.stub = provider_pb2_grpc.ResourceProviderStub(self.channel)
        if attached:
            self._call("Handshake", provider_pb2.ProviderHandshakeRequest(engine_address=""))
            self._call("Attach", plugin_pb2.PluginAttach(address="127.0.0.1:1"))
        variables = {f"kubernetes:config:{name}": value for name, value in arguments.items()}
        request = provider_pb2.ConfigureRequest(
            args=encode(arguments), variables=variables, acceptSecrets=True
        )
        self._call("Configure", request)

    def _call(self, method: str, request: Any) -> Any:
        try:
            return getattr(self.stub, method)(request, timeout=60)
        except grpc.RpcError as error:
            raise Refused(error) from None

    def check(self, obj: Object, old: Object | None = None, token: str = "") -> Object:
        request = provider_pb2.CheckRequest(
            urn=urn(obj, token), news=encode(obj), olds=encode(old or {}), randomSeed=b"\1" * 32
        )
        answer = self._call("Check", request)
        assert not answer.failures, answer.failures
        return decode(answer.inputs)

    def create(
        self, obj: Object, *, preview: bool = False, timeout: float = 0, token: str = ""
    ) -> tuple[str, Object]:
        request = provider_pb2.CreateRequest(
            urn=urn(obj, token), properties=encode(obj), preview=preview, timeout=timeout
        )
        answer = self._call("Create", request)
        return answer.id, decode(answer.properties)

    def update(
        self,
        state: Object,
        obj: Object,
        *,
        preview: bool = False,
        timeout: float = 0,
        ignored: tuple[str, ...] = (),
    ) -> Object:
        request = provider_pb2.UpdateRequest(
            urn=urn(obj),
            olds=encode(state),
            news=encode(obj),
            preview=preview,
            timeout=timeout,
            ignoreChanges=ignored,
        )
        return decode(self._call("Update", request).properties)

    def read(
        self, id: str, kind: Object, state: Object | None = None
    ) -> tuple[str, Object, Object]:
        known = state or {}
        request = provider_pb2.ReadRequest(
            urn=urn(kind), id=id, properties=encode(known), inputs=encode(known.get("__inputs", {}))
        )
        answer = self._call("Read", request)
        return answer.id, decode(answer.properties), decode(answer.inputs)

    def delete(self, id: str, state: Object, *, timeout: float = 0, token: str = "") -> None:
        request = provider_pb2.DeleteRequest(
            urn=urn(state, token), id=id, properties=encode(state), timeout=timeout
        )
        self._call("Delete", request)


def urn(obj: Mapping[str, Any], token: str = "") -> str:
    """The resource's URN, of the type that the object's kind has."""
    version = str(obj["apiVersion"])
    module = version if "/" in version else f"core/{version}"
    type_token = token or f"kubernetes:{module}:{obj['kind']}"
    return f"urn:pulumi:dev::p::{type_token}::it"


def kubeconfig(endpoint: str, ca: bytes, user: Mapping[str, Any]) -> str:
    """A kubeconfig for one cluster and one user, as a program would write it."""
    cluster = {
        "server": f"https://{endpoint}",
        "certificate-authority-data": base64.b64encode(ca).decode(),
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": dict(user)}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )
