"""Commands for use before a stack is up: `gpu-cluster validate`, `offers`, `cost` and so on."""

import click

from gpu_cluster.cli.options import json_option, rehearsal_option, stack_argument, trust_option
from gpu_cluster.cli.output import say
from gpu_cluster.stacks.outcome import Answer, ExitCode


@click.command(epilog="Example: gpu-cluster validate dev")
@stack_argument
@json_option
def validate(stack: str, as_json: bool) -> ExitCode:
    """Show what is wrong in the file of STACK, each problem with its line and column.

    Problems that may depend on another one are shown once that one is corrected: run it again
    after each correction.

    Works offline, without the engine or a cluster. Problems with a cloud, a quota or a price are
    shown by other commands.
    """
    from gpu_cluster.cli.ceiling import kept_running, line
    from gpu_cluster.components.settings.load import warned
    from gpu_cluster.stacks.cost.stack_cost import bill_at
    from gpu_cluster.stacks.definition import validation
    from gpu_cluster.stacks.definition.settings import NOWHERE, config_of, flat, settings_of

    def ask() -> Answer:
        code, document, text = validation.answer(stack)
        if code is not ExitCode.OK:
            return code, {**document, "warnings": []}, text
        config = config_of(stack)
        settings = settings_of(stack, config, kubeconfig=NOWHERE)
        warnings = warned(flat(config), settings)
        line_ = kept_running(stack, settings)
        if line_:  # Every preview refuses the stack.
            code, text = ExitCode.FINDING, ""
        lines = [text, *(f"warning: {warning}" for warning in warnings)]
        lines += [line(stack, bill_at(stack, config)), *line_]
        return code, {**document, "warnings": warnings}, "\n".join(filter(None, lines))

    return say("validate", ask, as_json=as_json)


@click.command(epilog="Example: gpu-cluster offers --gpu l4 --region europe-west4")
@click.option(
    "--gpu",
    metavar="NAME",
    help="A model or machine type such as l4, h100 or g5.xlarge; default: all.",
)
@click.option("--region", metavar="PLACE", help="A region, or a zone of Google Cloud.")
@json_option
def offers(gpu: str | None, region: str | None, as_json: bool) -> ExitCode:
    """List the machines with a GPU: price, quota and zones, from the catalog, by cloud.

    Works offline. Unknown values are marked; below the table are the sources and their dates.
    """
    from gpu_cluster.stacks.cost import gpu_offers

    return say("offers", lambda: gpu_offers.answer(gpu, region), as_json=as_json)


def _dollars(_: object, __: object, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        dollars = float(text)
    except ValueError:
        dollars = -1.0
    if not 0 <= dollars < float("inf"):
        raise click.BadParameter(f"{text} is not a valid amount; give dollars a month, such as 500")
    return dollars


@click.command(epilog="Example: gpu-cluster cost train --compare origin/main --ceiling 50000")
@stack_argument
@click.option("--compare", metavar="REV", help="A git revision to compare with.")
@click.option(
    "--ceiling",
    callback=_dollars,
    metavar="DOLLARS",
    help="The maximum cost of a month with every pool at its maximum; above it, the exit code is "
    "1.",
)
@json_option
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print a row per item as CSV, for a spreadsheet."
)
def cost(
    stack: str, compare: str | None, ceiling: float | None, as_json: bool, as_csv: bool
) -> ExitCode:
    """Show what STACK costs per hour and month, every pool at its minimum and maximum."""
    from gpu_cluster.cli.ceiling import line
    from gpu_cluster.stacks.cost.cost_text import csv_rows
    from gpu_cluster.stacks.cost.stack_cost import answer, bill_at
    from gpu_cluster.stacks.definition.settings import config_of

    if as_csv and (as_json or compare is not None):
        raise click.UsageError(
            "--csv cannot be combined with --json or --compare; drop one of the two"
        )

    def ask() -> Answer:
        code, document, text = answer(stack, compare=compare, ceiling=ceiling)
        if verdict := line(stack, bill_at(stack, config_of(stack))):
            text = f"{text}\n{verdict}"
        return code, document, csv_rows(document["items"]) if as_csv else text

    return say("cost", ask, as_json=as_json)


@click.command(epilog="Example: gpu-cluster images dev --json")
@stack_argument
@json_option
def images(stack: str, as_json: bool) -> ExitCode:
    """List the images that the pods of STACK run, and where they are pulled from.

    With images.registry set, the commands that copy each image there follow.
    """
    from gpu_cluster.stacks.images import answer

    return say("images", lambda: answer(stack), as_json=as_json)


@click.command(epilog="Example: gpu-cluster capacity train-gke --json")
@stack_argument
@rehearsal_option
@click.option("--endpoint", metavar="URL", help="A simulator of the cloud's API to query instead.")
@trust_option
@json_option
def capacity(
    stack: str, rehearsal: bool, endpoint: str | None, trust_kubeconfig: bool, as_json: bool
) -> ExitCode:
    """Check whether the cloud lets the pools of STACK grow to maxNodes.

    The GPU quotas and what is left of them; which zones offer the pools' machines; whether the
    reservations that pools name exist in that zone with that machine type, how many machines are
    free, and from when to when; if one does not exist, what can be bought instead. The cloud's
    estimates of whether Spot machines are free. Whether an existing network has what a cluster
    needs, and on AWS whether the current identity may use the cluster. Whether an existing cluster
    already has Kueue or JobSet, which the stack would not replace.
    """
    from gpu_cluster.stacks.capacity import stack_capacity
    from gpu_cluster.stacks.definition.files import as_rehearsed

    def ask() -> Answer:
        with as_rehearsed(stack, rehearsal):
            url = stack_capacity.rehearsed_endpoint(stack) if rehearsal else endpoint
            return stack_capacity.answer(stack, url, rehearsal=rehearsal, trusted=trust_kubeconfig)

    return say("capacity", ask, as_json=as_json)
