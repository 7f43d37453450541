"""Submits, lists, follows and cancels training jobs in a cluster; needs a kubeconfig, no Pulumi."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import kubernetes.client
import urllib3
from kubernetes.client import ApiException

from gpu_cluster.components.batch.published import CONFIG_MAP, KEY, Published, parse_published
from gpu_cluster.components.batch.training_spec import WORKERS
from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.stacks.jobs.submitted import SUBMITTED, Job
from gpu_cluster.stacks.live.cluster import (
    TIMEOUT_SECONDS,
    Denied,
    Missing,
    asked,
    client_of,
    listed_items,
)
from gpu_cluster.stacks.outcome import CheckError

Object = Mapping[str, Any]

_PLURAL = "jobsets"


def kubeconfig_text(given: Path | None) -> str:
    """The content of the given file, of the first in $KUBECONFIG, or of ~/.kube/config."""
    named = str(given) if given else os.environ.get("KUBECONFIG", "") or "~/.kube/config"
    file = Path(os.path.expanduser(named.split(os.pathsep)[0]))
    try:
        return file.read_text()
    except OSError as error:
        raise CheckError(f"kubeconfig {file}: {error.strerror}; give --kubeconfig FILE") from None


class JobCluster:
    """One namespace of a cluster."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self.client = client = client_of(kubeconfig)
        self.namespace = namespace
        self._core = kubernetes.client.CoreV1Api(client)
        self._networking = kubernetes.client.NetworkingV1Api(client)
        self._resource = kubernetes.client.ResourceV1Api(client)
        self._custom = kubernetes.client.CustomObjectsApi(client)

    def published(self) -> Published:
        """What the stack published. Raises CheckError if there is nothing."""
        # The API server gives the same answer for a namespace that does not exist.
        what = f"to read ConfigMap {CONFIG_MAP} in namespace {self.namespace}, which may not exist"
        with _refusals(what, fix="give --namespace, that of your queue, or "):
            try:
                answer = self._core.read_namespaced_config_map(
                    CONFIG_MAP, self.namespace, _preload_content=False,
                    _request_timeout=TIMEOUT_SECONDS,
                )  # fmt: skip
                return parse_published(json.loads(answer.data)["data"][KEY])
            except ApiException as error:
                if error.status != 404:
                    raise
                raise CheckError(
                    f"namespace {self.namespace} has no ConfigMap {CONFIG_MAP}: no queue of a "
                    "stack accepts its jobs, or batch.jobSet is off; give another --namespace"
                ) from None
            except (ValueError, KeyError, TypeError) as error:
                raise CheckError(
                    f"ConfigMap {self.namespace}/{CONFIG_MAP} was written by another version "
                    f"({error}); submit with the version of gpu-cluster that created the stack"
                ) from None

    def check_free(self, job: Job) -> None:
        """Raises CheckError if the namespace has a job with that name, which `submit` refuses."""
        if any(job_set["metadata"]["name"] == job.name for job_set in self.jobs()):
            raise self._taken(job)

    def submit(self, job: Job) -> None:
        """Creates the job. If the cluster refuses any part, all of it is removed again."""
        with _refusals("to submit it", job.name), ExitStack() as undo:
            try:
                for prerequisite in job.before:
                    if self._made(prerequisite):
                        undo.callback(_quietly, self._ask, "delete", prerequisite)
                uid = self._create_job_set(job.job_set)["metadata"]["uid"]
            except ApiException as error:
                if error.status != 409:
                    raise
                raise self._taken(job) from None
            undo.callback(_quietly, self._delete_job_set, job.name)
            owner = {
                "apiVersion": job.job_set["apiVersion"], "kind": "JobSet", "name": job.name,
                "uid": uid,
            }  # fmt: skip
            for prerequisite in job.before:
                # They are deleted with the job, also if it is deleted with kubectl.
                self._ask("patch", prerequisite, {"metadata": {"ownerReferences": [owner]}})
            undo.pop_all()

    def jobs(self, *, everywhere: bool = False) -> list[Object]:
        """All JobSets in the namespace, or in all namespaces."""
        custom, kind = self._custom, (names.JOB_SET_GROUP, names.JOB_SET_VERSION)
        try:
            return listed_items(
                asked(custom.list_cluster_custom_object, *kind, _PLURAL)
                if everywhere
                else asked(custom.list_namespaced_custom_object, *kind, self.namespace, _PLURAL)
            )
        except Missing:
            raise CheckError(
                "the cluster has no JobSet, which jobs need: set batch.jobSet: true in the "
                "stack file, and run pulumi up"
            ) from None
        except Denied as error:
            place = "all namespaces" if everywhere else f"namespace {self.namespace}"
            raise Denied(f"{error} in {place}; give --namespace, that of your queue") from None

    def cancel(self, name: str) -> None:
        """Deletes a job that was submitted, and its pods. Raises CheckError for any other job."""
        job = self._job(name)
        if (job["metadata"].get("labels") or {}).get(SUBMITTED) != "true":
            raise CheckError(
                f"{name} belongs to the stack: remove it from trainingJobs, and run pulumi up"
            )
        if job["metadata"].get("deletionTimestamp"):
            raise CheckError(
                f"{name} is already cancelled, and is removed when its pods have ended"
            )
        with _refusals("to delete it", name):
            self._delete_job_set(name)

    def log(self, name: str, worker: int, *, follow: bool) -> Iterator[str]:
        """The log of a worker of the job, line by line; of several attempts, the last."""
        self._job(name)
        pods = [
            pod
            for pod in listed_items(
                asked(
                    self._core.list_namespaced_pod,
                    self.namespace,
                    label_selector=f"{names.JOB_SET_LABEL}={name}",
                )
            )
            if (pod["metadata"].get("annotations") or {}).get(names.COMPLETION_INDEX) == str(worker)
        ]
        if not pods:
            raise CheckError(
                f"{name} has no worker {worker} now: gpu-cluster job list shows its progress"
            )
        last = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        with _refusals("to read its log", name):
            try:
                answer = self._core.read_namespaced_pod_log(
                    last["metadata"]["name"], self.namespace, follow=follow, _preload_content=False,
                    _request_timeout=None if follow else TIMEOUT_SECONDS,
                )  # fmt: skip
            except ApiException as error:
                if error.status != 404 and error.status < 500:
                    raise
                node = (last.get("spec") or {}).get("nodeName") or "of it"
                # What the API server says of a missing node names it as if it were the pod.
                why = "" if error.status == 404 else f": {_message(error)}"
                raise CheckError(
                    f"{name}: node {node} has no log of worker {worker}, pod "
                    f"{last['metadata']['name']}{why}; nodes that no longer exist "
                    "and nodes of a rehearsal, on which no program runs, have no logs"
                ) from None
            for line in answer:
                yield line.decode(errors="replace").rstrip("\n")

    def _taken(self, job: Job) -> CheckError:
        return CheckError(
            f"{job.name}: namespace {self.namespace} already has a job of that name; cancel it, "
            "or choose another name"
        )

    def _job(self, name: str) -> Object:
        job_sets = {job_set["metadata"]["name"]: job_set for job_set in self.jobs()}
        if name not in job_sets:
            have = ", ".join(sorted(job_sets)) or "none"
            raise CheckError(
                f"namespace {self.namespace} has no job {name}; its jobs: {have}; give --namespace "
                "if it is in another"
            )
        return job_sets[name]

    def _made(self, obj: Object) -> bool:
        """Creates a prerequisite of a job; False if one is left from a submit that was killed.
        Raises ApiException if it belongs to something else."""
        try:
            self._ask("create", obj, obj)
        except ApiException as error:
            if error.status != 409 or not self._is_left(obj):
                raise
            return False
        return True

    def _is_left(self, obj: Object) -> bool:
        """Whether it was submitted, and is not owned by a job."""
        with suppress(ApiException):
            metadata = self._ask("read", obj).metadata
            return SUBMITTED in (metadata.labels or {}) and not metadata.owner_references
        return False

    def _ask(self, verb: str, obj: Object, *body: Object) -> Any:
        api, noun = {
            "ConfigMap": (self._core, "config_map"),
            "NetworkPolicy": (self._networking, "network_policy"),
            "ResourceClaimTemplate": (self._resource, "resource_claim_template"),
        }[obj["kind"]]
        name = () if verb == "create" else (obj["metadata"]["name"],)
        call = getattr(api, f"{verb}_namespaced_{noun}")
        return call(*name, self.namespace, *body, _request_timeout=TIMEOUT_SECONDS)

    def _create_job_set(self, job_set: Object) -> Object:
        created: Object = self._custom.create_namespaced_custom_object(
            names.JOB_SET_GROUP, names.JOB_SET_VERSION, self.namespace, _PLURAL, job_set,
            _request_timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
        return created

    def _delete_job_set(self, name: str) -> None:
        self._custom.delete_namespaced_custom_object(
            names.JOB_SET_GROUP, names.JOB_SET_VERSION, self.namespace, _PLURAL, name,
            propagation_policy="Foreground", _request_timeout=TIMEOUT_SECONDS,
        )  # fmt: skip


def job_state(job: Object) -> str:
    """The state of a JobSet, in a word or two."""
    if job["metadata"].get("deletionTimestamp"):
        return "ending"
    status = job.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition["type"] in ("Completed", "Failed") and condition["status"] == "True":
            return str(condition["type"]).lower()
    if (job.get("spec") or {}).get("suspend"):
        queue = (job["metadata"].get("labels") or {}).get(names.QUEUE_LABEL)
        return f"waits in queue {queue}" if queue else "suspended"
    workers: Object = next(
        (part for part in status.get("replicatedJobsStatus") or [] if part["name"] == WORKERS), {}
    )
    return "running" if workers.get("ready") else "starting"


def row(job: Object) -> dict[str, Any]:
    """The row of a JobSet in `job list`."""
    (workers,) = [part for part in job["spec"]["replicatedJobs"] if part["name"] == WORKERS] or [{}]
    labels = job["metadata"].get("labels") or {}
    template = (workers.get("template") or {}).get("spec") or {}
    return {
        "namespace": job["metadata"].get("namespace", ""),
        "name": job["metadata"]["name"],
        "queue": labels.get(names.QUEUE_LABEL, ""),
        "nodes": template.get("completions", ""),
        "state": job_state(job),
        "restarts": (job.get("status") or {}).get("restarts", 0),
        "submitted": labels.get(SUBMITTED) == "true",
        "created": job["metadata"].get("creationTimestamp", ""),
    }


def _quietly(call: Callable[..., object], *arguments: object) -> None:
    """Cleans up; errors of this call are ignored, because the first error is reported."""
    with suppress(ApiException, urllib3.exceptions.HTTPError, OSError):
        call(*arguments)


@contextmanager
def _refusals(what: str, job: str = "", fix: str = "") -> Iterator[None]:
    """Raises CheckError if the cluster refuses `what`, or does not respond; `fix`: a hint for users
    who lack a permission."""
    about = f"{job}: " if job else ""
    try:
        yield
    except ApiException as error:
        raise CheckError(f"{about}{_refused(error, what, fix)}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        message = " ".join(str(error).split())
        raise CheckError(f"{about}the cluster does not respond: {message}") from None


def _refused(error: ApiException, what: str, fix: str) -> str:
    if error.status in (401, 403):
        who = "the cluster's administrators"
        return f"you are not allowed {what}: HTTP {error.status}; {fix}ask {who}"
    return f"the cluster refuses it: {_message(error)}"


def _message(error: ApiException) -> str:
    try:
        text = json.loads(error.body)["message"]
    except (ValueError, TypeError, KeyError):
        text = error.reason
    return " ".join(str(text).split())
