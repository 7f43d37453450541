"""Converts a job file, checked against what the stack published, into Kubernetes objects. Pure.

The same classes parse, check and render it as `trainingJobs` in a stack's file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.batch.load import Available, read_training_jobs
from gpu_cluster.components.batch.published import Published
from gpu_cluster.components.batch.training_args import TrainingArgs
from gpu_cluster.components.batch.training_spec import among_themselves, labels, spec
from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.gpu.pod_parts import config_map_name, contents_of
from gpu_cluster.components.schema.limits import refusal
from gpu_cluster.components.settings.blocks import ENTRY_NAMES
from gpu_cluster.stacks.outcome import CheckError

ROOM = "trainingJobs"
SUBMITTED = "gpu-cluster/submitted"
"""Label of everything that was submitted: only this is listed as a user's, and can be cancelled."""

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training job and its prerequisites."""

    name: str
    namespace: str
    before: list[Object]
    """NetworkPolicy and ConfigMaps, in the order of their creation."""
    job_set: Object


def jobs_in(file: Path, published: Published, namespace: str) -> list[Job]:
    """The jobs in a file. Raises CheckError, with the message of the settings, for invalid ones."""
    try:
        document = yaml.safe_load(file.read_text())
    except OSError as error:
        raise CheckError(f"{file}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise CheckError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    return [
        rendered(name, args, published, file.parent)
        for name, args in read(document, published, namespace, file.parent).items()
    ]


def read(
    document: object, published: Published, namespace: str, root: Path
) -> Mapping[str, TrainingArgs]:
    """The settings of a file's jobs; those without a namespace get this one."""
    if not isinstance(document, dict) or set(document) != {ROOM}:
        raise CheckError(
            f"{ROOM}: is missing, or is not the only key; a job file has exactly one key, {ROOM}, "
            "with jobs as in a stack file"
        )
    entries = document[ROOM]
    if not isinstance(entries, dict) or not entries:
        raise CheckError(f"{ROOM}: has no jobs; add one under its name")
    for name in entries:
        if refused := refusal(ENTRY_NAMES[ROOM], str(name)):
            raise CheckError(str(refused.under(ROOM, str(name))))
    named = {
        name: {"namespace": namespace, **job} if isinstance(job, dict) else job
        for name, job in entries.items()
    }
    for name, job in named.items():
        if isinstance(job, dict) and job["namespace"] != namespace:
            raise CheckError(
                f"{ROOM}.{name}.namespace: is {job['namespace']}, but the settings of {namespace} "
                f"were read; give --namespace {job['namespace']}"
            )
    try:
        available = _of_namespace(published, namespace, root)
        jobs = read_training_jobs(ROOM, named, available)
    except ValueError as error:
        raise CheckError(str(error)) from None
    for name, job in jobs.items():
        if job.wait:
            raise CheckError(f"{ROOM}.{name}.wait: has no effect on a submitted job; drop the key")
        if job.disruption_budget:
            raise CheckError(
                f"{ROOM}.{name}.disruptionBudget: is supported only for jobs in a stack file; "
                "drop the key"
            )
    return jobs


def _of_namespace(published: Published, namespace: str, root: Path) -> Available:
    """The objects that jobs in a namespace may name: its own queues and their pools only."""
    queues = published.batch.queues
    own = {name: queue for name, queue in queues.items() if namespace in queue.namespaces}
    others = {pool for name, queue in queues.items() if name not in own for pool in queue.pools}
    return Available(
        pools={name: pool for name, pool in published.pools.items() if name not in others},
        batch=replace(published.batch, queues=own),
        auxiliary=published.beside,
        root=root,
    )


def rendered(name: str, args: TrainingArgs, published: Published, root: Path) -> Job:
    """The job's objects, as the stack would declare them."""
    contents = contents_of(args, root)
    metadata = {"namespace": args.namespace, "labels": {"app": name, SUBMITTED: "true"}}
    pool = published.pools[args.pool]
    return Job(
        name=name,
        namespace=args.namespace,
        before=[
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": {"name": name, **metadata},
                "spec": among_themselves(name),
            },
            *(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": config_map_name(name, volume, content), **metadata},
                    "immutable": True,
                    "data": dict(content),
                }
                for volume, content in contents.items()
            ),
        ],
        job_set={
            "apiVersion": f"{names.JOB_SET_GROUP}/{names.JOB_SET_VERSION}",
            "kind": "JobSet",
            "metadata": {
                "name": name,
                "namespace": args.namespace,
                "labels": {**labels(name, args), SUBMITTED: "true"},
                **({"annotations": pool.job_annotations} if pool.job_annotations else {}),
            },
            "spec": spec(name, args, pool, contents, published.buckets),
        },
    )
