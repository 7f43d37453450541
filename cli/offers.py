"""`gpu-cluster offers`."""

import click

from cli.options import json_option
from cli.output import say
from stacks.outcome import ExitCode


@click.command(epilog="Example: gpu-cluster offers --gpu l4 --region europe-west4")
@click.option("--gpu", metavar="NAME", help="Such as l4, h100 or g5.xlarge; left out, all.")
@click.option("--region", metavar="PLACE", help="A region, or a zone of Google Cloud.")
@json_option
def offers(gpu: str | None, region: str | None, as_json: bool) -> ExitCode:
    """Which machines carry a GPU: price, quota and zones, from the catalog, by cloud.

    Nobody is asked. What is not known says so; below the table stand the sources and their dates.
    """
    from stacks import gpu_offers

    return say("offers", lambda: gpu_offers.answer(gpu, region), as_json=as_json)
