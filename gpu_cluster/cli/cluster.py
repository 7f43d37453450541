"""`gpu-cluster gpus`, `leftovers` and `test-gpus`: commands that query a stack's cluster."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpu_cluster.cli.options import json_option, rehearsal_option, stack_argument, trust_option
from gpu_cluster.cli.output import say
from gpu_cluster.stacks.outcome import Answer, ExitCode


def _asks(name: str, module: str) -> Callable[[Callable[[], None]], click.Command]:
    """Creates a command from a docstring: it passes the cluster to `answer` in `module`."""

    def command(described: Callable[[], None]) -> click.Command:
        def run(
            stack: str,
            rehearsal: bool,
            kubeconfig: Path | None,
            trust_kubeconfig: bool,
            as_json: bool,
        ) -> ExitCode:
            def ask() -> Answer:
                return _answer(module, stack, kubeconfig, rehearsal, trust_kubeconfig)

            return say(name, ask, as_json=as_json)

        decorated: Any = trust_option(json_option(run))
        decorated = click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Use the cluster of this kubeconfig instead of the stack's output.",
        )(decorated)
        decorated = stack_argument(rehearsal_option(decorated))
        example = f"Example: gpu-cluster {name} dev --rehearsal"
        return click.command(name, help=described.__doc__, epilog=example)(decorated)

    return command


def _answer(
    module: str, stack: str, kubeconfig: Path | None, rehearsal: bool, trusted: bool
) -> Answer:
    from gpu_cluster.stacks.definition.files import as_rehearsed
    from gpu_cluster.stacks.definition.settings import config_of
    from gpu_cluster.stacks.live.cluster import kubeconfig_of

    if rehearsal and kubeconfig is not None:
        raise click.UsageError("give --kubeconfig or --rehearsal, not both")
    with as_rehearsed(stack, rehearsal):
        config_of(stack)  # Errors in the stack's file are reported first.
        content = kubeconfig_of(stack, kubeconfig, rehearsal=rehearsal, trusted=trusted)
        answer: Answer = importlib.import_module(module).answer(stack, content)
        return answer


@_asks("gpus", "gpu_cluster.stacks.live.gpu_survey")
def gpus() -> None:
    """List every node's GPUs, and what the GPU nodes of STACK lack.

    Exit code 1: a GPU node lacks its label, driver, device plugin or taint, or two parties provide
    its driver or device plugin.
    """


@_asks("leftovers", "gpu_cluster.stacks.live.leftovers")
def leftovers() -> None:
    """List what a destroy of STACK would leave in the cloud.

    The cloud's controllers create load balancers, firewall rules and disks for Services, Ingresses,
    Gateways and PersistentVolumeClaims, and delete them with those objects, not with the cluster.
    Exit code 1: there are some; each is listed with the command that deletes it, and a volume or
    snapshot also with the one that keeps its data. Buckets are never listed.
    """


@_asks("test-gpus", "gpu_cluster.stacks.live.gpu_test")
def test_gpus() -> None:
    """Show what the GPU acceptance test of STACK measured.

    Exit code 1: a GPU is broken or slow. 2: one could not be measured.
    """
