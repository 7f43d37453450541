"""`gpu-cluster capacity`."""

import click

from cli.options import json_option, rehearsal_option, stack_argument, trust_option
from cli.output import say
from stacks.outcome import Answer, ExitCode


@click.command(epilog="Example: gpu-cluster capacity train-gke --json")
@stack_argument
@rehearsal_option
@click.option("--endpoint", metavar="URL", help="A simulator of the cloud's API, to ask instead.")
@trust_option
@json_option
def capacity(
    stack: str, rehearsal: bool, endpoint: str | None, trust_kubeconfig: bool, as_json: bool
) -> ExitCode:
    """Whether the cloud lets the pools of STACK grow to maxNodes.

    The GPU quotas and what is left of them; which zones offer the pools' machines; whether the
    reservations that pools name exist, in that zone, of that machine type, how many machines are
    free, and from when to when. Whether an existing network has what a cluster needs, and on AWS
    whether who signs in may use the cluster. Whether an existing cluster has a Kueue or JobSet of
    somebody else's, which the stack would not replace.
    """
    from stacks.capacity import stack_capacity

    def ask() -> Answer:
        url = stack_capacity.rehearsed_endpoint(stack) if rehearsal else endpoint
        return stack_capacity.answer(stack, url, rehearsal=rehearsal, trusted=trust_kubeconfig)

    return say("capacity", ask, as_json=as_json)
