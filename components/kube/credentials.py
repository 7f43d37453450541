"""What a kubeconfig written by others could do on the machines of its users.

`exec` runs a command, and `tokenFile` sends a file to the server. Sources, read on 2026-11-23:
kubernetes.io/docs/reference/access-authn-authz/authentication, "client-go credential plugins"; the
arguments are those that `aws eks update-kubeconfig`, `gcloud container clusters get-credentials`,
`kubelogin convert-kubeconfig` and `tsh kube login` write.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..catalog.clouds import CLOUDS, Arguments

PLUGINS: Mapping[str, Arguments] = {
    **{cloud.command: cloud.arguments for cloud in CLOUDS.values() if cloud.command},
    "aws-iam-authenticator": Arguments(
        words=("token",), options=("-i", "--cluster-id", "-r", "--role", "--region")
    ),
    "kubelogin": Arguments(
        words=("get-token",),
        options=("--server-id", "--client-id", "--tenant-id", "--environment", "--login", "-l"),
    ),
    "tsh": Arguments(
        words=("kube", "credentials"), options=("--kube-cluster", "--teleport-cluster", "--proxy")
    ),
}
"""Command -> its allowed arguments. Without this restriction, `aws` could upload any file."""
_VARIABLES = [name for cloud in CLOUDS.values() for name in cloud.arguments.variables]
"""Allowed environment variables; others, such as AWS_CONFIG_FILE, could name a program."""


def command_of(user: Mapping[str, Any]) -> str | None:
    """The command that a kubeconfig's user runs to authenticate, if any."""
    run = user.get("exec")
    return str(run.get("command")) if isinstance(run, Mapping) else None


def unsafe(user: Mapping[str, Any], commands: Sequence[str] = ()) -> str | None:
    """Why a kubeconfig's user could run or read what its author chose; None if it could not.

    `commands`: allowed with any arguments, in addition to those of `PLUGINS`.
    """
    for key, does in (("auth-provider", "may run a command"), ("tokenFile", "sends it a file")):
        if user.get(key) is not None:
            return f"has {key}, which {does} on every machine that uses it; remove it"
    run = user.get("exec")
    if run is None:
        return None
    command = command_of(user)
    if not isinstance(run, Mapping) or command is None:
        return "has an exec that is not a map; write it as kubectl config view does"
    if command in commands:
        return None
    if command not in PLUGINS:
        allowed = ", ".join(sorted([*PLUGINS, *commands]))
        return f"runs {command!r} to sign in; allowed, by name and without a path: {allowed}"
    for variable in run.get("env") or ():
        name = variable.get("name") if isinstance(variable, Mapping) else variable
        if name not in _VARIABLES:
            return (
                f"sets {name!r} for {command}; allowed environment variables: "
                f"{', '.join(_VARIABLES)}"
            )
    return _unknown_argument(command, run.get("args") or ())


def _unknown_argument(command: str, arguments: Sequence[Any]) -> str | None:
    plugin, positional, rest = PLUGINS[command], [], iter(map(str, arguments))
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if name in plugin.options:
            # The argument after a flag is its value, unless it is a flag itself.
            name = "" if equals else next(rest, "")
        elif argument in plugin.switches:
            continue
        elif not argument.startswith("-"):
            positional.append(argument)
            continue
        if name.startswith("-") and name not in plugin.options:
            allowed = ", ".join([*plugin.options, *plugin.switches])
            return f"runs {command} with {name}; allowed flags: {allowed}"
    if positional != list(plugin.words):
        expected = " ".join([command, *plugin.words])
        return f"runs {' '.join([command, *positional])}; allowed: {expected}"
    return None
