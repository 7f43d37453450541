"""`gpu-cluster`: one command for everything that can be done with a stack.

To add a sub-command, write a click command in a module of this package and add one line to
COMMANDS. The module is imported only when the sub-command runs, so that `--help` stays fast.

The command function returns an ExitCode (None is OK). It raises CheckError or a subclass if the
user has to do something: `main` prints that in one line and ends with 2. A command that prints an
answer as a table or as JSON calls `cli.output.answer`, and uses the arguments of `cli.options`.
Each command's `epilog` is an example, which a test parses.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_cluster.stacks.definition.names import IN_CHECKOUT
from gpu_cluster.stacks.outcome import CLOSED, INTERRUPTED, CheckError, ExitCode

NAME = "gpu-cluster"


def _not_set_up(error: ModuleNotFoundError) -> ExitCode:
    """Says how to get a package that is not installed; raises any other error again."""
    if error.name is None or error.name.startswith("gpu_cluster"):
        raise error
    remedy = (
        f"run `make setup` in your clone, then use .venv/bin/{NAME} there"
        if IN_CHECKOUT
        else "install the wheel with its extras: 'WHEEL[jobs]' for training jobs, "
        "'WHEEL[project]' for every command"
    )
    print(f"{NAME}: {sys.executable} has no package {error.name}; {remedy}", file=sys.stderr)
    return ExitCode.UNKNOWN


try:
    import click
except ModuleNotFoundError as error:
    sys.exit(_not_set_up(error))

HELP = ["-h", "--help"]
CONTEXT = {"help_option_names": HELP, "max_content_width": 100}
EXIT_CODES = "Exit code 0: ok. 1: a finding. 2: the command could not do or answer it."
Sections = Mapping[str, Mapping[str, tuple[str, str]]]
"""Heading -> command -> its function (`module:function`), and its text in the list of commands."""
COMMANDS: Sections = {
    "Rehearse": {
        "rehearse": (
            "gpu_cluster.cli.rehearse:rehearse",
            "rehearse the whole life of a stack on this machine",
        ),
        "down": ("gpu_cluster.cli.rehearse:down", "end a rehearsal that was kept running"),
        "list": (
            "gpu_cluster.cli.rehearse:listed",
            "list the rehearsals, and whether they are running",
        ),
        "simulate": ("gpu_cluster.cli.simulate:simulate", "run a simulated cloud for any program"),
        "inventory": ("gpu_cluster.cli.rehearse:inventory", "record an existing cluster"),
    },
    "Before you deploy": {
        "init": ("gpu_cluster.cli.new:init", "write a project that uses this package"),
        "new": ("gpu_cluster.cli.new:new", "write the file of a new environment"),
        "validate": (
            "gpu_cluster.cli.before_up:validate",
            "find what is wrong in a stack file, line by line",
        ),
        "offers": (
            "gpu_cluster.cli.before_up:offers",
            "list the machines with a GPU: price, quota, zones",
        ),
        "cost": (
            "gpu_cluster.cli.before_up:cost",
            "list prices per hour and month, at minimum and maximum size",
        ),
        "images": (
            "gpu_cluster.cli.before_up:images",
            "list every image of a stack and its registry",
        ),
        "capacity": (
            "gpu_cluster.cli.before_up:capacity",
            "check whether quotas, zones and reservations let the pools grow",
        ),
        "prove": (
            "gpu_cluster.cli.prove:prove",
            "run a stack once in the real cloud, within limits, and destroy it",
        ),
    },
    "After you deploy": {
        "gpus": ("gpu_cluster.cli.cluster:gpus", "show every node's GPUs, and what GPU nodes lack"),
        "test-gpus": (
            "gpu_cluster.cli.cluster:test_gpus",
            "show the results of the GPU acceptance test",
        ),
        "leftovers": (
            "gpu_cluster.cli.cluster:leftovers",
            "list what a destroy would leave in the cloud",
        ),
        "recover": (
            "gpu_cluster.cli.recover:recover",
            "fix the state after a killed up or destroy",
        ),
    },
    "For users of the cluster": {
        "job": ("gpu_cluster.cli.job:job", "submit, list, follow, time and cancel training jobs")
    },
    "For pipelines and shells": {
        "ci": ("gpu_cluster.cli.ci.commands:ci", "what the workflows run"),
        "completion": (
            "gpu_cluster.cli.completion:completion",
            "print the completion script of a shell",
        ),
    },
}


def _refuse_repeated(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    """Refuses an option with a value that is given twice: click silently takes the last."""
    try:
        _, _, options = command.make_parser(ctx).parse_args(list(args))
    except click.UsageError:  # The command's own parsing raises it again.
        return
    for option in options:
        several = not isinstance(option, click.Option) or option.multiple or option.is_flag
        if not several and options.count(option) > 1:
            raise click.UsageError(f"{option.opts[0]} is given more than once; give it once", ctx)


class Commands(click.Group):
    """A group whose commands are imported when they run."""

    def __init__(self, *args: Any, sections: Sections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in self._sections.values() for name in section]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for section in self._sections.values():
            if name in section:
                module, _, function = section[name][0].partition(":")
                command: click.Command = getattr(importlib.import_module(module), function)
                # click caches a command's --help.
                command.context_settings.setdefault("help_option_names", HELP)
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            raise click.NoSuchCommand(args[0], possibilities=self.list_commands(ctx)) from None
        if command is not None and not isinstance(command, click.Group):
            _refuse_repeated(command, click.Context(command, parent=ctx, info_name=name), rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, meaning) for name, (_, meaning) in section.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader is gone. Without this, the interpreter would report it again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return CLOSED
        except CheckError as error:
            print(f"{ctx.command_path} {ctx.invoked_subcommand}: {error}", file=sys.stderr)
            return ExitCode.UNKNOWN
        return code


@click.group(NAME, cls=Commands, sections=COMMANDS, context_settings=CONTEXT, epilog=EXIT_CODES)
@click.version_option(package_name=NAME, message="%(package)s %(version)s")
def gpu_cluster() -> None:
    """GPUs on Kubernetes, as one Pulumi stack: rehearse, price and check its environments.

    STACK is an environment, which has a file Pulumi.STACK.yaml, such as dev.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return run(gpu_cluster, NAME, arguments)


def run(group: click.Group, name: str, arguments: Sequence[str] | None = None) -> int:
    """Runs a group of commands; returns the exit code."""
    try:
        code = group.main(arguments, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else name
        message = error.format_message().replace("\n", " ")
        print(f"{path}: {message} (see --help)", file=sys.stderr)
        return ExitCode.UNKNOWN
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except ModuleNotFoundError as error:
        return _not_set_up(error)
    return int(code or ExitCode.OK)
