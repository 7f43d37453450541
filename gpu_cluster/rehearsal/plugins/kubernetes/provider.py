"""One configured Kubernetes provider: performs each resource operation like the official one.

Source of the behaviour: provider.go and await.go of
https://github.com/pulumi/pulumi-kubernetes/tree/master/provider/pkg, as far as a rehearsal needs
it; `python -m quality compare-plugins kubernetes` compares the verdicts. It is stricter in one
point: the API server validates strictly.
"""

import secrets
import threading
from collections.abc import Mapping

from gpu_cluster.rehearsal.plugins.kubernetes import applying, planning
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.plugins.kubernetes.cluster import Cluster, NoMatch, Settings, Unreachable
from gpu_cluster.rehearsal.plugins.kubernetes.normalising import normalise
from gpu_cluster.rehearsal.plugins.kubernetes.objects import (
    Kind,
    Object,
    checkpoint,
    from_properties,
    is_patch,
    kind_of,
    kind_of_token,
    marked,
    name_of,
    namespace_of,
    object_id,
    parse_checkpoint,
    prune,
    split_id,
    without_read_only,
)
from gpu_cluster.rehearsal.plugins.kubernetes.properties import Properties, has_unknown
from gpu_cluster.rehearsal.plugins.kubernetes.resource import (
    Difference,
    InitializationFailed,
    ProviderError,
    Resource,
)
from gpu_cluster.rehearsal.plugins.kubernetes.waiter import Unready, Waiter


