"""The only reader of the stack's config: a frozen `Settings`, or one line that says what is wrong.

The CLI accepts any key and any shape inside structured config; here every key is known or refused,
by its path, before a resource is registered.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.batch.load import check_workloads, read_batch, read_training_jobs
from components.catalog import kubernetes as names
from components.cluster import GpuPool, Platform
from components.decode import decode, decode_map, no_such_key, shown, unknown
from components.gpu.acceptance_args import GpuTestArgs, job_name
from components.gpu.monitoring_args import MonitoringArgs
from components.gpu.workload_args import WorkloadArgs
from components.settings.model import (
    AutopilotSettings,
    EksSettings,
    ExistingSettings,
    GkeSettings,
    Settings,
)

NAMESPACE = "gpu-cluster"
_LONG_WORD = re.compile(r"\S{200,}")
_LONGEST = 2000
"""Characters of a message; the longest list of what is allowed has about half of them."""
PLATFORMS = ("gke", "gke-autopilot", "eks", "existing")
PROJECT_ID = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
"""An organization's old projects have its domain in front."""
_KEYS = ("cluster", "gpuPools", "workloads", "monitoring", "gpuTest", "batch", "trainingJobs")


def load() -> Settings:
    """Reads the stack's config.

    Raises pulumi.RunError, which the engine shows as one line without a traceback.
    """
    # Whoever reads settings without an engine, `from_config`, does without the SDK.
    import pulumi
    from pulumi.runtime import config as runtime_config

    try:
        return from_config({**runtime_config.get_config_env(), **runtime_config.CONFIG.get()})
    except ValueError as error:
        raise pulumi.RunError(str(error)) from None


def from_config(config: Mapping[str, str]) -> Settings:
    """`config` is the engine's: `namespace:key` -> text, JSON where the value is structured.

    Raises ValueError with one line: the key's path, what was given, what is allowed.
    """
    try:
        return _read(config)
    except ValueError as error:
        # A key may have a line end in it, and is shown as part of its path.
        letters = (one if one.isprintable() else repr(one)[1:-1] for one in _short(str(error)))
        raise ValueError("".join(letters)) from None


def _short(message: str) -> str:
    """A message without the middle of what nobody reads: a word or a text of a megabyte."""
    words = _LONG_WORD.sub(lambda word: f"{word[0][:60]}...", message)
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 100]} ... {words[-90:]}"


def _read(config: Mapping[str, str]) -> Settings:
    given = {
        key.removeprefix(f"{NAMESPACE}:"): value
        for key, value in config.items()
        if key.startswith(f"{NAMESPACE}:")
    }
    for key in given:
        if key not in _KEYS:
            raise ValueError(no_such_key(f"{NAMESPACE}:{key}", key, _KEYS))
    cluster = _structured(given, "cluster")
    pools = _structured(given, "gpuPools")
    workloads = decode_map(f"{NAMESPACE}:workloads", WorkloadArgs, _structured(given, "workloads"))
    settings: Settings
    for name in pools:
        _check_pool_name(name)
    platform = cluster.pop("platform", None)
    read = {"gke": _gke, "gke-autopilot": _autopilot, "eks": _eks, "existing": _existing}
    if platform is None:
        raise ValueError(
            f"{NAMESPACE}:cluster.platform: is missing; allowed: {', '.join(PLATFORMS)}"
        )
    if not isinstance(platform, str) or platform not in read:
        raise ValueError(
            f"{NAMESPACE}:cluster.platform: {platform!r} is not known; "
            f"{unknown(str(platform), PLATFORMS)}"
        )
    settings = read[platform](config, cluster, pools, workloads)
    settings = replace(settings, monitoring=_monitoring(given, settings))
    gpu_pools = {n: pool.gpu_pool(n) for n, pool in settings.pools.items()}
    _check_workloads(workloads, gpu_pools, settings.platform)
    settings = replace(settings, gpu_test=_gpu_test(given, settings, gpu_pools))
    batch = read_batch(f"{NAMESPACE}:batch", _structured(given, "batch"), gpu_pools)
    jobs = read_training_jobs(
        f"{NAMESPACE}:trainingJobs", _structured(given, "trainingJobs"), batch, gpu_pools
    )
    check_workloads(f"{NAMESPACE}:workloads", workloads, batch, jobs, gpu_pools)
    return replace(settings, batch=batch, training_jobs=jobs)


