"""The steps of a rehearsal: preview, up, workloads run, no changes, scale down, destroy."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gpu_cluster.components.eks.effective import EFFECTIVE_SECONDS
from gpu_cluster.components.gpu.service_args import ScalingArgs
from gpu_cluster.components.platforms import PLATFORMS, Platform
from gpu_cluster.components.settings.blocks import RUNNING
from gpu_cluster.rehearsal.control_plane.cluster_cache import KINDS, has_its_gpus
from gpu_cluster.rehearsal.control_plane.pods import GPU, gpus_asked, part, phase
from gpu_cluster.rehearsal.engine.engine import Outcome, run_in_thread
from gpu_cluster.rehearsal.nodes.migration import movable
from gpu_cluster.rehearsal.nodes.scale_down import evictable
from gpu_cluster.rehearsal.nodes.scalers import rules
from gpu_cluster.rehearsal.report.report import node_lives, pod_lives
from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.simulators.cloud import ClassScaler, NodeGroup
from gpu_cluster.rehearsal.verify import (
    assertions,
    fallbacks,
    probes,
    stack_output_checks,
    topology,
    volumes,
    workers,
)
from gpu_cluster.rehearsal.verify.assertions import settle_seconds
from gpu_cluster.rehearsal.verify.workloads import Workload, declared, reached, why_not
from gpu_cluster.stacks.definition.files import document_in
from gpu_cluster.stacks.engine.urn import Urn

POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
SCALE_IN_SECONDS = 90.0
"""How long nodes may take to leave: Karpenter checks every 10 s and then waits another 15 s, and
for AWS another 10 s until it sees that the instance is gone."""


class Failure(Exception):
    """The rehearsal failed; the lines contain the reasons."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class Planned(NamedTuple):
    """A step that is to run."""

    name: str
    run: Callable[[], str]
    """Returns what the step shows; raises Failure."""
    when: bool = True
    """Whether it applies to the stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step and its result."""

    name: str
    began: float
    """Seconds since the rehearsal began."""
    seconds: float
    ok: bool
    detail: str = ""


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """One rehearsal in one sandbox. `failures` is empty on success."""

    sandbox: Sandbox
    deadline: float = 90.0
    """Seconds that the workloads may take to reach their state after `up`."""
    policy_pack: Path | None = None
    say: Callable[[str], None] = lambda line: None
    steps: list[Step] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    template_checks: list[dict[str, Any]] = field(default_factory=list)
    """The comparison of the pools' template tags with their nodes, for the report."""
    fallen_back: int = 0
    """How many lines about fallbacks the steps have reported."""
    up_began: float = 0.0
    """When the last `up` began: earlier nodes do not show what that update declares."""

    def run_until_ready(self) -> bool:
        """Preview, up, wait, checks, and a second up. Returns whether all steps succeeded."""
        return self._run(
            Planned("pulumi preview", self._preview),
            Planned("pulumi up", self._up),
            self._operator,
            Planned("workloads run", self._workloads_run),
            # A service at zero has no pod before, for which machines could run out.
            Planned("services scale out", self._services_scale_out, when=bool(self._scaled)),
            Planned("pods move back", self._pods_move_back, when=self._restocking),
            Planned("every pool grows", self._every_pool_grows),
            Planned("placement verified", self._placement_verified),
            Planned("node template verified", self._node_template_verified),
            Planned("idempotency", self._idempotency),
            Planned("services scale in", self._services_scale_in, when=bool(self._scaled)),
        )

    def run_up_only(self) -> bool:
        """Only up and wait: whether the workloads get to run."""
        return self._run(
            Planned("pulumi up", self._up),
            self._operator,
            Planned("workloads run", self._workloads_run),
            Planned("placement verified", self._placement_verified),
            Planned("node template verified", self._node_template_verified),
        )

    def teardown(self) -> bool:
        """Scales the workloads down, waits for the GPU nodes to leave, then destroys the rest."""
        return self._run(
            Planned("scale down workloads", self._scale_down_workloads),
            Planned("scale in to minimum", self._scale_in_to_minimum),
            Planned("pulumi destroy", lambda: self._engine(self.sandbox.engine.destroy)),
            Planned("leak check", self._leak_check),
        )

    def real_node(self, left: Mapping[str, Sequence[str]]) -> Mapping[str, Any] | None:
        """The report's data about a real node, whose traces are `left`; None without one."""
        return None

    def change(self) -> Mapping[str, Any] | None:
        """The report's data about a change from an earlier revision; None without one."""
        return None

    def _run(self, *planned: Planned) -> bool:
        """Runs the steps that apply until one fails; returns whether none has."""
        return all(self._step(step.name, step.run) for step in planned if step.when)

    def _step(self, name: str, run: Callable[[], str]) -> bool:
        began = self.sandbox.event_log.now
        self.sandbox.event_log.record("step", name, "began")
        self.say(f"{name} ...")
        try:
            detail, ok = run(), True
        except Failure as failure:
            self.failures += [line for line in failure.lines if line not in self.failures]
            detail, ok = failure.lines[0], False
        findings = [f for f in self.sandbox.event_log.findings if f not in self.failures]
        if ok and not self.workloads:
            findings = []  # the workloads' own messages come first
        self.failures += findings
        ok = ok and not findings
        seconds = round(self.sandbox.event_log.now - began, 2)
        self.steps.append(
            Step(name=name, began=round(began, 2), seconds=seconds, ok=ok, detail=detail)
        )
        self.sandbox.event_log.record("step", name, "ended", ok=ok)
        self.say(f"{name}: {'' if ok else 'FAILED: '}{detail} ({seconds:.1f} s)")
        return ok

    def _engine(self, run: Callable[[], Outcome]) -> str:
        outcome = run()
        self.outcomes.append(outcome)
        self.warnings += [line for line in outcome.warnings if line not in self.warnings]
        if not outcome.ok:
            raise Failure(*outcome.errors)
        return _counts(outcome)

    @property
    def _operator(self) -> Planned:
        sandbox = self.sandbox
        after = sandbox.operator_comes == "after"
        return Planned("GPU Operator installed", sandbox.operator.install, when=after)

    def _preview(self) -> str:
        return self._engine(lambda: self.sandbox.engine.preview(self.policy_pack))

    def _up(self) -> str:
        """Runs `up` and watches the cluster: a workload that can never become ready ends it."""
        sandbox, self.up_began = self.sandbox, self.sandbox.event_log.now
        thread, outcomes = run_in_thread(lambda: sandbox.engine.up(self.policy_pack))
        permanent: dict[str, tuple[float, int]] = {}
        patience = 5 * settle_seconds()
        if self._platform.cloud == "aws":  # Its program pauses until credentials are effective.
            patience = max(patience, EFFECTIVE_SECONDS + settle_seconds())
        while thread.is_alive():
            thread.join(0.2)
            last = max((e.at for e in sandbox.event_log.events if e.kind == "engine"), default=0.0)
            idle = sandbox.event_log.now - last
            if idle < patience:
                continue
            # Nothing else is being created, so a problem at this point is permanent.
            waiting = self._waiting(self._from_cluster())
            lines = self._permanent(waiting, permanent)
            if waiting and idle > self.deadline:
                lines = self._timed_out(waiting)
            if lines:
                sandbox.engine.interrupt()
                thread.join(5)
                sandbox.engine.interrupt()
                thread.join()
                raise Failure(*lines, *self._reasons())
        if not outcomes:
            raise Failure("pulumi up could not be run: see the log")
        return self._engine(lambda: outcomes[0])

    def _from_cluster(self) -> list[Workload]:
        cluster_cache = self.sandbox.cluster_cache
        return [
            Workload(
                kind=kind, namespace=item["metadata"]["namespace"], name=item["metadata"]["name"]
            )
            for kind in ("Deployment", "DaemonSet", "Job", "Pod")
            for item in cluster_cache.all(kind)
            if not item["metadata"].get("ownerReferences")
        ]

    def _workloads_run(self) -> str:
        self.workloads = declared(self.sandbox.engine.resources())
        if not self.workloads:
            return "the stack declares none"
        self._wait_for(self.workloads)
        reached = f"all reached their expected state: {', '.join(map(str, self.workloads))}"
        warm = fallbacks.warm_starts(self.sandbox.event_log.events)
        return "; ".join([reached, *self._fallbacks(), *warm])

    def _fallbacks(self) -> list[str]:
        """What has fallen back and moved since the last call."""
        lines = fallbacks.seen(self.sandbox.event_log.events)[self.fallen_back :]
        self.fallen_back += len(lines)
        return lines

    def _wait_for(
        self, workloads: list[Workload], excused: Callable[[Workload], bool] = lambda name: False
    ) -> None:
        """Waits until the workloads have reached their state or are `excused`, and the nodes of
        their pods have been seen."""
        began = time.monotonic()
        permanent: dict[str, tuple[float, int]] = {}
        while waiting := [name for name in self._waiting(workloads) if not excused(name)]:
            if lines := self._permanent(waiting, permanent):
                raise Failure(*lines, *self._reasons())
            if time.monotonic() - began > self.deadline:
                raise Failure(*self._timed_out(waiting), *self._reasons())
            time.sleep(0.1)
        while self._nodes_behind() and time.monotonic() - began < self.deadline:
            time.sleep(0.1)

    def _nodes_behind(self) -> set[str]:
        """Nodes on which GPU pods have run but that have not been seen with their GPUs yet, and
        will be: each kind has its own watch, and that of nodes may lag behind that of pods."""
        sandbox, events = self.sandbox, self.sandbox.event_log.events
        ran = {
            pod.node
            for pod in pod_lives(events)
            if pod.gpus and pod.node and (pod.ready is not None or pod.done is not None)
        }
        ended = {e.subject for e in events if e.kind == "node" and e.what in ("left", "taken back")}
        seen = {node["metadata"]["name"] for node in sandbox.cluster_cache.gpu_nodes}
        if not (behind := ran - ended - seen):
            return behind
        nodes = sandbox.control_plane.api.items(KINDS["Node"])
        by_name = {node["metadata"]["name"]: node for node in nodes}
        return {name for name in behind if name not in by_name or has_its_gpus(by_name[name])}

    @property
    def _scaled(self) -> Mapping[Workload, ScalingArgs]:
        """The Deployments of services that an autoscaler scales."""
        settings = self.sandbox.program.settings
        return {
            Workload(kind="Deployment", namespace=args.namespace, name=path.split(".")[1]): scaling
            for path, args in (settings.entries if settings else {}).items()
            if (scaling := getattr(args, "scaling", None))
        }

    @property
    def _restocking(self) -> bool:
        """Whether machines that ran out become available again during this rehearsal."""
        cloud = self.sandbox.cloud
        return isinstance(cloud, ClassScaler) and cloud.stock.restocks

    def _pods_move_back(self) -> str:
        """Waits until, with capacity available again, no movable pod is on a later choice."""
        cloud, began = self.sandbox.cloud, time.monotonic()
        assert isinstance(cloud, ClassScaler)
        while cloud.stock.restocking or self._on_later_choices() or self._moving():
            if time.monotonic() - began > self.deadline:
                raise Failure("pods did not move back to an earlier choice of fallback")
            time.sleep(0.1)
        self._wait_for(self.workloads)
        return "; ".join(self._fallbacks()) or (
            "no pod moved" if self.fallen_back else "nothing ran out"
        )

    def _moving(self) -> bool:
        """Whether a node that is being replaced by a better one still exists."""
        events = [event for event in self.sandbox.event_log.events if event.kind == "node"]
        moved = {event.subject for event in events if event.what == "moved back"}
        return not moved <= {event.subject for event in events if event.what == "left"}

    def _on_later_choices(self) -> bool:
        cloud, cache = self.sandbox.cloud, self.sandbox.cluster_cache
        assert isinstance(cloud, ClassScaler)
        groups = cloud.node_groups()
        found = movable(groups, cache.nodes, cache.pods, rules(cache.pods), cloud.starts)
        return bool(found)

    def _services_scale_out(self) -> str:
        """Scales to the maximum, through the subresource that all autoscalers use."""
        detail = self._scale({service: args.max_replicas for service, args in self._scaled.items()})
        return "; ".join([detail, *self._fallbacks()])

    def _services_scale_in(self) -> str:
        """Scales to the minimum; nodes without pods then leave."""
        with self.sandbox.nodes.emptying_soon():
            return self._scaled_in()

    def _scaled_in(self) -> str:
        detail = self._scale({service: args.min_replicas for service, args in self._scaled.items()})
        began = time.monotonic()
        while idle := self._idle():
            if time.monotonic() - began > SCALE_IN_SECONDS:
                raise Failure(*(f"pool {name} still has {n} nodes without GPU pods"
                                for name, n in idle.items()))  # fmt: skip
            time.sleep(0.1)
        return f"{detail}; no GPU node is without GPU pods"

    def _scale(self, pods: Mapping[Workload, int]) -> str:
        """Scales Deployments, and waits until each has exactly that many pods, all ready."""
        for service, count in pods.items():
            path = f"/apis/apps/v1/namespaces/{service.namespace}/deployments/{service.name}/scale"
            self.sandbox.control_plane.api.patch(path, {"spec": {"replicas": count}})
        began = time.monotonic()
        while waiting := [obj for obj, count in pods.items() if not self._has(obj, count)]:
            if time.monotonic() - began > self.deadline:
                raise Failure(*self._timed_out(waiting), *self._reasons())
            time.sleep(0.1)
        return ", ".join(f"{obj.name} has {count} pods" for obj, count in pods.items())

    def _has(self, deployment: Workload, pods: int) -> bool:
        item = self._item(deployment)
        if item is None or item["spec"]["replicas"] != pods:
            return False
        status = item.get("status", {})
        counts = [status.get(key, 0) for key in ("replicas", "availableReplicas")]
        return counts == [pods, pods]

    def _idle(self) -> dict[str, int]:
        """Pools above their minimum -> how many of their nodes have no GPU pods, if any."""
        busy = {
            pod["spec"].get("nodeName")
            for pod in self.sandbox.cluster_cache.pods
            if gpus_asked(pod["spec"]) and phase(pod) not in ("succeeded", "failed")
        }
        snapshot, above = self.sandbox.snapshot(), self._above_minimum()
        idle = {
            group.name: sum(node["metadata"]["name"] not in busy for node in snapshot.of(group))
            for group in snapshot.groups
            if group.name in above
        }
        return {name: nodes for name, nodes in idle.items() if nodes}

    def _every_pool_grows(self) -> str:
        """Starts a probe pod in each pool that has no node from this `up`, because the stack runs
        nothing there or only something that had finished before."""
        sandbox = self.sandbox
        pools, snapshot = (
            stack_output_checks.exported(sandbox.engine.resources()),
            sandbox.snapshot(),
        )
        untried = probes.untried(pools, snapshot, self._new_gpu_nodes())
        refused = {f"probe-{name}": why for name, why in untried.items() if why}
        own = [
            Workload(kind="Pod", namespace="default", name=f"probe-{name}")
            for name, why in untried.items()
            if not why
        ]

        def excused(workload: Workload) -> bool:
            if workload.name not in refused:
                output, now = pools[workload.name.removeprefix("probe-")], sandbox.snapshot()
                reasons = [now.refusals.get(g.name) for g in probes.groups_of(output, now)]
                if why := next(filter(None, reasons), None):
                    refused[workload.name] = f"the cloud rejected it: {why}"
            return workload.name in refused

        try:
            for row in own:
                pool = row.name.removeprefix("probe-")
                for group in probes.groups_of(pools[pool], snapshot):
                    probes.leave_out(sandbox.control_plane.api, snapshot.of(group))
                sandbox.control_plane.api.create(probes.PODS, probes.probe(pool, pools[pool]))
            self._wait_for(own, excused)
        finally:
            for probe in own:
                sandbox.control_plane.api.delete(f"{probes.PODS}/{probe.name}", grace=0)
        self.warnings += [
            f"pool {name.removeprefix('probe-')}: no node of it was started: {why}"
            for name, why in refused.items()
        ]
        grown = [group.name.removeprefix("probe-") for group in own if group.name not in refused]
        if not grown:
            idle = probes.without_gpus(snapshot)
            more = f"; none starts a node in {', '.join(idle)}, without GPUs" if idle else ""
            return (
                f"pods of the stack run in every GPU pool{more}"
                if not refused
                else "see the warnings"
            )
        return (
            f"{', '.join(grown)}: no pod of the stack started a node there, so a probe pod "
            "started one"
        )

    def _new_gpu_nodes(self) -> list[dict[str, Any]]:
        """The GPU nodes that joined since the last `up` began, including those that have left."""
        lives = node_lives(self.sandbox.event_log.events)
        new = {life.name for life in lives if life.joined >= self.up_began}
        return [n for n in self.sandbox.cluster_cache.gpu_nodes if n["metadata"]["name"] in new]

    def _timed_out(self, waiting: list[Workload]) -> list[str]:
        snapshot = self.sandbox.snapshot()
        return [
            f"{why_not(w, self._item(w), snapshot).message} (waited {self.deadline:.0f} s)"
            for w in waiting
        ]

    def _reasons(self) -> list[str]:
        """Errors in the node templates and unnecessary scale-ups, as reasons for timeouts."""
        self.template_checks = assertions.template_checks(
            self.sandbox.cloud, self.sandbox.cluster_cache, self._new_gpu_nodes()
        )
        return [*assertions.broken(self.template_checks), *self._unnecessary_scale_ups()]

    def _unnecessary_scale_ups(self) -> list[str]:
        event_log = self.sandbox.event_log
        lives = node_lives(event_log.events)
        return assertions.unnecessary_scale_ups(lives, event_log.now, settle_seconds())

    def _came_again(self) -> list[str]:
        return assertions.came_again(node_lives(self.sandbox.event_log.events))

    def _item(self, workload: Workload) -> Mapping[str, Any] | None:
        return workload.find(self.sandbox.cluster_cache.all(workload.kind))

    def _waiting(self, workloads: list[Workload]) -> list[Workload]:
        pods = self.sandbox.cluster_cache.pods
        return [w for w in workloads if not reached(w, self._item(w), pods)]

    def _permanent(self, waiting: list[Workload], since: dict[str, tuple[float, int]]) -> list[str]:
        """The diagnoses that have lasted long enough; `since` records when each was first seen.
        Long enough is also a whole turn of the nodes, which may record the cause, or remove it."""
        snapshot = self.sandbox.snapshot()
        now, turns = time.monotonic(), self.sandbox.nodes.turns
        messages = set()
        for workload in waiting:
            item = self._item(workload)
            diagnosis = why_not(workload, item, snapshot)
            if diagnosis.permanent and not reached(workload, item, snapshot.pods):
                messages.add(diagnosis.message)
                since.setdefault(diagnosis.message, (now, turns))
        for message in [message for message in since if message not in messages]:
            del since[message]
        settle = settle_seconds()
        return [
            message
            for message, (first, turn) in since.items()
            if now - first >= settle and turns >= turn + 2
        ]

    def _placement_verified(self) -> str:
        """Checks that GPU pods run on nodes with the right GPUs, which joined in time, and that
        installers and plugins run only on GPU nodes."""
        until = time.monotonic() + settle_seconds()
        # Nodes and pods are watched separately: a node's state may be older than its pods'.
        while (wrong := self._misplaced()) and time.monotonic() < until:
            time.sleep(0.1)
        if wrong:
            raise Failure(*wrong)
        found = [
            pod for pod in self.sandbox.cluster_cache.pods if phase(pod) in ("ready", "succeeded")
        ]
        gpu_pods = sum(1 for pod in found if gpus_asked(pod["spec"]))
        daemons = sum(1 for pod in found if part(pod))
        return f"{gpu_pods} GPU pods and {daemons} installer or plugin pods, all on GPU nodes"

    def _misplaced(self) -> list[str]:
        sandbox = self.sandbox
        groups, events = sandbox.cloud.node_groups(), sandbox.event_log.events
        wrong = assertions.misplaced(groups, sandbox.cluster_cache)
        wrong += assertions.too_early(groups, node_lives(events), pod_lives(events))
        wrong += assertions.without_gpus(sandbox.snapshot()) + self._came_again()
        pods, policies = sandbox.cluster_cache.pods, sandbox.control_plane.api.items(POLICIES)
        unenforced = assertions.unenforced(sandbox.cloud, policies, sandbox.cluster_cache)
        if sandbox.foreign:  # only its owner can change that
            self.warnings += [line for line in unenforced if line not in self.warnings]
        else:
            wrong += unenforced
        if workers.workers(pods):
            nodes = [*sandbox.cluster_cache.gpu_nodes, *sandbox.cluster_cache.nodes]
            wrong += topology.scattered(pods, nodes)
            wrong += [*workers.crowded(pods, pod_lives(events)), *workers.reachable(pods, policies)]
        wrong += evictable(groups, sandbox.cluster_cache.gpu_nodes, pods, rules(pods))
        return wrong + self._without_volumes(pods)

    def _without_volumes(self, pods: Sequence[Mapping[str, Any]]) -> list[str]:
        sandbox, cache = self.sandbox, self.sandbox.cluster_cache
        left = sandbox.control_plane.api.items(volumes.VOLUMES)
        claims = cache.all("PersistentVolumeClaim")
        # The node of a finished job may have left by now.
        nodes = [*cache.gpu_nodes, *cache.nodes]
        return [
            *volumes.unpulled(sandbox.cloud, pods),
            *volumes.unbound(claims),
            *volumes.without_files(pods, cache.all("ConfigMap")),
            *volumes.unidentified(sandbox.cloud, pods),
            *volumes.unmounted(sandbox.cloud, pods, nodes, claims, left),
        ]

    def _node_template_verified(self) -> str:
        """Checks that the autoscaler's node templates and the stack's output match the nodes."""
        sandbox = self.sandbox
        came = self._new_gpu_nodes()
        self.template_checks = assertions.template_checks(
            sandbox.cloud, sandbox.cluster_cache, came
        )
        pools = stack_output_checks.exported(sandbox.engine.resources())
        wrong = assertions.broken(self.template_checks)
        wrong += stack_output_checks.broken(pools, sandbox.snapshot(), sandbox.cluster_cache, came)
        if wrong:
            raise Failure(*wrong, *self._unnecessary_scale_ups())
        tags = sum(len(check["tags"]) for check in self.template_checks)
        if not tags:
            return "the output gpuPools matches the nodes"
        return f"{tags} tags, read back from the cloud, and the output gpuPools match the nodes"

    def _idempotency(self) -> str:
        """The autoscaler has changed node counts by now; reading them must not plan a change."""
        outcome = self.sandbox.engine.up(refresh=True)
        self.outcomes.append(outcome)
        if not outcome.ok:
            raise Failure(*outcome.errors)
        if outcome.changed:
            changes = ", ".join(f"{what} {Urn.parse(urn).name}" for what, urn in outcome.resources)
            raise Failure(f"a second up changes {outcome.changed} resources: {changes}")
        if again := self._came_again():
            raise Failure(*again)
        return "no changes"

    @property
    def _platform(self) -> Platform:
        return PLATFORMS[self.sandbox.program.platform]

    def _scale_down_workloads(self) -> str:
        """Does what a user does to get rid of the stack: removes the workloads and the deletion
        protection from the stack file (the copy), then runs up."""
        file = self.sandbox.program.file
        document = document_in(file.read_bytes(), file.name)
        for key, block in RUNNING.items():
            if block.holds_nodes:
                document["config"][f"gpu-cluster:{key}"] = {}
        if any(
            item.name == "deletion_protection" for item in fields(self._platform.settings.CLUSTER)
        ):
            document["config"]["gpu-cluster:cluster"]["deletionProtection"] = False
        settings = self.sandbox.program.settings
        if not self._platform.owned and settings is not None and settings.batch is not None:
            # Teams have queues too, without a `batch` in the file.
            batch = document["config"].get("gpu-cluster:batch") or {}
            document["config"]["gpu-cluster:batch"] = {**batch, "deletionProtection": False}
        file.write_text(yaml.safe_dump(document, sort_keys=False))
        return self._engine(self.sandbox.engine.up)

    def _scale_in_to_minimum(self) -> str:
        with self.sandbox.nodes.emptying_soon():
            return self._at_minimum()

    def _at_minimum(self) -> str:
        began = time.monotonic()
        while above := self._above_minimum():
            if time.monotonic() - began > SCALE_IN_SECONDS:
                raise Failure(*(f"pool {name} still has {n} idle nodes"
                                for name, n in above.items()))  # fmt: skip
            time.sleep(0.1)
        return "every GPU pool is back at its minimum"

    def _above_minimum(self) -> dict[str, int]:
        snapshot = self.sandbox.snapshot()
        return {
            group.name: len(snapshot.of(group))
            for group in snapshot.groups
            if GPU in group.node.capacity and len(snapshot.of(group)) > _fewest(group)
        }

    def _leak_check(self) -> str:
        left = [f"the cloud still holds {line}" for line in self.sandbox.cloud.list_resources()]
        left += [f"the cluster of another owner: {line}" for line in self.sandbox.disturbed()]
        left += [f"the state still has {r['urn']}" for r in self.sandbox.engine.resources()]
        theirs = not self._platform.owned
        if self.sandbox.control_plane.running != theirs:
            left.append(f"the cluster's control plane {'is gone' if theirs else 'still runs'}")
        if left:
            raise Failure(*left)
        where = "in the cluster, which still exists" if theirs else "in the cloud, no cluster"
        return f"nothing left in the state, nothing left {where}"


def _fewest(group: NodeGroup) -> int:
    """The number of nodes that stay when nothing runs on them; not the pool's initial count, if an
    autoscaler may remove those."""
    if group.autoscaled and not group.unscaled:
        return group.min_nodes
    return max(group.target_nodes, group.min_nodes)


def _counts(outcome: Outcome) -> str:
    changes = {what: n for what, n in outcome.changes.items() if what != "same"}
    return ", ".join(f"{n} to {what}" if outcome.operation == "preview" else f"{n} {_done(what)}"
                     for what, n in changes.items()) or "no changes"  # fmt: skip


def _done(operation: str) -> str:
    return operation + ("d" if operation.endswith("e") else "ed")
