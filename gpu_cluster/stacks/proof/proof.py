"""A proof of a stack on a real cloud, step by step; whatever happens, it destroys what it made."""

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.definition.files import without_secrets
from gpu_cluster.stacks.definition.settings import NOWHERE, settings_of
from gpu_cluster.stacks.engine.operation import QUIET, Outcome, operate
from gpu_cluster.stacks.engine.pulumi import EngineError, Pulumi
from gpu_cluster.stacks.engine.state import PROVIDER_TYPE, ROOT_TYPE, Deployment, pending, resources
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.stacks.outcome import Answer, CheckError, ExitCode, worst
from gpu_cluster.stacks.proof import variants
from gpu_cluster.stacks.proof.cluster import ProvenCluster
from gpu_cluster.stacks.proof.interruption import Interruption, Stopped
from gpu_cluster.stacks.proof.limits import Limits, longest_wait

SILENT_SECONDS = 900.0
"""How long the API server may be silent while nodes come and go: GKE resizes that of a zonal
cluster, which takes minutes."""
_DESTROYS = 2
"""How often a destroy is tried: what the cloud still deletes may block it once."""
_MOST_LETTERS = 3000
"""The maximum length of a step's result in the report."""

State = Literal["passed", "failed", "stopped", "unknown", "skipped"]


class Failure(Exception):
    """A step failed; why."""


class Unknown(Exception):
    """A step could not tell; why. The next one runs."""


class Skipped(Exception):
    """A step does not apply to the stack; why."""


class Planned(NamedTuple):
    """A step that is to run."""

    name: str
    run: Callable[[], str]
    """Returns what the step shows; raises Failure, Unknown or Skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step and its result."""

    name: str
    state: State
    began: float
    """Seconds since the proof began."""
    seconds: float
    detail: str


