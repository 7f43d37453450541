"""The command line: `python -m gpu_cluster.tools build [NAME...]`, `path NAME`, `env`."""

import argparse
import os
import sys

from gpu_cluster import tools
from gpu_cluster.tools import on_machine
from gpu_cluster.tools.build import build_programs
from gpu_cluster.tools.programs import PROGRAMS, ToolError, program


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit code, and prints a ToolError instead of raising it."""
    parser = argparse.ArgumentParser(prog="python -m gpu_cluster.tools", description=tools.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="build what the cache lacks")
    building.add_argument("names", nargs="*", metavar="NAME", help="default: all of a rehearsal")
    path = commands.add_parser("path", help="print the path of a binary")
    path.add_argument("name", metavar="NAME")
    commands.add_parser("env", help="print the PATH that makes `pulumi` run here, for eval")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "build":
            build_programs(_wanted(asked.names))
        elif asked.command == "path":
            print(tools.pulumi()[0] if asked.name == "pulumi" else tools.binary(asked.name))
        else:
            folders = [str(folder) for folder in tools.pulumi()[1]]
            print(f"export PATH={os.pathsep.join([*folders, os.environ['PATH']])!r}")
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _wanted(names: list[str]) -> list[tools.programs.Program]:
    if names:
        return list(dict.fromkeys(program(name) for name in names))
    return [item for item in PROGRAMS if item.default and not _provided(item.name)]


def _provided(name: str) -> bool:
    """Whether PATH already has this program in a usable version."""
    engine = on_machine.engine() if name == "pulumi" else None
    return engine is not None and on_machine.fits(engine, program(name))


if __name__ == "__main__":
    sys.exit(main())
