"""The only reader of the stack's config: it returns frozen `Settings`, or raises what refuses them.

Pulumi's CLI accepts any key and any structure in the config; here every unknown key is refused,
with its path, before a resource is registered.
"""

import difflib
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_origin

from ..batch.load import Available, read_batch
from ..batch.team_args import TeamArgs
from ..catalog.clouds import CLOUDS
from ..catalog.spelling import nearest
from ..cluster import POOL_LABEL
from ..decode import (
    NAMESPACE,
    at,
    camel,
    decode,
    decode_map,
    no_such_key,
    refuse_output,
    shown,
    type_hints,
)
from ..gpu.images_args import ImagesArgs
from ..gpu.monitoring_args import MonitoringArgs
from ..gpu.pod_args import Auxiliary, NamespaceArgs
from ..limits import unwrapped
from ..platforms import PLATFORMS, WRITTEN, platform_in
from ..refusal import (
    SENTENCE,
    UNKNOWN_KEY,
    UNKNOWN_POOL,
    UNKNOWN_VALUE,
    Range,
    Refusal,
    Refusals,
    unknown_value,
)
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
    check_scaling,
    check_teams,
    warnings,
)

_PROVIDERS = (*(cloud.package for cloud in CLOUDS.values()), "kubernetes", "pulumi")
"""Namespaces of the engine and of the providers that this program uses."""
_KEYS = ("cluster", "gpuPools", *BLOCKS)


def load() -> Settings[Any]:
    """Reads the stack's config.

    Raises pulumi.RunError, which the engine shows without a traceback: a line for each refusal.
    """
    return _loaded(from_config, lambda _: True)


