"""`gpu-cluster`: one command for everything that is done with a stack.

To add a sub-command, write a click command in a module of `cli/` and name it in one line of
COMMANDS. The module is imported only when the sub-command runs, so that `--help` stays fast.

The command function returns an ExitCode (None is OK). It raises CheckError or its kin where a
user has to do something: `main` prints that in one line and ends with 2. A command that asks
something and prints the answer as a table or as JSON calls `cli.output.answer`, and takes its
arguments from `cli.options`. Each command's `epilog` is an example, which a test parses.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

try:
    import click
except ModuleNotFoundError as error:
    sys.exit(f"gpu-cluster needs {error.name}: make setup, or pip install -e '.[dev]'")

from stacks.outcome import CLOSED, INTERRUPTED, CheckError, ExitCode

NAME = "gpu-cluster"
HELP = ["-h", "--help"]
COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Rehearse": {
        "rehearse": ("cli.rehearse:rehearse", "a stack's whole life on this machine"),
        "down": ("cli.rehearse:down", "end the rehearsal that was kept running"),
        "list": ("cli.rehearse:listed", "the rehearsals, and whether they run"),
        "simulate": ("cli.simulate:simulate", "a cloud by itself, for any program"),
        "inventory": ("cli.rehearse:inventory", "write down an existing cluster's machines"),
    },
    "Before it is up": {
        "new": ("cli.new:new", "write the file of a new environment"),
        "validate": ("cli.validate:validate", "what is wrong in a stack's file, line by line"),
        "offers": ("cli.offers:offers", "which machines carry a GPU: price, quota, zones"),
        "cost": ("cli.cost:cost", "list prices per hour and month, at minimum and maximum size"),
        "images": ("cli.images:images", "every image of a stack, and where it is pulled from"),
        "capacity": (
            "cli.capacity:capacity",
            "whether quotas, zones and reservations let the pools grow",
        ),
    },
    "While it is up": {
        "gpus": ("cli.cluster:gpus", "every node's GPUs, and what GPU nodes lack"),
        "test-gpus": ("cli.cluster:test_gpus", "what the GPU acceptance test measured"),
        "leftovers": ("cli.cluster:leftovers", "what a destroy would leave in the cloud"),
        "recover": ("cli.recover:recover", "fix the state after a killed up or destroy"),
    },
    "For those who use the cluster": {
        "job": ("cli.job:job", "submit, list, follow and cancel training jobs"),
    },
    "For developers and shells": {
        "inject-faults": ("cli.develop:inject_faults", "every fault at every operation"),
        "bench": ("cli.develop:bench", "what the program costs in time and memory"),
        "bench-way-in": ("cli.develop:bench_way_in", "how long a newcomer waits"),
        "compare-plugins": (
            "cli.develop:compare_plugins",
            "the offline plugins with the official ones",
        ),
        "docs": ("cli.develop:docs", "write the generated pages"),
        "state-fixtures": ("cli.develop:state_fixtures", "keep the states that a version makes"),
        "ci": ("cli.ci.commands:ci", "what the workflows run"),
        "completion": ("cli.completion:completion", "what completes commands in a shell"),
    },
}
"""Heading -> command -> where it is (`module:function`), and what the list of commands says."""
RENAMED = {
    "check": "test-gpus",
    "prove": "inject-faults",
    "cards": "docs",
    "readme": "docs",
    "quota": "capacity",
}
"""What a command was called before -> what it is called now."""


class Commands(click.Group):
    """A group whose commands are imported when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for section in COMMANDS.values():
            if name in section:
                module, _, function = section[name][0].partition(":")
                command: click.Command = getattr(importlib.import_module(module), function)
                # click keeps a command's --help as it first was.
                command.context_settings.setdefault("help_option_names", HELP)
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in RENAMED:
            raise click.UsageError(f"{args[0]} is called {RENAMED[args[0]]} now", ctx)
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            raise click.NoSuchCommand(args[0], possibilities=self.list_commands(ctx)) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, meaning) for name, (_, meaning) in section.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Nobody reads any more. Else the interpreter complains once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return CLOSED
        except CheckError as error:
            print(f"{ctx.command_path} {ctx.invoked_subcommand}: {error}", file=sys.stderr)
            return ExitCode.UNKNOWN
        return code


@click.group(
    NAME,
    cls=Commands,
    context_settings={"help_option_names": HELP, "max_content_width": 100},
    epilog="Exit code 0: ok. 1: a finding. 2: it could not be done or asked.",
)
def gpu_cluster() -> None:
    """GPUs on Kubernetes, as one Pulumi stack: rehearse, price and check its environments.

    STACK is an environment, which has a file Pulumi.STACK.yaml, such as dev.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    try:
        code = gpu_cluster.main(arguments, prog_name=NAME, standalone_mode=False)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else NAME
        message = error.format_message().replace("\n", " ")
        print(f"{path}: {message} (--help says what it takes)", file=sys.stderr)
        return ExitCode.UNKNOWN
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return int(code or ExitCode.OK)
