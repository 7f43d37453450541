"""The only reader of the stack's config: it returns frozen `Settings`, or raises what refuses them.

Pulumi's CLI accepts any key and any structure in the config; here every unknown key is refused,
with its path, before a resource is registered.
"""

import difflib
import functools
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_origin

from ..batch.load import Available, read_batch
from ..batch.team_args import TeamArgs
from ..catalog.clouds import CLOUDS
from ..catalog.spelling import nearest
from ..cluster import POOL_LABEL
from ..gpu.images_args import ImagesArgs
from ..gpu.monitoring_args import MonitoringArgs
from ..gpu.pod_args import Auxiliary, NamespaceArgs
from ..platforms import PLATFORMS, WRITTEN, platform_in
from ..scalers import default_scaler, scaler_refusals, scalers
from ..schema.decode import (
    NAMESPACE,
    at,
    camel,
    decode,
    decode_map,
    no_such_key,
    read_partly,
    refuse_output,
    type_hints,
)
from ..schema.limits import unwrapped
from ..schema.refusal import (
    EXCLUDED_KEY,
    UNKNOWN_KEY,
    UNKNOWN_POOL,
    Range,
    Refusal,
    Refusals,
    unknown_value,
)
from .auxiliary import check_disk_zones, read_accounts, read_claims
from .blocks import BLOCKS, ENTRY_NAMES, RUNNING, check_entry_names
from .endpoints import foreign_endpoints
from .model import Settings
from .remaining import Remaining, steps
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
_FIRST = ("cluster", "gpuPools", "teams")
"""What is read before the other blocks are."""
_KEYS = ("cluster", "gpuPools", *BLOCKS)
_ROUNDS = 10
"""How often what is left is read again: more than a block depends on others."""


def load() -> Settings[Any]:
    """Reads the stack's config.

    Raises pulumi.RunError, which the engine shows without a traceback: a line for each refusal.
    """
    return _loaded(from_config, lambda _: True)


