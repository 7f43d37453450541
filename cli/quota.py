"""`gpu-cluster quota`."""

import click

from cli.options import json_option, rehearsal_option, stack_argument
from cli.output import say
from stacks.outcome import Answer, ExitCode


@click.command(epilog="Example: gpu-cluster quota train-gke --json")
@stack_argument
@rehearsal_option
@click.option("--endpoint", metavar="URL", help="A simulator of the cloud's API, to ask instead.")
@json_option
def quota(stack: str, rehearsal: bool, endpoint: str | None, as_json: bool) -> ExitCode:
    """Whether the cloud's GPU quotas let the pools of STACK grow to maxNodes.

    And whether the cloud offers their machines in their zones, whether an existing network has
    what a cluster needs, and on AWS whether who signs in may use the cluster.
    """
    from stacks.quota import stack_quota

    def ask() -> Answer:
        url = stack_quota.rehearsed_endpoint(stack) if rehearsal else endpoint
        return stack_quota.answer(stack, url)

    return say("quota", ask, as_json=as_json)
