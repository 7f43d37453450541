"""Recovery, step by step: unlock, find resources that may exist, adopt them, read interrupted ones,
and let the next update replace those whose creation did not complete."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from gpu_cluster.components.lifecycle.ownership import owner_of
from gpu_cluster.stacks.engine.state import Deployment, identities, resources
from gpu_cluster.stacks.recovery.aws_resources import Aws
from gpu_cluster.stacks.recovery.clouds import recovers
from gpu_cluster.stacks.recovery.engine import RecoveringPulumi, RecoveryError
from gpu_cluster.stacks.recovery.failed import failed, keep_default_pool
from gpu_cluster.stacks.recovery.google import kubernetes_identity
from gpu_cluster.stacks.recovery.lock import are_dead, holders, running_here
from gpu_cluster.stacks.recovery.orphans import duplicates, with_orphans
from gpu_cluster.stacks.recovery.protocols import Clouds
from gpu_cluster.stacks.recovery.state import (
    Interrupted,
    NotOursError,
    adopting,
    check_own,
    interrupted,
    reopened,
)

_ACCOUNT = re.compile(r"arn:[^:]+:[^:]+:[^:]*:(?P<account>\d{12}):")


@dataclass(slots=True, kw_only=True)
class Recovery:
    """What was found and done."""

    operations: list[Interrupted] = field(default_factory=list)
    adopted: dict[str, str] = field(default_factory=dict)
    """URN -> the cloud's name of a resource that was orphaned and is in the state now."""
    failed: dict[str, str] = field(default_factory=dict)
    """URN of a resource whose creation failed -> why; the next update replaces it."""
    default_pools: list[str] = field(default_factory=list)
    """URNs of clusters that still have GKE's default node pool; the next update removes it."""
    notes: list[str] = field(default_factory=list)
    """Lines about things that the user should look at."""
    unknown: list[str] = field(default_factory=list)
    """Lines about questions that a cloud did not answer."""


def recover(
    pulumi: RecoveringPulumi,
    *,
    clouds: Clouds,
    adopt_orphans: bool = False,
    confirm: Callable[[dict[str, str]], bool] = lambda candidates: True,
    confirm_unlock: Callable[[str], bool] = lambda holder: True,
    log: Callable[[str], None] = lambda line: None,
) -> Recovery:
    """Repairs the state. `clouds` queries them; `adopt_orphans` also searches for resources that an
    earlier run created although it got an error; `confirm` is called with possible adoptions before
    anything is written; `confirm_unlock` decides whether the described run, which may be still
    active, is over; `log` is called with a line per action. Raises EngineError."""
    preview = pulumi.preview() if adopt_orphans else {}
    confirmed: dict[str, str] | None = None
    clouds = _OwnAccount(clouds, log)
    while True:
        deployment = with_orphans(reopened(pulumi.export()), preview)
        clouds.accounts = _accounts(deployment)
        recovery = Recovery(operations=interrupted(deployment))
        candidates = _candidates(deployment, recovery, clouds)
        if candidates and candidates != confirmed and not confirm(candidates):
            raise RecoveryError("nothing was changed")
        confirmed = candidates
        if (holder := _write(pulumi, adopting(deployment, candidates))) is None:
            break
        if not are_dead(holder, pulumi.backend_folder()) and not confirm_unlock(holder):
            raise RecoveryError("nothing was changed: let that run finish, then recover")
        # The run may have written after the export, so read the state again.
        pulumi.must("cancel", "--yes")
        log(f"unlocked: it was {holder}")
    read = [call.urn for call in recovery.operations if call.urn in candidates or _is_kept(call)]
    if read:
        targets = [part for urn in read for part in ("--target", urn)]
        pulumi.must("refresh", "--yes", "--skip-preview", *targets)
    if candidates:
        others = _without_others(pulumi, recovery, candidates)
        recovery.adopted = {urn: name for urn, name in candidates.items() if urn in others}
    deployment = pulumi.export()
    if adopt_orphans:
        try:
            recovery.notes += _duplicates(deployment, clouds)
        except LookupError as error:
            recovery.unknown.append(f"it is not known whether any resource exists twice: {error}")
    try:
        clouds.google = cache(clouds.google)
        recovery.failed = dict(failed(deployment, clouds))
        recovery.default_pools = keep_default_pool(deployment, clouds.google)
    except LookupError as error:
        recovery.unknown.append(f"it is not known whether clusters and node pools failed: {error}")
    if recovery.default_pools:
        pulumi.load(deployment)
    for urn in recovery.failed:
        pulumi.must("state", "taint", urn, "--yes")
    return recovery