def load_args(given: Mapping[str, Any]) -> Settings[Any]:
    """The settings from a program's args, or from maps like those in a stack file; of the stack's
    config, only the providers' settings are used. Raises the same errors as `load`."""
    return _loaded(
        lambda config: _read(config, *_given(given), Path(), Refusals(), rounds=1),
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
    except Refusal as refusal:
        raise pulumi.RunError("\n".join(map(str, refusal.every))) from None
    for warning in warned(config, settings):
        pulumi.log.warn(warning)
    return settings


def warned(config: Mapping[str, str], settings: Settings[Any]) -> list[str]:
    """The warnings of every preview and `gpu-cluster validate`; `config`: see `from_config`."""
    return [*map(str, foreign_endpoints(config)), *warnings(settings)]


def from_config(config: Mapping[str, str], root: Path = Path()) -> Settings[Any]:
    """The settings from the engine's config: `namespace:key` -> text, JSON if the value is
    structured. `root`: the folder of the files that it names.

    Raises a `Refusal`, with every further one that does not follow from it. In continuous
    integration, which sets `CI`, warnings are not read, so `foreign_endpoints` are refused.
    """
    refusals, meant = Refusals(), dict(config)
    for key, value in config.items():
        if refusal := _unread(key):
            refusals.add(refusal)
            meant = {refusal.likely: value, **meant} if refusal.likely else meant
    return _read(meant, _values(meant, refusals), "", root, refusals)


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
    for key, value in blocks.items():
        if key not in _KEYS:
            path, platform = f"{NAMESPACE}:{key}", platform_in(values["cluster"])
            refusal = _in_block(path, key, platform) or no_such_key(path, key, _KEYS)
            refusals.add(refusal)
            if refusal.likely and refusal.likely not in blocks:
                with empty[refusal.likely]:
                    values[refusal.likely] = _structured({refusal.likely: value}, refusal.likely)
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
            moved = values[outer].pop(nested)
            values[nested] = values[nested] or moved or {}
            empty[nested] = Refusals()
    for refusal in itertools.chain.from_iterable(empty.values()):
        refusals.add(refusal)
    return values


def _read(
    config: Mapping[str, str],
    values: dict[str, Any],
    platform: str,
    root: Path,
    refusals: Refusals,
    rounds: int = _ROUNDS,
) -> Settings[Any]:
    """The settings; what refuses them is added to `refusals`, and all are raised together.

    What is refused is left out of the next round, in which checks find what they could not see: a
    check of several settings is made only if none of them is refused. `platform`: empty if the
    cluster's block names it.
    """
    if os.environ.get("CI", "").lower() in ("1", "true"):
        refusals.add(*foreign_endpoints(config))
    found, remaining, checked = Refusals(), Remaining(values), not refusals
    for _ in range(rounds):
        if (blocks := remaining.values) is None:
            break
        if settings := _resolved(config, blocks, platform, root, refusals):
            if not found:
                return settings
            break
        of = platform or platform_in(blocks["cluster"])
        explained = [_explained(refusal, blocks, of) for refusal in refusals]
        found.add(*(refusal for refusal in explained if not remaining.guessed(refusal)))
        # What runs in the cluster is checked with its pools, also if a setting of it is refused.
        before = [refusal for refusal in explained if steps(refusal.path)[0] in _FIRST]
        more = remaining.remove(before or explained)
        if not more and checked:
            break
        checked, refusals = True, Refusals()
    raise found.first()


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
            raise Refusal(path, "is not a map", given=value, remedy="write it as { NAME: VALUE }")
    values: dict[str, Any] = {key: given.get(key) or {} for key in _KEYS}
    check_entry_names(values)
    for name, platform in PLATFORMS.items():
        if isinstance(values["cluster"], platform.settings.CLUSTER):
            return values, name
    if not isinstance(values["cluster"], Mapping):
        raise Refusal(
            f"{NAMESPACE}:cluster",
            "is not the args class of a platform",
            given=values["cluster"],
            remedy="give, for example, EksClusterArgs, or a map with the key platform",
        )
    return values, ""


def _resolved(
    config: Mapping[str, str], values: dict[str, Any], platform: str, root: Path, refusals: Refusals
) -> Settings[Any] | None:
    """The settings, or None, with what refuses them."""
    with refusals:
        check_entry_names(values)
    if not platform:
        with refusals:
            platform = _platform(values["cluster"])
        cluster = {key: value for key, value in values["cluster"].items() if key != "platform"}
        values = {**values, "cluster": cluster}
    row, decoded = PLATFORMS.get(platform), not refusals
    if decoded:
        with refusals:
            return _with_own(config, values, platform, root)
    parts = [(key, block.args, block.names is not None) for key, block in BLOCKS.items()]
    if row and not decoded:
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
    refusals, teams = Refusals(), dict[str, TeamArgs]()
    given = values["cluster"]
    for key, why in _owner_keys(platform, given).items():
        path = (f"{NAMESPACE}:cluster", key)
        refusals.add(Refusal(path, f"is not available {why}", code=EXCLUDED_KEY))
        given = {name: value for name, value in given.items() if name != key}
    with refusals:
        teams |= read_teams(values["teams"])
    with refusals:
        cluster = read_cluster(module.CLUSTER, given, teams)
    with refusals:
        pool_args = decode_map(f"{NAMESPACE}:gpuPools", module.POOL, values["gpuPools"])
    refusals.check()
    settings = None
    with refusals:
        own = module.resolve(config, cluster, pool_args, refusals)
        settings = _with_blocks(values, platform, own, teams, root)
    if settings is None or refusals:
        raise in_team(refusals.first(), module.CLUSTER, teams)
    return settings


def _explained(refusal: Refusal, blocks: Mapping[str, Any], platform: str) -> Refusal:
    """The refusal, with a reason that only the whole config shows."""
    cluster = blocks["cluster"]
    block, *inner = steps(refusal.path)
    if block == "gpuPools" and refusal.allowed and len(inner) == 2 and platform in PLATFORMS:
        row, pool = PLATFORMS[platform].settings, blocks[block][inner[0]]
        written = isinstance(cluster, dict)
        given = cluster.get("scaler") if written else getattr(cluster, "scaler", None)
        scaler = given or default_scaler(row.CLUSTER)
        if scaler in scalers(row.CLUSTER) and isinstance(pool, dict):
            keys = {camel(field.name): field.name for field in fields(row.POOL)}
            values = {keys[key]: value for key, value in pool.items() if key in keys}
            for other in scaler_refusals(row.POOL, values, scaler, row.CLUSTER):
                if other.path == (inner[1],):
                    return other.but(path=refusal.path)
            own = getattr(row.POOL, "POSSIBLE_WITH", {}).get(scaler, {}).get(inner[1])
            if own and isinstance(refusal.allowed, Range):
                return refusal.but(allowed=refusal.allowed.within(own))
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
    values: Mapping[str, Any], platform: str, own: Any, teams: Mapping[str, TeamArgs], root: Path
) -> Settings[Any]:
    pools = {name: resolved.pool for name, resolved in own.pools.items()}
    refusals, monitoring = Refusals(), None
    with refusals:
        if values["monitoring"]:
            path = f"{NAMESPACE}:monitoring"
            monitoring = read_partly(path, MonitoringArgs, values["monitoring"], refusals)
            refusals.narrow(path, lambda key: own.metrics.sources if key == "source" else None)
            if monitoring:
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


