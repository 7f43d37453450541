"""The only reader of the stack's config: it returns frozen `Settings`, or raises a one-line error.

Pulumi's CLI accepts any key and any structure in the config; here every unknown key is refused,
with its path, before a resource is registered.
"""

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_origin

from ..batch.load import Available, NoSuchPool, read_batch
from ..batch.team_args import TeamArgs
from ..catalog.clouds import CLOUDS
from ..cluster import POOL_LABEL
from ..decode import (
    INSTEAD,
    NAMESPACE,
    NoSuchKey,
    at,
    camel,
    decode,
    decode_map,
    no_such_key,
    refuse_output,
    shown,
    type_hints,
    unknown,
)
from ..gpu.images_args import ImagesArgs
from ..gpu.monitoring_args import MonitoringArgs
from ..gpu.pod_args import Auxiliary, NamespaceArgs
from ..limits import unwrapped
from ..platforms import PLATFORMS, WRITTEN, platform_in
from .auxiliary import (
    check_disk_zones,
    read_accounts,
    read_claims,
)
from .blocks import BLOCKS, ENTRY_NAMES, RUNNING, check_entry_names
from .endpoints import foreign_endpoints
from .model import Settings
from .teams import check_priorities, in_team, queues_of, read_cluster, read_teams, with_namespaces
from .validate import (
    check_groups,
    check_names,
    check_namespaces,
    warnings,
)

_LONG_WORD = re.compile(r"\S{200,}")
_LONGEST = 2000
"""Maximum length of a message; the longest list of allowed values has about half of that."""
_PROVIDERS = (*(cloud.package for cloud in CLOUDS.values()), "kubernetes", "pulumi")
"""Namespaces of the engine and of the providers that this program uses."""
_KEYS = ("cluster", "gpuPools", *BLOCKS)
_LISTED = re.compile(
    r"(.*?): (.*) is not known; (?:did you mean '([^']*)'[?] )?allowed: ([^; ]+(?:, [^; ]+)*)",
    re.DOTALL,
)
_RANGE = re.compile(
    r"(.*?): (-?[0-9.e+]+) is (?:out of range|negative|too small|too large)[^;]*; "
    r"allowed[^:;]*: (?:at most )?(-?[0-9.]+)(?: to (-?[0-9.]+))?"
)

_DATE = re.compile(r"'[0-9]{4}-[0-9-]{5} [0-9:]{8} [+]0000 UTC' is (?!read as)")
"""A date without quotes, as the engine passes it."""


def load() -> Settings[Any]:
    """Reads the stack's config.

    Raises pulumi.RunError, which the engine shows as one line without a traceback.
    """
    return _loaded(from_config, lambda _: True)


def load_args(given: Mapping[str, Any]) -> Settings[Any]:
    """The settings from a program's args, or from maps like those in a stack file; of the stack's
    config, only the providers' settings are used. Raises the same errors as `load`."""
    return _loaded(
        lambda config: _checked(config, lambda: _of_values(config, *_given(given), Path())),
        lambda key: key.partition(":")[0] in _PROVIDERS,
    )


def _loaded(
    read: Callable[[Mapping[str, str]], Settings[Any]], counts: Callable[[str], bool]
) -> Settings[Any]:
    # Code that reads settings without an engine, through `from_config`, does without the SDK.
    import pulumi
    from pulumi.runtime import config as runtime_config

    engine = {**runtime_config.get_config_env(), **runtime_config.CONFIG.get()}
    config = {key: value for key, value in engine.items() if counts(key)}
    try:
        settings = read(config)
    except ValueError as error:
        raise pulumi.RunError(str(error)) from None
    for warning in warned(config, settings):
        pulumi.log.warn(warning)
    return settings


def warned(config: Mapping[str, str], settings: Settings[Any]) -> list[str]:
    """The warnings of every preview and `gpu-cluster validate`; `config`: see `from_config`."""
    return [*foreign_endpoints(config), *warnings(settings)]


