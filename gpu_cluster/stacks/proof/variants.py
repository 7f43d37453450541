"""The stack's config as the steps of a proof change it, in a copy of its file. Pure functions."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog.images import CUDA_SAMPLE, PYTORCH
from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.schema.decode import NAMESPACE
from gpu_cluster.components.settings.blocks import RUNNING
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.definition.files import without_secrets
from gpu_cluster.stacks.definition.settings import NOWHERE, with_kubeconfig
from gpu_cluster.stacks.definition.validation import refusals
from gpu_cluster.stacks.outcome import CheckError

Config = Mapping[str, Any]
GPU_TEST, WORKLOADS = f"{NAMESPACE}:gpuTest", f"{NAMESPACE}:workloads"


def protection(settings: Settings[Any]) -> str:
    """The setting that keeps the stack from being destroyed; empty if none does."""
    protected = getattr(settings.cluster, "deletion_protection", None)
    if protected is not None:
        return "cluster.deletionProtection" if protected else ""
    batch = settings.batch
    if batch is None or not (batch.job_set or batch.queues) or batch.deletion_protection is False:
        return ""
    return "batch.deletionProtection"


def unprotected(config: Config, settings: Settings[Any]) -> Config:
    """The config without its `protection`."""
    block = f"{NAMESPACE}:{protection(settings).partition('.')[0]}"
    off = {block: {**_block(config, block), "deletionProtection": False}}
    return {**config, **off} if protection(settings) else config


def job_name(pool: str, number: int) -> str:
    """The name of a GPU job on a pool, the `number`th one there."""
    return f"prove-{pool[:40]}-{number}"


def with_jobs(config: Config, pools: Sequence[GpuPool], number: int) -> Config:
    """The config with a job on each pool that uses the fewest GPUs that a pod there can have."""
    jobs = {
        job_name(pool.name, number): {
            "kind": "job",
            "pool": pool.name,
            "gpus": min(pool.gpus_per_pod),
            "image": CUDA_SAMPLE.reference,
            "wait": True,
        }
        for pool in pools
    }
    return {**config, WORKLOADS: {**_block(config, WORKLOADS), **jobs}}


def with_test(config: Config, pools: Sequence[GpuPool]) -> Config:
    """The config with the acceptance test: its own, once more, or one of these pools."""
    own = _block(config, GPU_TEST)
    test = {"pools": [pool.name for pool in pools], "image": PYTORCH.reference, **own, "wait": True}
    if own:  # A Job runs once: another generation is another Job.
        test["generation"] = own.get("generation", 1) + 1
    return {**config, GPU_TEST: test}


def without_workloads(config: Config) -> Config:
    """The config without what keeps nodes running."""
    return {
        **config,
        **{f"{NAMESPACE}:{key}": {} for key, row in RUNNING.items() if row.holds_nodes},
    }


def grown(config: Config, pools: Mapping[str, int]) -> Config:
    """The config with these values of `maxNodes`."""
    key = f"{NAMESPACE}:gpuPools"
    block = _block(config, key)
    return {**config, key: {**block, **{n: {**block[n], "maxNodes": m} for n, m in pools.items()}}}


def refuse_encrypted(stack: str, config: Config) -> None:
    """Raises CheckError for a whole block that is encrypted."""
    for key, block in config.items():
        if isinstance(block, Mapping) and set(block) == {"secure"} and key.startswith(NAMESPACE):
            raise CheckError(
                f"Pulumi.{stack}.yaml: {key}: is encrypted as a whole, and a proof has to read and "
                "change it; write it in plain text, and encrypt only the secrets in it"
            )


def refusal(config: Config) -> str:
    """Why the program would refuse the config; empty if it does not."""
    refused = refusals(with_kubeconfig(without_secrets(config), NOWHERE))
    return str(refused[0]) if refused else ""


def _block(config: Config, key: str) -> dict[str, Any]:
    return dict(config.get(key) or {})
