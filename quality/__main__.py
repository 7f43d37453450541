"""`python -m quality`: the commands that maintain the project itself."""

import sys

import click

from gpu_cluster.cli.main import CONTEXT, EXIT_CODES, Commands, Sections, run

NAME = "python -m quality"
COMMANDS: Sections = {
    "Commands": {
        "explain": (
            "quality.commands:explain",
            "what to know of an input before a setting sends it",
        ),
        "new-block": ("quality.commands:new_block", "copy the example of a block of workloads"),
        "change": ("quality.commands:change", "check what differs from main"),
        "inject-faults": ("quality.commands:inject_faults", "every fault at every operation"),
        "compare-plugins": (
            "quality.commands:compare_plugins",
            "the offline plugins with the official ones",
        ),
        "clouds": ("quality.commands:clouds", "read again what others say of resource types"),
        "docs": ("quality.commands:docs", "write the generated pages"),
        "release": ("quality.commands:release", "build what is published of a version"),
        "state-fixtures": ("quality.commands:state_fixtures", "keep the states of a version"),
        "zones": ("quality.commands:zones", "read the zones of Google Cloud again"),
    }
}


@click.group(NAME, cls=Commands, sections=COMMANDS, context_settings=CONTEXT, epilog=EXIT_CODES)
def quality() -> None:
    """What maintains gpu-cluster itself: proofs, measurements and generated pages."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return run(quality, NAME, arguments)


if __name__ == "__main__":
    sys.exit(main())
