"""The API that both plugins use during a comparison: none, or an empty control plane."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.plugins.kubernetes.cluster import Cluster, NoMatch, Settings
from gpu_cluster.rehearsal.plugins.kubernetes.objects import kind_of_token
from gpu_cluster.rehearsal.processes import Processes
from quality.fidelity.declared import Declared
from quality.fidelity.states import from_preview, kubernetes_object

Preview = Callable[[], Mapping[str, Any]]

_BY_CONTROLLERS = ("kube-scheduler", "kube-controller-manager")
"""Controllers that would change objects between two requests."""
_ACCOUNTS = ("default", "a-value", "another")
"""Service accounts in every namespace, for the generated values of a pod."""


class Behind(Protocol):
    """The API that both plugins use."""

    dry_runs: bool
    """Whether a preview contacts an API server, as it really does."""

    @property
    def config(self) -> Mapping[str, str]:
        """The provider's config, in addition to the package's."""

    def prepare(self, of: Declared) -> None:
        """Creates what a resource needs before the plugins are asked about it."""

    def state(self, token: str, inputs: Mapping[str, Any], preview: Preview) -> dict[str, Any]:
        """The state of a resource created from checked inputs; the resource exists until `forget`.
        Raises ApiError if it cannot be created."""

    def forget(self) -> None:
        """Deletes the resource that `state` created."""


class Nothing:
    """For plugins whose plan needs no cloud."""

    dry_runs = False
    config: Mapping[str, str] = {}

    def prepare(self, of: Declared) -> None:
        """Does nothing: no resource needs another one."""

    def state(self, token: str, inputs: Mapping[str, Any], preview: Preview) -> dict[str, Any]:
        return from_preview(token, preview)

    def forget(self) -> None:
        """Does nothing: no resource was created."""


class EmptyCluster:
    """A real API server with an empty etcd, without controllers."""

    dry_runs = True

    def __init__(self, plane: LocalControlPlane) -> None:
        self._plane = plane
        self.api = plane.api
        self._made: list[str] = []
        self._namespaces: set[str] = set()
        self._cluster = Cluster(Settings(kubeconfig=plane.kubeconfig.read_text()), {})
        self._namespace("default")

    @property
    def config(self) -> Mapping[str, str]:
        kubeconfig = self._plane.kubeconfig.read_text()
        # The offline plugin reads the argument, the official one the variable.
        return {"kubeconfig": kubeconfig, "kubernetes:config:kubeconfig": kubeconfig}

    def prepare(self, of: Declared) -> None:
        """Creates the resource's namespace, with service accounts."""
        if namespace := of.inputs.get("metadata", {}).get("namespace"):
            self._namespace(str(namespace))

    def state(self, token: str, inputs: Mapping[str, Any], preview: Preview) -> dict[str, Any]:
        state, metadata = kubernetes_object(token, inputs), inputs["metadata"]
        namespace = metadata.get("namespace", "")
        try:
            path = self._cluster.path(kind_of_token(token), namespace, metadata["name"])
        except NoMatch:
            return state  # a custom resource: neither plugin asks a server without its definition
        live = self.api.apply(path, dict(inputs), manager=str(state["__fieldManager"]))
        self._made = [path]
        return {**live, **{name: value for name, value in state.items() if name.startswith("__")},
                "id": state["id"]}  # fmt: skip

    def forget(self) -> None:
        for path in self._made:
            try:
                self.api.patch(path, {"metadata": {"finalizers": None}})
                self.api.delete(path, grace=0)
                if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
                    # Nothing else empties the namespace: the controllers do not run.
                    whole = self.api.get(path) | {"spec": {"finalizers": []}}
                    self.api.put(f"{path}/finalize", whole)
            except ApiError as error:
                if error.status != 404:
                    raise
        self._made = []

    def _namespace(self, name: str) -> None:
        if name in self._namespaces:
            return
        self._namespaces.add(name)
        path = f"/api/v1/namespaces/{name}"
        metadata = {"name": name}
        self.api.apply(path, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for account in _ACCOUNTS:
            document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
            self.api.apply(f"{path}/serviceaccounts/{account}", document)


@contextmanager
def nothing() -> Iterator[Behind]:
    """No API, for Google Cloud."""
    yield Nothing()


@contextmanager
def empty_cluster() -> Iterator[Behind]:
    """A control plane without objects, for Kubernetes."""
    with tempfile.TemporaryDirectory(prefix="compare-") as name:
        folder = Path(name)
        processes = Processes(folder / "logs", name)
        plane = LocalControlPlane(folder, processes)
        try:
            plane.ensure_started()
            processes.stop(*_BY_CONTROLLERS)
            yield EmptyCluster(plane)
        finally:
            plane.stop()
            processes.stop()
