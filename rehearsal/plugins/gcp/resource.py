"""What all resource types of the offline `gcp` plugin share: one resource of one Google API."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from rehearsal.plugins.cloud import facts
from rehearsal.plugins.cloud.handler import CloudError, Config, Handler, NotFoundError
from rehearsal.plugins.cloud.schema import resource_schema
from rehearsal.plugins.gcp import failed_update
from rehearsal.plugins.gcp.client import Client, stable
from rehearsal.plugins.gcp.translate import Renamed, from_api, to_api
from tools.google_discovery import Document, document

KEPT: Mapping[str, None] = {"deletionPolicy": None, "params": None}
"""Properties that the API does not tell: a state has them from the inputs."""
OWN_LABEL = {"goog-pulumi-provisioned": "true"}
"""What the provider puts on what it makes."""


class NoLongerPartialError(CloudError):
    """Of an update that failed after the provider's `d.Partial(false)`."""


class Resource(Handler):
    """Subclasses say what is different about theirs."""

    token: ClassVar[str]
    noun: ClassVar[str]
    """As the provider's errors have it, e.g. `Subnetwork`."""
    service: ClassVar[str]
    """As the variable of its endpoint names it, e.g. `COMPUTE`."""
    api: ClassVar[tuple[str, str]]
    """The document that the provider speaks, e.g. `("compute", "beta")`."""
    schema: ClassVar[str]
    """Of the resource in that document."""
    place: ClassVar[str]
    """Its collection, e.g. `projects/{project}/regions/{region}/subnetworks`."""
    key: ClassVar[str] = "name"
    """The property that is the last part of its path."""
    renamed: ClassVar[Renamed] = KEPT
    kept: ClassVar[tuple[str, ...]] = ("deletionPolicy", "params")
    """Properties that a state has from the inputs."""
    partial: ClassVar[bool] = False
    """Whether the provider's update begins with `d.Partial(true)`. After one that failed the state
    is mostly the old one then, and for other types the one that was planned."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @cached_property
    def document(self) -> Document:
        """Google's own, of the API."""
        found = document(*self.api)
        assert found is not None
        return found

    # What subclasses may do otherwise.

    def completed(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with what the provider itself has: project, region."""
        found = {**inputs, "project": project_of(config, inputs)}
        if "{region}" in self.place:
            found["region"] = region_of(config, inputs)
        return found

    def identity(self, inputs: Mapping[str, Any]) -> str:
        """The id that the official provider gives it."""
        return f"{self.place.format_map(inputs)}/{inputs[self.key]}"

    def path(self, identity: str) -> str:
        """Where the API has it, below the endpoint."""
        return identity

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The body that makes it, of inputs or of a state."""
        names = resource_schema(self.token).inputs.properties
        given = {name: value for name, value in inputs.items() if name in names}
        body = to_api(self.document, self.schema, given, self.renamed)
        assert isinstance(body, dict)
        return body

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        """The state of what the API has; `known`: inputs or state so far."""
        found = from_api(resource_schema(self.token).kinds, stable(body), self.renamed)
        return {name: known[name] for name in self.kept if name in known} | found

    def insert(self, inputs: Mapping[str, Any]) -> str:
        """Makes it and waits for it; its id."""
        place = self.place.format_map(inputs)
        answer = self.client.call(self.service, "POST", place, self.expand(inputs))
        self.wait(answer, place, f"to create {self.noun}")
        return self.identity(inputs)

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Makes the API's what differs; asked only where more than `KEPT` does."""
        raise NotImplementedError

    def wait(self, operation: Mapping[str, Any], place: str, doing: str) -> None:
        """Until the API has done what it was asked for at this place; some do it at once."""
        if operation:
            self.client.wait(self.service, operation, place.rpartition("/")[0], doing)

    # The engine's requests.

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        complete = self.completed(config, inputs)
        try:
            identity = self.insert(complete)
        except CloudError as error:
            raise CloudError(f"Error creating {self.noun}: {error}") from None
        return identity, self.fetch(identity, complete)

    def on_read(self, config: Config, identity: str, state: dict[str, Any]) -> dict[str, Any]:
        return self.fetch(identity, state)

    def on_update(
        self, config: Config, identity: str, old: dict[str, Any], new: dict[str, Any]
    ) -> dict[str, Any]:
        complete = self.completed(config, new)
        try:
            if self._differs(old, complete):
                self.change(identity, old, complete)
        except CloudError as error:
            raise type(error)(f'Error updating {self.noun} "{identity}": {error}') from None
        return self.fetch(identity, complete)

    def after_failed_update(
        self, old: Mapping[str, Any], new: Mapping[str, Any], error: CloudError
    ) -> Mapping[str, Any]:
        if not self.partial or isinstance(error, NoLongerPartialError):
            return new
        kinds, sets = resource_schema(self.token).kinds, facts.of(self.token).sets
        return failed_update.partial(old, new, kinds, sets)

    def _differs(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Whether more than what the provider keeps to itself is another."""
        names = {*old, *new} - KEPT.keys()
        both = ((name, old.get(name), new.get(name)) for name in names)
        return any(was != now and not self.same(name, was, now) for name, was, now in both)

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        if state.get("deletionPolicy") == "PREVENT":
            raise CloudError(
                f"cannot destroy {self.noun} '{identity}': deletionPolicy is PREVENT; set it to "
                "DELETE, apply that, and then destroy"
            )
        if state.get("deletionPolicy") != "ABANDON":
            self.remove(identity, state)

    def fetch(self, identity: str, known: Mapping[str, Any]) -> dict[str, Any]:
        """Its state now; raises NotFoundError."""
        body = self.client.call(self.service, "GET", self.path(identity))
        return self.flatten(body, known) | self.placed(identity)

    def placed(self, identity: str) -> dict[str, Any]:
        """What the id itself says: project, region."""
        names = [part[1:-1] if part[:1] == "{" else "" for part in self.place.split("/")]
        return {
            name: value for name, value in zip(names, identity.split("/"), strict=False) if name
        }

    def remove(self, identity: str, state: Mapping[str, Any]) -> None:
        """Deletes it; what is gone already is no error."""
        path = self.path(identity)
        try:
            answer = self.client.call(self.service, "DELETE", path)
        except NotFoundError:
            raise
        except CloudError as error:
            raise CloudError(f"Error deleting {self.noun}: {error}") from None
        self.wait(answer, path.rpartition("/")[0], f"deleting {self.noun}")


def project_of(config: Config, inputs: Mapping[str, Any]) -> str:
    """The project of a resource: its own or the provider's."""
    project = inputs.get("project") or config.get("project")
    if not project:
        raise CloudError("project: required field is not set, here or as gcp:project")
    return str(project)


def region_of(config: Config, inputs: Mapping[str, Any]) -> str:
    """The region of a resource: its own, the provider's, or that of the provider's zone."""
    region = inputs.get("region") or config.get("region")
    if not region and (zone := config.get("zone")):
        region = str(zone).rpartition("-")[0]
    if not region:
        raise CloudError("cannot determine the region: set it here, or gcp:region, or gcp:zone")
    return str(region).rpartition("/")[2]


def relative(value: str, collection: str) -> str:
    """`projects/...` of a self link, of such a path, or of a bare name in `collection`."""
    _, found, path = value.partition("projects/")
    return f"projects/{path}" if found else f"{collection}/{value}"


def same_link(old: Any, new: Any) -> bool:
    """A self link, a path and a bare name of the same resource are equal to the provider."""
    a, b = (str(each).partition("projects/")[2] or str(each) for each in (old, new))
    return a == b or ("/" not in b and a.rpartition("/")[2] == b)
