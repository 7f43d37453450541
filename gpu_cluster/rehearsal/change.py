"""Rehearses a change: deploys what a git revision declares, then updates to this working tree."""

import io
import shutil
import subprocess
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_cluster.rehearsal.control_plane.controllers import PROGRAMS
from gpu_cluster.rehearsal.control_plane.pods import holds, phase
from gpu_cluster.rehearsal.engine.engine import Outcome
from gpu_cluster.rehearsal.engine.program_copy import ProgramCopy, prepared
from gpu_cluster.rehearsal.event_log import Event
from gpu_cluster.rehearsal.nodes.bounds import NODE_CLAIMS
from gpu_cluster.rehearsal.sandbox import ROOT
from gpu_cluster.rehearsal.scenario import SCALE_IN_SECONDS, Failure, Planned, Rehearsal
from gpu_cluster.rehearsal.simulators.cloud import DO_NOT_DISRUPT
from gpu_cluster.stacks.definition.files import document_in, read_stack, stack_file
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.program import (
    FILES,
    FOLDERS,
    PACKAGE,
    copy_program,
    environment,
    files_named,
)
from gpu_cluster.stacks.definition.settings import platform_of
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.tools.programs import HERE

DRIFT_SECONDS = 12.0
"""How long Karpenter may take to see that a node differs from its pool: it looks every 10 s."""
_TOOLS = ("gpu_cluster/tools", "tools")
"""Where a revision has the controllers' versions; 0.2.0 has them in the second."""
_GROUP = "karpenter.sh"
_POOL_TYPES = tuple(
    f"kubernetes:{group}/" for group in (_GROUP, "karpenter.k8s.aws", "eks.amazonaws.com")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """A git revision's program and stack file."""

    revision: str
    """The revision as the user named it."""
    stack: str
    file: Path
    """The stack file's path in the repository."""
    archive: bytes = field(repr=False)
    """A tar file of what `copy_program` copies and of the controllers' versions."""

    def copy(self, target: Path) -> tuple[ProgramCopy, Path]:
        """Copies the program for the stack.

        Also returns the folder with its controllers' versions, or else this tree's.
        """
        source = target.with_name(f"{target.name}-source")
        with tarfile.open(fileobj=io.BytesIO(self.archive)) as archive:
            archive.extractall(source)
        if self.file.parent != Path():
            shutil.move(source / self.file, source / self.file.name)
        try:
            copy_program(source, self.stack, target)
            pinned = target.with_name(f"{target.name}-{HERE.name}")
            for folder in filter(Path.is_dir, (source / name for name in _TOOLS)):
                shutil.move(folder, pinned)
        finally:
            shutil.rmtree(source)
        # The packages are today's: those that the revision was installed with are not available.
        (target / ".venv").unlink()
        (target / ".venv").symlink_to(environment(ROOT))
        pinned = pinned if pinned.is_dir() else HERE
        return prepared(self.stack, target, pinned), pinned


def before(revision: str, stack: str, root: Path = ROOT) -> Before:
    """Reads the stack's program and file from the revision.

    Raises StackError if the revision does not exist, or has no such stack, or has it on another
    platform, which no update can turn into this one.
    """
    asked = f"{revision}^{{commit}}"
    known = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", asked)
    if known.returncode:
        raise StackError(
            f"{revision!r} is not a revision of this repository; give a tag or a commit"
        )
    commit = known.stdout.decode().strip()
    try:
        file = stack_file(root, stack).resolve().relative_to(root.resolve())
    except ValueError:
        raise StackError(f"the file of {stack} is outside the repository {root}") from None
    found = _git(root, "show", f"{commit}:./{file}")
    if found.returncode:
        raise StackError(f"{revision} has no {file}: rehearse {stack} without --from")
    earlier = document_in(found.stdout, f"{file.name} of {revision}")
    then = earlier.get("config")
    now = read_stack(root, stack).get("config")
    platforms = [platform_of(config) if isinstance(config, dict) else "" for config in (then, now)]
    if platforms[0] != platforms[1]:
        raise StackError(
            f"{file.name} of {revision} has platform {platforms[0]}, and here it has "
            f"{platforms[1]}: that is another cluster, not a change of one"
        )
    pins = [f"{tools}/{name}" for tools in _TOOLS for name in PROGRAMS.values()]
    maybe = [*FOLDERS, *PACKAGE, *pins]
    listed = _git(root, "ls-tree", "--name-only", "-z", commit, "--", *maybe).stdout.decode()
    tracked = [*filter(None, listed.split("\0"))]
    named = [*FILES, str(file), *files_named(earlier), *tracked]
    # A project that uses the package has its program's files, and no others of a checkout.
    archived = _git(root, "archive", commit, "--", *(named if set(FOLDERS) & {*tracked} else ["."]))
    if archived.returncode:
        raise StackError(f"{revision}: {archived.stderr.decode().strip()}")
    return Before(revision=revision, stack=stack, file=file, archive=archived.stdout)


def _git(root: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", str(root), *command], capture_output=True)
    except FileNotFoundError:
        raise StackError(
            "git is not on PATH; --from needs it to read the earlier revision"
        ) from None


@dataclass(slots=True, kw_only=True)
class ChangeRehearsal(Rehearsal):
    """Deploys a stack as a revision declares it, then rehearses the update to this working tree."""

    before: Before
    began: float | None = None
    """When the update to this working tree began; None before that."""

    def run_until_ready(self) -> bool:
        """Deploys the revision, then updates and verifies everything that a rehearsal verifies."""
        program = self.sandbox.folder / "program"
        after = program.with_name("program-after")
        revision = self.before.revision
        program.rename(after)
        try:
            _, self.sandbox.controllers.pinned = self.before.copy(program)
            ready = self._run(
                Planned(f"pulumi up of {revision}", self._up_before),
                Planned(f"workloads of {revision} run", self._workloads_run),
            )
        finally:
            shutil.rmtree(program, ignore_errors=True)
            after.rename(program)
        if not ready:
            return False
        self.outcomes, self.warnings = [], []
        self.began = self.sandbox.event_log.now
        return Rehearsal.run_until_ready(self)

    def _up_before(self) -> str:
        """Deploys the revision without today's policies, which it may violate."""
        pack, self.policy_pack = self.policy_pack, None
        try:
            return self._up()
        finally:
            self.policy_pack = pack

    def _placement_verified(self) -> str:
        """Waits until the nodes of replaced or removed pools have left, then verifies placement."""
        began = time.monotonic()
        while leaving := self._of_no_pool():
            if time.monotonic() - began > SCALE_IN_SECONDS:
                raise Failure(
                    *(f"node {name} remains although its pool is gone" for name in leaving)
                )
            time.sleep(0.1)
        return super(ChangeRehearsal, self)._placement_verified()

    def _workloads_run(self) -> str:
        """After the update, first waits until Karpenter has replaced the nodes that it affects."""
        if self.began is not None and self._changes_pools():
            self._await_replacement()
        return super(ChangeRehearsal, self)._workloads_run()

    def _changes_pools(self) -> bool:
        """Whether the update has changed a NodePool, or a class of its nodes."""
        changed = [Urn.parse(urn).type for _, urn in self.outcomes[-1].resources]
        return any(kind.startswith(_POOL_TYPES) for kind in changed)

    def _await_replacement(self) -> None:
        """Records each node that drifts, and waits until Karpenter has replaced those that it may
        replace: one by one, and each after its successor has joined."""
        drifted, changed = dict[str, str](), time.monotonic()
        while True:
            claims = self.sandbox.control_plane.api.items(NODE_CLAIMS)
            claimed = {claim["metadata"]["name"] for claim in claims}
            for claim in claims:
                name, node = claim["metadata"]["name"], (claim.get("status") or {}).get("nodeName")
                if node and name not in drifted and holds(claim, "Drifted"):
                    drifted[name], changed = node, time.monotonic()
                    pool = claim["metadata"]["labels"]["karpenter.sh/nodepool"]
                    self.sandbox.event_log.record("node", node, "drifted", group=pool)
            for name in drifted.keys() - claimed:
                del drifted[name]
                changed = time.monotonic()
            quiet = time.monotonic() - changed
            moving = [c for c in claims if c["metadata"]["name"] in drifted and not self._stays(c)]
            if quiet > (2 * SCALE_IN_SECONDS if moving else DRIFT_SECONDS):
                break
            time.sleep(0.2)
        self.warnings += [
            f"node {claim['status']['nodeName']} has drifted, and Karpenter has not replaced it "
            f"within {2 * SCALE_IN_SECONDS:.0f} s"
            for claim in moving
        ]

    def _stays(self, claim: Mapping[str, Any]) -> bool:
        """Whether a pod, or a budget of its pool, keeps Karpenter from replacing a drifted node."""
        cache, (key, value) = self.sandbox.cluster_cache, DO_NOT_DISRUPT
        node, pool = claim["status"]["nodeName"], claim["metadata"]["labels"][f"{_GROUP}/nodepool"]
        budgets = [
            budget
            for obj in cache.all("NodePool")
            if obj["metadata"]["name"] == pool
            for budget in (obj["spec"].get("disruption") or {}).get("budgets") or []
        ]
        return any(
            budget["nodes"] in ("0", "0%") and "Drifted" in budget.get("reasons", ["Drifted"])
            for budget in budgets
        ) or any(
            pod["spec"].get("nodeName") == node
            and phase(pod) not in ("succeeded", "failed")
            and (pod["metadata"].get("annotations") or {}).get(key) == value
            for pod in cache.pods
        )

    def _of_no_pool(self) -> list[str]:
        snapshot = self.sandbox.snapshot()
        known = [node["metadata"]["name"] for g in snapshot.groups for node in snapshot.of(g)]
        names = [node["metadata"]["name"] for node in self.sandbox.cluster_cache.nodes]
        return [name for name in names if name not in known]

    def change(self) -> Mapping[str, Any] | None:
        """The effects of the change, for the report; None if the change has not run yet."""
        ups = [outcome for outcome in self.outcomes if outcome.operation == "up"]
        if self.began is None or not ups:
            return None
        return changes(self.before.revision, ups[0], self.sandbox.event_log.events, self.began)


def changes(revision: str, up: Outcome, events: Sequence[Event], began: float) -> Mapping[str, Any]:
    """Describes the update from `revision`: resources by operation, the nodes that were recycled
    after `began` (seconds of the event log), by the cloud or by Karpenter, and those that Karpenter
    would replace if their pods or its budget allowed it."""
    labels: dict[str, list[str]] = {}
    for what, urn in up.resources:
        labels.setdefault(what, []).append(Urn.parse(urn).label)
    replaced = dict.fromkeys(labels.get("replace", []) + labels.get("create-replacement", []))
    later = [event for event in events if event.kind == "node" and event.at >= began]
    recycled = [event for event in later if event.what == "recycled"]
    drifted = [event.subject for event in later if event.what == "drifted"]
    left = {event.subject for event in later if event.what == "left"}
    return {
        "from": revision,
        "replaced": list(replaced),
        "updated": labels.get("update", []),
        "created": labels.get("create", []),
        "deleted": labels.get("delete", []),
        "recycled": [*(event.subject for event in recycled), *(n for n in drifted if n in left)],
        "drifted": [node for node in drifted if node not in left],
        "forced": [event.subject for event in recycled if event.detail["forced"]],
    }
