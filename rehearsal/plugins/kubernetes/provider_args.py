"""The arguments of a Kubernetes provider resource, and which changes replace it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi_kubernetes
import yaml

from rehearsal.plugins import sdk
from rehearsal.plugins.kubernetes.wire import Properties, Unknown, plain

_FROM_ENGINE = {"version", "pluginDownloadURL", "parameterization", "__internal"}
_CLIENT_SETTINGS = ("burst", "qps", "timeout")
_ENVIRONMENT = {
    "deleteUnreachable": "PULUMI_K8S_DELETE_UNREACHABLE",
    "skipUpdateUnreachable": "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE",
    "enableConfigMapMutable": "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE",
    "enableSecretMutable": "PULUMI_K8S_ENABLE_SECRET_MUTABLE",
    "enablePatchForce": "PULUMI_K8S_ENABLE_PATCH_FORCE",
    "upsertExistingObjects": "PULUMI_K8S_UPSERT_EXISTING_OBJECTS",
}
"""Flag -> the environment variable with its default."""


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A provider's arguments, read once when the engine configures it."""

    kubeconfig: str = ""
    """Content or path; empty: KUBECONFIG or the user's default file."""
    context: str = ""
    cluster: str = ""
    namespace: str = ""
    delete_unreachable: bool = False
    skip_update_unreachable: bool = False
    config_map_mutable: bool = False
    secret_mutable: bool = False
    patch_force: bool = False
    upsert: bool = False
    timeout: float | None = None
    """Seconds that one request may take; None: the client's default."""


def read(arguments: Properties, environment: Mapping[str, str]) -> Settings:
    """The settings that the checked provider arguments describe."""
    given = plain(arguments)

    def flag(name: str) -> bool:
        value = given.get(name, environment.get(_ENVIRONMENT[name], False))
        return value is True or value == "true"

    return Settings(
        kubeconfig=given.get("kubeconfig") or "",
        context=given.get("context") or "",
        cluster=given.get("cluster") or "",
        namespace=given.get("namespace") or "",
        delete_unreachable=flag("deleteUnreachable"),
        skip_update_unreachable=flag("skipUpdateUnreachable"),
        config_map_mutable=flag("enableConfigMapMutable"),
        secret_mutable=flag("enableSecretMutable"),
        patch_force=flag("enablePatchForce"),
        upsert=flag("upsertExistingObjects"),
        timeout=_object(given.get("kubeClientSettings")).get("timeout"),
    )


def _object(value: Any) -> Any:
    """An argument that the SDK sends as JSON text."""
    return json.loads(value) if isinstance(value, str) and value else value or {}


def faults(arguments: Properties, *, default_provider: bool) -> Iterator[tuple[str, str]]:
    """Each invalid argument's name and the reason."""
    given = plain(arguments)
    known = {*sdk.input_types(pulumi_kubernetes.ProviderArgs), "strictMode"}
    for name in sorted(given.keys() - known - _FROM_ENGINE):
        yield name, f"unknown provider argument: use one of {', '.join(sorted(known))}"
    if given.get("enableServerSideApply") in (False, "false"):
        only = "false is given, but the offline plugin only applies server-side"
        yield "enableServerSideApply", only
    if given.get("renderYamlToDirectory"):
        yield "renderYamlToDirectory", "the offline plugin does not render YAML: leave it out"
    settings = given.get("kubeClientSettings")
    try:
        options = {} if isinstance(settings, Unknown) else _object(settings)
    except json.JSONDecodeError as error:
        yield "kubeClientSettings", f"not JSON: {error}"
    else:
        for name in sorted(options.keys() - {*_CLIENT_SETTINGS}):
            yield f"kubeClientSettings.{name}", f"unknown: use {', '.join(_CLIENT_SETTINGS)}"
    if given.get("strictMode") in (True, "true"):
        if default_provider:
            yield "", "strict mode prohibits default provider"
        for name in ("kubeconfig", "context"):
            if not given.get(name):
                yield name, f'strict mode requires Provider "{name}" argument'


def changed(
    old: Properties, new: Properties, environment: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Arguments that differ, and those of them that replace the provider and everything it created.

    If `clusterIdentifier` is unchanged, nothing is replaced; without one, an unknown or different
    active cluster replaces.
    """
    before, after = plain(old), plain(new)
    names = sorted(
        name
        for name in (before.keys() | after.keys()) - {"version"}
        if before.get(name) != after.get(name)
    )
    if not names:
        return [], []
    identifiers = before.get("clusterIdentifier"), after.get("clusterIdentifier")
    if all(identifiers) and identifiers[0] == identifiers[1]:
        return names, []
    replacing = ["clusterIdentifier"] if all(identifiers) else []
    location = [name for name in ("kubeconfig", "context", "cluster") if name in names]
    unknown = [name for name in location if isinstance(after.get(name), Unknown)]
    if unknown:
        return names, [*replacing, unknown[0]]
    clusters = _active_cluster(before, environment), _active_cluster(after, environment)
    if all(clusters) and clusters[0] != clusters[1]:
        replacing += location
    return names, replacing


def _active_cluster(arguments: Properties, environment: Mapping[str, str]) -> Any:
    """The active cluster's entry in the kubeconfig; None if there is none."""
    try:
        document = load_kubeconfig(arguments.get("kubeconfig") or "", environment)[0]
    except KubeconfigError:
        return None
    wanted = arguments.get("cluster")
    context = arguments.get("context") or document.get("current-context")
    for each in document.get("contexts") or []:
        if each.get("name") == context:
            wanted = wanted or each["context"].get("cluster")
    for each in document.get("clusters") or []:
        if each.get("name") == wanted:
            return each.get("cluster")
    return None


def load_kubeconfig(kubeconfig: str, environment: Mapping[str, str]) -> tuple[Any, Path]:
    """The parsed kubeconfig, and the folder that its relative paths start from."""
    folder = Path()
    content = kubeconfig
    if not kubeconfig or _is_path(kubeconfig):
        named = kubeconfig or environment.get("KUBECONFIG") or "~/.kube/config"
        path = Path(named).expanduser()
        try:
            content, folder = path.read_text(), path.parent
        except OSError as error:
            raise KubeconfigError(f"cannot read kubeconfig {named}: {error.strerror}") from None
    try:
        document = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise KubeconfigError(f"kubeconfig is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(document, dict):
        raise KubeconfigError("kubeconfig is not an object with clusters, users and contexts")
    return document, folder


def _is_path(kubeconfig: str) -> bool:
    return "\n" not in kubeconfig and not kubeconfig.lstrip().startswith("{")