def _unread(key: str) -> Refusal | None:
    """The refusal of a key that nothing reads and that the engine would silently accept."""
    namespace, _, name = key.partition(":")
    if name.startswith("config:"):
        return _renamed(key, "has an old form", f"{namespace}:{name.removeprefix('config:')}")
    known = (NAMESPACE, *_PROVIDERS)
    sdk = namespace == NAMESPACE or _sdk(namespace)
    if namespace in _PROVIDERS and isinstance(sdk, Path):
        return _unknown_setting(key, sdk / "config" / "vars.py")
    if namespace in known or sdk:
        return None
    reason = f"nothing reads the namespace {namespace!r}"
    if near := difflib.get_close_matches(namespace[:100], known, n=1):
        return _renamed(key, reason, f"{near[0]}:{name}")
    return Refusal(key, reason, allowed=sorted(known))


@functools.cache  # It is looked for in every folder of `sys.path`.
def _sdk(provider: str) -> Path | bool:
    """The folder of a provider's SDK, or whether there is one."""
    package = f"pulumi_{provider.replace('-', '_')}"
    sdk = find_spec(package) if package.isidentifier() else None
    return Path(sdk.origin).parent if sdk and sdk.origin else sdk is not None


def _renamed(key: str, reason: str, meant: str) -> Refusal:
    return Refusal(key, reason, remedy=f"rename the key to {meant}", meant=meant)


def _unknown_setting(key: str, sdk: Path) -> Refusal | None:
    """The refusal of a provider's setting that its SDK does not have, as the provider's in a
    preview. `sdk`: the module that reads the settings; a file, because importing an SDK takes a
    second."""
    namespace, _, name = key.partition(":")
    names = _settings_of(sdk)
    if not names or name in (*names, "version", "pluginDownloadURL"):
        return None
    reason = f"nothing reads it, because the provider has no {name}"
    if meant := nearest(name, names, 0.6):
        return _renamed(key, reason, f"{namespace}:{meant}")
    return Refusal(key, reason, remedy="remove it")


@functools.cache
def _settings_of(sdk: Path) -> Sequence[str]:
    text = sdk.read_text() if sdk.exists() else ""
    return re.findall(r"\.get(?:_\w+)?\('(\w+)'\)", text)


def _platform(cluster: dict[str, Any]) -> str:
    """The platform, which decides which keys are allowed."""
    path, platform = (f"{NAMESPACE}:cluster", "platform"), platform_in(cluster)
    named = cluster.get("platform")
    refuse_output(path, named)
    if named is None:
        if near := difflib.get_close_matches("platform", map(str, cluster), n=1, cutoff=0.8):
            raise no_such_key((f"{NAMESPACE}:cluster", near[0]), near[0], ["platform"])
        raise Refusal(path, "is missing", allowed=WRITTEN)
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


def _owner_keys(platform: str, cluster: Any) -> Mapping[str, str]:
    """`existing` where it does not exist, and keys of a cluster that the stack creates, if the
    cluster is an existing one -> why they are refused."""
    entry = PLATFORMS[platform]
    if not isinstance(cluster, Mapping):
        return {}
    if entry.instead_of_existing and "existing" in cluster:
        return {"existing": f"on platform {platform}; {entry.instead_of_existing}"}
    if not entry.added:
        return {}
    owned = PLATFORMS[platform.removesuffix("-existing")].settings.CLUSTER
    keys, own = (
        {camel(field.name) for field in fields(each)} for each in (entry.settings.CLUSTER, owned)
    )
    default = "the cluster's owner decides it; drop it"
    return {
        key: f"with existing: {_NOT_WITH_EXISTING.get(key, default)}"
        for key in cluster
        if key in own - keys
    }


def _on_other_platforms(refusal: Refusal, platform: str) -> Refusal:
    """The refusal of an unknown key, which says so if other platforms have it at this place."""
    block, *inner = steps(refusal.path)
    part, keys = ("CLUSTER", inner) if block == "cluster" else ("POOL", inner[1:])
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
    return refusal.but(
        reason=f"is only available on {' and '.join(names)}",
        allowed=(),
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
        raise Refusal(path, "has no value", remedy=f"set it{drop}")
    try:
        value = json.loads(text)
    except RecursionError:
        raise Refusal(path, "a value is nested too deeply", remedy="flatten it") from None
    except ValueError:
        raise Refusal(
            path, "is not a map", given=text, remedy="write it as YAML below the key"
        ) from None
    if not isinstance(value, dict):
        raise Refusal(path, "is not a map", given=value, remedy="write KEY: VALUE below the key")
    return value
