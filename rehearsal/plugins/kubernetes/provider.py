"""One configured Kubernetes provider: performs each resource operation like the official one.

Source of the behaviour and of the messages: provider.go and await.go of
https://github.com/pulumi/pulumi-kubernetes/tree/master/provider/pkg. It is stricter in two points:
`check` refuses properties that the SDK's classes do not have, and the API server validates
strictly. Helm releases, List kinds, client-side apply and YAML rendering are refused.
"""

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from rehearsal.plugins.kubernetes import applying, planning
from rehearsal.plugins.kubernetes.api_error import ApiError
from rehearsal.plugins.kubernetes.cluster import Cluster, NoMatch, Unreachable
from rehearsal.plugins.kubernetes.normalising import normalise
from rehearsal.plugins.kubernetes.objects import (
    PATCH_FIELD_MANAGER,
    REPLACE_UNREADY,
    Kind,
    Object,
    annotation,
    checkpoint,
    from_properties,
    importable,
    is_patch,
    is_true,
    kind_of,
    marked,
    name_of,
    namespace_of,
    object_id,
    parse_checkpoint,
    propagation,
    prune,
    split_id,
    without_read_only,
)
from rehearsal.plugins.kubernetes.provider_args import Settings
from rehearsal.plugins.kubernetes.resource import (
    Autonaming,
    Difference,
    InitializationFailed,
    Level,
    ProviderError,
    Resource,
)
from rehearsal.plugins.kubernetes.waiter import Unready, Waiter
from rehearsal.plugins.kubernetes.wire import Properties, has_unknown

Log = Callable[[Level, str, str, bool], None]
"""Called with a level, a URN, a message, and whether it is only a temporary status."""

_IF_DELETED = (
    "you can remove this resource from Pulumi state by rerunning the operation with the "
    'PULUMI_K8S_DELETE_UNREACHABLE environment variable set to "true"'
)


