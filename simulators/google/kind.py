"""What all resource types of the simulated Google Cloud share: identity, references, life."""

from collections.abc import Mapping
from typing import Any, ClassVar

from plugins.cloud.handler import CloudError, Config
from simulators.google.cloud import GoogleCloud
from simulators.google.resource import CloudResource, project_of
from simulators.resource_type import ResourceType


class Kind(ResourceType):
    """A resource type of Google Cloud. Subclasses say what is different about theirs."""

    in_project: ClassVar[bool] = True
    """Whether the provider has a property `project` for it."""

    def __init__(self, cloud: GoogleCloud) -> None:
        self.cloud = cloud

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        """The id that the official provider gives it."""
        raise NotImplementedError

    def validate_create(
        self, config: Config, state: dict[str, Any], old: CloudResource | None
    ) -> None:
        """Before a create, and before an update of `old`: completes `state` with what the cloud
        fills in; raises CloudError where the cloud refuses."""

    def parent(self, config: Config, state: Mapping[str, Any]) -> str | None:
        """The id of the resource that takes this one along."""
        return None

    def on_create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        with self.cloud.lock:
            state = {**inputs}
            if self.in_project:
                state.setdefault("project", project_of(config, inputs))
            identity = self.identity(config, state)
            if identity in self.cloud.resources:
                raise CloudError(
                    f"googleapi: Error 409: The resource '{identity}' already exists, alreadyExists"
                )
            self._check_references(config, state)
            self.validate_create(config, state, None)
            resource = CloudResource(
                token=self.token,
                display_name=self.display_name,
                identity=identity,
                state=state,
                depends_on=self.depends_on(config, state),
                parent=self.parent(config, state),
            )
            self.create(resource)
            self.cloud.resources[identity] = resource
            return identity, dict(state)

    def create(self, resource: CloudResource) -> None:
        """What comes with the new resource, before it is there, e.g. its nodes; may raise
        CloudError."""

    def read(self, resource: CloudResource, state: Mapping[str, Any]) -> dict[str, Any]:
        """Its properties now; `state`: those that the engine knows."""
        return dict(resource.state)

    def _check_references(self, config: Config, state: Mapping[str, Any]) -> None:
        parent = self.parent(config, state)
        for identity in [*self.depends_on(config, state), *([parent] if parent else [])]:
            self.cloud.get(identity)

    def on_read(self, config: Config, identity: str, state: dict[str, Any]) -> dict[str, Any]:
        with self.cloud.lock:
            return self.read(self.cloud.get(identity), state)

    def on_update(
        self, config: Config, identity: str, old: dict[str, Any], new: dict[str, Any]
    ) -> dict[str, Any]:
        with self.cloud.lock:
            resource = self.cloud.get(identity)
            self._check_references(config, new)
            self.validate_create(config, new, resource)
            resource.state, resource.depends_on = new, self.depends_on(config, new)
            return dict(new)

    def on_delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        with self.cloud.lock:
            resource = self.cloud.get(identity)
            if state.get("deletionPolicy") == "PREVENT":
                raise CloudError(
                    f"cannot destroy {self.display_name} '{identity}': deletionPolicy is PREVENT; "
                    "set it to DELETE, apply that, and then destroy"
                )
            if state.get("deletionPolicy") == "ABANDON":
                return
            for user in self.cloud.resources.values():
                if identity in user.depends_on and user.parent != identity:
                    raise CloudError(
                        f"googleapi: Error 400: The {resource.display_name} resource '{identity}' "
                        f"is already being used by '{user.identity}', "
                        "resourceInUseByAnotherResource"
                    )
            self.cloud.remove(identity)
