"""`gpu-cluster prove`."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpu_cluster.cli.options import json_option, rehearsal_option, stack_argument, trust_option
from gpu_cluster.cli.output import aside, for_terminal
from gpu_cluster.stacks.definition.names import ROOT
from gpu_cluster.stacks.outcome import CheckError

if TYPE_CHECKING:
    from gpu_cluster.components.settings.model import Settings
    from gpu_cluster.stacks.cost.bill import Bill
    from gpu_cluster.stacks.proof.limits import Limits
    from gpu_cluster.stacks.proof.proof import Proof

_POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command(epilog="Example: gpu-cluster prove trial --max-cost 20 --max-minutes 180")
@stack_argument
@click.option(
    "--max-cost",
    type=_POSITIVE,
    metavar="DOLLARS",
    help="End when the run may have cost this much at list prices, with every pool full.",
)
@click.option(
    "--max-minutes", type=_POSITIVE, metavar="MINUTES", help="End the run after this time."
)
@click.option(
    "--hourly",
    type=_POSITIVE,
    metavar="DOLLARS",
    help="The price of the whole stack per hour; default: that of gpu-cluster cost.",
)
@click.option(
    "--pool", "pools", multiple=True, metavar="NAME",
    help="Run jobs on this pool only; repeatable; default: every GPU pool.",
)  # fmt: skip
@click.option(
    "--unprotect",
    is_flag=True,
    help="Create the stack with deletionProtection: false, so that it can be destroyed.",
)
@click.option("--yes", is_flag=True, help="Do not ask before anything is created.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the report; default: .proof/STACK.",
)
@click.option("--endpoint", metavar="URL", help="A simulator of the cloud's API for capacity.")
@rehearsal_option
@trust_option
@json_option
def prove(stack: str, folder: Path | None, rehearsal: bool, as_json: bool, **given: Any) -> int:
    """Run STACK once in the real cloud, from an empty stack, and destroy it: the first real run.

    Capacity, up, a GPU job, the GPU acceptance test, a second up, every pool from 0 to 1 to 0
    nodes, a change in place, leftovers, destroy. A failure, Ctrl-C or a limit ends the steps and
    begins the destroy; a second Ctrl-C during it, or the end of this machine, leaves resources
    running. Writes a report without secrets.

    Exit code 1: a step failed. 2: it did not begin, or a step could not tell. 3: it was stopped. 4:
    something is left in the cloud.
    """
    folder = (folder or ROOT / (".rehearsal" if rehearsal else ".proof") / stack).absolute()
    with aside(as_json=as_json):
        if rehearsal:
            return _in_rehearsal(stack, folder / "proof", given, as_json=as_json)
        simulated = given["endpoint"] is not None or "REHEARSAL" in os.environ
        proof, bill = _confirmed(stack, folder, given, simulated=simulated)
        try:
            proof.run()
        finally:  # Also after a defect of a step, what is left has to be shown.
            report = _write(proof, bill, simulated=simulated)
    if as_json:
        print(json.dumps({"command": "prove", **report}, indent=1))
    return proof.code


def _in_rehearsal(stack: str, folder: Path, given: Mapping[str, Any], *, as_json: bool) -> int:
    from gpu_cluster.cli.rehearsed import in_rehearsal

    words = ["--folder", str(folder), *(["--json"] if as_json else [])]
    for option in click.get_current_context().command.params:
        value = given.get(str(option.name))
        if value is True:
            words += [option.opts[0]]
        elif value and option.name != "endpoint":
            values = value if isinstance(value, tuple) else [value]
            words += [word for item in values for word in (option.opts[0], str(item))]
    return in_rehearsal("prove", stack, *words)


def _confirmed(
    stack: str, folder: Path, given: Mapping[str, Any], *, simulated: bool
) -> "tuple[Proof, Bill]":
    """The proof that the user has confirmed, and the stack's bill. Raises CheckError."""
    from gpu_cluster.components.catalog.clouds import CLOUDS
    from gpu_cluster.components.platforms import PLATFORMS
    from gpu_cluster.stacks.capacity import stack_capacity
    from gpu_cluster.stacks.cost.stack_cost import bill_at
    from gpu_cluster.stacks.definition.files import read_stack
    from gpu_cluster.stacks.definition.settings import NOWHERE, config_of, settings_of
    from gpu_cluster.stacks.engine.pulumi import EngineError, Pulumi
    from gpu_cluster.stacks.live.cluster import refuse_missing
    from gpu_cluster.stacks.proof.cluster import ProvenCluster
    from gpu_cluster.stacks.proof.limits import longest_wait
    from gpu_cluster.stacks.proof.log_group import remaining_logs
    from gpu_cluster.stacks.proof.proof import Proof, refuse_existing
    from gpu_cluster.stacks.proof.variants import refuse_encrypted

    program = Path.cwd() if Path("Pulumi.yaml").exists() else ROOT
    document = read_stack(program, stack)
    refuse_encrypted(stack, document.get("config") or {})
    config = config_of(stack)
    settings = settings_of(stack, config, kubeconfig=NOWHERE)
    _check(stack, settings, given)
    if (cloud := PLATFORMS[settings.platform].cloud) and not simulated:
        refuse_missing(CLOUDS[cloud].command)
    try:
        pulumi = Pulumi.signed_in(program, stack)
    except EngineError as error:
        raise CheckError(str(error)) from None
    refuse_existing(pulumi)
    bill = bill_at(stack, config)
    limits = _limits(bill, given)
    _confirm(stack, bill, limits, longest_wait(settings), yes=given["yes"])
    for part in (folder, folder / "logs"):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    endpoint, trusted = given["endpoint"], given["trust_kubeconfig"]
    proof = Proof(
        stack=stack,
        pulumi=pulumi,
        document=document,
        settings=settings,
        limits=limits,
        folder=folder,
        only=given["pools"],
        capacity=lambda: stack_capacity.answer(stack, endpoint, trusted=trusted),
        remaining=lambda: remaining_logs(settings, endpoint),
        connect=lambda kubeconfig: ProvenCluster(stack, kubeconfig),
        say=_say,
    )
    return proof, bill


