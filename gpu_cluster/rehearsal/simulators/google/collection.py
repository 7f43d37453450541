"""A collection of one of Google's newer APIs: its create, get, list, patch and delete."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.api.server import Answer
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource
from gpu_cluster.tools.google_discovery import document


class Collection:
    """A collection; each subclass is for one resource type."""

    method: ClassVar[str]
    """The prefix of its methods, such as `artifactregistry.projects.locations.repositories`."""
    word: ClassVar[str]
    """The resource's name in messages."""
    response: ClassVar[str] = ""
    """The message type that operations return, such as
    `devtools.artifactregistry.v1.Repository`."""
    immutable: ClassVar[tuple[str, ...]] = ()
    """Fields that a patch cannot change."""
    rows: ClassVar[str] = ""
    """The name of the rows in a list, if it differs from the collection's."""
    most: ClassVar[int] = 100
    """Rows per page, if the request does not set it."""

    # Subclasses may override these methods.

    def identity(self, call: Call) -> str:
        """The full name of a new resource; raises ApiError if it is not allowed."""
        raise NotImplementedError

    def body(self, call: Call) -> dict[str, Any]:
        """The fields in a create or patch request."""
        return call.body

    def mask(self, call: Call, state: dict[str, Any]) -> Sequence[str]:
        """The fields that a patch names."""
        return [path for path in call.query.get("updateMask", "").split(",") if path]

    def check(self, state: dict[str, Any]) -> None:
        """Raises ApiError if the API refuses this new or changed state."""

    def complete(self, state: dict[str, Any]) -> None:
        """Adds the API's defaults."""

    def name(self, call: Call) -> str:
        """The full name of the call's resource."""
        return call.name

    # Methods that all collections share.

    @property
    def token(self) -> str:
        """The collection's token, such as `artifactregistry.repositories`."""
        return f"{self.method.partition('.')[0]}.{self.method.rpartition('.')[2]}"

    def found(self, call: Call) -> CloudResource:
        """The call's resource; raises ApiError if it does not exist."""
        return call.cloud.found(self.name(call))

    def create(self, call: Call) -> dict[str, Any]:
        identity = self.identity(call)
        state = {**self.body(call), "name": identity}
        self.check(state)
        if identity in call.cloud.resources:
            raise ApiError(409, f"the {self.word} already exists")
        self.complete(state)
        call.cloud.resources[identity] = CloudResource(
            token=self.token, display_name=self.word, identity=identity, state=state
        )
        return self._answer(call, self.response, state)

    def get(self, call: Call) -> dict[str, Any]:
        return self.found(call).state

    def list(self, call: Call) -> dict[str, Any]:
        inside = f"{self.name(call)}/"
        states = [row.state for row in call.cloud.of(self.token) if row.identity.startswith(inside)]
        return call.page(self.rows or self.method.rpartition(".")[2], states, self.most)

    def patch(self, call: Call) -> dict[str, Any]:
        resource, body = self.found(call), self.body(call)
        state = dict(resource.state)
        for field in self.mask(call, state) or body:
            name = field.partition(".")[0]
            if name in self.immutable and body.get(name) != state.get(name):
                raise bad_request(f"{name} is immutable")
            state.pop(name, None)
            if name in body:
                state[name] = body[name]
        state["name"] = resource.identity
        self.check(state)
        self.complete(state)
        resource.state = state
        return self._answer(call, self.response, state)

    def delete(self, call: Call) -> dict[str, Any]:
        call.cloud.remove(self.found(call).identity)
        return self._answer(call, "protobuf.Empty", {})

    def _answer(self, call: Call, message: str, result: dict[str, Any]) -> dict[str, Any]:
        """The result, or an operation with it, depending on the method in Google's document."""
        google = document(call.service, call.version)
        assert google is not None
        if google.methods[call.method].response != "Operation":
            return result
        scope = "/".join(call.name.split("/")[:4])
        answer = {"@type": f"type.googleapis.com/google.{message}", **result}
        begun = call.cloud.operations.begin(
            "longrunning", scope, call.method, call.name, result=answer
        )
        return begun.body(call.base)

    @property
    def methods(self) -> dict[str, Answer]:
        """The collection's methods, by their IDs."""
        answers = (self.create, self.get, self.list, self.patch, self.delete)
        return {f"{self.method}.{answer.__name__}": answer for answer in answers}


def now() -> str:
    """The current time in these APIs' format."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
