"""A stack's settings, without an engine, and its outputs, from one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_cluster.components.existing.settings import ExistingSettings
from gpu_cluster.components.kube import credentials
from gpu_cluster.components.platforms import PLATFORMS, platform_in
from gpu_cluster.components.schema.decode import NAMESPACE
from gpu_cluster.components.schema.refusal import Refusal
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.definition import files
from gpu_cluster.stacks.definition.files import (
    PLACEHOLDER,
    document_in,
    folder_of,
    project_name,
    read_stack,
    without_secrets,
)
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.owners import refuse_shared
from gpu_cluster.stacks.engine.pulumi import EngineError, Pulumi, reason, remedy
from gpu_cluster.stacks.outcome import CheckError

ROOT = files.ROOT
CLUSTER = "gpu-cluster:cluster"
REACHED_BY = ("kubeconfig", "kubeconfigFile", "context", "endpoint", "certificateAuthority")
"""Settings of an existing cluster that tell how to reach it."""
OUTPUT_SECONDS = 60.0
NOWHERE = json.dumps(
    {
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {}}],
        "users": [{"name": "a", "user": {}}],
        "current-context": "a",
    }
)
"""A kubeconfig for reading settings when the user's is not available: when only the file is
checked, and before a rehearsal's own cluster has one."""


def config_of(stack: str, root: Path = ROOT) -> dict[str, Any]:
    """The `config` of `Pulumi.<stack>.yaml`. Raises CheckError if there is none."""
    config = config_from(read_stack(root, stack), f"Pulumi.{stack}.yaml")
    refuse_shared(root, stack, config)
    return config


def refuse_other_program(stack: str, config: Mapping[str, Any], root: Path = ROOT) -> None:
    """Raises StackError if the project's program is not the one of `gpu-cluster init`: nothing in
    its stack file is for this package, whose settings are in the program itself."""
    ours = any(key.startswith(f"{NAMESPACE}:") or key.endswith(":cluster") for key in config)
    if not ours and project_name(folder_of(root)) != NAMESPACE:
        raise StackError(
            f"Pulumi.{stack}.yaml has no {CLUSTER}, so this is not a program of gpu-cluster init, "
            "whose stack files this command reads; run a program of your own in the kept rehearsal "
            "of another stack: docs/how-to/use-the-package.md"
        )


def config_in(text: bytes, name: str) -> dict[str, Any]:
    """The `config` in the text of an earlier stack file, with placeholders for encrypted values.

    Raises CheckError if there is none.
    """
    return config_from(document_in(text, name), name)


def config_from(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The `config` of a parsed stack file, with placeholders for encrypted values.

    Raises CheckError if there is none.
    """
    config = document.get("config")
    if document.get("environment") and CLUSTER not in (config or ()):
        raise StackError(f"{name}: {files.IN_ESC}")
    if not isinstance(config, dict):
        raise StackError(f"{name} {files.NO_CONFIG}")
    plain: dict[str, Any] = without_secrets(config)
    return plain


def platform_of(config: Mapping[str, Any]) -> str:
    """The stack's platform in its file, a key of `PLATFORMS`, valid or not."""
    cluster = config.get(CLUSTER)
    return platform_in(cluster) if isinstance(cluster, dict) else ""


def is_existing(config: Mapping[str, Any]) -> bool:
    """Whether the stack's cluster is reached with a kubeconfig of the user's."""
    platform = PLATFORMS.get(platform_of(config))
    return platform is not None and platform.cloud is None


def settings_of(
    stack: str, config: Mapping[str, Any], *, kubeconfig: str | None = None
) -> Settings[Any]:
    """The settings, parsed like in the program. Raises CheckError with the program's messages.

    `kubeconfig` (content) replaces the one that an existing cluster's settings name, and is checked
    like one in the stack file: `NOWHERE` for callers that reach the cluster in another way.
    """
    refuse_other_program(stack, config)
    if kubeconfig is not None:
        config = with_kubeconfig(config, kubeconfig)
    try:
        return from_config(flat(config), ROOT)
    except Refusal as refusal:
        lines = (f"Pulumi.{stack}.yaml: {mistake}" for mistake in refusal.every)
        raise CheckError("\n".join(lines)) from None


def with_kubeconfig(config: Mapping[str, Any], kubeconfig: str) -> dict[str, Any]:
    """The config with the content of this kubeconfig, for an existing cluster; unchanged for other
    platforms."""
    if not is_existing(config):
        return dict(config)
    others = {key: value for key, value in config[CLUSTER].items() if key not in REACHED_BY}
    return {**config, CLUSTER: {**others, "kubeconfig": kubeconfig}}


def own_kubeconfig(stack: str, config: Mapping[str, Any], *, trusted: bool = False) -> str | None:
    """The kubeconfig that an existing cluster's settings name, which exists before the stack.

    None if the stack creates its cluster, or if the kubeconfig is encrypted. Raises CheckError if
    it comes from the stack's file and authenticates with a command, unless it is `trusted`: the
    file's author chose the server that gets the credential.
    """
    if not is_existing(config) or config[CLUSTER].get("kubeconfig") == PLACEHOLDER:
        return None
    existing = settings_of(stack, config).own
    if not isinstance(existing, ExistingSettings):
        return None
    user = json.loads(existing.kubeconfig)["users"][0]["user"]
    command = credentials.command_of(user)
    if command is not None and existing.cluster.committed() and not trusted:
        server = json.loads(existing.kubeconfig)["clusters"][0]["cluster"].get("server")
        raise CheckError(
            f"the kubeconfig of Pulumi.{stack}.yaml signs in by running {command} and sends its "
            f"output to {server}; if you trust both, add --trust-kubeconfig"
        )
    return existing.kubeconfig


def kubeconfig_output(stack: str) -> str:
    """The stack's output `kubeconfig`, from the backend that the engine is logged in to."""
    try:
        pulumi = Pulumi.signed_in(files.ROOT, stack, seconds=OUTPUT_SECONDS)
        done = pulumi.run("stack", "output", "kubeconfig", "--show-secrets", "--color", "never")
    except EngineError as error:
        raise CheckError(
            f"cannot read the stack's outputs: {error}; or give --kubeconfig"
        ) from None
    if done.returncode:
        first = remedy(done.stderr) or (
            f"pulumi stack output: {reason(done.stderr)}; run `pulumi up` first"
        )
        raise CheckError(f"{first}, or give --kubeconfig FILE")
    return done.stdout.strip()


def flat(config: Mapping[str, Any]) -> dict[str, str]:
    """The config as the engine passes it to the program."""
    return {key: _text(value) for key, value in config.items()}


def _text(value: object) -> str:
    """A value as the engine passes it to the program: JSON if it is structured."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return "" if value is None else str(value)


def principals_key(settings: Settings[Any], group: str) -> str:
    """The key with the IAM principals of a Kubernetes group: of a team, or of `cluster.users`."""
    queue = settings.batch.queues.get(group) if settings.batch else None
    if queue is not None and queue.sharing:
        return f"teams.{group}.members"
    return f"cluster.users.{group}.principals"
