"""`gpu-cluster rehearse`, `down`, `list` and `inventory`."""

import json
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpu_cluster.cli.options import json_option, plugins_option, stack_argument, trust_option
from gpu_cluster.cli.output import aside, say
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode

if TYPE_CHECKING:
    from gpu_cluster.rehearsal.engine.provider_plugins import Choice
    from gpu_cluster.stacks.definition.validation import Finding

_folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder for its files; default: .rehearsal/STACK.",
)


class _Seconds(click.types.FloatParamType):
    """A float, called by its unit in errors."""

    name = "number of seconds"


def linux_only(command: Callable[..., int]) -> Callable[..., int]:
    """Refuses the command on other systems, before Linux-only modules are imported."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> int:
        if sys.platform != "linux":
            raise CheckError(
                "a rehearsal needs Linux, as its control plane and its processes do: open this "
                "folder in the container that .devcontainer describes"
            )
        return command(*args, **options)

    return run


@click.command(epilog="Example: gpu-cluster rehearse dev --keep")
@stack_argument
@click.option("--keep", is_flag=True, help="Keep it running once the workloads run.")
@click.option("--replace", is_flag=True, help="End the rehearsal that is already running.")
@click.option(
    "--deadline", type=_Seconds(), default=90.0, metavar="SECONDS", show_default=True,
    help="How long to wait for the workloads to run.",
)  # fmt: skip
@click.option(
    "--from",
    "revision",
    default="",
    metavar="REV",
    help="Rehearse a change: bring up what git revision REV declares first.",
)
@plugins_option
@click.option("--node", type=click.Choice(["gpu"]), help="Make this machine one of the nodes.")
@_folder_option
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON at the end.")
@linux_only
def rehearse(
    stack: str, keep: bool, replace: bool, deadline: float, revision: str, plugins: "Choice",
    node: str | None, folder: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Rehearse the whole life of STACK on this machine, from preview to destroy.

    It runs the real Pulumi engine and a real control plane against simulated clouds, so nothing
    costs anything. Exit code 1: the stack failed. 2: the rehearsal could not run.
    """
    if revision and node:
        raise click.UsageError("--from and --node cannot be combined; drop one of the two")
    from gpu_cluster.rehearsal import holder

    where = (folder or holder.REHEARSALS / stack).absolute()
    with aside(as_json=as_json):
        findings = _check(stack, real_node=node is not None)
    if findings:
        print("\n".join(map(str, findings)), file=sys.stderr)
        if as_json:
            document = {"ok": False, "findings": [finding.document for finding in findings]}
            print(json.dumps(document, indent=1))
        return ExitCode.FINDING
    request = holder.Wanted(
        stack=stack,
        folder=str(where),
        keep=keep,
        replace=f"gpu-cluster rehearse {stack} --replace" if replace else "",
        deadline=deadline,
        real_node=node is not None,
        revision=revision,
        plugins=plugins,
    )
    code = holder.run(request, quiet=as_json)
    if as_json and code in (ExitCode.OK, ExitCode.FINDING) and (where / "report.json").is_file():
        print((where / "report.json").read_text(), end="")
    return code


def _check(stack: str, *, real_node: bool) -> "Sequence[Finding]":
    """What is wrong in the stack's file. Raises CheckError unless it has one and, with `real_node`,
    this machine can be one of its nodes."""
    from gpu_cluster.stacks.definition.files import ROOT, read_stack
    from gpu_cluster.stacks.definition.names import IN_CHECKOUT
    from gpu_cluster.stacks.definition.validation import file_findings

    in_esc = read_stack(ROOT, stack).get("environment")  # It may have what is missing.
    if (findings := [] if in_esc else file_findings(stack)) or not real_node:
        return findings
    if not IN_CHECKOUT:
        raise CheckError("--node: needs a checkout of the repository, whose examples it runs")
    from gpu_cluster.rehearsal.gpu_node.host_node import pool_of
    from gpu_cluster.rehearsal.gpu_node.machine import NodeError, describe_machine

    try:
        pool, machine = pool_of(stack), describe_machine()
    except NodeError as error:
        raise CheckError(str(error)) from None
    print(f"this machine will be a node of pool {pool} of {stack}: {machine.description}")
    return []


@click.command(epilog="Example: gpu-cluster down dev")
@stack_argument
@_folder_option
@linux_only
def down(stack: str, folder: Path | None) -> ExitCode:
    """End the rehearsal of STACK that was kept running, and remove what it left.

    Its report is kept, for instance for a change's ticket; a second run removes it too.
    """
    from gpu_cluster.rehearsal import holder
    from gpu_cluster.rehearsal.lock import FolderError

    try:
        done, left = holder.down(stack, (folder or holder.REHEARSALS / stack).absolute())
    except FolderError as error:
        raise CheckError(f"rehearsal of {stack}: {error}") from None
    except PermissionError as error:
        raise CheckError(f"rehearsal of {stack}: {error.filename}: permission denied") from None
    print(f"rehearsal of {stack}: {done}")
    for line in left:
        print(f"its real node left {line}", file=sys.stderr)
    return ExitCode.FINDING if left else ExitCode.OK


@click.command("list", epilog="Example: gpu-cluster list --json")
@json_option
@linux_only
def listed(as_json: bool) -> ExitCode:
    """List the rehearsals of this project, whether they run, and where their reports are."""
    from gpu_cluster.rehearsal import holder

    def ask() -> Answer:
        found = list(holder.known())
        lines = [f"{stack}: {state}{where and '; '}{where}" for stack, state, where in found]
        nothing = "no rehearsal is running, and there are no reports"
        rows = [{"stack": stack, "state": state, "see": where} for stack, state, where in found]
        return ExitCode.OK, {"rehearsals": rows}, "\n".join(lines) or nothing

    return say("list", ask, as_json=as_json)


@click.command(epilog="Example: gpu-cluster inventory onprem --nodes nodes.json")
@stack_argument
@click.option(
    "--nodes",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="Output of kubectl get nodes -o json, - for standard input; default: kubectl is run.",
)
@trust_option
def inventory(stack: str, nodes: Path | None, trust_kubeconfig: bool) -> None:
    """Record the existing cluster of STACK, for rehearsals of it.

    With existing: NAME on EKS or GKE, the cloud and the cluster are queried for the cluster, its
    network and nodes, and what its owner runs in it that concerns the stack; nothing is changed
    there. Otherwise, kubectl is used to list the cluster's machines.
    """
    from gpu_cluster.rehearsal.existing.inventory_file import write_inventory

    print(f"wrote {write_inventory(stack, nodes, trusted=trust_kubeconfig)}")
