"""Arguments that several commands have."""

import click
from click.shell_completion import CompletionItem

from gpu_cluster.stacks.definition.names import ROOT, StackError, stack_name


class _Stack(click.ParamType[str]):
    """A valid name of a stack."""

    name = "stack"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return stack_name(value)
        except StackError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        names = (file.name.split(".", 1)[1] for file in ROOT.glob("Pulumi.*.yaml"))
        stacks = sorted(name.removesuffix(".yaml") for name in names)
        return [CompletionItem(name) for name in stacks if name.startswith(incomplete)]


STACK = _Stack()
stack_argument = click.argument("stack", type=STACK)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
plugins_option = click.option(
    "--plugins", type=click.Choice(["auto", "official", "offline"]), default="auto",
    show_default=True,
    help="Which provider plugins are used; auto: official ones of the SDK's major version.",
)  # fmt: skip
rehearsal_option = click.option(
    "--rehearsal", is_flag=True, help="Use the stack's rehearsal that was kept running."
)
trust_option = click.option(
    "--trust-kubeconfig", is_flag=True,
    help="Run the command by which a kubeconfig in the stack's file signs in, and send the "
    "credential to the server that it names.",
)  # fmt: skip
