"""`gpu-cluster cost`."""

import click

from cli.options import json_option, stack_argument
from cli.output import say
from stacks.outcome import Answer, ExitCode


def _dollars(_: object, __: object, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        dollars = float(text)
    except ValueError:
        dollars = -1.0
    if not 0 <= dollars < float("inf"):
        raise click.BadParameter(f"{text} is no amount; give dollars a month, such as 500")
    return dollars


@click.command(epilog="Example: gpu-cluster cost train --compare origin/main --ceiling 50000")
@stack_argument
@click.option("--compare", metavar="REV", help="A git revision to compare with.")
@click.option(
    "--ceiling",
    callback=_dollars,
    metavar="DOLLARS",
    help="What a month may cost with every pool at its maximum; above it, the exit code is 1.",
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each item, for a spreadsheet.")
def cost(
    stack: str, compare: str | None, ceiling: float | None, as_json: bool, as_csv: bool
) -> ExitCode:
    """What STACK costs per hour and month by list prices, every pool at its minimum and maximum."""
    from cli.ceiling import line
    from stacks.cost.cost_text import csv_rows
    from stacks.cost.stack_cost import answer, bill_at
    from stacks.settings import config_of

    if as_csv and (as_json or compare is not None):
        raise click.UsageError("--csv excludes --json and --compare; drop one of the two")

    def ask() -> Answer:
        code, document, text = answer(stack, compare=compare, ceiling=ceiling)
        if said := line(stack, bill_at(stack, config_of(stack))):
            text = f"{text}\n{said}"
        return code, document, csv_rows(document["items"]) if as_csv else text

    return say("cost", ask, as_json=as_json)