def from_config(config: Mapping[str, str], root: Path = Path()) -> Settings[Any]:
    """The settings from the engine's config: `namespace:key` -> text, JSON if the value is
    structured. `root`: the folder of the files that it names.

    Raises ValueError with one line: the key's path, its value, and what is allowed. In continuous
    integration, which sets `CI`, warnings are not read, so `foreign_endpoints` are refused.
    """
    return _checked(config, lambda: _read(config, root))


def _checked(config: Mapping[str, str], read: Callable[[], Settings[Any]]) -> Settings[Any]:
    try:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            for line in foreign_endpoints(config):
                raise ValueError(line)
        return read()
    except ValueError as error:
        # A key may contain a line break, and is shown as part of its path.
        message = _short(_narrowed(str(error), read))
        if _DATE.search(message):
            message += "; if the file has a date there, put it in quotes"
        letters = (one if one.isprintable() else repr(one)[1:-1] for one in message)
        raise ValueError("".join(letters)) from None


def _narrowed(message: str, read: Callable[[], Settings[Any]], *, again: bool = True) -> str:
    """The refusal of a number outside its range, or of an unknown word, with what the other
    settings allow: otherwise, who follows it might be refused once more."""
    if listed := _LISTED.fullmatch(message):
        return _without_refused(listed, read)
    if not (match := _RANGE.match(message)):
        return message
    path, given, *ends = match.groups()
    ends = sorted(filter(None, ends), key=lambda end: abs(float(end) - float(given)))
    for end in ends:
        where, _, reason = _refusal(json.loads(end), read).partition(": ")
        narrower = f"{path}: {re.sub('^-?[0-9.]+(?= )', given, reason)}"
        if where == path and narrower != message:
            if " is out of range" in reason:
                return _narrowed(narrower, read, again=False) if again else narrower
            return narrower if end == ends[0] else f"{message}; but {reason}"
    return message


def _without_refused(listed: re.Match[str], read: Callable[[], Settings[Any]]) -> str:
    """The refusal of an unknown word that lists only words which the other settings allow."""
    path, given, near, words = listed.groups()
    left, why = [], ""
    for word in words.split(", "):
        says = _refusal(word, read)
        if says == listed[0]:  # It is not a setting's own list of words.
            return says
        if says.startswith(f"{path}: "):
            why = why or says.removeprefix(f"{path}: ")
        else:
            left.append(word)
    if not left:
        return f"{listed[0]}; but {why}"
    hint = f"did you mean {near!r}? " if near in left else ""
    return f"{path}: {given} is not known; {hint}allowed: {', '.join(left)}"


def _refusal(instead: float | str, read: Callable[[], Settings[Any]]) -> str:
    """What refuses the config with this in place of what is refused now; empty if nothing does."""
    token = INSTEAD.set(instead)
    try:
        read()
    except ValueError as error:
        return str(error)
    finally:
        INSTEAD.reset(token)
    return ""


def _short(message: str) -> str:
    """Shortens long words and long messages in the middle; a value may have a megabyte."""
    words = _LONG_WORD.sub(lambda word: f"{word[0][:60]}...", message)
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 100]} ... {words[-90:]}"


def _read(config: Mapping[str, str], root: Path) -> Settings[Any]:
    for key in config:
        _check_namespace(key)
    blocks = {
        key.removeprefix(f"{NAMESPACE}:"): value
        for key, value in config.items()
        if key.startswith(f"{NAMESPACE}:")
    }
    for key in blocks:
        if key not in _KEYS:
            path, platform = f"{NAMESPACE}:{key}", platform_in(_structured(blocks, "cluster"))
            raise ValueError(_in_block(path, key, platform) or no_such_key(path, key, _KEYS))
    for outer in ("cluster", "batch"):
        if nested := [key for key in _structured(blocks, outer) if key in _KEYS]:
            raise ValueError(
                f"{NAMESPACE}:{outer}.{nested[0]}: does not belong in {outer}; rename the key to "
                f"{NAMESPACE}:{nested[0]} and move it directly below config"
            )
    values = {key: _structured(blocks, key) for key in _KEYS}
    check_entry_names(values)
    return _of_values(config, values, _platform(values["cluster"]), root)