def _check(stack: str, settings: "Settings[Any]", given: Mapping[str, Any]) -> None:
    from gpu_cluster.stacks.proof.variants import protection

    if unknown := [pool for pool in given["pools"] if pool not in settings.pools]:
        have = ", ".join(settings.pools) or "none"
        raise CheckError(f"--pool {unknown[0]}: is not a pool of {stack}; its pools: {have}")
    if (protected := protection(settings)) and not given["unprotect"]:
        raise CheckError(
            f"Pulumi.{stack}.yaml: {protected} is on, and this command destroys the stack at the "
            "end; add --unprotect to create it without protection, or set it to false in the file"
        )


def _limits(bill: "Bill", given: Mapping[str, Any]) -> "Limits":
    """The limits that are given, or that the user is asked for once the price is shown."""
    from gpu_cluster.stacks.cost.cost_text import money
    from gpu_cluster.stacks.proof.limits import Limits, hourly_price

    hourly = hourly_price(bill, given["hourly"])
    idle = bill.total("configured", "idle").hour
    print(f"price: {money(idle)} an hour idle, {money(hourly)} an hour with every pool full")
    limits = {"--max-cost": given["max_cost"], "--max-minutes": given["max_minutes"]}
    missing = [name for name, value in limits.items() if value is None]
    if missing and not sys.stdin.isatty():
        raise CheckError(f"there is no terminal to ask for {' and '.join(missing)}; give them")
    minutes = given["max_minutes"] or click.prompt(
        "most minutes", default=180.0, type=_POSITIVE, err=True
    )
    enough = round(hourly * minutes / 60 + 0.5)
    cost = given["max_cost"] or click.prompt(
        "most dollars", default=float(max(enough, 1)), type=_POSITIVE, err=True
    )
    found = Limits(cost=cost, minutes=minutes, hourly=hourly)
    found.check()
    return found


def _confirm(stack: str, bill: "Bill", limits: "Limits", longest: int, *, yes: bool) -> None:
    from gpu_cluster.stacks.cost.cost_text import money

    most = money(limits.spent(60 * limits.allowed))
    for item in bill.items:
        print(f"  {item.name}: {item.what}")
    print(
        f"{stack} will be created, tested and destroyed within {limits.allowed:.0f} minutes, for "
        f"at most {most} and what is billed by use; a destroy that takes longer is not cut short, "
        f"and at a limit an operation that has begun may go on for up to {longest} minutes"
    )
    if yes:
        return
    if not sys.stdin.isatty():
        raise CheckError("there is no terminal to ask whether to begin; give --yes")
    if not click.confirm("Begin?", err=True):
        raise CheckError("not begun, and nothing was created")


def _write(proof: "Proof", bill: "Bill", *, simulated: bool) -> dict[str, Any]:
    """Writes the report; returns its document."""
    from gpu_cluster.stacks.definition.files import stack_file
    from gpu_cluster.stacks.proof.report import document, markdown

    rehearsal = proof.folder.parent if simulated else ROOT / ".rehearsal" / proof.stack
    file = stack_file(ROOT, proof.stack)
    report = document(proof, bill, rehearsal / "report.json", file, simulated=simulated)
    (proof.folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (proof.folder / "report.md").write_text(markdown(report))
    for line in proof.left:
        _say(f"left: {line}")
    _say(f"proof of {proof.stack}: {report['verdict']}, after {proof.seconds / 60:.0f} min and "
         f"at most ${report['cost']['atMost']:.2f}; {proof.folder / 'report.md'}")  # fmt: skip
    return report


def _say(line: str) -> None:
    """Prints a line. A reader or a terminal that is gone does not end the destroy."""
    with suppress(OSError, RuntimeError):  # The second in a signal's handler, if it interrupts one.
        print(for_terminal(line, sys.stdout), flush=True)
