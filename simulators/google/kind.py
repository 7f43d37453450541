"""What all resource types of the simulated Google Cloud share: identity, references, life."""

from collections.abc import Mapping
from typing import Any, ClassVar

from plugins.cloud.handler import CloudError, Config, Handler
from simulators.google.cloud import GcpCloud
from simulators.google.resource import CloudResource, project_of


class Kind(Handler):
    """A resource type of Google Cloud. Subclasses say what is different about theirs."""

    token: ClassVar[str]
    word: ClassVar[str]
    in_project: ClassVar[bool] = True
    """Whether the provider has a property `project` for it."""

    def __init__(self, cloud: GcpCloud) -> None:
        self.cloud = cloud

    def identity(self, config: Config, inputs: Mapping[str, Any]) -> str:
        """The id that the official provider gives it."""
        raise NotImplementedError

    def admit(self, config: Config, state: dict[str, Any], old: CloudResource | None) -> None:
        """Completes `state` with what the cloud fills in; raises CloudError where it refuses."""

    def uses(self, config: Config, state: Mapping[str, Any]) -> list[str]:
        """Ids of the resources that must outlive this one."""
        return []

    def parent(self, config: Config, state: Mapping[str, Any]) -> str | None:
        """The id of the resource that takes this one along."""
        return None

    def create(self, config: Config, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
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
            self.admit(config, state, None)
            resource = CloudResource(
                token=self.token,
                word=self.word,
                identity=identity,
                state=state,
                uses=self.uses(config, state),
                parent=self.parent(config, state),
            )
            self.started(resource)
            self.cloud.resources[identity] = resource
            return identity, dict(state)

    def started(self, resource: CloudResource) -> None:
        """Called before the new resource is there, e.g. to start its nodes; may raise
        CloudError."""

    def _check_references(self, config: Config, state: Mapping[str, Any]) -> None:
        parent = self.parent(config, state)
        for identity in [*self.uses(config, state), *([parent] if parent else [])]:
            self.cloud.get(identity)

    def read(self, config: Config, identity: str, state: dict[str, Any]) -> dict[str, Any]:
        with self.cloud.lock:
            return dict(self.cloud.get(identity).state)

    def update(
        self, config: Config, identity: str, old: dict[str, Any], new: dict[str, Any]
    ) -> dict[str, Any]:
        with self.cloud.lock:
            resource = self.cloud.get(identity)
            self._check_references(config, new)
            self.admit(config, new, resource)
            resource.state, resource.uses = new, self.uses(config, new)
            return dict(new)

    def delete(self, config: Config, identity: str, state: dict[str, Any]) -> None:
        with self.cloud.lock:
            resource = self.cloud.get(identity)
            if state.get("deletionPolicy") == "PREVENT":
                raise CloudError(
                    f"cannot destroy {self.word} '{identity}': deletionPolicy is PREVENT; set it "
                    "to DELETE, apply that, and then destroy"
                )
            if state.get("deletionPolicy") == "ABANDON":
                return
            for user in self.cloud.resources.values():
                if identity in user.uses and user.parent != identity:
                    raise CloudError(
                        f"googleapi: Error 400: The {resource.word} resource '{identity}' is "
                        "already "
                        f"being used by '{user.identity}', resourceInUseByAnotherResource"
                    )
            self.cloud.remove(identity)
