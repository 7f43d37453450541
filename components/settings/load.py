"""The only reader of the stack's config: it returns frozen `Settings`, or raises what refuses them.

Pulumi's CLI accepts any key and any structure in the config; here every unknown key is refused,
with its path, before a resource is registered.
"""

import itertools
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..access.service_accounts import Access
from ..batch.load import Available, read_batch
from ..batch.team_args import TeamArgs
from ..catalog.spelling import nearest
from ..cluster import Metrics
from ..gpu.images_args import ImagesArgs
from ..gpu.monitoring_args import MonitoringArgs
from ..gpu.pod_args import Auxiliary, NamespaceArgs
from ..platforms import PLATFORMS, WRITTEN, platform_in
from ..schema import limits
from ..schema.decode import (
    NAMESPACE,
    at,
    decode,
    decode_map,
    no_such_key,
    read_partly,
    refuse_output,
)
from ..schema.limits import outputs_in, refusals_of, unwrapped
from ..schema.outputs import NULLABLE, UNKNOWN, is_output
from ..schema.refusal import (
    EXCLUDED_KEY,
    UNKNOWN_POOL,
    Keys,
    Refusal,
    Refusals,
    known_only,
    refuse,
    unknown_value,
    written,
)
from .advice import explain, misplaced_key, owner_keys
from .auxiliary import check_disk_zones, read_accounts, read_claims
from .blocks import BLOCKS, ENTRY_NAMES, RUNNING, check_entry_names
from .config_keys import PROVIDERS, project_name, unread_key
from .endpoints import foreign_endpoints
from .model import Settings
from .remaining import Remaining, steps
from .teams import check_priorities, in_team, queues_of, read_cluster, read_teams, with_namespaces
from .validate import (
    check_claimed,
    check_cuda,
    check_groups,
    check_names,
    check_namespaces,
    check_scaling,
    check_teams,
    unknown_namespaces,
    warnings,
)

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
    refusals = Refusals()

    def read(config: Mapping[str, str]) -> Settings[Any]:
        values, platform = _given(given, refusals)
        parts = [part for block in values.values() for part in (block, *_entries(block))]
        # Nothing can be left out of args.
        rounds = 1 if any(map(is_dataclass, parts)) else _ROUNDS
        return _read(config, values, platform, Path(), refusals, rounds)

    settings = _loaded(read, lambda key: key.partition(":")[0] in PROVIDERS)
    _check_outputs(settings)
    return settings


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


def _check_outputs(settings: Settings[Any]) -> None:
    """Makes an update fail for an output whose value its setting does not accept, and a preview, if
    that is known by then; a preview says of which it is not."""
    import pulumi

    pools = {name: pool.args for name, pool in settings.pools.items()}
    blocks = {
        "cluster": settings.cluster,
        "gpuPools": pools,
        "serviceAccounts": settings.auxiliary.accounts,
    }

    def check(path: Keys, hint: Any, value: Any) -> None:
        if is_output(value):
            pulumi.log.info(f"{written(path)}: {UNKNOWN}, and not checked before")
            return
        if value is None and NULLABLE not in unwrapped(hint)[1]:
            raise pulumi.RunError(str(refuse(path)(
                "is an output without a value",
                remedy="give it one, or drop the key; a StackReference has the outputs that the "
                "program of that stack exports",
            )))  # fmt: skip
        for refusal in refusals_of(hint, value):
            raise pulumi.RunError(str(refusal.under(*path)))

    def check_list(path: Keys, hint: Any, values: Sequence[Any]) -> None:
        if refused := limits.refusal(unwrapped(hint)[1], values):
            raise pulumi.RunError(str(refused.under(*path)))

    for key, block in blocks.items():
        for path, hint, value in outputs_in((f"{NAMESPACE}:{key}",), block):
            if isinstance(value, list):
                pulumi.Output.all(*value).apply(partial(check_list, path, hint))
            else:
                value.apply(partial(check, path, hint), run_with_unknowns=True)


def warned(config: Mapping[str, str], settings: Settings[Any]) -> list[str]:
    """The warnings of every preview and `gpu-cluster validate`; `config`: see `from_config`."""
    return [*map(str, foreign_endpoints(config)), *warnings(settings)]