class Provider:
    """Thread-safe: the engine works on many resources at once."""

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], log: Log, only: str | None = None
    ) -> None:
        self._settings = settings
        self._log = log
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
        self,
        resource: Resource,
        old: Properties,
        new: Properties,
        seed: bytes,
        autonaming: Autonaming | None,
    ) -> tuple[Properties, list[tuple[str, str]]]:
        """The inputs with name and namespace filled in, and each error's path and reason."""
        if self._cluster is None and self._settings.skip_update_unreachable:
            self._log("warning", resource.urn, "Cluster is unreachable, skipping the update", False)
            return old, []
        return planning.checked(
            resource,
            old,
            new,
            namespace=self._cluster.namespace if self._cluster else self._settings.namespace,
            scope=self._scope,
            seed=seed,
            autonaming=autonaming,
        )

    def diff(self, resource: Resource, state: Properties, new: Properties) -> Difference:
        """How the new inputs differ from the live values of the old ones."""
        found = planning.difference(
            resource, state, new, settings=self._settings, scope=self._scope
        )
        inputs, live = from_properties(new), parse_checkpoint(state)[1]
        if not is_true(inputs, REPLACE_UNREADY) or not self._is_unready_job(resource, live, inputs):
            return found
        unready = f'metadata.annotations["{REPLACE_UNREADY}"]'
        return replace(
            found,
            changes={**found.changes, unready: ("update", True)},
            replaces=[*found.replaces, unready],
            delete_before_replace=planning.keeps_its_name(inputs, live),
        )

    def create(self, resource: Resource, given: Properties) -> tuple[str, Properties]:
        """The new object's ID and state; in a preview, those that the API server predicts."""
        inputs = from_properties(given)
        kind = kind_of(inputs)
        skip = has_unknown(inputs) or is_patch(resource.token, inputs)
        if resource.preview and (skip or not applying.exists(self._cluster, inputs)):
            return "", given
        cluster = self._reachable()
        manager = annotation(inputs, PATCH_FIELD_MANAGER) or _new_manager()
        try:
            live = applying.create(
                cluster, resource, inputs, manager, self._settings, self.cancelled
            )
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
        if self._cluster is None:
            self._warn_unreachable(resource)
            if self._settings.delete_unreachable:
                return None
            if self._settings.skip_update_unreachable:
                return id, state, given
            raise ProviderError(
                "failed to read resource state due to unreachable cluster. If the cluster was "
                f"deleted, {_IF_DELETED}"
            )
        namespace, name = split_id(id)
        inputs, old_live = normalise(from_properties(given)), parse_checkpoint(state)[1]
        known = [kind_of(each) for each in (inputs, old_live) if each.get("kind")]
        kind = known[0] if known else planning.supported_kind(resource.token)
        try:
            live = self._cluster.get(kind, namespace or namespace_of(inputs), name)
        except NoMatch:
            return None
        except ApiError as error:
            if error.status == 404:
                return None
            raise ProviderError(str(error)) from None
        live_inputs = prune(live, inputs) if known else importable(live)
        manager = str(state.get("__fieldManager") or _new_manager())
        version = str(state.get("__initialApiVersion") or kind.api_version)
        new_state = checkpoint(live_inputs, live, given, version, manager)
        new_inputs = marked(live_inputs, given)
        if known and not (verdict := self._waiter(resource).now(live, inputs)).ready:
            raise InitializationFailed(id, new_state, new_inputs, [verdict.reason])
        return id, new_state, new_inputs

    def update(self, resource: Resource, state: Properties, given: Properties) -> Properties:
        """Updates the object; returns its new state."""
        inputs = without_read_only(from_properties(given))
        skip = resource.preview and has_unknown(inputs)
        if skip or (resource.preview and not applying.exists(self._cluster, inputs)):
            return given
        cluster = self._reachable()
        old_live = parse_checkpoint(state)[1]
        before = str(state.get("__fieldManager") or "")
        manager = annotation(inputs, PATCH_FIELD_MANAGER) or before or _new_manager()
        version = str(state.get("__initialApiVersion") or inputs["apiVersion"])
        place = (kind_of(inputs), namespace_of(inputs) or namespace_of(old_live), name_of(old_live))
        try:
            found = cluster.get(*place)
            live = applying.update(cluster, resource, inputs, found, manager, self._settings)
        except (ApiError, NoMatch) as error:
            if resource.preview and isinstance(error, ApiError) and error.status == 403:
                return given
            failure = f'update of resource "{resource.urn}" failed: {error}'
            try:
                found = cluster.get(*place)
            except (ApiError, NoMatch) as gone:
                raise ProviderError(f"{failure}\nunable to get cluster state: {gone}") from None
            new_state = checkpoint(inputs, found, given, version, manager)
            raise InitializationFailed(object_id(found), new_state, None, [failure]) from None
        if resource.preview:
            return checkpoint(inputs, live, given, version, manager)
        new_state = self._await(
            resource, live, inputs, given, version, manager,
            f'the Kubernetes API server reported that "{object_id(live)}" failed to fully '
            "initialize or become live",
        )  # fmt: skip
        if before and before != manager:
            applying.relinquish(cluster, live, before)
        return new_state

    def delete(self, resource: Resource, id: str, state: Properties) -> None:
        """Deletes the object and waits until it is gone; no error if it already is."""
        if self._cluster is None:
            self._warn_unreachable(resource)
            if self._settings.delete_unreachable:
                return
            raise ProviderError(
                "configured Kubernetes cluster is unreachable. If the cluster was deleted, "
                f"{_IF_DELETED}"
            )
        inputs, old_live = parse_checkpoint(state)
        kind, manager = kind_of(old_live), str(state.get("__fieldManager") or "")
        namespace, name = split_id(id)
        try:
            live = self._cluster.get(kind, namespace, name)
            if is_patch(resource.token, inputs):
                applying.relinquish(self._cluster, live, manager)
                return
            self._cluster.delete(kind, namespace, name, propagation(inputs))
            self._waiter(resource).until_gone(live, inputs, resource.timeout)
        except NoMatch:
            return
        except ApiError as error:
            if error.status != 404:
                raise ProviderError(str(error)) from None
        except Unready as error:
            new_state = checkpoint(inputs, error.live, state, kind.api_version, manager)
            reasons = [str(error), *error.reasons]
            raise InitializationFailed(id, new_state, None, reasons) from None
        if applying.is_definition(old_live):
            self._cluster.forget_kinds()

    def _reachable(self) -> Cluster:
        if self._cluster is None:
            raise ProviderError(f"configured Kubernetes cluster is unreachable: {self._reason}")
        return self._cluster

    def _warn_unreachable(self, resource: Resource) -> None:
        warning = f"configured Kubernetes cluster is unreachable: {self._reason}"
        self._log("warning", resource.urn, warning, False)
        if self._settings.delete_unreachable:
            done = "Deleting the unreachable resource from Pulumi state"
            self._log("info", resource.urn, done, False)

    def _scope(self, kind: Kind) -> bool:
        try:
            return self._cluster is None or self._cluster.kind(kind)[1]
        except NoMatch:
            return True  # its definition does not exist yet; most custom resources are namespaced

    def _waiter(self, resource: Resource) -> Waiter:
        messages: list[str] = []

        def tell(message: str) -> None:
            if messages[-1:] != [message]:
                messages.append(message)
                self._log("info", resource.urn, message, True)

        return Waiter(self._reachable(), self.cancelled, tell)

    def _is_unready_job(self, resource: Resource, live: Object, inputs: Object) -> bool:
        if self._cluster is None or inputs.get("kind") != "Job":
            unable = (
                "Cluster is unreachable, skipping replaceUnready check"
                if self._cluster is None
                else "replaceUnready annotation is not supported for this resource"
            )
            self._log("warning", resource.urn, unable, False)
            return False
        try:
            job = self._cluster.get(kind_of(live), namespace_of(live), name_of(live))
        except ApiError:
            return False  # like the official provider: a Job that cannot be read is not replaced
        return not self._waiter(resource).now(job, inputs).ready

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
            live = self._waiter(resource).until_ready(live, inputs, resource.timeout)
        except Unready as error:
            live, reasons = error.live, [f"{failure}: {error}", *error.reasons]
        except (ApiError, NoMatch, ValueError) as error:
            reasons = [f"{failure}: {error}"]
        state = checkpoint(inputs, live, given, version, manager)
        if reasons:
            raise InitializationFailed(object_id(live), state, None, reasons)
        return state


def _new_manager() -> str:
    return f"pulumi-kubernetes-{secrets.token_hex(4)}"
