"""The behaviour that all AWS resource types share: references, tags, drift.

AWS's rules are not implemented here: refusals come from the API. What a type computes, replaces and
checks before a request is the official provider's own behaviour.
"""

import json
from collections.abc import Mapping
from typing import Any

from rehearsal.plugins.aws.api import Api, answering
from rehearsal.plugins.aws.provider_config import default_tags
from rehearsal.plugins.cloud.handler import (
    CloudError,
    Config,
    Handler,
    InitFailedError,
    NotFoundError,
)
from rehearsal.plugins.cloud.schema import UNKNOWN, Problem


class Kind(Handler):
    """A resource type. Subclasses call the API."""

    token: str
    """The type's token, for example `aws:ec2/vpc:Vpc`."""
    documents: tuple[str, ...] = ()
    """Inputs that are JSON, whose formatting is irrelevant."""
    regional: bool = True
    computed: tuple[str, ...] = ("region",)

    def __init__(self, api: Api) -> None:
        self.api = api

    # Subclasses implement these methods.

    @property
    def supported_inputs(self) -> tuple[str, ...]:
        """The simulated inputs; any other is refused, never dropped."""
        raise NotImplementedError

    def create(self, inputs: dict[str, Any]) -> str:
        """Creates the resource and returns its ID. `inputs["tagsAll"]` contains all its tags.
        Raises InitFailedError with the inputs if AWS created it but it does not become ready."""
        raise NotImplementedError

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """Its current properties in AWS, including `tagsAll`; raises NotFoundError."""
        raise NotImplementedError

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Updates the resource to `new`, except its tags."""

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        """Sets `tags` and removes the tags with the keys `gone`."""
        raise NotImplementedError

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        """Deletes the resource; raises CloudError if AWS refuses."""
        raise NotImplementedError

    # The server calls these methods.

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        found = [
            Problem(name, f"a rehearsal does not simulate '{name}' of {self.token}")
            for name in inputs
            if name not in (*self.supported_inputs, "region") and not name.startswith("__")
        ]
        region = inputs.get("region")
        if region not in (None, UNKNOWN, config.get("region")):
            found.append(
                Problem(
                    "region",
                    f"a rehearsal simulates one region: the provider's {config.get('region')}, "
                    f"got '{region}'",
                )
            )
        for name in self.documents:
            found += _malformed(name, inputs.get(name))
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
            self.update(identity, old, given)
            before, after = old.get("tagsAll") or {}, given.get("tagsAll") or {}
            if before != after:
                self.set_tags(identity, given, after, [key for key in before if key not in after])
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


def _malformed(name: str, text: Any) -> list[Problem]:
    if not isinstance(text, str) or text == UNKNOWN:
        return []
    try:
        json.loads(text)
    except ValueError as error:
        return [Problem(name, f"'{name}' contains an invalid JSON: {error}")]
    return []


def pascal(name: str) -> str:
    """`cidrBlock` in the spelling of the EC2 and IAM APIs: `CidrBlock`."""
    return name[:1].upper() + name[1:]


__all__ = ["CloudError", "Config", "InitFailedError", "Kind", "NotFoundError", "Problem", "pascal"]
