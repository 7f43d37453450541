"""Converts a job file, checked against what the stack published, into Kubernetes objects. Pure.

The same classes parse, check and render it as `trainingJobs` in a stack's file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpu_cluster.components.batch.load import Available, read_training_jobs
from gpu_cluster.components.batch.published import Published
from gpu_cluster.components.batch.training_args import TrainingArgs
from gpu_cluster.components.batch.training_spec import claims, labels, spec
from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.gpu.pod_parts import config_map_name, contents_of
from gpu_cluster.components.gpu.running import among_themselves
from gpu_cluster.components.schema.limits import refusal
from gpu_cluster.components.schema.refusal import Refusal, Refusals, refuse
from gpu_cluster.components.settings.blocks import ENTRY_NAMES
from gpu_cluster.stacks.definition.files import NotYaml, parsed
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
    """NetworkPolicy, ConfigMaps and ResourceClaimTemplate, in the order of their creation."""
    job_set: Object


def jobs_in(file: Path, published: Published, namespace: str) -> list[Job]:
    """The jobs in a file. Raises CheckError, with a line for each setting that is refused."""
    try:
        _, document = parsed(file.read_bytes())
    except OSError as error:
        raise CheckError(f"{file}: {error.strerror}") from None
    except NotYaml as error:
        raise CheckError(f"{file} {error}") from None
    return [
        rendered(name, args, published, file.parent)
        for name, args in read_jobs(document, published, namespace, file.parent).items()
    ]


def read_jobs(
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
    refusals, named, jobs = Refusals(), dict[str, object](), dict[str, TrainingArgs]()
    for name, job in entries.items():
        if refused := refusal(ENTRY_NAMES[ROOM], str(name)):
            refusals.add(refused.under(ROOM, str(name)))
        elif not isinstance(job, dict):
            named[name] = job
        else:
            refusals.add(*_not_submitted(name, job, namespace))
            if job.get("namespace", namespace) == namespace:  # Others have other queues and pools.
                named[name] = {**job, "namespace": namespace}
    with refusals:
        jobs.update(read_training_jobs(ROOM, named, _of_namespace(published, namespace, root)))
    if refusals:
        raise CheckError("\n".join(map(str, refusals)))
    return jobs


def _not_submitted(name: str, job: Mapping[str, object], namespace: str) -> Iterator[Refusal]:
    """The refusals of settings that only a job in a stack file may have."""
    if (own := job.get("namespace", namespace)) != namespace:
        reason = f"is {own}, but the settings of {namespace} were read"
        yield refuse((ROOM, name, "namespace"))(reason, remedy=f"give --namespace {own}")
    if job.get("wait") is True:
        reason = "has no effect on a submitted job"
        yield refuse((ROOM, name, "wait"))(reason, remedy="drop the key")
    if job.get("disruptionBudget"):
        reason = "is supported only for jobs in a stack file"
        yield refuse((ROOM, name, "disruptionBudget"))(reason, remedy="drop the key")


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
                "spec": among_themselves({names.JOB_SET_LABEL: name}),
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
            *(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": claim.kind,
                    "metadata": {"name": claim.name, **metadata},
                    "spec": claim.spec,
                }
                for claim in claims(name, args, pool)
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
