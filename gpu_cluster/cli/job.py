"""`gpu-cluster job`: training jobs for users of a stack's cluster who do not have the stack."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpu_cluster.cli.options import STACK, json_option
from gpu_cluster.cli.output import for_terminal, say
from gpu_cluster.stacks.outcome import Answer, ExitCode


@click.group()
def job() -> None:
    """Training jobs for users of a cluster, who only need a kubeconfig and a job file."""


def _where(command: Any) -> Any:
    """The options that every sub-command has."""
    command = click.option(
        "-n", "--namespace", default="default", show_default=True,
        help="A namespace whose jobs a queue accepts.",
    )(command)  # fmt: skip
    command = click.option(
        "--rehearsal", type=STACK, metavar="STACK",
        help="Ask this stack's rehearsal that was kept running.",
    )(command)  # fmt: skip
    return click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Default: $KUBECONFIG or ~/.kube/config.",
    )(command)


def _asked(
    name: str, ask: Callable[[Any], Answer], *, kubeconfig: Path | None, rehearsal: str | None,
    namespace: str, as_json: bool = False,
) -> ExitCode:  # fmt: skip
    from gpu_cluster.stacks.jobs.cluster import JobCluster, kubeconfig_text
    from gpu_cluster.stacks.live.cluster import kubeconfig_of

    if rehearsal and kubeconfig:
        raise click.UsageError("give --kubeconfig or --rehearsal, not both")

    def answer() -> Answer:
        content = (
            kubeconfig_of(rehearsal, None, rehearsal=True)
            if rehearsal
            else kubeconfig_text(kubeconfig)
        )
        return ask(JobCluster(content, namespace))

    return say(f"job {name}", answer, as_json=as_json)


@job.command(epilog="Example: gpu-cluster job submit first.yaml --namespace team")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_where
@click.option("--dry-run", is_flag=True, help="Check the file without submitting anything.")
@json_option
def submit(file: Path, dry_run: bool, **where: Any) -> ExitCode:
    """Submit the training jobs of FILE, in the format of a stack's file.

    Exit code 2: a job could never run there (its pool, GPUs, queue, image, account or volumes), so
    that none is submitted; or the cluster refuses one, and those after it are not submitted.
    """
    if not file.is_file():
        raise click.BadParameter(f"File '{file}' does not exist.", param_hint="FILE")

    def ask(cluster: Any) -> Answer:
        from gpu_cluster.stacks.jobs.submitted import jobs_in

        jobs = jobs_in(file, cluster.published(), cluster.namespace)
        lines = []
        for task in jobs:
            (cluster.check_free if dry_run else cluster.submit)(task)
            lines.append(f"{task.name}: " + ("would be accepted" if dry_run else "submitted"))
        document = {"jobs": [task.name for task in jobs], "submitted": not dry_run}
        return ExitCode.OK, document, "\n".join(lines)

    return _asked("submit", ask, **where)


@job.command("list", epilog="Example: gpu-cluster job list --namespace team")
@_where
@click.option("-A", "--all-namespaces", is_flag=True, help="List those of every namespace.")
@json_option
def listed(all_namespaces: bool, **where: Any) -> ExitCode:
    """List the training jobs of a namespace, or of all, and their progress."""

    def ask(cluster: Any) -> Answer:
        from gpu_cluster.stacks.jobs.cluster import row
        from gpu_cluster.stacks.table import table

        rows = [row(job_set) for job_set in cluster.jobs(everywhere=all_namespaces)]
        text = (
            "no jobs in any namespace"
            if all_namespaces
            else f"no jobs in namespace {cluster.namespace}; --namespace names another one, "
            "--all-namespaces lists those of all"
        )
        if rows:
            keys = ["name", "queue", "nodes", "state", "restarts", "created"]
            keys = ["namespace", *keys] if all_namespaces else keys
            text = table(keys, [[job_set[key] for key in keys] for job_set in rows])
        return ExitCode.OK, {"jobs": rows}, text

    return _asked("list", ask, **where)


@job.command(epilog="Example: gpu-cluster job logs first --follow")
@click.argument("name")
@_where
@click.option("--worker", type=click.IntRange(0), default=0, show_default=True, help="Its index.")
@click.option("-f", "--follow", is_flag=True, help="Continue until the worker ends.")
def logs(name: str, worker: int, follow: bool, **where: Any) -> ExitCode:
    """Print the log of a worker of the job NAME; the first, with rank 0, prints the loss."""

    def ask(cluster: Any) -> Answer:
        for line in cluster.log(name, worker, follow=follow):
            click.echo(for_terminal(line, sys.stdout))
        return ExitCode.OK, {}, ""

    return _asked("logs", ask, **where)


@job.command(epilog="Example: gpu-cluster job startup first --namespace team")
@click.argument("name")
@_where
@json_option
def startup(name: str, **where: Any) -> ExitCode:
    """Show where the time went until the containers of NAME had started.

    NAME is a training job, a workload or a service. For each pod: the seconds until it was on a
    node, of its image pulls, and until its containers had started; then the timeline of the
    slowest. The cluster deletes events after an hour by default: what is unknown is listed.
    """

    def ask(cluster: Any) -> Answer:
        from gpu_cluster.stacks.jobs.startup import answer

        return answer(cluster, name)

    return _asked("startup", ask, **where)


@job.command(epilog="Example: gpu-cluster job cancel first")
@click.argument("name")
@_where
def cancel(name: str, **where: Any) -> ExitCode:
    """Delete the job NAME with its pods, unless the stack declares it."""

    def ask(cluster: Any) -> Answer:
        cluster.cancel(name)
        return ExitCode.OK, {"cancelled": name}, f"{name}: cancelled"

    return _asked("cancel", ask, **where)
