"""`python -m stacks.recovery STACK`: puts the state in order after a killed `up` or `destroy`.

Then run again what was killed. What the cloud made and the state does not have is adopted, not made
a second time.
"""

import argparse
import sys
from pathlib import Path

import tools
from stacks import command as commands
from stacks.engine import EngineError
from stacks.files import read_stack
from stacks.names import StackError
from stacks.owners import refuse_shared
from stacks.recovery.clouds import LiveClouds
from stacks.recovery.command import Recovery, recover
from stacks.recovery.engine import RecoveringPulumi, RecoveryError

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Parses the command line; returns the exit status: 0, or 1 with a line that says why."""
    parser = commands.Parser(prog="recovery", description=__doc__)
    parser.add_stack()
    parser.add_argument(
        "--yes",
        action="store_true",
        help="adopt what is found, and unlock what another machine locked, without asking",
    )
    parser.add_argument(
        "--adopt-orphans",
        action="store_true",
        help="also adopt orphaned resources: made by an earlier run that was told that it failed",
    )
    parser.add_argument("--unheard", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", help="URL of a simulated AWS")
    args = parser.parse_args()
    if args.unheard:
        parser.error("--unheard is called --adopt-orphans now")
    program = Path.cwd() if Path("Pulumi.yaml").exists() else ROOT
    try:
        profile = _profile(program, args.stack)  # what is wrong with the stack's file comes first
        recovery = recover(
            RecoveringPulumi.signed_in(program, args.stack),
            clouds=LiveClouds(profile=profile, endpoint=args.endpoint),
            adopt_orphans=args.adopt_orphans,
            confirm=(lambda candidates: True) if args.yes else _ask,
            confirm_unlock=(lambda holder: True) if args.yes else _is_over,
            log=lambda line: print(f"recovery of {args.stack}: {line}", flush=True),
        )
    except (EngineError, StackError, tools.ToolError) as error:
        print(f"recovery of {args.stack}: {error}", file=sys.stderr)
        return 1
    print(_text(args.stack, recovery))
    return 0


def _profile(program: Path, stack: str) -> str | None:
    """The AWS profile that the stack's file names; raises StackError where that cannot be used."""
    config = read_stack(program, stack).get("config")
    refuse_shared(program, stack, config if isinstance(config, dict) else {})
    profile = config.get("aws:profile") if isinstance(config, dict) else None
    return profile if isinstance(profile, str) else None


def _ask(candidates: dict[str, str]) -> bool:
    print("What may have been made, and then becomes part of the stack:")
    for name in candidates.values():
        print(f"  {name}")
    return _yes("Did this stack make them?")


def _is_over(holder: str) -> bool:
    print(f"The state is locked: {holder}")
    return _yes("Is that run over, so that it can be unlocked?")


def _yes(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        raise RecoveryError("nobody to ask: look at what is above, then give --yes") from None


def _text(stack: str, recovery: Recovery) -> str:
    lines = []
    shown = [one for one in recovery.operations if not one.orphaned or one.urn in recovery.adopted]
    for one in shown:
        if one.urn in recovery.adopted:
            outcome = f"adopted {recovery.adopted[one.urn]}"
        elif one.may_be_there:
            outcome = "was not made"
        else:
            outcome = f"was {one.operation}: read again"
        lines.append(f"  {one.name}: {outcome}")
    count = sum(not one.orphaned for one in recovery.operations)
    head = f"recovery of {stack}: {count or 'no'} interrupted operation{'s' * (count != 1)}"
    tail = [f"  look: {note}" for note in recovery.notes]
    return "\n".join([head, *lines, *tail, "Now run again what was interrupted."])


if __name__ == "__main__":
    sys.exit(commands.run(main))