# Each platform's classes are imported where they are used: a stack on one platform has no use for
# the catalog of another.


def _gke(
    config: Mapping[str, str],
    cluster: dict[str, Any],
    pools: dict[str, Any],
    workloads: Mapping[str, WorkloadArgs],
) -> Settings:
    from components.gke.cluster_args import GkeClusterArgs
    from components.gke.pool_args import GkeGpuNodePoolArgs
    from components.gke.sign_in import identity_warnings

    settings = GkeSettings(
        project=_project(config),
        sign_in_warnings=identity_warnings(config, os.environ),
        cluster=decode(f"{NAMESPACE}:cluster", GkeClusterArgs, cluster),
        pools=decode_map(f"{NAMESPACE}:gpuPools", GkeGpuNodePoolArgs, pools),
        workloads=workloads,
    )
    for name, pool in settings.pools.items():
        _at(f"gpuPools.{name}", pool.zones_in, settings.cluster.location)
        _at(f"gpuPools.{name}", pool.check_version, settings.cluster.version)
    return settings


def _autopilot(
    config: Mapping[str, str],
    cluster: dict[str, Any],
    pools: dict[str, Any],
    workloads: Mapping[str, WorkloadArgs],
) -> Settings:
    from components.gke.sign_in import identity_warnings
    from components.gke_autopilot.cluster_args import GkeAutopilotArgs, GkeAutopilotPoolArgs

    settings = AutopilotSettings(
        project=_project(config),
        sign_in_warnings=identity_warnings(config, os.environ),
        cluster=decode(f"{NAMESPACE}:cluster", GkeAutopilotArgs, cluster),
        pools=decode_map(f"{NAMESPACE}:gpuPools", GkeAutopilotPoolArgs, pools),
        workloads=workloads,
    )
    for name, pool in settings.pools.items():
        _at(f"gpuPools.{name}", pool.check_version, settings.cluster.version)
    return settings


def _eks(
    config: Mapping[str, str],
    cluster: dict[str, Any],
    pools: dict[str, Any],
    workloads: Mapping[str, WorkloadArgs],
) -> Settings:
    from components.eks.cluster_args import EksClusterArgs
    from components.eks.pool_args import EksGpuNodeGroupArgs
    from components.eks.provider_args import AwsProviderArgs, assumed_role
    from components.eks.regions import is_region

    region = _required(config, "aws:region", "the AWS region of the cluster")
    if not is_region(region):
        raise ValueError(f"aws:region: {region!r} is not a region; give one such as us-east-1")
    settings = EksSettings(
        provider=AwsProviderArgs(
            region=region, profile=config.get("aws:profile") or None, role=assumed_role(config)
        ),
        cluster=decode(f"{NAMESPACE}:cluster", EksClusterArgs, cluster),
        pools=decode_map(f"{NAMESPACE}:gpuPools", EksGpuNodeGroupArgs, pools),
        workloads=workloads,
    )
    _at("cluster", settings.cluster.check_in, region)
    for name, pool in settings.pools.items():
        _at(f"gpuPools.{name}", pool.check_in, settings.cluster)
    return settings


def _existing(
    config: Mapping[str, str],
    cluster: dict[str, Any],
    pools: dict[str, Any],
    workloads: Mapping[str, WorkloadArgs],
) -> Settings:
    from components.existing.cluster_args import ExistingClusterArgs, ExistingGpuPoolArgs

    args = decode(f"{NAMESPACE}:cluster", ExistingClusterArgs, cluster)
    decoded = decode_map(f"{NAMESPACE}:gpuPools", ExistingGpuPoolArgs, pools)
    try:
        kubeconfig = args.read_kubeconfig()
    except ValueError as error:
        raise ValueError(f"{NAMESPACE}:cluster.{error}") from None
    return ExistingSettings(cluster=args, kubeconfig=kubeconfig, pools=decoded, workloads=workloads)


