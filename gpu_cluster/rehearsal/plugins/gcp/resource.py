"""One resource of a Google API: the offline plugin's common code for the rows."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from gpu_cluster.clouds.rows.google import Names, Request, Row
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, Config, Handler, NotFoundError
from gpu_cluster.rehearsal.plugins.cloud.schema import resource_schema
from gpu_cluster.rehearsal.plugins.gcp import failed_update
from gpu_cluster.rehearsal.plugins.gcp.client import Client, stable
from gpu_cluster.rehearsal.plugins.gcp.translate import from_api, to_api
from gpu_cluster.tools.google_discovery import Document, document

KEPT = ("deletionPolicy", "params")
"""Properties that the API does not return: a state has them from the inputs."""
OWN_LABEL = {"goog-pulumi-provisioned": "true"}
"""The label that the provider sets on everything it creates."""


class NoLongerPartialError(CloudError):
    """An update that failed after the provider's `d.Partial(false)`."""


class Resource(Handler):
    """A resource type. Subclasses are for types that a row does not describe completely."""

    token: ClassVar[str]
    """The type's token, for a subclass."""

    def __init__(self, client: Client, row: Row) -> None:
        self.client, self.row = client, row

    @cached_property
    def document(self) -> Document:
        """Google's discovery document of the API."""
        found = document(*self.row.api)
        assert found is not None
        return found

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The fields of its message in the document."""
        properties: Mapping[str, Any] = self.document.schemas[self.row.schema]["properties"]
        return properties

    @cached_property
    def renamed(self) -> Names:
        """Names that differ in the API. A property that is part of the path or that only the
        provider keeps has no field, unless the message has it."""
        row = self.row
        unsent = [name for name in (*row.in_path, *row.kept) if name not in self.fields]
        return {
            **dict.fromkeys((*KEPT, *row.own, *row.keyed, *unsent)),
            **{name: f"{block}.{name}" for block, names in row.inside.items() for name in names},
            **row.names,
            **{
                f"{at}.{name}": field
                for at, names in row.blocks.items()
                for name, field in names.items()
            },
        }

    # Subclasses may override these methods.

    def completed(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with the provider's own settings: project, region, location."""
        found = {**inputs, "project": project_of(config, inputs)}
        if "region" in self.row.in_path:
            found["region"] = region_of(config, inputs)
        if "location" in self.row.in_path and not found.setdefault(
            "location", config.get("region")
        ):
            raise CloudError("cannot determine the location: set it here, or gcp:region")
        return found

    def identity(self, inputs: Mapping[str, Any]) -> str:
        """The official provider's ID for the resource."""
        return self.row.id.format_map(inputs)

    def path(self, identity: str) -> str:
        """The resource's path in the API, below `base`."""
        if not self.row.id or self.row.id.startswith(self.row.place):
            return identity
        place = self.row.place.format_map(self.placed(identity))
        return f"{place}/{identity.rpartition('/')[2]}"

    def expand(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a create request, from inputs or from a state."""
        row, names = self.row, resource_schema(self.row.token).inputs.properties
        given = {name: value for name, value in inputs.items() if name in names}
        body = to_api(self.document, row.schema, given, self.renamed)
        assert isinstance(body, dict)
        for path, collection in row.links.items():
            _link(body, path, collection, inputs)
        if "region" in body:
            region = body["region"].rpartition("/")[2]
            body["region"] = f"projects/{inputs['project']}/global/regions/{region}"
        for name in row.upper:
            body[name] = body[name].upper()
        for name, key in row.keyed.items():
            if inputs.get(name):
                body[name] = {row[key]: row for row in inputs[name]}
        if row.labels:
            body["labels"] = (inputs.get("labels") or {}) | OWN_LABEL
        return body

    def flatten(self, body: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        """The state for the API's resource; `known`: the inputs or the state so far."""
        row = self.row
        kept = {name: known[name] for name in (*KEPT, *row.kept) if name in known}
        found = from_api(resource_schema(row.token).kinds, stable(body), self.renamed)
        for name in row.keyed:
            if body.get(name):
                found[name] = list(body[name].values())
        if self.renamed.get("name", "") is None:
            found["name"] = found[row.key] = body["name"].rpartition("/")[2]
        if row.labels:
            labels = body.get("labels") or {}
            ours = {name: labels[name] for name in known.get("labels") or {} if name in labels}
            found |= {"labels": ours, "pulumiLabels": ours | OWN_LABEL, "effectiveLabels": labels}
        return {**row.unset, **kept, **found}

    def insert(self, inputs: Mapping[str, Any]) -> str:
        """Creates the resource, waits for it and returns its ID."""
        row, place = self.row, self.row.place.format_map(inputs)
        query = {row.query: inputs[row.key]} if row.query else None
        doing = f"to create {row.noun}"
        answer = self.ask("POST", place, self.expand(inputs), query, doing=doing)
        return str(answer["name"]) if row.named_by_api else self.identity(inputs)

    def change(self, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Sends the differences to the API; called only if more than `KEPT` differs."""
        body, before = self.bodies(old, new)
        for request in self.row.update:
            differ = [name for name in request.fields if body.get(name) != before.get(name)]
            if differ or not request.fields:
                self._send(identity, request, body, differ)

    def bodies(
        self, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The body that an update sends parts of, and the one it is compared with."""
        return self.expand(new), self.expand(old)

    def _send(
        self, identity: str, request: Request, body: Mapping[str, Any], differ: list[str]
    ) -> None:
        all_fields = request.whole or not request.fields
        names = body.keys() - set(request.without) if all_fields else request.fields
        sent = {**request.empty, **{name: body[name] for name in body if name in names}}
        if request.sparse:
            sent = {name: value for name, value in sent.items() if value}
        if not (sent or request.verb or request.mask):
            return
        path, query = self.path(identity), {"updateMask": ",".join(differ)}
        try:
            if request.fingerprint:
                sent["fingerprint"] = self.get(identity)["fingerprint"]
            self.ask(
                "POST" if request.verb else "PATCH",
                f"{path}/{request.verb}" if request.verb else path,
                sent,
                query if request.mask else None,
                doing=f"updating {self.row.noun}",
            )
        except CloudError as error:
            raise (NoLongerPartialError(str(error)) if request.ends_partial else error) from None

    def get(self, identity: str) -> dict[str, Any]:
        """The resource in the API; raises NotFoundError."""
        return self.client.call(self.row.service, "GET", self.row.base + self.path(identity))

    def ask(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        *,
        doing: str,
    ) -> dict[str, Any]:
        """Sends a request to a path below `base` and returns the response. If that is an operation,
        waits until it is done; operations are in the location of the collection."""
        answer = self.client.call(self.row.service, verb, self.row.base + path, body, query)
        method = self.document.method(verb, path)
        if answer and method and method[0].response == "Operation":
            scope = "/".join(path.split("/")[: self.row.place.count("/")])
            return self.client.wait(self.row.service, answer, scope, doing)
        return answer

    # The engine's requests.

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        complete = self.completed(config, inputs)
        try:
            identity = self.insert(complete)
        except CloudError as error:
            raise CloudError(f"Error creating {self.row.noun}: {error}") from None
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
            raise type(error)(f'Error updating {self.row.noun} "{identity}": {error}') from None
        return self.fetch(identity, complete)

    def after_failed_update(
        self, old: Mapping[str, Any], new: Mapping[str, Any], error: CloudError
    ) -> Mapping[str, Any]:
        if not self.row.partial or isinstance(error, NoLongerPartialError):
            return new
        kinds, sets = resource_schema(self.row.token).kinds, facts.of(self.row.token).sets
        return failed_update.partial(old, new, kinds, sets)

    def _differs(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Whether anything differs apart from what only the provider keeps."""
        names = {*old, *new} - set(KEPT)
        both = ((name, old.get(name), new.get(name)) for name in names)
        return any(was != now and not self.same(name, was, now) for name, was, now in both)

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        if state.get("deletionPolicy") == "PREVENT":
            raise CloudError(
                f"cannot destroy {self.row.noun} '{identity}': deletionPolicy is PREVENT; set it "
                "to DELETE, apply that, and then destroy"
            )
        if state.get("deletionPolicy") != "ABANDON":
            self.remove(identity, state)

    def fetch(self, identity: str, known: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the current state; raises NotFoundError."""
        return self.flatten(self.get(identity), known) | self.placed(identity)

    def placed(self, identity: str) -> dict[str, Any]:
        """The values contained in the ID: project, region."""
        pairs = zip(self.row.id.split("/"), identity.split("/"), strict=False)
        found = {part[1:-1]: value for part, value in pairs if re.fullmatch(r"{\w+}", part)}
        return {name: value for name, value in found.items() if name != self.row.key}

    def remove(self, identity: str, state: Mapping[str, Any]) -> None:
        """Deletes the resource; an already deleted one is not an error."""
        try:
            self.ask("DELETE", self.path(identity), doing=f"deleting {self.row.noun}")
        except NotFoundError:
            raise
        except CloudError as error:
            raise CloudError(f"Error deleting {self.row.noun}: {error}") from None

    def same(self, path: str, old: Any, new: Any) -> bool:
        if path in self.row.upper:
            return str(old).upper() == str(new).upper()
        named = not path.endswith("]") and re.sub(r"\[\d+\]", "[]", path) in self.row.links
        return named and same_link(old, new)


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
    """The path `projects/...` for a self link, a path, or a bare name in `collection`."""
    _, found, path = value.partition("projects/")
    return f"projects/{path}" if found else f"{collection}/{value}"


def same_link(old: Any, new: Any) -> bool:
    """Whether the provider considers a self link, a path or a bare name equal to another one."""
    a, b = (str(link).partition("projects/")[2] or str(link) for link in (old, new))
    return a == b or ("/" not in b and a.rpartition("/")[2] == b)


def _link(body: dict[str, Any], path: str, collection: str, inputs: Mapping[str, Any]) -> None:
    """Replaces the name at a path, such as `natIps[]` or `subnetworks[].name`, by a full path."""
    first, _, rest = path.partition(".")
    name = first.removesuffix("[]")
    if name not in body:
        return
    values = body[name] if first.endswith("[]") else [body[name]]
    if rest:
        for value in values:
            _link(value, rest, collection, inputs)
        return
    linked = [relative(value, collection.format_map(inputs)) for value in values]
    body[name] = linked if first.endswith("[]") else linked[0]