def _in_block(path: str, key: str, platform: str) -> str:
    """What refuses a key that belongs in a block without named entries; empty if none has it."""
    kinds = {name: block.args for name, block in BLOCKS.items() if block.names is None}
    if platform in PLATFORMS:
        kinds = {"cluster": PLATFORMS[platform].settings.CLUSTER, **kinds}
    for name, kind in kinds.items():
        if _has_key(kind, [key]):
            return f"{path}: is a key of {name}; move it into {NAMESPACE}:{name}"
    there = f"{NAMESPACE}:cluster.{key}"
    elsewhere = platform in PLATFORMS and _on_other_platforms(NoSuchKey(there, key, ()), platform)
    return f"{path}: {elsewhere}".replace(f"{there}:", f"cluster.{key}") if elsewhere else ""


def _given(given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """All blocks from a program's arguments, and the platform that the cluster's implies."""
    for key, value in given.items():
        path = f"{NAMESPACE}:{key}"
        if key not in _KEYS:
            raise ValueError(no_such_key(path, key, _KEYS))
        refuse_output(path, value)
        if key in ENTRY_NAMES and not isinstance(value or {}, Mapping):
            raise ValueError(f"{path}: {shown(value)} is not a map; write it as {{ NAME: VALUE }}")
    values: dict[str, Any] = {key: given.get(key) or {} for key in _KEYS}
    check_entry_names(values)
    for name, platform in PLATFORMS.items():
        if isinstance(values["cluster"], platform.settings.CLUSTER):
            return values, name
    if not isinstance(values["cluster"], Mapping):
        raise ValueError(
            f"{NAMESPACE}:cluster: {shown(values['cluster'])} is not the args class of a "
            "platform; give, for example, EksClusterArgs, or a map with the key platform"
        )
    cluster = values["cluster"] = dict(values["cluster"])
    return values, _platform(cluster)


def _of_values(
    config: Mapping[str, str], values: dict[str, Any], platform: str, root: Path
) -> Settings[Any]:
    # Imported late: a stack on one platform does not need the catalog of another.
    module = PLATFORMS[platform].settings
    _check_owner_keys(platform, values["cluster"])
    teams = read_teams(values["teams"])
    try:
        cluster = read_cluster(module.CLUSTER, values["cluster"], teams)
        pool_args = decode_map(f"{NAMESPACE}:gpuPools", module.POOL, values["gpuPools"])
    except NoSuchKey as error:
        raise ValueError(_on_other_platforms(error, platform) or str(error)) from None
    try:
        own = module.resolve(config, cluster, pool_args)
    except ValueError as error:
        raise ValueError(in_team(str(error), module.CLUSTER, teams)) from None
    try:
        return _with_own(values, platform, own, teams, root)
    except NoSuchPool as error:
        if error.name not in getattr(cluster, "cpu_pools", ()):
            raise
        raise ValueError(
            f"{error.path}: {error.name!r} is a CPU pool, and what the stack runs needs GPUs; "
            "choose a pool of gpuPools, or create the pod yourself, with the nodeSelector "
            f"{POOL_LABEL}: {error.name}"
        ) from None


def _with_own(
    values: Mapping[str, Any],
    platform: str,
    own: Any,
    teams: Mapping[str, TeamArgs],
    root: Path,
) -> Settings[Any]:
    pools = {name: resolved.pool for name, resolved in own.pools.items()}
    monitoring = None
    if values["monitoring"]:
        path = f"{NAMESPACE}:monitoring"
        monitoring = decode(path, MonitoringArgs, values["monitoring"])
        monitoring = at(path, monitoring.on, platform, own.metrics)
    of_teams = queues_of(teams, pools, own.access)
    batch = read_batch(f"{NAMESPACE}:batch", values["batch"], pools, of_teams)
    check_priorities(teams, batch)
    namespaces = decode_map(f"{NAMESPACE}:namespaces", NamespaceArgs, values["namespaces"])
    auxiliary = Auxiliary(
        accounts=read_accounts(
            f"{NAMESPACE}:serviceAccounts", values["serviceAccounts"], platform, own.access
        ),
        claims=read_claims(
            f"{NAMESPACE}:volumeClaims", values["volumeClaims"], platform, own.access
        ),
    )
    available = Available(pools=pools, batch=batch, auxiliary=auxiliary, root=root)
    settings = Settings(
        platform=platform,
        own=own,
        namespaces=with_namespaces(namespaces, teams),
        running={
            key: block.read(f"{NAMESPACE}:{key}", values[key], available)
            for key, block in RUNNING.items()
        },
        monitoring=monitoring,
        batch=batch,
        auxiliary=auxiliary,
        images=decode(f"{NAMESPACE}:images", ImagesArgs, values["images"]),
    )
    check_names(settings)
    check_disk_zones(settings.pod_groups, auxiliary.claims, own.pools, own.access.disks)
    check_namespaces(settings)
    check_groups(settings)
    return settings


def _check_namespace(key: str) -> None:
    """Refuses a key that nothing reads and that the engine would silently accept."""
    namespace, _, name = key.partition(":")
    if name.startswith("config:"):
        meant = f"{namespace}:{name.removeprefix('config:')}"
        raise ValueError(f"{key}: has an old form; rename the key to {meant}")
    package = f"pulumi_{namespace.replace('-', '_')}"
    known = (NAMESPACE, *_PROVIDERS)
    if namespace in known or (package.isidentifier() and find_spec(package)):
        return
    near = difflib.get_close_matches(namespace[:100], known, n=1)
    what = f"rename the key to {near[0]}:{name}" if near else f"allowed: {', '.join(sorted(known))}"
    raise ValueError(f"{key}: nothing reads the namespace {namespace!r}; {what}")


def _platform(cluster: dict[str, Any]) -> str:
    """Removes the platform, which decides which keys are allowed, from the cluster's block."""
    path, platform = f"{NAMESPACE}:cluster.platform", platform_in(cluster)
    named = cluster.pop("platform", None)
    refuse_output(path, named)
    if named is None:
        if near := difflib.get_close_matches("platform", map(str, cluster), n=1, cutoff=0.8):
            raise ValueError(no_such_key(f"{NAMESPACE}:cluster.{near[0]}", near[0], ["platform"]))
        raise ValueError(f"{path}: is missing; allowed: {', '.join(WRITTEN)}")
    if not isinstance(named, str) or named not in WRITTEN:
        raise ValueError(f"{path}: {named!r} is not known; {unknown(str(named), WRITTEN)}")
    return platform


_ADDONS = "the stack changes no addons there; drop it, and ask its owner for the addon"
_NOT_WITH_EXISTING = {
    "name": "that is the cluster's name; drop it",
    "systemPool": (
        "system pods run on its owner's nodes; drop it, and declare other nodes without GPUs in "
        "cpuPools"
    ),
    "metricsServer": _ADDONS,
    "addonVersions": _ADDONS,
    "scaler": (
        "pools are node pools, since a ComputeClass has no maxNodes; drop it, or create a "
        "ComputeClass and a CapacityQuota of its nodes (a preview of GKE) yourself, as "
        "docs/how-to/not-included.md describes, and use platform: existing"
    ),
}
"""Key of a new cluster -> why an existing one does not have it; of every other key, its owner
decides."""


_TEAMS = f"list people and groups in {NAMESPACE}:teams, or give them"
_IAM = "an IAM role such as roles/container."
_INSTEAD = {
    ("gke-autopilot", "maxNodes"): (
        "drop it, and limit the GPUs by nominalQuota of batch.queues, gpus of teams, or the GPU "
        "quota of your Google Cloud project"
    ),
    ("gke", "users"): f"{_TEAMS} {_IAM}viewer",
    ("gke-autopilot", "users"): f"{_TEAMS} {_IAM}viewer",
    ("existing", "users"): f"{_TEAMS} RoleBindings of your own",
    ("gke", "admins"): f"give them {_IAM}admin",
    ("gke-autopilot", "admins"): f"give them {_IAM}admin",
    ("existing", "admins"): "the cluster's owner decides who administers it; drop it",
}
"""(platform, key of other platforms) -> what to use there."""


def _check_owner_keys(platform: str, cluster: Any) -> None:
    """Refuses `existing` where it does not exist, and keys of a cluster that the stack creates, if
    the cluster is an existing one."""
    entry = PLATFORMS[platform]
    if not isinstance(cluster, Mapping):
        return
    if entry.instead_of_existing and "existing" in cluster:
        raise ValueError(
            f"{NAMESPACE}:cluster.existing: is not available on platform {platform}; "
            f"{entry.instead_of_existing}"
        )
    if not entry.added:
        return
    owned = PLATFORMS[platform.removesuffix("-existing")].settings.CLUSTER
    keys, own = (
        {camel(one.name) for one in fields(each)} for each in (entry.settings.CLUSTER, owned)
    )
    for key in cluster:
        if key in own - keys:
            what = _NOT_WITH_EXISTING.get(key, "the cluster's owner decides it; drop it")
            raise ValueError(f"{NAMESPACE}:cluster.{key}: is not available with existing: {what}")


def _on_other_platforms(error: NoSuchKey, platform: str) -> str:
    """What refuses a key that other platforms have at the same place; empty if none has."""
    block, *keys = error.path.removeprefix(f"{NAMESPACE}:").split(".")
    part, keys = ("CLUSTER", keys) if block == "cluster" else ("POOL", keys[1:])
    have = [name for name, row in PLATFORMS.items() if _has_key(getattr(row.settings, part), keys)]
    if error.renamed or not have:
        return ""
    here = platform.removesuffix("-existing")
    names = [
        f"{name} without existing"
        if f"{name}-existing" == platform
        else name.replace("-existing", " with existing")
        for name in have
        if name.removesuffix("-existing") not in {*have} - {name}
    ]
    own = f"use {error.counterpart} on {here}" if error.counterpart else "drop it"
    advice = _INSTEAD.get((here, error.path.rpartition(".")[2]), own)
    return f"{error.path}: is only available on {' and '.join(names)}; {advice}"


def _has_key(kind: Any, keys: Sequence[str]) -> bool:
    """Whether a class of args, or what a field of one holds, has the key at this path."""
    kind = unwrapped(kind)[0]
    inner = get_args(kind)
    if not keys:
        return True
    if get_origin(kind) is Mapping:
        return _has_key(inner[1], keys[1:])
    if get_origin(kind) is Sequence:
        return _has_key(inner[0], keys)
    hints = {camel(field.name): field.name for field in fields(kind)} if is_dataclass(kind) else {}
    name = hints.get(keys[0].partition("[")[0])
    return name is not None and _has_key(type_hints(kind)[name], keys[1:])


def _structured(given: Mapping[str, str], key: str) -> dict[str, Any]:
    text = given.get(key, "{}")
    path = f"{NAMESPACE}:{key}"
    if text in ("", "null"):
        drop = "" if key == "cluster" else ", or drop the key"
        raise ValueError(f"{path}: has no value; set it{drop}")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"{path}: a value is nested too deeply; flatten it") from None
    except ValueError:
        raise ValueError(
            f"{path}: {shown(text)} is not a map; write it as YAML below the key"
        ) from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: {shown(value)} is not a map; write KEY: VALUE below the key")
    return value
