"""Warns if the file of another stack creates the same cluster.

The second `up` would fail with "already exists", and a subsequent recovery or destroy would affect
the other stack's cluster. A copied stack file keeps the cluster's name.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from ..platforms import PLATFORMS, platform_in

_CLUSTER = "gpu-cluster:cluster"


def identity(platform: str, cluster: Any, config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Cloud, project or account, location and name, which identify a cluster, from its args and the
    providers' config. None for one that only a kubeconfig names, and if a part is missing.

    An AWS account is identified only by its profile and role, without a query.
    """
    row = PLATFORMS[platform]
    if row.cloud is None:
        return None
    values = {**config, "cluster.location": getattr(cluster, "location", None)}
    account = " ".join(str(values.get(key)) for key in row.account)
    found = (row.cloud, account, *map(values.get, row.home), cluster.name)
    return tuple(map(str, found)) if all(found[2:]) else None


def owned(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The identity of the cluster that this config creates; None for an existing cluster."""
    cluster = config.get(_CLUSTER)
    if not isinstance(cluster, dict):
        return None
    platform = PLATFORMS.get(key := platform_in(cluster))
    if platform is None or not platform.owned:
        return None
    args = SimpleNamespace(name=cluster.get("name"), location=cluster.get("location"))
    return identity(key, args, config)


def warn_of_shared(folder: Path) -> None:
    """Warns, even in a preview, of each stack file in the program's folder that creates the cluster
    of the current stack. Stacks in other folders are not known here."""
    import pulumi
    from pulumi.runtime import config as runtime_config

    config = {**runtime_config.get_config_env(), **runtime_config.CONFIG.get()}
    for line in shared(folder, pulumi.get_stack(), config):
        pulumi.log.warn(line)


def shared(folder: Path, stack: str, config: Mapping[str, str]) -> Iterator[str]:
    """The warnings; `config` is the engine's: structured values are JSON."""
    mine = owned({key: _structured(text) for key, text in config.items()})
    if mine is None:
        return
    for file in others(folder, stack, mine):
        yield (
            f"{file.name} creates this stack's cluster too, {mine[-1]} in {mine[-2]}: a destroy "
            "of either deletes it for both; give one of them another cluster.name"
        )


def others(folder: Path, stack: str, mine: tuple[str, ...]) -> Iterator[Path]:
    """The files of other stacks that create the cluster `mine`, a result of `owned`."""
    for file in sorted(folder.glob("Pulumi.*.yaml")):
        if file.name == f"Pulumi.{stack}.yaml":
            continue
        try:
            text = file.read_text()
            # Parsing YAML takes much longer than checking that the name is not in the text.
            theirs = (yaml.safe_load(text) or {}).get("config") if mine[-1] in text else None
            # The engine adds the project's namespace to a key that has none.
            theirs = {k if ":" in k else f"gpu-cluster:{k}": v for k, v in (theirs or {}).items()}
        except (yaml.YAMLError, OSError, ValueError, AttributeError, TypeError, RecursionError):
            continue  # The commands of that stack report what is wrong with it.
        if owned(theirs) == mine:
            yield file


def _structured(text: str) -> Any:
    """A value as in a stack file. A value of another namespace may only look like JSON."""
    try:
        return json.loads(text) if text[:1] in ("{", "[") else text
    except (ValueError, RecursionError):
        return text