def from_config(config: Mapping[str, str], root: Path = Path()) -> Settings[Any]:
    """The settings from the engine's config: `namespace:key` -> text, JSON if the value is
    structured. `root`: the folder of the files that it names.

    Raises a `Refusal`, with every further one that does not follow from it. In continuous
    integration, which sets `CI`, warnings are not read, so `foreign_endpoints` are refused.
    """
    refusals, meant, project = Refusals(), dict(config), project_name(root)
    for key, value in config.items():
        if refusal := unread_key(key, project, _KEYS):
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
            refusal = misplaced_key(path, key, platform) or no_such_key(path, key, _KEYS)
            refusals.add(refusal)
            if refusal.likely and refusal.likely not in blocks:
                with empty[refusal.likely]:
                    values[refusal.likely] = _structured({refusal.likely: value}, refusal.likely)
    for outer in ("cluster", "batch"):
        for nested in [key for key in values[outer] if key in _KEYS]:
            refusals.add(
                refuse((f"{NAMESPACE}:{outer}", nested))(
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
    refused_keys = set[str]()
    for _ in range(rounds):
        if (blocks := remaining.values) is None:
            break
        if settings := _resolved(config, blocks, platform, root, refusals):
            if not found:
                return settings
            break
        of = platform or platform_in(blocks["cluster"])
        # A pool that was refused, and thus left out, is still one to choose.
        pools = sorted(map(str, values["gpuPools"]))
        explained = [
            explain(
                refusal.but(allowed=pools, remedy="")
                if refusal.code == UNKNOWN_POOL and pools
                else refusal,
                blocks,
                of,
            )
            for refusal in refusals
        ]
        found.add(
            *(
                refusal
                for refusal in explained
                if not remaining.guessed(refusal) and _provider_key(refusal) not in refused_keys
            )
        )
        # What the cloud's provider reads is no condition of most checks.
        new = {_provider_key(refusal) for refusal in explained} & {*config} - refused_keys
        refused_keys |= new
        config = {key: value for key, value in config.items() if key not in new}
        found.add(*unknown_namespaces(blocks, of))
        # What runs in the cluster is checked with its pools, also if a setting of it is refused.
        before = [refusal for refusal in explained if steps(refusal.path)[0] in _FIRST]
        more = remaining.remove(before) or remaining.remove(explained) or bool(new)
        if not more and checked:
            break
        checked, refusals = True, Refusals()
    raise found.first()


def _provider_key(refusal: Refusal) -> str:
    """The key of the config if it is not a block: `aws:assumeRoles`; else empty."""
    key = re.split(r"[.\[]", refusal.at)[0]
    return "" if key.startswith(f"{NAMESPACE}:") else key


def _entries(block: Any) -> Collection[Any]:
    return block.values() if isinstance(block, Mapping) else ()


def _given(given: Mapping[str, Any], refusals: Refusals) -> tuple[dict[str, Any], str]:
    """All blocks from a program's arguments, and the platform that the cluster's implies. What is
    refused is left out."""
    values: dict[str, Any] = {key: {} for key in _KEYS}
    for key, value in given.items():
        path = f"{NAMESPACE}:{key}"
        with refusals:
            if key not in _KEYS:
                raise no_such_key(path, key, _KEYS)
            refuse_output(path, value)
            if key in ENTRY_NAMES and not isinstance(value or {}, Mapping):
                raise refuse(path, value)("is not a map", remedy="write it as { NAME: VALUE }")
            values[key] = value or {}
    if is_output(given.get("cluster")):
        refusals.check()  # Without a platform, nothing else has a result.
    for name, platform in PLATFORMS.items():
        if isinstance(values["cluster"], platform.settings.CLUSTER):
            return values, name
    if not isinstance(values["cluster"], Mapping):
        raise refuse(f"{NAMESPACE}:cluster", values["cluster"])(
            "is not the args class of a platform",
            remedy="give, for example, EksClusterArgs, or a map with the key platform",
        )
    return values, ""


def _resolved(
    config: Mapping[str, str], values: dict[str, Any], platform: str, root: Path, refusals: Refusals
) -> Settings[Any] | None:
    """The settings, or None, with what refuses them."""
    complete = not refusals
    with refusals:
        check_entry_names(values)
    if not platform:
        with refusals:
            platform = _platform(values["cluster"])
        cluster = {key: value for key, value in values["cluster"].items() if key != "platform"}
        values = {**values, "cluster": cluster}
    row = PLATFORMS.get(platform)
    decoded = bool(row) and complete
    if decoded:
        with refusals:
            settings = _with_own(config, values, platform, root)
            return None if refusals else settings
    parts = [(key, block.args, block.names is not None) for key, block in BLOCKS.items()]
    if row and not decoded:
        with refusals:
            row.settings.account(config)
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
    refusals, given = Refusals(), values["cluster"]
    cluster = pool_args = settings = None
    for key, why in owner_keys(platform, given).items():
        path = (f"{NAMESPACE}:cluster", key)
        refusals.add(refuse(path)(f"is not available {why}", code=EXCLUDED_KEY))
        given = {name: value for name, value in given.items() if name != key}
    with refusals:
        module.account(config)
    teams = read_teams(values["teams"], refusals)
    with refusals:
        cluster = read_cluster(module.CLUSTER, given, teams)
    with refusals:
        pool_args = decode_map(f"{NAMESPACE}:gpuPools", module.POOL, values["gpuPools"])
    with refusals:
        # What is not refused is checked together, without what is.
        if cluster is None:
            cluster = read_partly(f"{NAMESPACE}:cluster", module.CLUSTER, given, Refusals())
        if pool_args is None:
            given = values["gpuPools"]
            pool_args = decode_map(f"{NAMESPACE}:gpuPools", module.POOL, given, Refusals())
        if cluster is None:
            raise refusals.first()
        own = module.resolve(config, cluster, pool_args, refusals)
        settings = _with_blocks(values, platform, own, teams, root)
    if settings is None or refusals:
        raise in_team(refusals.first(), module.CLUSTER, teams)
    return settings


def _with_blocks(
    values: Mapping[str, Any], platform: str, own: Any, teams: Mapping[str, TeamArgs], root: Path
) -> Settings[Any]:
    """The settings. Fields that are refused are not set, in `own` and `teams` either: a check that
    needs one has no result."""
    pools = {name: resolved.pool for name, resolved in own.pools.items()}
    refusals, read, running = Refusals(), dict[str, Any](), dict[str, Any]()
    access, metrics, auxiliary = known_only(Access), known_only(Metrics), known_only(Auxiliary)
    with refusals:
        access = own.access
    with refusals:
        metrics = own.metrics
    with refusals:
        path, monitoring = f"{NAMESPACE}:monitoring", None
        if values["monitoring"]:
            monitoring = read_partly(path, MonitoringArgs, values["monitoring"], refusals)
            refusals.narrow(path, lambda key: metrics.sources if key == "source" else None)
        read["monitoring"] = monitoring and at(path, monitoring.on, platform, metrics)
    with refusals:
        of_teams = partial(queues_of, teams, pools, access)
        batch = read_batch(f"{NAMESPACE}:batch", values["batch"], pools, of_teams, refusals)
        read["batch"] = batch
        check_priorities(teams, batch)
    with refusals:
        namespaces = decode_map(f"{NAMESPACE}:namespaces", NamespaceArgs, values["namespaces"])
        read["namespaces"] = with_namespaces(namespaces, teams)
    with refusals:
        path, of_pods = f"{NAMESPACE}:serviceAccounts", (platform, access, refusals)
        accounts = read_accounts(path, values["serviceAccounts"], *of_pods)
        claims = read_claims(f"{NAMESPACE}:volumeClaims", values["volumeClaims"], *of_pods)
        read["auxiliary"] = auxiliary = Auxiliary(accounts=accounts, claims=claims)
    with refusals:
        read["images"] = decode(f"{NAMESPACE}:images", ImagesArgs, values["images"])
    known = {"batch": read["batch"]} if "batch" in read else {}
    available = known_only(Available, pools=pools, auxiliary=auxiliary, root=root, **known)
    for key, block in RUNNING.items():
        with refusals:
            running[key] = block.read(f"{NAMESPACE}:{key}", values[key], available)
    if running.keys() == RUNNING.keys():
        settings = known_only(Settings, platform=platform, own=own, running=running, **read)
        checks = (
            check_names, check_disk_zones, check_namespaces, check_teams, check_claimed,
            check_scaling, check_cuda, check_groups,
        )  # fmt: skip
        refusals.run(*(partial(check, settings) for check in checks))
    refusals.check()
    return Settings(platform=platform, own=own, running=running, **read)


def _platform(cluster: dict[str, Any]) -> str:
    """The platform, which decides which keys are allowed."""
    path, platform = (f"{NAMESPACE}:cluster", "platform"), platform_in(cluster)
    named = cluster.get("platform")
    refuse_output(path, named)
    if named is None:
        if near := nearest("platform", [*map(str, cluster)], 0.8):
            raise no_such_key((f"{NAMESPACE}:cluster", near), near, ["platform"])
        raise refuse(path)("is missing", allowed=WRITTEN)
    if not isinstance(named, str) or named not in WRITTEN:
        raise unknown_value(path, named, WRITTEN)
    return platform


def _structured(given: Mapping[str, str], key: str) -> dict[str, Any]:
    text = given.get(key, "{}")
    path = f"{NAMESPACE}:{key}"
    if text in ("", "null"):
        drop = "" if key == "cluster" else ", or drop the key"
        raise refuse(path)("has no value", remedy=f"set it{drop}")
    try:
        value = json.loads(text)
    except RecursionError:
        raise refuse(path)("a value is nested too deeply", remedy="flatten it") from None
    except ValueError:
        raise refuse(path, text)("is not a map", remedy="write it as YAML below the key") from None
    if not isinstance(value, dict):
        raise refuse(path, value)("is not a map", remedy="write KEY: VALUE below the key")
    return value
