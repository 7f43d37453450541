"""Asks an offline plugin what the engine would ask, in process and without a socket."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pulumi.runtime.proto import provider_pb2, status_pb2

from gpu_cluster.rehearsal.plugins.cloud.server import Provider, ProviderSettings
from gpu_cluster.rehearsal.plugins.cloud.wire import decode, encode


class Refused(Exception):
    """The provider's answer was an error; its text is the reason."""

    kept: provider_pb2.ErrorResourceInitFailed | None = None
    """What the engine keeps nevertheless."""

    @classmethod
    def of(cls, text: str, metadata: Iterable[tuple[str, Any]]) -> "Refused":
        """The error with the details that come with it."""
        found = cls(text)
        for name, value in metadata:
            if name == "grpc-status-details-bin":
                (detail,) = status_pb2.Status.FromString(value).details
                found.kept = provider_pb2.ErrorResourceInitFailed()
                assert detail.Unpack(found.kept)
        return found


class _Context:
    def __init__(self) -> None:
        self._trailing: tuple[tuple[str, Any], ...] = ()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def set_trailing_metadata(self, metadata: tuple[tuple[str, Any], ...]) -> None:
        self._trailing = metadata

    def abort(self, code: Any, details: str) -> None:
        metadata, self._trailing = self._trailing, ()
        raise Refused.of(details, metadata)


class Plane:
    """A control plane that only remembers whether it runs, and which kinds it was given."""

    endpoint = "127.0.0.1:6443"
    ca_certificate = b"CERTIFICATE"

    def __init__(self) -> None:
        self.running = False
        self.kinds: list[str] = []

    def ensure_started(self, version: str = "") -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def define(self, kinds: Sequence[Mapping[str, Any]]) -> None:
        defined = [kind["spec"].get("names") for kind in kinds]  # a DeviceClass defines no kind
        self.kinds = [names["kind"] for names in defined if names]


class Engine:
    """A stack: declares resources and keeps their state, one provider call at a time."""

    def __init__(self, settings: ProviderSettings, config: dict[str, Any]) -> None:
        self.provider = Provider(settings)
        self.context = _Context()
        self.state: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {}
        """urn -> (id, inputs, outputs)."""
        self.provider.Configure(provider_pb2.ConfigureRequest(args=encode(config)), self.context)

    @staticmethod
    def urn(token: str, name: str) -> str:
        return f"urn:pulumi:dev::test::{token}::{name}"

    def check(
        self, token: str, name: str, inputs: dict[str, Any], olds: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], list[str]]:
        """The checked inputs, and what is wrong with them."""
        answer = self.provider.Check(
            provider_pb2.CheckRequest(
                urn=self.urn(token, name), news=encode(inputs), olds=encode(olds or {})
            ),
            self.context,
        )
        return decode(answer.inputs), [failure.reason for failure in answer.failures]

    def diff(
        self, token: str, name: str, inputs: dict[str, Any], ignore: tuple[str, ...] = ()
    ) -> tuple[dict[str, str], Any]:
        """The detailed diff as {path: kind}, and the whole answer."""
        urn = self.urn(token, name)
        identity, old_inputs, outputs = self.state[urn]
        news, failures = self.check(token, name, inputs, old_inputs)
        assert not failures
        answer = self.provider.Diff(
            provider_pb2.DiffRequest(
                id=identity,
                urn=urn,
                olds=encode(outputs, nulls=True),
                old_inputs=encode(old_inputs),
                news=encode(news),
                ignoreChanges=ignore,
            ),
            self.context,
        )
        kind = provider_pb2.PropertyDiff.Kind
        return {path: kind.Name(one.kind) for path, one in answer.detailedDiff.items()}, answer

    def preview(self, token: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """What a preview knows of a resource that does not exist yet."""
        news, failures = self.check(token, name, inputs)
        if failures:
            raise Refused(failures[0])
        answer = self.provider.Create(
            provider_pb2.CreateRequest(
                urn=self.urn(token, name), properties=encode(news), preview=True
            ),
            self.context,
        )
        return decode(answer.properties)

    def up(
        self, token: str, name: str, inputs: dict[str, Any], *, waits: float = 0
    ) -> dict[str, Any]:
        """Creates the resource, or updates it in place; its outputs. `waits`: the resource's own
        time-out of an update in seconds, 0 for none."""
        urn = self.urn(token, name)
        if urn not in self.state:
            news, failures = self.check(token, name, inputs)
            if failures:
                raise Refused(failures[0])
            asked = provider_pb2.CreateRequest(urn=urn, properties=encode(news))
            try:
                created = self.provider.Create(asked, self.context)
            except Refused as refused:
                if (kept := refused.kept) is not None:
                    self.state[urn] = (kept.id, news, decode(kept.properties))
                raise
            self.state[urn] = (created.id, news, decode(created.properties))
            return self.state[urn][2]
        identity, old_inputs, outputs = self.state[urn]
        news, _ = self.check(token, name, inputs, old_inputs)
        change = provider_pb2.UpdateRequest(
            id=identity,
            urn=urn,
            olds=encode(outputs, nulls=True),
            old_inputs=encode(old_inputs),
            news=encode(news),
            timeout=waits,
        )
        try:
            updated = self.provider.Update(change, self.context)
        except Refused as refused:
            if (kept := refused.kept) is not None:
                # As the engine, which keeps the old inputs of an update that failed.
                self.state[urn] = (identity, old_inputs, decode(kept.properties))
            raise
        self.state[urn] = (identity, news, decode(updated.properties))
        return self.state[urn][2]

    def refresh(self, token: str, name: str) -> dict[str, Any] | None:
        """Reads the resource into the state; its outputs, or None where it is gone."""
        urn = self.urn(token, name)
        identity, inputs, outputs = self.state[urn]
        answer = self.provider.Read(
            provider_pb2.ReadRequest(
                id=identity, urn=urn, properties=encode(outputs), inputs=encode(inputs)
            ),
            self.context,
        )
        if not answer.id:
            del self.state[urn]
            return None
        self.state[urn] = (answer.id, decode(answer.inputs), decode(answer.properties))
        return self.state[urn][2]

    def delete(self, token: str, name: str) -> None:
        urn = self.urn(token, name)
        identity, _, outputs = self.state[urn]
        self.provider.Delete(
            provider_pb2.DeleteRequest(id=identity, urn=urn, properties=encode(outputs)),
            self.context,
        )
        del self.state[urn]