class Provider:
    """Thread-safe: the engine works on many resources at once."""

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], only: str | None = None
    ) -> None:
        self._namespace = settings.namespace
        self.cancelled = threading.Event()
        self._cluster: Cluster | None = None
        self._reason = ""
        try:
            self._cluster = Cluster(settings, environment, only)
        except Unreachable as error:
            self._reason = str(error)

    def close(self) -> None:
        """Ends all waits and connections."""
        self.cancelled.set()
        if self._cluster:
            self._cluster.close()

    def check(
        self, resource: Resource, old: Properties, new: Properties, seed: bytes
    ) -> Properties:
        """The inputs with name and namespace filled in."""
        namespace = self._cluster.namespace if self._cluster else self._namespace
        return planning.checked(
            resource, old, new, namespace=namespace, scope=self._scope, seed=seed
        )

    def diff(self, resource: Resource, state: Properties, new: Properties) -> Difference:
        """How the new inputs differ from the live values of the old ones."""
        return planning.difference(resource, state, new, scope=self._scope)

    def create(self, resource: Resource, given: Properties) -> tuple[str, Properties]:
        """The new object's ID and state; in a preview, those that the API server predicts."""
        inputs = from_properties(given)
        kind = kind_of(inputs)
        skip = has_unknown(inputs) or is_patch(resource.token, inputs)
        if resource.preview and (skip or not applying.exists(self._cluster, inputs)):
            return "", given
        cluster, manager = self._reachable(), _new_manager()
        try:
            live = applying.create_object(cluster, resource, inputs, manager, self.cancelled)
        except NoMatch as error:
            raise ProviderError(
                f'creation of resource "{resource.urn}" with kind {kind} failed because the '
                "Kubernetes API server reported that the apiVersion for this resource does not "
                f"exist. Verify that any required CRDs have been created: {error}"
            ) from None
        except ApiError as error:
            known = error.status in (403, 404) or error.reason == "AlreadyExists"
            if resource.preview and known:
                # The user may not do a dry run, or the namespace is created in this update, or the
                # object replaces one that still exists.
                return "", given
            raise ProviderError(
                f'resource "{resource.urn}" was not successfully created by the Kubernetes API '
                f"server: {error}"
            ) from None
        if resource.preview:
            live = {name: item for name, item in live.items() if name != "status"}
            return "", checkpoint(inputs, live, given, kind.api_version, manager)
        state = self._await(
            resource, live, inputs, given, kind.api_version, manager,
            f'resource "{resource.urn}" was successfully created, but the Kubernetes API server '
            "reported that it failed to fully initialize or become live",
        )  # fmt: skip
        return object_id(live), state

    def read(
        self, resource: Resource, id: str, state: Properties, given: Properties
    ) -> tuple[str, Properties, Properties] | None:
        """The live object's ID, state and inputs; None if it does not exist."""
        namespace, name = split_id(id)
        inputs, old_live = normalise(from_properties(given)), parse_checkpoint(state)[1]
        known = [kind_of(obj) for obj in (inputs, old_live) if obj.get("kind")]
        kind = known[0] if known else kind_of_token(resource.token)
        try:
            live = self._reachable().get(kind, namespace or namespace_of(inputs), name)
        except NoMatch:
            return None
        except ApiError as error:
            if error.status == 404:
                return None
            raise ProviderError(str(error)) from None
        # Without inputs it is an import.
        imported = {name: item for name, item in live.items() if name != "status"}
        live_inputs = prune(live, inputs) if known else without_read_only(imported)
        manager = str(state.get("__fieldManager") or _new_manager())
        version = str(state.get("__initialApiVersion") or kind.api_version)
        new_state = checkpoint(live_inputs, live, given, version, manager)
        new_inputs = marked(live_inputs, given)
        if known and not (verdict := self._waiter().now(live, inputs)).ready:
            raise InitializationFailed(id, new_state, [verdict.reason], new_inputs)
        return id, new_state, new_inputs

    def update(self, resource: Resource, state: Properties, given: Properties) -> Properties:
        """Updates the object; returns its new state."""
        inputs = without_read_only(from_properties(given))
        skip = resource.preview and has_unknown(inputs)
        if skip or (resource.preview and not applying.exists(self._cluster, inputs)):
            return given
        cluster = self._reachable()
        old_live = parse_checkpoint(state)[1]
        manager = str(state.get("__fieldManager") or _new_manager())
        version = str(state.get("__initialApiVersion") or inputs["apiVersion"])
        place = (kind_of(inputs), namespace_of(inputs) or namespace_of(old_live), name_of(old_live))
        try:
            live = applying.update_object(cluster, resource, inputs, cluster.get(*place), manager)
        except (ApiError, NoMatch) as error:
            if resource.preview and isinstance(error, ApiError) and error.status == 403:
                return given
            failure = f'update of resource "{resource.urn}" failed: {error}'
            try:
                live = cluster.get(*place)
            except (ApiError, NoMatch) as gone:
                raise ProviderError(f"{failure}\nunable to get cluster state: {gone}") from None
            new_state = checkpoint(inputs, live, given, version, manager)
            raise InitializationFailed(object_id(live), new_state, [failure]) from None
        if resource.preview:
            return checkpoint(inputs, live, given, version, manager)
        return self._await(
            resource, live, inputs, given, version, manager,
            f'the Kubernetes API server reported that "{object_id(live)}" failed to fully '
            "initialize or become live",
        )  # fmt: skip

    def delete(self, resource: Resource, id: str, state: Properties) -> None:
        """Deletes the object and waits until it is gone; no error if it already is."""
        cluster = self._reachable()
        inputs, old_live = parse_checkpoint(state)
        kind, manager = kind_of(old_live), str(state.get("__fieldManager") or "")
        namespace, name = split_id(id)
        try:
            live = cluster.get(kind, namespace, name)
            if is_patch(resource.token, inputs):
                applying.relinquish(cluster, live, manager)
                return
            cluster.delete(kind, namespace, name)
            self._waiter().until_gone(live, inputs, resource.timeout)
        except NoMatch:
            return
        except ApiError as error:
            if error.status != 404:
                raise ProviderError(str(error)) from None
        except Unready as error:
            new_state = checkpoint(inputs, error.live, state, kind.api_version, manager)
            raise InitializationFailed(id, new_state, [str(error), *error.reasons]) from None
        if applying.is_definition(old_live):
            cluster.forget_kinds()

    def _reachable(self) -> Cluster:
        if self._cluster is None:
            raise ProviderError(f"configured Kubernetes cluster is unreachable: {self._reason}")
        return self._cluster

    def _scope(self, kind: Kind) -> bool:
        try:
            return self._cluster is None or self._cluster.kind(kind)[1]
        except NoMatch:
            return True  # its definition does not exist yet; most custom resources are namespaced

    def _waiter(self) -> Waiter:
        return Waiter(self._reachable(), self.cancelled)

    def _await(
        self,
        resource: Resource,
        live: Object,
        inputs: Object,
        given: Properties,
        version: str,
        manager: str,
        failure: str,
    ) -> Properties:
        """Waits until the object is ready and returns its state; raises InitializationFailed, with
        the state, if it is not."""
        if applying.is_definition(live):
            self._reachable().forget_kinds()
        reasons: list[str] = []
        try:
            live = self._waiter().until_ready(live, inputs, resource.timeout)
        except Unready as error:
            live, reasons = error.live, [f"{failure}: {error}", *error.reasons]
        except (ApiError, NoMatch, ValueError) as error:
            reasons = [f"{failure}: {error}"]
        state = checkpoint(inputs, live, given, version, manager)
        if reasons:
            raise InitializationFailed(object_id(live), state, reasons)
        return state


def _new_manager() -> str:
    return f"pulumi-kubernetes-{secrets.token_hex(4)}"