@dataclass(slots=True, kw_only=True)
class Proof:
    """One run in a real cloud. Its steps are in `steps`; `code` is the result."""

    stack: str
    pulumi: Pulumi
    document: Mapping[str, Any]
    """The stack's file."""
    settings: Settings[Any]
    limits: Limits
    folder: Path
    """Gets the changed copies of the stack's file, and the engine's logs."""
    only: Sequence[str] = ()
    """The pools on which jobs run; all if it is empty."""
    capacity: Callable[[], Answer]
    connect: Callable[[str], ProvenCluster]
    """Returns the cluster of a kubeconfig."""
    remaining: Callable[[], list[str]] = list
    """Returns what the cloud has of the stack although it is destroyed."""
    say: Callable[[str], None] = lambda line: None
    poll: float = 5.0
    """Seconds between two looks at the nodes."""
    pause: float = 30.0
    """Seconds before a destroy is tried again."""
    steps: list[Step] = field(default_factory=list)
    created: dict[str, int] = field(default_factory=dict)
    """Type -> number of resources that the first `up` created."""
    warnings: list[str] = field(default_factory=list)
    gpu_nodes: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    providers: dict[str, Any] = field(default_factory=dict)
    """Inputs of the cloud's in the state, such as `gcp:project`, which need not be in the file."""
    left: list[str] = field(default_factory=list)
    """What is still in the cloud, and what to do about it."""
    seconds: float = 0.0
    config: variants.Config = field(init=False)
    """What the last `up` declared, or the next one will."""
    _began: float = field(init=False)
    _step: tuple[str, float] = ("", 0.0)
    _status: str = ""
    _cluster: ProvenCluster | None = None
    _interruption: Interruption = field(init=False)
    _runs: int = 0
    """How often the engine ran; 0 also after a first `up` that created nothing."""

    def __post_init__(self) -> None:
        self.config = variants.unprotected(self.document["config"], self.settings)

    @property
    def planned(self) -> list[Planned]:
        """The steps until the destroy."""
        return [
            Planned("capacity", self._capacity),
            Planned("pulumi up", self._first_up),
            Planned("GPU job", self._gpu_job),
            Planned("acceptance test", self._acceptance_test),
            Planned("second up", self._second_up),
            Planned("0 to 1 to 0 nodes", self._from_zero),
            Planned("change in place", self._change_in_place),
        ]

    def run(self) -> ExitCode:
        """Runs the steps until one fails or the limits or a signal end them, then destroys the
        stack, whatever happened; returns `code`."""
        self._began = time.monotonic()
        limits, longest = self.limits, longest_wait(self.settings)
        self.versions["pulumi"] = self.pulumi.execute("version").stdout.strip()
        ends = Interruption(limits.seconds, limits.reason, longest, self.say)
        with ends as self._interruption:
            try:
                all(self._run(planned) for planned in self.planned)
                self._interruption.ending = True
            except Stopped as stopped:
                self._interruption.ending = True  # Before any call: a signal may end that.
                self._end("stopped", "; ".join(filter(None, [str(stopped), self._status])))
            finally:
                self._interruption.begin_end(
                    "what was created is being destroyed; Ctrl-C twice more leaves it in the cloud"
                )
                self._clean_up()
                self.seconds = self._now
        return self.code

    @property
    def code(self) -> ExitCode:
        """The exit code of the steps so far."""
        states = {step.state for step in self.steps}
        if self.left:
            return ExitCode.LEFT
        if "stopped" in states:
            return ExitCode.STOPPED
        if not self.steps or self.steps[-1].name != "pulumi destroy":
            return ExitCode.FINDING  # A defect ended the proof itself.
        codes = {"failed": ExitCode.FINDING, "unknown": ExitCode.UNKNOWN}
        return worst(codes.get(state, ExitCode.OK) for state in states)

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _run(self, planned: Planned) -> bool:
        """Runs a step; returns whether the next one may run."""
        self._step, self._status = (planned.name, self._now), ""
        self.say(f"{planned.name} ...")
        state: State = "passed"
        try:
            detail = planned.run()
        except Skipped as error:
            state, detail = "skipped", str(error)
        except Unknown as error:
            state, detail = "unknown", str(error)
        except (Failure, CheckError, EngineError, OSError) as error:
            state, detail = "failed", str(error)
        except Exception:
            state, detail = "failed", f"a defect of this command: {traceback.format_exc(limit=-3)}"
        self._interruption.check()
        self._end(state, detail)
        return state != "failed"

    def _end(self, state: State, detail: str) -> None:
        name, began = self._step
        seconds = round(self._now - began, 1)
        self.steps.append(
            Step(name=name, state=state, began=round(began, 1), seconds=seconds,
                 detail=detail[:_MOST_LETTERS])
        )  # fmt: skip
        word = "" if state == "passed" else f"{state.upper()}: "
        self.say(f"{name}: {word}{detail} ({seconds:.0f} s)")

    def _capacity(self) -> str:
        code, _, text = self.capacity()
        if code is ExitCode.FINDING:
            raise Failure(text)
        if code is ExitCode.UNKNOWN:
            raise Unknown(text)
        return "every pool can grow to its maximum"

    def _first_up(self) -> str:
        refuse_existing(self.pulumi)  # Again: it was empty before the questions and the capacity.
        outcome = self._up(self.config)
        created = Counter(
            Urn.parse(urn).type for what, urn in outcome.resources if what == "create"
        )
        self.created = {kind: n for kind, n in sorted(created.items()) if kind != ROOT_TYPE}
        self.versions |= {"Kubernetes": self._connected.version()}
        return f"{sum(self.created.values())} resources created"

    def _gpu_job(self) -> str:
        try:
            pools, notes = self._able(lambda pool: variants.with_jobs(self.config, [pool], 1))
        except Skipped as error:
            raise Unknown(f"no pool ran a job; {error}") from None
        if crowded := [pool.name for pool in pools if not self._has_room(pool)]:
            # First, since one `up` removes what is no longer declared after the jobs have ended.
            self._up(variants.without_workloads(self.config))
            notes.append(
                f"the stack's workloads were removed: they may use all of {', '.join(crowded)}"
            )
        return self._with_jobs(pools, 1, notes)

    def _acceptance_test(self) -> str:
        pools, notes = self._able(lambda pool: variants.with_test(self.config, [pool]))
        config = variants.with_test(self.config, pools)
        args = settings_of(self.stack, without_secrets(config), kubeconfig=NOWHERE).gpu_test
        assert args is not None
        try:
            self._up(config)
        except Failure as failure:
            raise Failure(f"{self._connected.test(args)[2]}\n{failure}") from None
        code, _, text = self._connected.test(args)
        if code is not ExitCode.OK:
            raise (Failure if code is ExitCode.FINDING else Unknown)("\n".join([text, *notes]))
        return "\n".join([text, *notes])

    def _second_up(self) -> str:
        outcome = self._up(self.config, "--refresh")
        if outcome.changed:
            raise Failure(f"it changes {outcome.changed} resources: {_changes(outcome)}")
        return "no changes"

    def _from_zero(self) -> str:
        if PLATFORMS[self.settings.platform].cloud is None:
            raise Skipped("this stack starts no nodes")
        bare = variants.without_workloads(self.config)
        pools, notes = self._able(lambda pool: variants.with_jobs(bare, [pool], 2))
        notes += [f"{pool.name}: minNodes is {pool.min_nodes}" for pool in pools if pool.min_nodes]
        pools = [pool for pool in pools if not pool.min_nodes]
        if not pools:
            raise Skipped("; ".join(notes))
        self._up(bare)
        waits = [f"at 0 after {self._empty(pools):.0f} s"]
        jobs = self._with_jobs(pools, 2, notes)
        self._up(bare)
        waits.append(f"at 0 again {self._empty(pools):.0f} s after the job was removed")
        return "; ".join([waits[0], jobs, waits[1]])

    def _change_in_place(self) -> str:
        sizes = {
            name: resolved.args.max_nodes + 1
            for name, resolved in self.settings.pools.items()
            if getattr(resolved.args, "max_nodes", None)
        }
        refused = {
            name: variants.refusal(variants.grown(self.config, {name: size}))
            for name, size in sizes.items()
        }
        sizes = {name: size for name, size in sizes.items() if not refused[name]}
        if not sizes:
            raise Skipped("; ".join(refused.values()) or "its pools have no maxNodes to change")
        outcome = self._up(variants.grown(self.config, sizes))
        if {what for what, _ in outcome.resources} != {"update"}:
            raise Failure(
                f"another maxNodes does not only update: {_changes(outcome) or 'nothing'}"
            )
        return f"maxNodes of {', '.join(sizes)}: {_changes(outcome)}"

    def _clean_up(self) -> None:
        """Destroys the stack if this run created any of it, and writes down what is left."""
        if self._runs:
            self._run(Planned("leftovers", self._leftovers))
            self._run(Planned("pulumi destroy", self._destroy))
        else:
            self._step = ("pulumi destroy", self._now)
            self._end("skipped", "nothing was created")
        try:
            left = in_cloud(self.pulumi.export())
        except (EngineError, LookupError, ValueError) as error:
            left = [f"the state cannot be read: {error}"] if self._runs else []
        how = f"to delete it: gpu-cluster recover {self.stack}, then pulumi destroy --stack "
        if left and not self._runs:
            how = "not created by this run, which therefore destroyed nothing of "
        self.left += [*left, f"{how}{self.stack}"] if left else []

    def _leftovers(self) -> str:
        for row in resources(self.pulumi.export()):
            if row["type"].startswith(PROVIDER_TYPE):
                name, inputs = row["type"].removeprefix(PROVIDER_TYPE), row.get("inputs") or {}
                self.versions[f"{name} provider"] = str(inputs.get("version", ""))
                if name != "kubernetes":  # Whose inputs have the cluster's name.
                    self.providers |= {f"{name}:{key}": inputs[key] for key in inputs}
        try:
            cluster = self._connected
        except EngineError:
            raise Skipped("the stack did not get as far as a cluster") from None
        code, document, text = cluster.leftovers()
        if code is ExitCode.FINDING:
            # With the cluster, the controllers that would delete these are gone too.
            self.left += [
                f"{row['kind']} {row['name']}: {row['what']}"
                for row in document["leftovers"]
                if row["remove"]
            ]
            raise Failure(text)
        return text

    def _destroy(self) -> str:
        for number in range(_DESTROYS):
            if number:
                self.say(f"destroying again in {self.pause:.0f} s")
                time.sleep(self.pause)
            outcome = self._operate("destroy")
            if outcome.ok:
                self.left += self.remaining()
                return _counts(outcome)
            if self._interruption.given_up:
                break
        raise Failure("\n".join(outcome.errors))

    def _up(self, config: variants.Config, *flags: str) -> Outcome:
        """Runs `up` on this config, which becomes the current one; raises Failure."""
        self.config = config
        whole = {**self.document, "config": dict(config)}
        self._file.write_text(yaml.safe_dump(whole, sort_keys=False))
        outcome = self._operate("up", *flags)
        self.warnings += [line for line in outcome.warnings if line not in self.warnings]
        if not outcome.ok:
            raise Failure("\n".join(outcome.errors))
        return outcome

    def _operate(self, operation: str, *flags: str) -> Outcome:
        self._runs += 1
        log = self.folder / "logs" / f"pulumi-{self._runs}-{operation}.log"
        flags = ("--config-file", str(self._file), *flags)
        start, end = self._interruption.start, self._interruption.end
        outcome = operate(self.pulumi, operation, log, flags, start=start, end=end)
        if self._runs == 1 and not any(what.startswith("create") for what, _ in outcome.resources):
            self._runs = 0  # Another command has the lock: what it creates is not ours to destroy.
        self._interruption.check()
        return outcome

    @property
    def _file(self) -> Path:
        """The changed copy of the stack's file."""
        return self.folder / f"Pulumi.{self.stack}.yaml"

    def _with_jobs(self, pools: Sequence[GpuPool], number: int, notes: Sequence[str]) -> str:
        """Runs a job on each pool, and returns what became of them."""
        self._up(variants.with_jobs(self.config, pools, number))
        with suppress(CheckError):  # The report does without them.
            nodes = self._connected.gpu_nodes()
            self.gpu_nodes += [node for node in nodes if node not in self.gpu_nodes]
        jobs = (
            f"{p.name}: {self._connected.job(variants.job_name(p.name, number))}" for p in pools
        )
        return "; ".join([*jobs, *notes])

    def _able(
        self, change: Callable[[GpuPool], variants.Config]
    ) -> tuple[list[GpuPool], list[str]]:
        """The pools for which the settings accept a change, and why they refuse the others."""
        able, notes = [], []
        for pool in self._chosen():
            reason = variants.refusal(change(pool))
            if pool.all_at_once is not None:
                reason = f"{pool.name} is queued, and its nodes start only for jobs of a queue"
            able += [] if reason else [pool]
            notes += [reason] if reason else []
        if not able:
            raise Skipped("; ".join(notes))
        return able, notes

    def _chosen(self) -> Iterator[GpuPool]:
        for name, resolved in self.settings.pools.items():
            if not self.only or name in self.only:
                yield resolved.pool

    def _has_room(self, pool: GpuPool) -> bool:
        """Whether the pool can have a node that no other pod of the stack needs."""
        groups = [group for group in self.settings.pod_groups if group.pool == pool.name]
        if pool.max_nodes is None:
            return not groups or PLATFORMS[self.settings.platform].cloud is not None
        used = sum(-(-group.gpus_of(group.count) // pool.allocatable) for group in groups)
        return used < pool.max_nodes

    def _empty(self, pools: Sequence[GpuPool]) -> float:
        """Waits until pools have no nodes; returns the seconds."""
        names, began, heard = {pool.name for pool in pools}, time.monotonic(), time.monotonic()
        while True:
            self._interruption.check()
            try:
                nodes = Counter(
                    row["pool"] for row in self._connected.pools() if row["pool"] in names
                )
                heard = time.monotonic()
                if not nodes:
                    return time.monotonic() - began
                self._status = "; ".join(
                    f"pool {name} still has {n} nodes" for name, n in nodes.items()
                )
            except CheckError:
                if time.monotonic() - heard > SILENT_SECONDS:
                    raise
            time.sleep(self.poll)

    @property
    def _connected(self) -> ProvenCluster:
        """The cluster of the stack's output `kubeconfig`."""
        if self._cluster is None:
            kubeconfig = self.pulumi.outputs().get("kubeconfig")
            if kubeconfig is None:
                raise EngineError("the stack has no output kubeconfig")
            self._cluster = self.connect(str(kubeconfig))
        return self._cluster


def refuse_existing(pulumi: Pulumi) -> None:
    """Raises CheckError unless the stack exists in the backend and is empty: a proof destroys all
    of it."""
    stack = pulumi.stack
    try:
        state = pulumi.export()
    except EngineError as error:
        if "no stack named" in str(error):
            raise CheckError(
                f"the backend has no stack {stack}: run pulumi stack init {stack}"
            ) from None
        raise CheckError(str(error)) from None
    if rows := in_cloud(state):
        raise CheckError(
            f"the stack {stack} has {len(rows)} resources, and a proof destroys all of a stack; "
            f"copy its file for a stack of its own, with another cluster.name, or destroy {stack} "
            "first"
        )


def in_cloud(state: Deployment) -> list[str]:
    """The resources in the state, and those whose creation may have begun; without providers and
    components, which exist only there."""
    rows = [*resources(state), *(row["resource"] for row in pending(state))]
    custom = [
        row for row in rows if row.get("custom") and not row["type"].startswith(PROVIDER_TYPE)
    ]
    return [Urn.parse(row["urn"]).label for row in custom]


def _changes(outcome: Outcome) -> str:
    return ", ".join(f"{what} {Urn.parse(urn).name}" for what, urn in outcome.resources)


def _counts(outcome: Outcome) -> str:
    counts = {what: n for what, n in outcome.changes.items() if what not in QUIET}
    return (
        ", ".join(f"{n} {what.removesuffix('e')}ed" for what, n in counts.items()) or "no changes"
    )
