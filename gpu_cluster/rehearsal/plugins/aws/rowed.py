"""The handler of every AWS type that a row of `gpu_cluster/clouds/rows/aws.yaml` describes.

Everything that a row omits is derived from botocore's shapes and the SDK's classes. A type that
needs more is a subclass with its token, which overrides what differs.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import jmespath  # type: ignore[import-untyped]

from gpu_cluster.clouds.rows.aws import PLACEHOLDER, Row, Update, at, filled, rows
from gpu_cluster.rehearsal.plugins.aws.api import GLOBAL, Api, answering, service_model
from gpu_cluster.rehearsal.plugins.aws.api_request import place, shown, spelled_or_plural
from gpu_cluster.rehearsal.plugins.aws.documents import document_text
from gpu_cluster.rehearsal.plugins.aws.provider_config import default_tags
from gpu_cluster.rehearsal.plugins.cloud import facts
from gpu_cluster.rehearsal.plugins.cloud.facts import Facts
from gpu_cluster.rehearsal.plugins.cloud.handler import (
    CloudError,
    Config,
    Handler,
    InitFailedError,
    NotFoundError,
)
from gpu_cluster.rehearsal.plugins.cloud.schema import (
    UNKNOWN,
    Problem,
    ResourceSchema,
    resource_schema,
)

POLL_SECONDS = 0.05
_NEVER_SENT = ("tags", "tagsAll", "region")
NO_NAMES: Mapping[str, str] = MappingProxyType({})


class Rowed(Handler):
    """A resource type as its row describes it. AWS's rules are not implemented here: refusals come
    from the API. What a type computes, replaces and checks before a request is the official
    provider's own behaviour."""

    token: str
    """The type's token, for example `aws:ec2/vpc:Vpc`."""

    def __init__(self, api: Api, token: str = "") -> None:
        """`token` may be omitted for a subclass that defines one."""
        self.api = api
        self.token = token or self.token
        self.row: Row = rows()[self.token]
        self.documents = self.row.documents
        self.regional = self.row.api not in GLOBAL
        self.computed = ("region",) if self.regional else ()

    # Derived from the row, the shapes and the SDK.

    @cached_property
    def schema(self) -> ResourceSchema:
        """The SDK's inputs and outputs of the type."""
        return resource_schema(self.token)

    @property
    def facts(self) -> Facts:
        """The provider's rules for the type's inputs."""
        return facts.of(self.token)

    @cached_property
    def supported_inputs(self) -> tuple[str, ...]:
        """The simulated inputs, those that the create and update requests accept and the provider's
        own; any other is refused, never dropped."""
        row = self.row
        names = [
            name
            for name in self.schema.inputs.properties
            if name in row.provider_own
            or (name == "tags" and row.tags)
            or self._path(row.create, name)
            or any(self._path(step.call, name, step) for step in row.update)
        ]
        return tuple(name for name in names if name not in ("region", *row.unsimulated))

    @property
    def client(self) -> Any:
        """A client for the row's API."""
        return self.api.client(self.row.api)

    def shape(self, operation: str) -> Any:
        """The request of an operation in botocore's model."""
        return service_model(self.row.api).operation_model(operation).input_shape

    def _path(self, operation: str, name: str, step: Update | None = None) -> list[str] | None:
        """Where the request of an operation has an input: member names from the outermost in. For
        an input of which the row names only parts, that of the first part."""
        if step and step.one_by_one and name not in step.one_by_one:
            return None
        shape = self.shape(operation)
        for names in (step.names if step else {}, self.row.names):
            for path, target in names.items():
                if path == name or path.startswith(f"{name}."):
                    if not target:
                        return None
                    first, *rest = target.split(".")
                    if first in shape.members:
                        return [first, *rest]
        if found := spelled_or_plural(shape.members, name):
            return [found]
        if self.row.inside in shape.members:
            inner = shape.members[self.row.inside]
            if found := spelled_or_plural(inner.members, name):
                return [self.row.inside, found]
        return None

    def _parts(self, name: str) -> Iterable[str]:
        """The paths in the input that the row names, or the input itself."""
        return [path for path in self.row.names if path.startswith(f"{name}.")] or [name]

    # Requests.

    def call(self, operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The response to a request; for a list operation, all its pages."""
        from botocore import xform_name

        name = xform_name(operation)
        if self.client.can_paginate(name):
            pages = self.client.get_paginator(name).paginate(**request)
            return dict(pages.build_full_result())
        return dict(getattr(self.client, name)(**request))

    def body(
        self,
        request: dict[str, Any],
        operation: str,
        inputs: Mapping[str, Any],
        step: Update | None = None,
    ) -> dict[str, Any]:
        """Adds the inputs that the operation accepts to the request, and returns it."""
        shape = self.shape(operation)
        for name in self.supported_inputs:
            if inputs.get(name) is None or name in (*_NEVER_SENT, *self.row.provider_own):
                continue
            for path in self._parts(name):
                if target := self._path(operation, path, step):
                    place(shape, request, target, at(inputs, path), path, self.row.names)
        return request

    def always(self, operation: str) -> dict[str, Any]:
        """The members that every request has if its operation accepts them."""
        shape, request = self.shape(operation), dict[str, Any]()
        for target, value in self.row.always.items():
            path = target.split(".")
            if path[0] in shape.members:
                place(shape, request, path, value, target)
        return request

    def address(
        self,
        operation: str,
        identity: str,
        state: Mapping[str, Any],
        by: Mapping[str, str] = NO_NAMES,
    ) -> dict[str, Any]:
        """A request that only identifies the resource: by the members in `by`, or else by the ID
        under its name in the create response, and by the inputs that the request requires."""
        shape, request = self.shape(operation), self.always(operation)
        context = self._context(identity, state)
        for path, expression in by.items():
            value = self._value(expression, context, lambda: self.described(identity, state))
            place(shape, request, path.split("."), value, path)
        if by:
            return request
        own = self.row.names.get("id", self.row.id.rpartition(".")[2])
        if "{" not in self.row.id and (found := spelled_or_plural(shape.members, own)):
            place(shape, request, [found], identity, "id")
        for name in self.schema.inputs.properties.keys() - {*_NEVER_SENT}:
            for path in self._parts(name):
                target = self._path(operation, path)
                if target and target[0] in shape.required_members and _has(context, path):
                    place(shape, request, target, at(context, path), path, self.row.names)
        return request

    def _context(self, identity: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values for a row's placeholders: properties, the parts of the ID, and the account."""
        named = _parsed(self.row.id, identity)
        return _Context({**state, **named, "id": identity, "region": self.api.region}, self.api)

    @staticmethod
    def _value(expression: str, context: Mapping[str, Any], row: Any) -> Any:
        """A text with its placeholders filled in, or the result of JMESPath on a description."""
        if PLACEHOLDER.search(expression):
            return filled(expression, context)
        return jmespath.search(expression, row())

    @staticmethod
    def _filters(filters: Mapping[str, str], context: Mapping[str, Any]) -> dict[str, Any]:
        if not filters:
            return {}
        return {
            "Filters": [
                {"Name": name, "Values": [filled(value, context)]}
                for name, value in filters.items()
            ]
        }

    # The server calls these methods.

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        """The checks of every type. Inputs that are not simulated may have their default."""
        usual = {
            name: self.facts.defaults[name]
            for name in self.row.unsimulated
            if name in self.facts.defaults
        }
        given = {
            name: value
            for name, value in inputs.items()
            if name not in usual or value not in (UNKNOWN, usual[name])
        }
        found = [
            Problem(name, f"a rehearsal does not simulate '{name}' of {self.token}")
            for name in given
            if name not in (*self.supported_inputs, "region") and not name.startswith("__")
        ]
        region = given.get("region")
        if region not in (None, UNKNOWN, config.get("region")):
            found.append(
                Problem(
                    "region",
                    f"a rehearsal simulates one region: the provider's {config.get('region')}, "
                    f"got '{region}'",
                )
            )
        for name in self.documents:
            found += _malformed(name, given.get(name))
        return found

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        with answering():
            self.api.open(config)
            given = inputs | self._all_tags(config, inputs)
            identity = self.create(given)
            return identity, given | self._now(config, identity, given)

    def on_read(self, config: Config, identity: str, state: dict[str, Any]) -> dict[str, Any]:
        with answering():
            self.api.open(config)
            return state | self._now(config, identity, state)

    def on_update(
        self, config: Config, identity: str, old: dict[str, Any], new: dict[str, Any]
    ) -> dict[str, Any]:
        with answering():
            self.api.open(config)
            given = new | self._all_tags(config, new)
            # Like the official provider: tags first, so they stay if the rest fails.
            before, after = old.get("tagsAll") or {}, given.get("tagsAll") or {}
            if before != after:
                self.set_tags(identity, given, after, [key for key in before if key not in after])
            self.update(identity, old, given)
            return given | self._now(config, identity, given)

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        with answering():
            self.api.open(config)
            self.read(identity, state)  # raises NotFoundError if it is already gone
            self.delete(identity, state)

    def same(self, path: str, old: Any, new: Any) -> bool:
        if path not in self.documents or new == UNKNOWN:
            return False
        return bool(json.loads(old) == json.loads(new))

    def _all_tags(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        if "tags" not in self.supported_inputs:
            return {}
        return {"tagsAll": default_tags(config) | (inputs.get("tags") or {})}

    def _now(self, config: Config, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        now = self.read(identity, state)
        if self.regional:
            now["region"] = self.api.region
        if "tagsAll" in now:
            own, given = default_tags(config), state.get("tags") or {}
            tags = {
                key: value
                for key, value in now["tagsAll"].items()
                if key in given or own.get(key) != value
            }
            if tags or "tags" in state:
                now["tags"] = tags
        return {name: value for name, value in now.items() if value is not None}

    # AWS's side.

    def sent(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs as a create sends them."""
        return inputs

    def create(self, inputs: dict[str, Any]) -> str:
        """Creates the resource and returns its ID. `inputs["tagsAll"]` contains all its tags.
        Raises InitFailedError with the inputs if AWS created it but it does not become ready."""
        operation = self.row.create
        request = {
            **self.body(self.always(operation), operation, self.sent(inputs)),
            **self._tagged(operation, inputs.get("tagsAll") or {}),
        }
        answer = self.call(operation, request)
        text = self.row.id
        identity = str(filled(text, inputs) if "{" in text else jmespath.search(text, answer))
        for step in self.row.update:
            if step.on_create:
                self._apply(step, identity, {}, inputs)
        try:
            self._wait(identity, inputs, "create")
        except CloudError as error:
            raise InitFailedError(identity, inputs, str(error)) from None
        return identity

    def described(self, identity: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """The API's description of the resource; raises NotFoundError."""
        read, context = self.row.read, self._context(identity, state)
        request = self._filters(read.filters, context) or self.address(
            read.call, identity, state, read.by
        )
        answer = self.call(read.call, request)
        row = jmespath.search(filled(read.at, context), answer)
        if row is None:
            raise NotFoundError(f"{self.token} {identity} does not exist")
        return dict(row)

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """Its current properties in AWS, including `tagsAll`; raises NotFoundError."""
        row = self.described(identity, state)
        inner = jmespath.search(self.row.inside, row) if self.row.inside else {}
        hidden = (*_NEVER_SENT, *self.row.provider_own, *self.row.unsimulated)
        now: dict[str, Any] = {}
        for name, kind in self.schema.kinds.items():
            if name in hidden or name in self.row.outputs:
                continue
            for source in (row, inner or {}):
                found = spelled_or_plural(source, self.row.names.get(name, name))
                if found is not None:
                    now[name] = shown(source[found], kind)
                    break
        context = self._context(identity, {**state, **now})
        for name, expression in self.row.outputs.items():
            now[name] = shown(
                self._value(expression, context, lambda: row), self.schema.kinds[name]
            )
        now |= self._more(identity, state, row, context)
        for name in self.row.documents:
            if now.get(name) is not None:
                now[name] = document_text(now[name], state.get(name))
        if self.row.tags:
            now["tagsAll"] = self._tags(identity, {**state, **now}, row)
        return now

    def _more(
        self,
        identity: str,
        state: Mapping[str, Any],
        row: Mapping[str, Any],
        context: Mapping[str, Any],
    ) -> Iterator[tuple[str, Any]]:
        """Properties that need further requests."""
        for more in self.row.more:
            if more.filters:
                request = self._filters(more.filters, context)
            elif more.by:
                request = {
                    target: self._value(expression, context, lambda: row)
                    for target, expression in more.by.items()
                }
            else:
                request = self.address(more.call, identity, state)
            answer = self.call(more.call, {**more.always, **request})
            for name, expression in more.outputs.items():
                yield name, shown(jmespath.search(expression, answer), self.schema.kinds[name])

    def after_failed_update(
        self, old: Mapping[str, Any], new: Mapping[str, Any], error: CloudError
    ) -> Mapping[str, Any] | None:
        """Of most types the planned state: until a refresh, the next update changes nothing."""
        return None if self.row.framework else new

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Updates the resource to `new`, except its tags."""
        sent = [self._apply(step, identity, old, new) for step in self.row.update]
        if any(sent):
            self._wait(identity, new, "update")

    def _takes(self, step: Update) -> list[str]:
        """The inputs that an update's request accepts, without those that replace the resource."""
        return [
            name
            for name in self.supported_inputs
            if name not in (*_NEVER_SENT, *self.row.provider_own)
            and not self.facts.replaces(name)
            and self._path(step.call, name, step)
        ]

    def differing(self, step: Update, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
        """The inputs for which an update sends a request; all given ones without an old value, or
        where every update sends it."""
        takes = self._takes(step)
        if step.anyway or not old:
            return [name for name in takes if name in new]
        return [name for name in takes if (old.get(name) or None) != (new.get(name) or None)]

    def _apply(
        self, step: Update, identity: str, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> bool:
        """Sends one request of an update if its inputs differ; returns whether it was sent."""
        takes, differ = self._takes(step), self.differing(step, old, new)

        def send(inputs: Mapping[str, Any]) -> None:
            request = self.address(step.call, identity, new, step.by)
            self.call(step.call, self.body(request, step.call, inputs, step))

        if step.one_by_one:
            for name in differ:
                send({name: new.get(name)})
        elif step.undo and not any(new.get(name) for name in takes):
            if old and differ:
                self.call(step.undo, self.address(step.undo, identity, new, step.by))
        elif differ:
            sent = {name: new.get(name) for name in (differ if step.changed else takes)}
            for name, value in step.empty.items():
                sent[name] = value if sent.get(name) is None else sent[name]
            send(sent)
        return bool(differ)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        """Deletes the resource; raises CloudError if AWS refuses."""
        operation = self.row.delete.call
        self.call(operation, self.address(operation, identity, state, self.row.delete.by))
        try:
            self._wait(identity, state, "delete")
        except NotFoundError:
            return

    def _wait(self, identity: str, state: Mapping[str, Any], verb: str) -> None:
        """Waits until the resource is no longer pending; raises CloudError if it ends in a state
        that counts as failed."""
        for path, pending in self.row.read.pending.items():
            while (row := self.described(identity, state)).get(path) in pending:
                time.sleep(POLL_SECONDS)
            wanted = self.row.read.ready.get(path, row.get(path))
            if verb != "delete" and row.get(path) != wanted:
                raise CloudError(self.unready(identity, verb, row, wanted))

    def unready(self, identity: str, verb: str, row: Mapping[str, Any], wanted: Any) -> str:
        """Why a create or an update has failed after AWS accepted it."""
        found = ", ".join(str(row.get(path)) for path in self.row.read.ready)
        return (
            f"waiting for {self.token} ({identity}) {verb}: unexpected state '{found}', "
            f"wanted target '{wanted}'"
        )

    # Tags.

    def _tagged(self, operation: str, tags: Mapping[str, str]) -> dict[str, Any]:
        """The tags in the form of a create request."""
        if not (self.row.tags and tags):
            return {}
        shape = self.shape(operation)
        if self.row.tags.spec:
            pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
            return {"TagSpecifications": [{"ResourceType": self.row.tags.spec, "Tags": pairs}]}
        name = spelled_or_plural(shape.members, "tags")
        return {name: _pairs(shape.members[name], tags)} if name else {}

    def _tags(
        self, identity: str, state: Mapping[str, Any], row: Mapping[str, Any]
    ) -> dict[str, str]:
        assert self.row.tags
        if operation := self.row.tags.read:
            row = self.call(operation, self._tag_address(operation, identity, state))
        tags = row.get("Tags") or row.get("tags") or {}
        if isinstance(tags, Mapping):
            return dict(tags)
        return {
            next(v for k, v in tag.items() if k.endswith("Key")): next(
                v for k, v in tag.items() if k.endswith("Value")
            )
            for tag in tags
        }

    def _tag_address(
        self, operation: str, identity: str, state: Mapping[str, Any]
    ) -> dict[str, Any]:
        """How a request about tags identifies the resource: its ARN, or the usual members."""
        assert self.row.tags
        for name in self.shape(operation).required_members:
            if name.lower() == "resourcearn":
                return {name: self._tagged_by("arn", identity, state)}
        return self.address(operation, identity, state)

    def _tagged_by(self, usual: str, identity: str, state: Mapping[str, Any]) -> Any:
        """The identifier of the resource in a request about its tags: an output, or else its ID."""
        assert self.row.tags
        if name := self.row.tags.by or usual:
            return state.get(name) or self.read(identity, state)[name]
        return identity

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        """Sets `tags` and removes the tags with the keys `gone`."""
        assert self.row.tags
        if self.row.tags.spec:
            untag, tag = "DeleteTags", "CreateTags"
            where: dict[str, Any] = {"Resources": [self._tagged_by("", identity, state)]}
        else:
            untag, tag = self.row.tags.untag, self.row.tags.tag
            where = self._tag_address(tag, identity, state)
        if gone:
            shape = self.shape(untag)
            if keys := spelled_or_plural(shape.members, "tagKeys"):
                self.call(untag, {**where, keys: gone})
            else:
                self.call(untag, {**where, "Tags": [{"Key": key} for key in gone]})
        if tags:
            shape = self.shape(tag)
            name = spelled_or_plural(shape.members, "tags") or ""
            self.call(tag, {**where, name: _pairs(shape.members[name], tags)})


class _Context(dict[str, Any]):
    """Values of placeholders; the account is requested only if one uses it."""

    def __init__(self, values: Mapping[str, Any], api: Api) -> None:
        super().__init__(values)
        self._api = api

    def __missing__(self, name: str) -> Any:
        if name == "account":
            return self._api.number
        raise KeyError(name)


def _has(values: Any, path: str) -> bool:
    try:
        return at(values, path) is not None
    except (KeyError, TypeError):
        return False


def _parsed(template: str, identity: str) -> dict[str, Any]:
    """The parts of an ID, by the placeholders of its template; empty if AWS chose the ID."""
    names = PLACEHOLDER.findall(template)
    if not names:
        return {}
    pattern, last = "", 0
    for number, found in enumerate(PLACEHOLDER.finditer(template), 1):
        lazy = ".*" if number == len(names) else ".*?"
        pattern += re.escape(template[last : found.start()]) + f"({lazy})"
        last = found.end()
    match = re.fullmatch(pattern + re.escape(template[last:]), identity)
    parts = dict(zip(names, match.groups(), strict=True)) if match else {}
    return {name: text for name, text in parts.items() if "." not in name}


def _pairs(shape: Any, tags: Mapping[str, str]) -> Any:
    """Tags in a request's form: a map, or a list of keys and values."""
    if shape.type_name == "map":
        return dict(tags)
    key, value = (
        next(name for name in shape.member.members if name.endswith(word))
        for word in ("Key", "Value")
    )
    return [{key: name, value: text} for name, text in tags.items()]


def _malformed(name: str, text: Any) -> list[Problem]:
    if not isinstance(text, str) or text == UNKNOWN:
        return []
    try:
        json.loads(text)
    except ValueError as error:
        return [Problem(name, f"'{name}' contains an invalid JSON: {error}")]
    return []
