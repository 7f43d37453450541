"""`gpu-cluster recover`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpu_cluster.cli.options import rehearsal_option, stack_argument
from gpu_cluster.stacks.definition.names import ROOT, StackError
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.stacks.outcome import ExitCode

if TYPE_CHECKING:
    from gpu_cluster.stacks.recovery.command import Recovery


@click.command(epilog="Example: gpu-cluster recover dev --adopt-orphans")
@stack_argument
@click.option(
    "--adopt-orphans",
    is_flag=True,
    help="Also adopt orphaned resources, which an earlier run created although its request was "
    "reported as failed.",
)
@click.option(
    "--yes", is_flag=True, help="Adopt what is found and unlock the state without asking."
)
@click.option("--endpoint", metavar="URL", help="A simulator of the cloud to query instead.")
@rehearsal_option
def recover(
    stack: str, adopt_orphans: bool, yes: bool, endpoint: str | None, rehearsal: bool
) -> int:
    """Repair the state of STACK after an up or destroy that was killed or failed.

    Then run that again. Resources that the cloud created and the state does not contain are
    adopted, not created a second time; a cluster or node pool whose creation did not complete is
    replaced. Exit code 2: the state is repaired, but a cloud did not answer about incomplete ones.
    """
    if rehearsal:
        from gpu_cluster.cli.rehearsed import in_rehearsal

        flags = {"--adopt-orphans": adopt_orphans, "--yes": yes}
        given = (name for name, enabled in flags.items() if enabled)
        return in_rehearsal("recover", stack, *given)
    from gpu_cluster.stacks.engine.pulumi import EngineError
    from gpu_cluster.stacks.recovery.clouds import LiveClouds
    from gpu_cluster.stacks.recovery.command import recover as put_in_order
    from gpu_cluster.stacks.recovery.engine import RecoveringPulumi

    program = Path.cwd() if Path("Pulumi.yaml").exists() else ROOT
    try:
        config = _config(program, stack)  # Errors in the stack's file are reported first.
        recovery = put_in_order(
            RecoveringPulumi.signed_in(program, stack),
            clouds=LiveClouds(config=config, endpoint=endpoint),
            adopt_orphans=adopt_orphans,
            confirm=(lambda candidates: True) if yes else _ask,
            confirm_unlock=(lambda holder: True) if yes else _is_over,
            log=lambda line: print(f"recovery of {stack}: {line}", flush=True),
        )
    except EngineError as error:
        raise StackError(str(error)) from None
    print(_text(stack, recovery))
    return ExitCode.UNKNOWN if recovery.unknown else ExitCode.OK


def _config(program: Path, stack: str) -> dict[str, str]:
    """The config of the stack's file, with a placeholder for each encrypted value; raises
    StackError if the file cannot be used."""
    from gpu_cluster.stacks.definition.files import read_stack, without_secrets
    from gpu_cluster.stacks.definition.owners import refuse_shared
    from gpu_cluster.stacks.definition.settings import flat

    config = read_stack(program, stack).get("config")
    plain = without_secrets(config) if isinstance(config, dict) else {}
    refuse_shared(program, stack, plain)
    return flat(plain)


def _ask(candidates: dict[str, str]) -> bool:
    print(
        "The interrupted run may have created these; those that exist will be adopted into the "
        "stack, and a later destroy deletes them:"
    )
    for name in candidates.values():
        print(f"  {name}")
    print("Grants and most other kinds do not record who created them: only names are compared.")
    return _yes("Were they created by this stack?")


def _is_over(holder: str) -> bool:
    print(f"The state is locked: {holder}")
    return _yes("Has that run ended, so that the state can be unlocked?")


def _yes(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        raise StackError(
            "the terminal is not interactive: read the question above, then give --yes"
        ) from None


def _text(stack: str, recovery: "Recovery") -> str:
    lines = []
    shown = [row for row in recovery.operations if not row.orphaned or row.urn in recovery.adopted]
    for operation in shown:
        if operation.urn in recovery.adopted:
            outcome = f"adopted {recovery.adopted[operation.urn]}"
        elif operation.may_be_there:
            outcome = "was not made"
        else:
            outcome = f"was {operation.operation}: read again"
        lines.append(f"  {operation.name}: {outcome}")
    lines += [
        f"  {Urn.parse(urn).label}: its creation failed, and the next up replaces it: {reason}"
        for urn, reason in recovery.failed.items()
    ]
    lines += [
        f"  {Urn.parse(urn).label}: still has GKE's default node pool, and the next up removes it"
        for urn in recovery.default_pools
    ]
    count = sum(not operation.orphaned for operation in recovery.operations)
    head = f"recovery of {stack}: {count or 'no'} interrupted operation{'s' * (count != 1)}"
    tail = [f"  look: {note}" for note in [*recovery.notes, *recovery.unknown]]
    end = "Now repeat the interrupted command." if lines else "The state is in order."
    return "\n".join([head, *lines, *tail, end])
