"""A stack's live cluster: which kubeconfig, and what the API server answers or why it does not."""

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import urllib3
import yaml

from stacks.definition.settings import ROOT, config_of, kubeconfig_output, own_kubeconfig
from stacks.outcome import CheckError

TIMEOUT_SECONDS = (5.0, 30.0)
"""To connect, and to read."""
_INSTALL = {
    "gke-gcloud-auth-plugin": "gcloud components install gke-gcloud-auth-plugin",
    "aws": "install the AWS CLI",
}
"""Command by which a kubeconfig signs in -> where it comes from."""
_SIGN_IN = {
    "gke-gcloud-auth-plugin": "gcloud auth application-default login",
    "aws": "aws sso login, and name the profile in AWS_PROFILE",
}
"""Command by which a kubeconfig signs in -> how it gets credentials."""


def kubeconfig_of(stack: str, given: Path | None, *, rehearsal: bool, trusted: bool = False) -> str:
    """The content of a given file, of the stack's kept rehearsal, or else of the stack's output; of
    an existing cluster before the first `pulumi up`, what its settings name.

    Raises CheckError if there is none, or if `own_kubeconfig` does not trust it.
    """
    if rehearsal:
        folder = ROOT / ".rehearsal" / stack
        given = folder / "kubeconfig"
        if not given.exists():
            # The rehearsal's runner outlives its cluster, whose kubeconfig goes with it.
            raise CheckError(
                f"the kept rehearsal of {stack} has no cluster, because its stack was destroyed; "
                f"end it with gpu-cluster down {stack}"
                if (folder / "run").exists()
                else f"no rehearsal of {stack} is kept: gpu-cluster rehearse {stack} --keep"
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
            own = own_kubeconfig(stack, config_of(stack), trusted=trusted)
        except CheckError as neither:
            raise CheckError(f"{neither}; {error}") from None
        if own is None:
            raise
        return own


def client_of(kubeconfig: str) -> Any:
    """A client for the cluster; raises CheckError where the kubeconfig cannot be used."""
    given = kubernetes.client.Configuration()
    # Where packets are dropped each try takes long. Only before there is a client does it count.
    given.retries = urllib3.Retry(1)
    try:
        document = yaml.safe_load(kubeconfig)
        command = _signs_in_by(document)
        with _errors_logged() as said:
            client = kubernetes.config.new_client_from_config_dict(
                document, client_configuration=given
            )
    except (
        kubernetes.config.ConfigException, yaml.YAMLError, TypeError, ValueError, AttributeError,
    ) as error:  # fmt: skip
        raise CheckError(f"the kubeconfig cannot be used: {_line(error)}") from None
    if command is not None and said:
        # The client itself would go on without credentials, and be refused as nobody.
        how = f"; sign in: {_SIGN_IN[command]}" if command in _SIGN_IN else ""
        raise CheckError(
            f"the kubeconfig signs in by running {command}, which returned no credentials: "
            f"{said[-1]}{how}"
        )
    return client


def _signs_in_by(kubeconfig: Any) -> str | None:
    """The command that signs in, if any; raises CheckError where it is not installed."""
    try:
        contexts = {one["name"]: one["context"] for one in kubeconfig["contexts"]}
        users = {one["name"]: one["user"] for one in kubeconfig["users"]}
        command = str(users[contexts[kubeconfig["current-context"]]["user"]]["exec"]["command"])
    except (KeyError, TypeError):
        return None  # without a command, or no kubeconfig, which the client says
    if not shutil.which(command):
        how = f": {_INSTALL[command]}" if command in _INSTALL else ""
        raise CheckError(f"the kubeconfig signs in by running {command}, which is not on PATH{how}")
    return command


@contextmanager
def _errors_logged() -> Iterator[list[str]]:
    """What the client only logs, and to the root logger: that the command gave no credentials."""
    said: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        said.append(" ".join(record.getMessage().split()))
        return False

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        yield said
    finally:
        root.removeFilter(keep)


def items(body: bytes) -> list[Any]:
    """The items in a list's body; raises CheckError where something else has answered."""
    return page(body)[0]


def page(body: bytes) -> tuple[list[Any], str]:
    """The items in a list's body, and where the list goes on: empty at its end.

    Raises CheckError where something else has answered.
    """
    try:
        document = json.loads(body)
        found, more = document["items"], (document.get("metadata") or {}).get("continue") or ""
    except (ValueError, TypeError, KeyError, AttributeError):
        found, more = None, ""
    if not isinstance(found, list):
        raise CheckError(
            "the server that responds is not a Kubernetes API server: check the kubeconfig's "
            "server and any proxy"
        )
    return found, more


def asked(ask: Callable[..., Any], *given: str, **query: Any) -> bytes:
    """The body of an answer, as it came; raises CheckError where the cluster refuses or is mute."""
    try:
        answer = ask(*given, _preload_content=False, _request_timeout=TIMEOUT_SECONDS, **query)
        body: bytes = answer.data  # only now is it read: the connection may break meanwhile
    except kubernetes.client.ApiException as error:
        denied = "not allowed to look: " if error.status in (401, 403) else ""
        raise CheckError(
            f"the cluster returned {denied}HTTP {error.status} {error.reason}"
        ) from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise CheckError(f"the cluster does not respond: {_line(error)}") from None
    return body


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
