"""One Kubernetes API server, called through the official Python client in plain JSON."""

import copy
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes.client
import kubernetes.config
import urllib3

from rehearsal.plugins.kubernetes.api_error import ApiError
from rehearsal.plugins.kubernetes.objects import Kind, Object
from rehearsal.plugins.kubernetes.provider_args import KubeconfigError, Settings, load_kubeconfig

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_POOL = 64
"""The most connections to the API server at once; the engine works on many resources."""


class NoMatch(Exception):
    """The API server does not have the kind, or not yet."""


class Unreachable(Exception):
    """The API server cannot be used with this configuration."""


class Cluster:
    """The configured user's access to one API server. Thread-safe."""

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], only: str | None = None
    ) -> None:
        """`only`: host and port of the only server to connect to. Raises Unreachable."""
        try:
            document, folder = load_kubeconfig(settings.kubeconfig, environment)
        except KubeconfigError as error:
            raise Unreachable(
                f"failed to parse kubeconfig data in `kubernetes:config:kubeconfig`- {error}"
            ) from None
        self._client, namespace = _client(document, folder, settings, environment, only)
        self.namespace = settings.namespace or namespace or "default"
        self._timeout = settings.timeout or 30.0
        self._kinds: dict[Kind, tuple[str, bool]] = {}
        self._lock = threading.Lock()
        try:
            self._call("GET", "/api")
        except ApiError as error:
            raise Unreachable(
                f"unable to load schema information from the API server: {error}"
            ) from None

    def forget_kinds(self) -> None:
        """Forgets all kinds, as after a CustomResourceDefinition has changed."""
        with self._lock:
            self._kinds.clear()

    def kind(self, kind: Kind) -> tuple[str, bool]:
        """The plural name of a kind and whether it is namespaced; raises NoMatch."""
        with self._lock:
            if kind in self._kinds:
                return self._kinds[kind]
        base = f"/apis/{kind.group}" if kind.group else "/api"
        try:
            listing = self._call("GET", f"{base}/{kind.version}")
        except ApiError as error:
            if error.status != 404:
                raise
            listing = {"resources": []}
        with self._lock:
            for each in listing["resources"]:
                if "/" not in each["name"]:
                    known = Kind(kind.group, kind.version, each["kind"])
                    self._kinds[known] = each["name"], each["namespaced"]
            if kind not in self._kinds:
                raise NoMatch(f'no matches for kind "{kind.kind}" in version "{kind.api_version}"')
            return self._kinds[kind]

    def path(self, kind: Kind, namespace: str, name: str = "") -> str:
        """The URL path of an object or, without a name, of all objects of its kind."""
        plural, namespaced = self.kind(kind)
        base = f"/apis/{kind.group}" if kind.group else "/api"
        inside = f"/namespaces/{namespace or self.namespace}" if namespaced else ""
        return f"{base}/{kind.version}{inside}/{plural}" + (f"/{name}" if name else "")

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        return self._call("GET", self.path(kind, namespace, name))

    def list(self, kind: Kind, namespace: str, selector: str = "") -> list[Object]:
        """The objects of a kind in a namespace that a label selector matches."""
        query = {"labelSelector": selector} if selector else {}
        items: list[Object] = self._call("GET", self.path(kind, namespace), query).get("items", [])
        return items

    def create(self, kind: Kind, obj: Object, manager: str, *, dry_run: bool) -> Object:
        """Sends a POST request; unknown fields are refused."""
        query = {"fieldManager": manager, "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        namespace = (obj.get("metadata") or {}).get("namespace") or ""
        return self._call("POST", self.path(kind, namespace), query, obj)

    def own(self, kind: Kind, live: Object, managed: Sequence[Object]) -> Object:
        """Writes the object's managed fields, unless it has changed since it was read."""
        metadata = live["metadata"]
        patch = {"managedFields": managed, "resourceVersion": metadata["resourceVersion"]}
        path = self.path(kind, metadata.get("namespace") or "", metadata["name"])
        return self._call("PATCH", path, body={"metadata": patch}, content=MERGE)

    def apply(self, kind: Kind, obj: Object, manager: str, *, force: bool, dry_run: bool) -> Object:
        """Server-side apply; unknown fields are refused."""
        metadata = obj.get("metadata") or {}
        query = {"fieldManager": manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        path = self.path(kind, metadata.get("namespace") or "", metadata["name"])
        return self._call("PATCH", path, query, obj, APPLY)

    def replace(self, kind: Kind, obj: Object, manager: str, *, dry_run: bool) -> Object:
        """Sends a PUT request, for changes that server-side apply cannot make."""
        metadata = obj["metadata"]
        query = {"fieldManager": manager, "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        path = self.path(kind, metadata.get("namespace") or "", metadata["name"])
        return self._call("PUT", path, query, obj)

    def delete(self, kind: Kind, namespace: str, name: str, propagation: str) -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        self._call("DELETE", self.path(kind, namespace, name), body=body)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content: str = "application/json",
    ) -> Object:
        try:
            reply = self._client.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": content},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=self._timeout,
            )
        except kubernetes.client.ApiException as error:
            raise ApiError.of(error.status, error.reason, error.body) from None
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(0, "NoAnswer", str(error)) from None
        answer: Object = json.loads(reply.data)
        return answer


def _client(
    document: Any,
    folder: Path,
    settings: Settings,
    environment: Mapping[str, str],
    only: str | None,
) -> tuple[Any, str]:
    """An API client for the chosen context, and the context's namespace."""
    document = copy.deepcopy(document)
    chosen = settings.context or document.get("current-context")
    contexts = {
        each.get("name"): each.get("context") or {} for each in document.get("contexts", [])
    }
    if chosen not in contexts:
        raise Unreachable(
            "unable to load Kubernetes client configuration from kubeconfig file. "
            f'context "{chosen}" does not exist: it has {", ".join(map(str, contexts)) or "none"}'
        )
    context = contexts[chosen]
    if settings.cluster:
        context["cluster"] = settings.cluster
    for cluster in document.get("clusters") or []:
        # Before a program of the kubeconfig runs, and before a token is sent.
        if cluster.get("name") == context.get("cluster") and only is not None:
            server = str((cluster.get("cluster") or {}).get("server"))
            if urlsplit(server).netloc != only:
                raise Unreachable(
                    f"the kubeconfig's server {server} is not the rehearsal's own cluster, the "
                    "only one that a rehearsal reaches; use the kubeconfig of the stack's cluster"
                )
    users = {each.get("name"): each.get("user") or {} for each in document.get("users", [])}
    plugin = users.get(context.get("user"), {}).get("exec")
    if plugin:
        # The plugin runs with the provider's environment, whose PATH determines the program.
        own = [{"name": name, "value": value} for name, value in environment.items()]
        plugin["env"] = [*own, *(plugin.get("env") or [])]
    configuration = kubernetes.client.Configuration()
    loader = kubernetes.config.kube_config.KubeConfigLoader(
        document, active_context=chosen, config_base_path=str(folder) if folder.parts else ""
    )
    try:
        loader.load_and_set(configuration)
    except (kubernetes.config.ConfigException, OSError, ValueError) as error:
        raise Unreachable(
            f"unable to load Kubernetes client configuration from kubeconfig file. {error}"
        ) from None
    if plugin and "BearerToken" not in configuration.api_key:
        # The client only logs why a plugin failed, and continues without credentials.
        raise Unreachable(f"getting credentials: exec: {plugin['command']} gave no credentials")
    # Like Go's crypto/x509, with which the official plugin is built: replaces the system's roots.
    if not configuration.ssl_ca_cert and (roots := environment.get("SSL_CERT_FILE")):
        configuration.ssl_ca_cert = roots
    if only is not None:  # on loopback: no proxy reaches it
        configuration.proxy = None
    configuration.connection_pool_maxsize = _POOL
    configuration.retries = urllib3.Retry(total=1, connect=1, read=0, redirect=0, other=0)
    return kubernetes.client.ApiClient(configuration), context.get("namespace") or ""