def load_args(given: Mapping[str, Any]) -> Settings[Any]:
    """The settings from a program's args, or from maps like those in a stack file; of the stack's
    config, only the providers' settings are used. Raises the same errors as `load`."""
    return _loaded(
        lambda config: _read(config, *_given(given), Path(), Refusals()),
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
        lines = map(str, Refusal.of(error).every)
        raise pulumi.RunError("\n".join(lines)) from None
    for warning in warned(config, settings):
        pulumi.log.warn(warning)
    return settings


def warned(config: Mapping[str, str], settings: Settings[Any]) -> list[str]:
    """The warnings of every preview and `gpu-cluster validate`; `config`: see `from_config`."""
    return [*foreign_endpoints(config), *warnings(settings)]


def from_config(config: Mapping[str, str], root: Path = Path()) -> Settings[Any]:
    """The settings from the engine's config: `namespace:key` -> text, JSON if the value is
    structured. `root`: the folder of the files that it names.

    Raises a `Refusal`, with every further one that does not follow from it. In continuous
    integration, which sets `CI`, warnings are not read, so `foreign_endpoints` are refused.
    """
    refusals = Refusals()
    for key in config:
        with refusals:
            _check_namespace(key)
    values = _values(config, refusals)
    platform = ""
    with refusals:
        platform = _platform(values["cluster"])
    return _read(config, values, platform, root, refusals)


def _values(config: Mapping[str, str], refusals: Refusals) -> dict[str, Any]:
    """All blocks from the engine's config; what is not a map is refused, and empty here."""
    blocks = {
        key.removeprefix(f"{NAMESPACE}:"): value
        for key, value in config.items()
        if key.startswith(f"{NAMESPACE}:")
    }
    values: dict[str, Any] = {}
    empty = {key: Refusals() for key in _KEYS}
    for key in _KEYS:
        values[key] = {}
        with empty[key]:
            values[key] = _structured(blocks, key)
    for key in blocks:
        if key not in _KEYS:
            path, platform = f"{NAMESPACE}:{key}", platform_in(values["cluster"])
            refusals.add(_in_block(path, key, platform) or no_such_key(path, key, _KEYS))
    for outer in ("cluster", "batch"):
        for nested in [key for key in values[outer] if key in _KEYS]:
            refusals.add(
                Refusal(
                    (f"{NAMESPACE}:{outer}", nested),
                    f"does not belong in {outer}",
                    remedy=f"rename the key to {NAMESPACE}:{nested} and move it directly below "
                    "config",
                )
            )
            del values[outer][nested], empty[nested]
    for refusal in itertools.chain.from_iterable(empty.values()):
        refusals.add(refusal)
    with refusals:
        check_entry_names(values)
    return values


def _read(
    config: Mapping[str, str],
    values: dict[str, Any],
    platform: str,
    root: Path,
    refusals: Refusals,
) -> Settings[Any]:
    """The settings; what refuses them is added to `refusals`, and all are raised together."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        for line in foreign_endpoints(config):
            refusals.add(ValueError(line))

    def again(refusal: Refusal, value: Any) -> Refusal | None:
        """What refuses the setting with another value."""
        trial = Refusals()
        other = _with(values, _steps(refusal.path), refusal.given, value)
        _resolved(config, other, platform, root, trial)
        return next((each for each in trial if each.at == refusal.at), None)

    settings = _resolved(config, values, platform, root, refusals)
    if settings is not None:
        return settings
    explained = Refusals()
    for refusal in refusals:
        reason = _explained(refusal, values["cluster"], platform)
        try:
            explained.add(_narrowed(reason, partial(again, refusal)))
        except LookupError:  # The value is not in the file, or in an object of a program.
            explained.add(reason)
    raise explained.first()


def _narrowed(
    refusal: Refusal, again: Callable[[Any], Refusal | None], *, twice: bool = True
) -> Refusal:
    """The refusal with what the other settings allow: otherwise, who follows it might be refused
    once more."""
    given, allowed = refusal.given, refusal.allowed
    if not isinstance(allowed, Range):
        if refusal.code != UNKNOWN_VALUE:
            return refusal
        reasons = [(word, again(word)) for word in allowed]
        left = [word for word, reason in reasons if reason is None]
        clause = next((reason.clause for _, reason in reasons if reason), "")
        return refusal.but(allowed=left) if left else refusal.but(remedy=f"but {clause}")
    ends = [end for end in (allowed.least, allowed.most) if end is not None]
    for end in sorted(ends, key=lambda end: abs(end - given)):
        if (narrower := again(end)) is None:
            continue
        if narrower.given != end:
            fits = narrower.code != SENTENCE  # The reason is the same for every value.
            return narrower if fits else refusal.but(remedy=f"but {narrower.clause}")
        narrower = narrower.but(given=given)
        if isinstance(narrower.allowed, Range):
            return _narrowed(narrower, again, twice=False) if twice else narrower
        return narrower if abs(end - given) == min(abs(end - given) for end in ends) else refusal
    return refusal


def _steps(path: Sequence[str | int]) -> list[str | int]:
    """The keys and positions from the blocks down."""
    first, *others = path
    return [*f"{first}".removeprefix(f"{NAMESPACE}:").split("."), *others]


def _with(value: Any, steps: Sequence[str | int], old: Any, new: Any) -> Any:
    """A copy with `new` in the place of `old`; raises LookupError if that is not there."""
    if not steps and value == old:
        return new
    step, *others = steps or ("",)
    if isinstance(value, dict) and step in value:
        return {**value, step: _with(value[step], others, old, new)}
    if isinstance(value, list) and isinstance(step, int):
        return [*value[:step], _with(value[step], others, old, new), *value[step + 1 :]]
    raise LookupError(step)


def _in_block(path: str, key: str, platform: str) -> Refusal | None:
    """The refusal of a key that belongs in a block without named entries; None if none has it."""
    kinds = {name: block.args for name, block in BLOCKS.items() if block.names is None}
    if platform in PLATFORMS:
        kinds = {"cluster": PLATFORMS[platform].settings.CLUSTER, **kinds}
    for name, kind in kinds.items():
        if _has_key(kind, [key]):
            remedy = f"move it into {NAMESPACE}:{name}"
            return Refusal(path, f"is a key of {name}", remedy=remedy)
    there = no_such_key((f"{NAMESPACE}:cluster", key), key, ())
    elsewhere = _on_other_platforms(there, platform) if platform in PLATFORMS else there
    if elsewhere is there:
        return None
    return elsewhere.but(path=path, reason=f"cluster.{key} {elsewhere.reason}")


def _given(given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """All blocks from a program's arguments, and the platform that the cluster's implies."""
    for key, value in given.items():
        path = f"{NAMESPACE}:{key}"
        if key not in _KEYS:
            raise no_such_key(path, key, _KEYS)
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


def _resolved(
    config: Mapping[str, str],
    values: dict[str, Any],
    platform: str,
    root: Path,
    refusals: Refusals,
) -> Settings[Any] | None:
    """The settings, or None, with what refuses them: a check of several settings is made only if
    none of them is refused on its own."""
    if not refusals:
        with refusals:
            return _with_own(config, values, platform, root)
    row = PLATFORMS.get(platform)
    parts = [(key, block.args, block.names is not None) for key, block in BLOCKS.items()]
    if row:
        part = [("cluster", row.settings.CLUSTER, False), ("gpuPools", row.settings.POOL, True)]
        parts = [*part, *parts]
    for key, kind, named in parts:
        if values[key]:
            with refusals:
                (decode_map if named else decode)(f"{NAMESPACE}:{key}", kind, values[key])
    return None


def _with_own(
    config: Mapping[str, str], values: dict[str, Any], platform: str, root: Path
) -> Settings[Any]:
    # Imported late: a stack on one platform does not need the catalog of another.
    module = PLATFORMS[platform].settings
    refusals = Refusals()
    with refusals:
        _check_owner_keys(platform, values["cluster"])
    with refusals:
        teams = read_teams(values["teams"])
        cluster = read_cluster(module.CLUSTER, values["cluster"], teams)
    with refusals:
        pool_args = decode_map(f"{NAMESPACE}:gpuPools", module.POOL, values["gpuPools"])
    refusals.check()
    try:
        own = module.resolve(config, cluster, pool_args)
    except ValueError as error:
        raise in_team(error, module.CLUSTER, teams) from None
    return _with_blocks(values, platform, own, teams, root)


def _explained(refusal: Refusal, cluster: Any, platform: str) -> Refusal:
    """The refusal, with a reason that only the whole config shows."""
    if refusal.code == UNKNOWN_KEY:
        return _on_other_platforms(refusal, platform)
    if refusal.code == UNKNOWN_POOL:
        args = isinstance(cluster, dict)
        cpu_pools = cluster.get("cpuPools") if args else getattr(cluster, "cpu_pools", ())
        if refusal.given in (cpu_pools or ()):
            return refusal.but(
                reason="is a CPU pool, and what the stack runs needs GPUs",
                remedy="choose a pool of gpuPools, or create the pod yourself, with the "
                f"nodeSelector {POOL_LABEL}: {refusal.given}",
            )
    return refusal


def _with_blocks(
    values: Mapping[str, Any],
    platform: str,
    own: Any,
    teams: Mapping[str, TeamArgs],
    root: Path,
) -> Settings[Any]:
    pools = {name: resolved.pool for name, resolved in own.pools.items()}
    refusals, monitoring = Refusals(), None
    with refusals:
        if values["monitoring"]:
            path = f"{NAMESPACE}:monitoring"
            monitoring = decode(path, MonitoringArgs, values["monitoring"])
            monitoring = at(path, monitoring.on, platform, own.metrics)
    with refusals:
        of_teams = queues_of(teams, pools, own.access)
        batch = read_batch(f"{NAMESPACE}:batch", values["batch"], pools, of_teams)
        check_priorities(teams, batch)
    with refusals:
        namespaces = decode_map(f"{NAMESPACE}:namespaces", NamespaceArgs, values["namespaces"])
    with refusals:
        accounts = read_accounts(
            f"{NAMESPACE}:serviceAccounts", values["serviceAccounts"], platform, own.access
        )
    with refusals:
        claims = read_claims(
            f"{NAMESPACE}:volumeClaims", values["volumeClaims"], platform, own.access
        )
    with refusals:
        images = decode(f"{NAMESPACE}:images", ImagesArgs, values["images"])
    refusals.check()
    auxiliary = Auxiliary(accounts=accounts, claims=claims)
    available = Available(pools=pools, batch=batch, auxiliary=auxiliary, root=root)
    running = {}
    for key, block in RUNNING.items():
        with refusals:
            running[key] = block.read(f"{NAMESPACE}:{key}", values[key], available)
    refusals.check()
    settings = Settings(
        platform=platform,
        own=own,
        namespaces=with_namespaces(namespaces, teams),
        running=running,
        monitoring=monitoring,
        batch=batch,
        auxiliary=auxiliary,
        images=images,
    )
    check_names(settings)
    check_disk_zones(settings.pod_groups, auxiliary.claims, own.pools, own.access.disks)
    check_namespaces(settings)
    check_teams(settings)
    check_scaling(settings)
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
    sdk = find_spec(package) if package.isidentifier() else None
    if namespace in _PROVIDERS and sdk is not None and sdk.origin is not None:
        _check_setting(key, Path(sdk.origin).parent / "config" / "vars.py")
    if namespace in known or sdk:
        return
    near = difflib.get_close_matches(namespace[:100], known, n=1)
    what = f"rename the key to {near[0]}:{name}" if near else f"allowed: {', '.join(sorted(known))}"
    raise ValueError(f"{key}: nothing reads the namespace {namespace!r}; {what}")


def _check_setting(key: str, sdk: Path) -> None:
    """Refuses a provider's setting that its SDK does not have, as the provider does in a preview.
    `sdk`: the module that reads the settings; a file, because importing an SDK takes a second."""
    namespace, _, name = key.partition(":")
    names = re.findall(r"\.get(?:_\w+)?\('(\w+)'\)", sdk.read_text()) if sdk.exists() else ()
    if not names or name in (*names, "version", "pluginDownloadURL"):
        return
    meant = nearest(name, names, 0.6)
    what = f"rename the key to {namespace}:{meant}" if meant else "remove it"
    raise ValueError(f"{key}: nothing reads it, because the provider has no {name}; {what}")


def _platform(cluster: dict[str, Any]) -> str:
    """Removes the platform, which decides which keys are allowed, from the cluster's block."""
    path, platform = f"{NAMESPACE}:cluster.platform", platform_in(cluster)
    named = cluster.pop("platform", None)
    refuse_output(path, named)
    if named is None:
        if near := difflib.get_close_matches("platform", map(str, cluster), n=1, cutoff=0.8):
            raise no_such_key((f"{NAMESPACE}:cluster", near[0]), near[0], ["platform"])
        raise ValueError(f"{path}: is missing; allowed: {', '.join(WRITTEN)}")
    if not isinstance(named, str) or named not in WRITTEN:
        raise unknown_value(path, named, WRITTEN)
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


def _on_other_platforms(refusal: Refusal, platform: str) -> Refusal:
    """The refusal of an unknown key, which says so if other platforms have it at this place."""
    block, *steps = _steps(refusal.path)
    part, keys = ("CLUSTER", steps) if block == "cluster" else ("POOL", steps[1:])
    have = [name for name, row in PLATFORMS.items() if _has_key(getattr(row.settings, part), keys)]
    if not have or block not in ("cluster", "gpuPools"):
        return refusal
    here = platform.removesuffix("-existing")
    names = [
        f"{name} without existing"
        if f"{name}-existing" == platform
        else name.replace("-existing", " with existing")
        for name in have
        if name.removesuffix("-existing") not in {*have} - {name}
    ]
    own = f"use {refusal.meant} on {here}" if refusal.meant else "drop it"
    return Refusal(
        refusal.path,
        f"is only available on {' and '.join(names)}",
        remedy=_INSTEAD.get((here, f"{keys[-1]}"), own),
    )


def _has_key(kind: Any, keys: Sequence[str | int]) -> bool:
    """Whether a class of args, or what a field of one holds, has the key at this path."""
    kind = unwrapped(kind)[0]
    inner = get_args(kind)
    if not keys:
        return True
    if get_origin(kind) is Mapping:
        return _has_key(inner[1], keys[1:])
    if get_origin(kind) is Sequence:
        return _has_key(inner[0], keys[1:])
    hints = {camel(field.name): field.name for field in fields(kind)} if is_dataclass(kind) else {}
    name = hints.get(f"{keys[0]}")
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
