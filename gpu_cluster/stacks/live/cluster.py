"""A stack's live cluster: its kubeconfig, and the API server's answers or errors."""

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import urllib3
import yaml

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.components.settings.endpoints import on_this_machine
from gpu_cluster.stacks.definition.names import not_kept
from gpu_cluster.stacks.definition.settings import (
    ROOT,
    config_of,
    kubeconfig_output,
    own_kubeconfig,
)
from gpu_cluster.stacks.outcome import CheckError

TIMEOUT_SECONDS = (5.0, 30.0)
"""Timeout of connecting, and of reading."""
NODE_POOLS = ("karpenter.sh", "v1", "nodepools")
"""Karpenter's NodePools: group, version and plural."""
_COMMANDS = {cloud.command: cloud for cloud in CLOUDS.values()}
"""Command with which a kubeconfig authenticates -> the cloud whose clusters use it."""


def kubeconfig_of(stack: str, given: Path | None, *, rehearsal: bool, trusted: bool = False) -> str:
    """The content of the given file, of the stack's kept rehearsal, or else of the stack's output;
    for an existing cluster before the first `pulumi up`, of the one that its settings name.

    Raises CheckError if there is none, or if `own_kubeconfig` does not trust it.
    """
    if rehearsal:
        folder = ROOT / ".rehearsal" / stack
        given = folder / "kubeconfig"
        if not given.exists():
            if not (folder / "run").exists():
                raise not_kept(stack)
            # The rehearsal's runner outlives its cluster, whose kubeconfig is deleted with it.
            raise CheckError(
                f"the kept rehearsal of {stack} has no cluster, because its stack was destroyed; "
                f"end it with gpu-cluster down {stack}"
            )
    if given is None:
        return _of_stack(stack, trusted)
    try:
        return given.read_text()
    except OSError as error:
        raise CheckError(f"--kubeconfig {given}: {error.strerror}") from None


def _of_stack(stack: str, trusted: bool) -> str:
    try:
        return kubeconfig_output(stack)
    except CheckError as error:
        try:
            own_text = own_kubeconfig(stack, config_of(stack), trusted=trusted)
        except CheckError as neither:
            raise CheckError(f"{neither}; {error}") from None
        if own_text is None:
            raise
        return own_text


def client_of(kubeconfig: str) -> Any:
    """A client for the cluster; raises CheckError if the kubeconfig cannot be used."""
    configuration = kubernetes.client.Configuration()
    # If packets are dropped, each try takes long. The setting is only read when a client is
    # created.
    configuration.retries = urllib3.Retry(1)
    try:
        document = yaml.safe_load(kubeconfig)
        command = _signs_in_by(document)
        with _errors_logged() as errors:
            client = kubernetes.config.new_client_from_config_dict(
                document, client_configuration=configuration
            )
        if on_this_machine(configuration.host):
            configuration.proxy = None
            client = kubernetes.client.ApiClient(configuration)
    except (
        kubernetes.config.ConfigException, yaml.YAMLError, TypeError, ValueError, AttributeError,
    ) as error:  # fmt: skip
        raise CheckError(f"the kubeconfig cannot be used: {_line(error)}") from None
    if command is not None and errors:
        # The client would continue without credentials, and be refused as anonymous.
        how = f"; sign in: {_COMMANDS[command].sign_in}" if command in _COMMANDS else ""
        raise CheckError(
            f"the kubeconfig signs in by running {command}, which returned no credentials: "
            f"{errors[-1]}{how}"
        )
    return client


def _signs_in_by(kubeconfig: Any) -> str | None:
    """The command that authenticates, if any; raises CheckError if it is not installed."""
    try:
        contexts = {entry["name"]: entry["context"] for entry in kubeconfig["contexts"]}
        users = {entry["name"]: entry["user"] for entry in kubeconfig["users"]}
        command = str(users[contexts[kubeconfig["current-context"]]["user"]]["exec"]["command"])
    except (KeyError, TypeError):
        return None  # There is no command, or the kubeconfig is invalid, which the client reports.
    refuse_missing(command)
    return command


def refuse_missing(command: str) -> None:
    """Raises CheckError if the command that authenticates is not installed."""
    if not shutil.which(command):
        how = f"; {_COMMANDS[command].install}" if command in _COMMANDS else ""
        raise CheckError(f"the kubeconfig signs in by running {command}, which is not on PATH{how}")


@contextmanager
def _errors_logged() -> Iterator[list[str]]:
    """Collects errors that the client only logs, such as a command without credentials."""
    messages: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        messages.append(" ".join(record.getMessage().split()))
        return False

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        yield messages
    finally:
        root.removeFilter(keep)


def listed_items(body: bytes) -> list[Any]:
    """The items of a list in an answer; raises CheckError if the answer is something else."""
    return page(body)[0]


def full_name(obj: Mapping[str, Any]) -> str:
    """`namespace/name` of an object."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def page(body: bytes) -> tuple[list[Any], str]:
    """The items of a list in an answer, and its continue token, empty on the last page.

    Raises CheckError if the answer is something else.
    """
    try:
        document = json.loads(body)
        rows, more = document["items"], (document.get("metadata") or {}).get("continue") or ""
    except (ValueError, TypeError, KeyError, AttributeError):
        rows, more = None, ""
    if not isinstance(rows, list):
        raise CheckError(
            "the server that responds is not a Kubernetes API server: check the kubeconfig's "
            "server and any proxy"
        )
    return rows, more


class Denied(CheckError):
    """The identity of the kubeconfig may not read this in the cluster."""


class Missing(CheckError):
    """The cluster does not have this object, or no such kind of object."""


def asked(ask: Callable[..., Any], *given: str, **query: Any) -> bytes:
    """The body of an answer, unparsed; raises CheckError if the cluster refuses or is silent,
    Denied if a permission is missing, with the permission, and Missing for HTTP 404."""
    try:
        answer = ask(*given, _preload_content=False, _request_timeout=TIMEOUT_SECONDS, **query)
        body: bytes = answer.data  # The body is read only now: the connection may break.
    except kubernetes.client.ApiException as error:
        if error.status == 403:
            raise Denied(
                f"the cluster returned not allowed to look: HTTP 403 {error.reason}{_reason(error)}"
            ) from None
        denied = "not allowed to look: " if error.status == 401 else ""
        raise (Missing if error.status == 404 else CheckError)(
            f"the cluster returned {denied}HTTP {error.status} {error.reason}"
        ) from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise CheckError(f"the cluster does not respond: {_line(error)}") from None
    return body


def _reason(error: Any) -> str:
    """What the API server says about the missing permission."""
    try:
        return f": {_line(json.loads(error.body)['message'])}"
    except (ValueError, TypeError, KeyError):
        return ""


def _line(error: object) -> str:
    return " ".join(str(error).split())