def _monitoring(given: Mapping[str, str], settings: Settings) -> MonitoringArgs | None:
    value = _structured(given, "monitoring")
    path = f"{NAMESPACE}:monitoring"
    args = decode(path, MonitoringArgs, value) if value else None
    if args is None or not args.enabled:
        return None
    if settings.platform == "gke" and not settings.cluster.managed_prometheus:
        raise ValueError(
            f"{path}.enabled: needs cluster.managedPrometheus, which collects; set that to true"
        )
    try:
        return args.on(settings.platform)
    except ValueError as error:
        raise ValueError(f"{path}.{error}") from None


def _gpu_test(
    given: Mapping[str, str], settings: Settings, pools: Mapping[str, GpuPool]
) -> GpuTestArgs | None:
    value = _structured(given, "gpuTest")
    path = f"{NAMESPACE}:gpuTest"
    if not value:
        return None
    args = decode(path, GpuTestArgs, value)
    for position, pool in enumerate(args.pools):
        if pool not in pools:
            raise ValueError(
                f"{path}.pools[{position}]: {pool!r} is not a pool; "
                f"{unknown(pool, pools) if pools else 'gpuPools has none'}"
            )
        try:
            args.check_on(pools[pool], settings.platform)
        except ValueError as error:
            raise ValueError(f"{path}.{error}") from None
        other = settings.workloads.get(job_name(pool))
        if other is not None and other.namespace == args.namespace:
            raise ValueError(
                f"{NAMESPACE}:workloads.{job_name(pool)}: is the name of the Job that measures "
                f"pool {pool}; take another"
            )
    return args


def _project(config: Mapping[str, str]) -> str:
    project = _required(config, "gcp:project", "the ID of your Google Cloud project")
    # Neither its name nor its number: workload identity is made of the ID.
    if not PROJECT_ID.fullmatch(project):
        raise ValueError(
            f"gcp:project: {shown(project)} is not a project's ID; allowed: 6 to 30 lowercase "
            "letters, digits and '-', a letter first (gcloud projects list has it as PROJECT_ID)"
        )
    return project


def _check_pool_name(name: str) -> None:
    # 40 characters are the limit of a node pool's name; the automatic suffix takes 8 of them.
    if names.invalid_dns_label(name) or not name[:1].isalpha() or len(name) > 32:
        raise ValueError(
            f"{NAMESPACE}:gpuPools.{name}: is not a pool name; allowed: at most 32 lowercase "
            "letters, digits and '-', a letter first, no '-' at the end"
        )


def _check_workloads(
    workloads: Mapping[str, WorkloadArgs], pools: Mapping[str, GpuPool], platform: Platform
) -> None:
    for name, workload in workloads.items():
        if reason := names.invalid_dns_label(name):
            raise ValueError(f"{NAMESPACE}:workloads.{name}: {reason}")
        if workload.pool not in pools:
            raise ValueError(
                f"{NAMESPACE}:workloads.{name}.pool: {workload.pool!r} is not a pool; "
                f"{unknown(workload.pool, pools) if pools else 'gpuPools has none'}"
            )
        _at(f"workloads.{name}", workload.check_fits, pools[workload.pool])
        if workload.driver_libraries and platform == "gke-autopilot":
            raise ValueError(
                f"{NAMESPACE}:workloads.{name}.driverLibraries: Autopilot admits no directory of "
                "the host, and GKE mounts the driver itself; drop the key"
            )


def _at(path: str, check: Any, value: object) -> None:
    try:
        check(value)
    except ValueError as error:
        raise ValueError(f"{NAMESPACE}:{path}.{error}") from None


def _required(config: Mapping[str, str], key: str, what: str) -> str:
    value = config.get(key, "")
    if not value:
        raise ValueError(f"{key}: is missing; set it to {what}: pulumi config set {key} ...")
    return value


def _structured(given: Mapping[str, str], key: str) -> dict[str, Any]:
    text = given.get(key, "{}")
    path = f"{NAMESPACE}:{key}"
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"{path}: a value is nested too deep; write it flat") from None
    except ValueError:
        raise ValueError(
            f"{path}: {shown(text)} is not a map; write it as YAML below the key"
        ) from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: {shown(text)} is not a map; write it as YAML below the key")
    return value
