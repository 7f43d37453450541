"""Recovery, step by step: unlock, see what may be there, adopt it, read what was interrupted."""

import json
import os
import re
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recovery import google
from recovery.amazon import Amazon
from recovery.engine import Pulumi, RecoveryError
from recovery.state import Deployment, Interrupted, adopting, identities, interrupted

_HOLDER = re.compile(r"created by (?P<user>[^@\s]+)@(?P<host>\S+) \(pid (?P<pid>\d+)\)")


@dataclass(slots=True, kw_only=True)
class Recovery:
    """What was found and done."""

    operations: list[Interrupted] = field(default_factory=list)
    adopted: dict[str, str] = field(default_factory=dict)
    """URN -> the cloud's name of what was made unheard and is in the state now."""
    notes: list[str] = field(default_factory=list)
    """What is left for people to look at, a line each."""


def recover(
    pulumi: Pulumi,
    *,
    amazon: Callable[[str], Amazon],
    agree: Callable[[dict[str, str]], bool] = lambda candidates: True,
    say: Callable[[str], None] = lambda line: None,
) -> Recovery:
    """Puts the state in order. `amazon` gives what asks AWS in a region; `agree` is shown what may
    be adopted before anything is written. Raises RecoveryError."""
    agreed: dict[str, str] | None = None
    while True:
        deployment = pulumi.export()
        recovery = Recovery(operations=interrupted(deployment))
        candidates = _candidates(deployment, recovery, amazon)
        if candidates and candidates != agreed and not agree(candidates):
            raise RecoveryError("nothing was changed")
        agreed = candidates
        if (holder := _write(pulumi, adopting(deployment, candidates))) is None:
            break
        # Its last words may have come after the export: look again.
        pulumi.must("cancel", "--yes")
        say(f"unlocked: it was {holder}")
    read = [one.urn for one in recovery.operations if one.urn in candidates or _is_kept(one)]
    if read:
        targets = [part for urn in read for part in ("--target", urn)]
        pulumi.must("refresh", "--yes", "--skip-preview", *targets)
        there = {row["urn"] for row in pulumi.export()["deployment"].get("resources") or ()}
        recovery.adopted = {urn: name for urn, name in candidates.items() if urn in there}
    return recovery


def _is_kept(one: Interrupted) -> bool:
    """Whether the state has the resource, so that it can be read."""
    return one.operation in ("updating", "deleting") and one.custom


def _candidates(
    deployment: Deployment, recovery: Recovery, amazon: Callable[[str], Amazon]
) -> dict[str, str]:
    """URN -> the cloud's name of each thing that may have been made."""
    found = {}
    for one in recovery.operations:
        if not one.may_be_there:
            continue
        names = _names(one, amazon)
        if names is None:
            recovery.notes.append(f"{one.name}: look for it by hand, its id is not in its inputs")
            continue
        fresh = [name for name in names if name not in identities(deployment, one.type)]
        if len(fresh) == 1:
            found[one.urn] = fresh[0]
        elif fresh:
            recovery.notes.append(f"{one.name}: one of {', '.join(fresh)} may be it: look by hand")
    return found


def _names(one: Interrupted, amazon: Callable[[str], Amazon]) -> list[str] | None:
    package = one.type.partition(":")[0]
    if package == "kubernetes":
        return [google.kubernetes_identity(one.inputs)]
    if package == "gcp":
        name = google.identity(one.type, google.complete(one.inputs, one.provider))
        return None if name is None else [name]
    if package == "aws":
        region = one.inputs.get("region") or one.provider.get("region")
        try:
            return amazon(str(region)).find(one.type, one.inputs)
        except LookupError as error:
            raise RecoveryError(f"AWS: {error}") from None
    return None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _write(pulumi: Pulumi, deployment: Deployment) -> str | None:
    """Replaces the state. Where a run that is gone still locks it, says whose that was."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(deployment, file)
        file.flush()
        done = pulumi.run("stack", "import", "--file", file.name)
    if not done.returncode:
        return None
    said = " ".join((done.stderr or done.stdout).split()).removeprefix("error: ")
    if "locked" not in said and "in progress" not in said:
        raise RecoveryError(f"pulumi stack import: {said}")
    if (holder := _HOLDER.search(said)) is None:
        return said
    if holder["host"] == socket.gethostname() and _alive(int(holder["pid"])):
        raise RecoveryError(
            f"the stack is in use by {holder['user']}'s process {holder['pid']}: let it finish, or "
            "end it, and then recover"
        )
    return holder[0]


def boto3_clients(profile: str | None, endpoint: str | None = None) -> Callable[[str], Amazon]:
    """Asks AWS with boto3's own credentials and, unless `endpoint` is given, its own endpoints."""

    def amazon(region: str) -> Amazon:
        import boto3

        session: Any = boto3.Session(region_name=region, profile_name=profile)
        return Amazon(lambda service: session.client(service, endpoint_url=endpoint))

    return amazon