class _OwnAccount:
    """The clouds, with AWS only if it is the account of the stack's resources: a resource that is
    missing in another account may still exist."""

    def __init__(self, clouds: Clouds, log: Callable[[str], None]) -> None:
        self.google = clouds.google
        self.aws = cache(self._aws)
        self.accounts: set[str] = set()
        """Accounts in the state's own ARNs; empty for a stack without resources yet."""
        self._clouds = clouds
        self._log = log
        self._logged: set[str] = set()

    def _aws(self, region: str) -> Aws:
        aws = self._clouds.aws(region)
        account, arn = aws.caller()
        if self.accounts and account not in self.accounts:
            raise LookupError(
                f"AWS: {arn} is in account {account}, and the stack's resources are in "
                f"{', '.join(sorted(self.accounts))}; sign in to that account, or correct "
                "aws:profile or aws:assumeRoles"
            )
        if arn not in self._logged:
            self._logged.add(arn)
            self._log(f"querying AWS as {arn}")
        return aws


def _accounts(deployment: Deployment) -> set[str]:
    arns = (
        str((row.get("outputs") or {}).get("arn"))
        for row in resources(deployment)
        if row["type"].startswith("aws:")
    )
    return {found["account"] for arn in arns if (found := _ACCOUNT.match(arn))}


def _without_others(
    pulumi: RecoveringPulumi, recovery: Recovery, candidates: Mapping[str, str]
) -> set[str]:
    """The URNs in the state after Kubernetes objects with another stack's annotation, or none, have
    been removed from it: only the refreshed state shows the annotation."""
    deployment = pulumi.export()
    rows = {row["urn"]: row for row in resources(deployment) if not row.get("delete")}
    others = set()
    for call in recovery.operations:
        if call.urn not in candidates or call.urn not in rows:
            continue
        if not call.type.startswith("kubernetes:"):
            continue
        wanted, found = (owner_of(side) for side in (call.inputs, rows[call.urn].get("outputs")))
        try:
            check_own(candidates[call.urn], wanted, found)
        except NotOursError as error:
            recovery.notes.append(f"{call.name}: {error}")
            others.add(call.urn)
    if others:
        kept = [
            row for row in resources(deployment) if row["urn"] not in others or row.get("delete")
        ]
        body = {**deployment["deployment"], "resources": kept}
        pulumi.load({**deployment, "deployment": body})
    return rows.keys() - others


def _duplicates(deployment: Deployment, clouds: Clouds) -> list[str]:
    outputs = [
        row.get("outputs") or {} for row in resources(deployment) if row["type"].startswith("aws:")
    ]
    regions = {str(output["region"]) for output in outputs if "region" in output}
    aws = {region: clouds.aws(region) for region in regions}
    return list(duplicates(deployment, aws))


def _is_kept(operation: Interrupted) -> bool:
    """Whether the state contains the resource, so that it can be refreshed."""
    return operation.operation in ("updating", "deleting") and operation.custom


def _candidates(deployment: Deployment, recovery: Recovery, clouds: Clouds) -> dict[str, str]:
    """URN -> the cloud's name of each resource that may have been created."""
    found = {}
    for operation in recovery.operations:
        if not operation.may_be_there:
            continue
        try:
            names = _names(operation, clouds)
        except LookupError as error:
            raise RecoveryError(str(error)) from None
        except NotOursError as error:
            recovery.notes.append(f"{operation.name}: {error}")
            continue
        if names is None:
            recovery.notes.append(
                f"{operation.name}: look for it manually, because its ID is not in its inputs"
            )
            continue
        fresh = [name for name in names if name not in identities(deployment, operation.type)]
        if len(fresh) == 1:
            found[operation.urn] = fresh[0]
        elif fresh:
            recovery.notes.append(
                f"{operation.name}: one of {', '.join(fresh)} may be it: check manually"
            )
    return found


def _names(operation: Interrupted, clouds: Clouds) -> list[str] | None:
    package = operation.type.partition(":")[0]
    if package == "kubernetes":
        return [kubernetes_identity(operation.inputs)]
    module = recovers(package)
    return module.names(operation, clouds) if module else None


def _write(pulumi: RecoveringPulumi, deployment: Deployment) -> str | None:
    """Replaces the state. If a run, perhaps a dead one, still locks it, returns its description."""
    done = pulumi.write(deployment)
    if not done.returncode:
        return None
    refusal = " ".join((done.stderr or done.stdout).split()).removeprefix("error: ")
    if "locked" not in refusal and "in progress" not in refusal:
        raise RecoveryError(f"pulumi stack import: {refusal}")
    if running := running_here(refusal):
        raise RecoveryError(
            f"the stack is in use by {running}: let it finish or end it, then recover"
        )
    return holders(refusal) or refusal
