"""One Kubernetes API server, reached by a kubeconfig, in plain JSON."""

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
import yaml

from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.plugins.kubernetes.objects import (
    Kind,
    Object,
    kind_of,
    name_of,
    namespace_of,
)

APPLY = "application/apply-patch+yaml"
_POOL = 64
"""The most connections to the API server at once; the engine works on many resources."""
_SECONDS = 30.0


class NoMatch(Exception):
    """The API server does not have the kind, or not yet."""


class Unreachable(Exception):
    """The API server cannot be used with this configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A provider's arguments, as far as a rehearsal uses them."""

    kubeconfig: str = ""
    """The document, not its path."""
    context: str = ""
    namespace: str = ""


class Cluster:
    """The configured user's access to one API server. Thread-safe."""

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], only: str | None = None
    ) -> None:
        """`only`: host and port of the only server to connect to. Raises Unreachable."""
        context, cluster, user = _chosen(settings)
        self._base = str(cluster.get("server"))
        # A name of the control plane that a cloud gives means localhost here.
        server = urlsplit(self._base).netloc.replace("localhost:", "127.0.0.1:")
        if only is not None and server != only:
            # Before a program of the kubeconfig runs, and before a token is sent.
            raise Unreachable(
                f"the kubeconfig's server {self._base} is not the rehearsal's own cluster, the "
                "only one that a rehearsal reaches; use the kubeconfig of the stack's cluster"
            )
        self._headers = {"Authorization": f"Bearer {_token(user, environment)}"}
        authority = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
        # Without one, like Go's crypto/x509: the variable replaces the system's roots.
        file = cluster.get("certificate-authority") or environment.get("SSL_CERT_FILE")
        self._pool = urllib3.PoolManager(
            maxsize=_POOL,
            ca_certs=None if authority else file,
            ca_cert_data=authority or None,
            retries=urllib3.Retry(total=1, connect=1, read=0, redirect=0, other=0),
        )
        self.namespace = settings.namespace or context.get("namespace") or "default"
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
        try:
            listing = self._call("GET", _base(kind))
        except ApiError as error:
            if error.status != 404:
                raise
            listing = {"resources": []}
        with self._lock:
            for resource in listing["resources"]:
                if "/" not in resource["name"]:
                    known = Kind(kind.group, kind.version, resource["kind"])
                    self._kinds[known] = resource["name"], resource["namespaced"]
            if kind not in self._kinds:
                raise NoMatch(f'no matches for kind "{kind.kind}" in version "{kind.api_version}"')
            return self._kinds[kind]

    def path(self, kind: Kind, namespace: str, name: str = "") -> str:
        """The URL path of an object or, without a name, of all objects of its kind."""
        plural, namespaced = self.kind(kind)
        inside = f"/namespaces/{namespace or self.namespace}" if namespaced else ""
        return f"{_base(kind)}{inside}/{plural}" + (f"/{name}" if name else "")

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """Raises ApiError, NoMatch."""
        return self._call("GET", self.path(kind, namespace, name))

    def list(self, kind: Kind, namespace: str, selector: str) -> list[Object]:
        """The objects of a kind in a namespace that a label selector matches."""
        query = {"labelSelector": selector}
        items: list[Object] = self._call("GET", self.path(kind, namespace), query).get("items", [])
        return items

    def predict(self, obj: Object) -> Object:
        """What creating the object would yield; refuses unknown fields, and an existing object."""
        query = {"fieldValidation": "Strict", "dryRun": "All"}
        return self._call("POST", self.path(kind_of(obj), namespace_of(obj)), query, obj)

    def apply(self, obj: Object, manager: str, *, force: bool, dry_run: bool) -> Object:
        """Server-side apply; unknown fields are refused."""
        return self._write("PATCH", obj, manager, {"force": str(force).lower()}, dry_run=dry_run)

    def replace(self, obj: Object, manager: str, *, dry_run: bool) -> Object:
        """Sends a PUT request, for changes that server-side apply cannot make."""
        return self._write("PUT", obj, manager, {}, dry_run=dry_run)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Deletes an object after its dependents, as the official provider does by default."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
        self._call("DELETE", self.path(kind, namespace, name), body=body)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()

    def _write(
        self, method: str, obj: Object, manager: str, query: Mapping[str, str], *, dry_run: bool
    ) -> Object:
        path = self.path(kind_of(obj), namespace_of(obj), name_of(obj))
        query = {"fieldManager": manager, "fieldValidation": "Strict", **query}
        return self._call(method, path, query | ({"dryRun": "All"} if dry_run else {}), obj)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
    ) -> Object:
        content = APPLY if method == "PATCH" else "application/json"
        try:
            reply = self._pool.request(
                method,
                f"{self._base}{path}" + (f"?{urlencode(query)}" if query else ""),
                headers={**self._headers, "Content-Type": content},
                body=None if body is None else json.dumps(body).encode(),
                timeout=_SECONDS,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(0, "NoAnswer", str(error)) from None
        if reply.status >= 400:
            raise ApiError.of(reply.status, reply.reason, reply.data)
        answer: Object = json.loads(reply.data)
        return answer


def _base(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _chosen(settings: Settings) -> tuple[Object, Object, Object]:
    """The chosen context of the kubeconfig, its cluster and its user."""
    try:
        document = yaml.safe_load(settings.kubeconfig)
    except yaml.YAMLError:
        document = None
    if not isinstance(document, dict):
        raise Unreachable("failed to parse kubeconfig data in `kubernetes:config:kubeconfig`")

    def named(kind: str, name: Any) -> Object:
        entries = {entry.get("name"): entry for entry in document.get(f"{kind}s") or []}
        if name not in entries:
            known = ", ".join(map(str, entries)) or "none"
            raise Unreachable(f'the kubeconfig\'s {kind} "{name}" does not exist: it has {known}')
        found: Object = entries[name].get(kind) or {}
        return found

    context = named("context", settings.context or document.get("current-context"))
    return context, named("cluster", context.get("cluster")), named("user", context.get("user"))


def _token(user: Object, environment: Mapping[str, str]) -> str:
    """The user's token, perhaps from a program that runs with the provider's environment."""
    if "token" in user:
        return str(user["token"])
    program = user.get("exec") or {}
    command = str(program.get("command"))
    path = environment.get("PATH", os.defpath)
    own = {entry["name"]: entry["value"] for entry in program.get("env") or []}
    try:
        done = subprocess.run(
            [shutil.which(command, path=path) or command, *(program.get("args") or [])],
            env={**environment, "PATH": path, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
        )
        return str(json.loads(done.stdout)["status"]["token"])
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired):
        raise Unreachable(f"getting credentials: exec: {command} gave no credentials") from None
