"""The results of the GPU acceptance test, from the logs of its Jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

import kubernetes.client

from gpu_cluster.components.catalog import kubernetes as names
from gpu_cluster.components.gpu.acceptance_args import GpuTestArgs, job_name
from gpu_cluster.components.gpu.acceptance_program.report import result_in, text
from gpu_cluster.stacks.definition.settings import NOWHERE, config_of, settings_of
from gpu_cluster.stacks.live.cluster import asked, client_of, listed_items
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode, worst

Object = Mapping[str, Any]

_LINES = 2000
"""Lines of a log to read: the program prints fewer, but libraries may add some."""


def answer(stack: str, kubeconfig: str) -> Answer:
    """Exit code, document and text. Raises CheckError if the cluster does not answer."""
    args = settings_of(stack, config_of(stack), kubeconfig=NOWHERE).gpu_test
    if args is None:
        raise CheckError(
            f"Pulumi.{stack}.yaml has no gpu-cluster:gpuTest: name pools and an image there, and "
            "run pulumi up"
        )
    return judged(stack, outcomes(args, kubeconfig))


def judged(stack: str, pools: Sequence[Mapping[str, Any]]) -> Answer:
    """Exit code, document and text of the pools' results."""
    return exit_code(pools), {"stack": stack, "pools": pools}, "\n\n".join(map(_text, pools))


def outcomes(args: GpuTestArgs, kubeconfig: str) -> list[dict[str, Any]]:
    """The result of each pod of each pool's Job, according to the cluster."""
    client = client_of(kubeconfig)
    return [
        _node(client, args, pool, number) for pool in args.pools for number in range(args.nodes)
    ]


def exit_code(pools: Sequence[Mapping[str, Any]]) -> ExitCode:
    """The worst exit code of the pools: a broken GPU counts before an unknown one."""
    return worst(pool["exit"] for pool in pools)


def outcome(
    pool: str, job: Object | None, pods: Sequence[Object], log: str, unread: str = ""
) -> dict[str, Any]:
    """The result of one pool's Job: the program's own document, or why there is none.

    `unread`: why its log could not be read.
    """
    document = result_in(log)
    if document is not None:
        return {"pool": pool, "exit": document["verdict"]["exit"], "result": document}
    return {
        "pool": pool,
        "exit": ExitCode.UNKNOWN,
        "result": None,
        "why": _why(pool, job, pods, unread),
    }


def newest(pods: Sequence[Object]) -> list[Object]:
    """The most recently created pod, in a list; empty if there is none."""
    return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))[-1:]


def _why(pool: str, job: Object | None, pods: Sequence[Object], unread: str) -> str:
    name = job_name(pool)
    if job is None:
        return f"Job {name} does not exist: run pulumi up"
    ended = {condition["type"] for condition in (job.get("status") or {}).get("conditions") or []}
    if not pods and ended & {"Complete", "Failed"}:
        return (
            f"Job {name} has ended, and its pod was removed with its node: raise "
            "gpuTest.generation, run pulumi up, and ask again while the node is running"
        )
    if not pods:
        where = job["metadata"]["namespace"]
        return f"Job {name} has no pod: see kubectl describe job {name} --namespace {where}"
    (pod,) = pods
    status = pod.get("status", {})
    phase = status.get("phase", "Unknown")
    if phase in ("Pending", "Running"):
        message = next(
            (row["message"] for row in status.get("conditions", []) if row.get("message")), ""
        )
        return f"Job {name} is not done: its pod is {phase}" + (f" ({message})" if message else "")
    message = status.get("message") or _ended(status)
    came = f": its log cannot be read ({unread}), and" if unread else " left no result:"
    return f"Job {name}{came} its pod is {phase}" + (f" ({message})" if message else "")


def _ended(status: Object) -> str:
    for container in status.get("containerStatuses", []):
        state = container.get("state", {}).get("terminated") or {}
        if state:
            parts = [str(state.get("reason", "")), f"exit code {state.get('exitCode')}"]
            return ", ".join(word for word in parts if word)
    return ""


def _node(client: Any, args: GpuTestArgs, pool: str, number: int) -> dict[str, Any]:
    batch, core = kubernetes.client.BatchV1Api(client), kubernetes.client.CoreV1Api(client)
    name = job_name(pool)
    jobs = listed_items(
        asked(batch.list_namespaced_job, args.namespace, field_selector=f"metadata.name={name}")
    )
    selector = f"job-name={name},{names.COMPLETION_INDEX}={number}"
    pods = newest(
        listed_items(asked(core.list_namespaced_pod, args.namespace, label_selector=selector))
    )
    log = unread = ""
    for pod in pods:
        if pod.get("status", {}).get("phase") in ("Running", "Succeeded", "Failed"):
            try:
                ask, name_ = core.read_namespaced_pod_log, pod["metadata"]["name"]
                log = asked(ask, name_, args.namespace, tail_lines=_LINES).decode(errors="replace")
            except CheckError as error:
                # Its node is gone, or it is simulated: the pod's status still shows how it ended.
                unread = str(error)
    return outcome(pool, jobs[0] if jobs else None, pods, log, unread)


def _text(pool: Mapping[str, Any]) -> str:
    if pool["result"] is None:
        return f"pool {pool['pool']}: {pool['why']}"
    return text(pool["result"])
