"""The rehearsal with a real node: GPUs that appear, samples that run on them, then shares of one.

Everything is observed through the cluster's API; nothing here gives the node a GPU.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_cluster.components.gpu.acceptance_args import job_name
from gpu_cluster.components.gpu.acceptance_program.report import result_in
from gpu_cluster.components.gpu.acceptance_program.report import text as result_text
from gpu_cluster.rehearsal.control_plane.pods import allocatable_gpus, condition, phase
from gpu_cluster.rehearsal.engine.engine import run_in_thread
from gpu_cluster.rehearsal.gpu_node import exporter, overrides
from gpu_cluster.rehearsal.gpu_node.machine import NAME, Machine
from gpu_cluster.rehearsal.gpu_node.overrides import POOLS, WORKLOADS, Overrides
from gpu_cluster.rehearsal.gpu_node.pytorch import PyTorch
from gpu_cluster.rehearsal.gpu_node.training import Training
from gpu_cluster.rehearsal.processes import POLICY_SETTINGS
from gpu_cluster.rehearsal.real_node.claims import Claims
from gpu_cluster.rehearsal.real_node.lost_worker import LostWorker
from gpu_cluster.rehearsal.real_node.status import View, late_start
from gpu_cluster.rehearsal.scenario import Failure, Planned, Rehearsal
from gpu_cluster.rehearsal.verify.diagnosis import diagnose
from gpu_cluster.stacks.definition.settings import NOWHERE, config_of, settings_of
from gpu_cluster.stacks.live.gpu_survey import survey
from gpu_cluster.stacks.live.gpu_survey import survey_text as table_of

_SERIAL = re.compile(r"(GPU-[0-9a-f]{4})[0-9a-f-]+")
"""A GPU's UUID: enough of it to tell two GPUs apart."""
_COMPUTED = re.compile(
    r"(computed \d+ on (\d+) of (\d+) multiprocessors, a third of the memory is (\w+))"
)
"""What `overrides.sharing_pods` with PyTorch print."""
MEASURE_SECONDS = 300.0
"""How long the acceptance test may take, once nothing else uses the GPUs."""
REPLICAS = 4
"""Pods per GPU, once it is shared."""


@dataclass(slots=True, kw_only=True)
class RealNodeRehearsal(Rehearsal):
    """A rehearsal in which this machine is a node of one pool."""

    machine: Machine
    overrides: Overrides
    pytorch: PyTorch | None = None
    samples: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Pod -> its state, what it waits for, and its log."""
    allocatable: list[tuple[float, int]] = field(default_factory=list)
    """(seconds, the node's `nvidia.com/gpu` from then on)."""
    check: str = ""
    """The output of `gpu-cluster gpus` once the GPUs are available."""
    measured: dict[str, Any] | None = None
    """The result that the acceptance test printed."""
    sample: Mapping[str, Any] = field(default_factory=dict)
    """The pod that had all GPUs of the device plugin."""
    claims: Claims | None = None
    """The DRA driver and its pods, once they are created."""

    def run_until_ready(self) -> bool:
        """The node, its GPUs, the samples on them, a second up, then shared GPUs."""
        return self._run(
            Planned("the node is real", self._node_is_real),
            Planned("pulumi preview", self._preview),
            Planned("pulumi up", self._up),
            Planned("GPUs are allocatable", lambda: self._offers(len(self.machine.gpus))),
            Planned("gpu-cluster gpus shows them", self._gpus_checked),
            Planned("samples run", self._samples_run),
            Planned("the exporter's rights suffice", self._exporter_reads),
            Planned("NVIDIA's runtime takes variables", self._variables_taken),
            Planned("idempotency", self._idempotency),
            Planned("gpu-test measures", self._measured),
            Planned("a training job resumes", self._trained),
            Planned("pulumi up with shared GPUs", self._share),
            Planned("GPUs are shared", lambda: self._offers(REPLICAS * len(self.machine.gpus))),
            Planned("pulumi up with one pod more than shares", self._share_pods),
            Planned("pods share them", self._shares_run),
            Planned("pulumi up with MPS", self._share_by_mps),
            Planned("pods share them by MPS", self._mps_shares_run),
            *self._with_claims,
        )

    @property
    def _with_claims(self) -> list[Planned]:
        self.claims = claims = Claims(
            machine=self.machine,
            view=self._view,
            cache=self.sandbox.cluster_cache,
            api=self.sandbox.control_plane.api,
            until=self._until,
            heard=self._heard,
        )
        return [
            Planned("pulumi up with the DRA driver", self._claim),
            Planned("pods claim the GPUs", self._claims_run),
            Planned("the stack with claims is idempotent", self._idempotency),
            Planned("pods that request GPUs run unchanged", self._unchanged),
            Planned("pulumi up without the DRA driver", self._without_driver),
            Planned("the DRA driver offers the GPUs", self._claimable),
            Planned("a GPU for each pod's claim", claims.one_waits),
            Planned("pods share a claim", claims.shared),
            Planned("a claim is time-sliced", claims.time_sliced),
        ]

    def teardown(self) -> bool:
        """Scales the workloads down, then destroys everything else; the node outlives the stack."""
        return self._run(
            Planned("pulumi destroy", lambda: self._engine(self.sandbox.engine.destroy)),
            Planned("leak check", self._gone),
        )

    def real_node(self, left: Mapping[str, Sequence[str]]) -> Mapping[str, Any]:
        """The report's data about the node; `rehearsal.gpu_node.report_blocks` formats it."""
        return {
            "gpus": [{"name": gpu.name, "memoryMiB": gpu.memory_mib} for gpu in self.machine.gpus],
            "driver": self.machine.driver,
            "versions": self.sandbox.real_node.version if self.sandbox.real_node else {},
            "overrides": self.overrides.made,
            "allocatable": self.allocatable,
            "samples": self.samples,
            "check": self.check,
            "gpuTest": self.measured,
            "left": dict(left),
        }

    @property
    def _view(self) -> View:
        return View(self.sandbox)

    def _node_is_real(self) -> str:
        node = self._view.node()
        if allocatable_gpus(node):
            raise Failure(
                f"node {NAME} has {allocatable_gpus(node)} allocatable GPUs before the stack was "
                "created"
            )
        self.allocatable.append((round(self.sandbox.event_log.now, 2), 0))
        info = node["status"]["nodeInfo"]
        return (
            f"kubelet {info['kubeletVersion']} on {info['containerRuntimeVersion']}, "
            f"{self.machine.description}, allocatable nvidia.com/gpu 0"
        )

    def _up(self) -> str:
        """Ends an `up` that waits for the plugin's pods longer than allowed."""
        engine = self.sandbox.engine
        thread, outcomes = run_in_thread(lambda: engine.up(self.policy_pack))
        thread.join(self.deadline)
        if thread.is_alive():
            why = self._view.about_plugin()
            for _ in range(2):
                engine.interrupt()
                thread.join(5)
            raise Failure(f"pulumi up did not finish within {self.deadline:.0f} s: {why}")
        if not outcomes:
            raise Failure("pulumi up could not be run: see the log")
        return self._engine(lambda: outcomes[0])

    def _offers(self, gpus: int) -> str:
        began = time.monotonic()

        def allocatable() -> bool:
            return allocatable_gpus(self._view.node()) == gpus

        def why() -> str:
            gpus_ = allocatable_gpus(self._view.node())
            return (
                f"node {NAME} has {gpus_} allocatable GPUs, not {gpus}: {self._view.about_plugin()}"
            )

        self._until(allocatable, why)
        before = self.allocatable[-1][1]
        self.allocatable.append((round(self.sandbox.event_log.now, 2), gpus))
        waited = time.monotonic() - began
        return f"allocatable nvidia.com/gpu {before} -> {gpus}, {waited:.1f} s after up"

    def _gpus_checked(self) -> str:
        """Runs `gpu-cluster gpus`, as a user would, on the stack file's copy."""
        program = self.sandbox.folder / "program"
        cluster_cache = self.sandbox.cluster_cache
        settings = settings_of(
            self.sandbox.stack,
            config_of(self.sandbox.stack, program),
            kubeconfig=NOWHERE,
        )
        pools = [resolved.pool for resolved in settings.pools.values()]
        bound = [pod for pod in cluster_cache.pods if pod["spec"].get("nodeName")]
        rows, found = survey(cluster_cache.nodes, bound, cluster_cache.all("DaemonSet"), pools)
        self.check = table_of(rows, found)
        row = next(row for row in rows if row.name == NAME)
        wrong = [f"node {fault.node} {fault.message}" for fault in found if fault.node == NAME]
        if row.allocatable != len(self.machine.gpus):
            wrong.append(f"gpu-cluster gpus counts {row.allocatable} GPUs on node {NAME}")
        if wrong:
            raise Failure(*wrong)
        return f"{NAME}: pool {row.pool}, {row.allocatable} allocatable, nothing wrong"

    def _samples_run(self) -> str:
        """With all GPUs requested twice, one sample runs, one waits; one without a request sees
        none, since NVIDIA's runtime takes no variables of unprivileged pods, as on EKS."""
        workloads = self._workloads()
        asking = [name for name, workload in workloads.items() if workload.get("gpus", 1)]
        without = [name for name in workloads if name not in asking]
        self._until(
            lambda: len(self._view.running(asking)) == 1,
            lambda: self._view.not_running(asking),
        )
        (runs,) = self._view.running(asking)
        waits = [name for name in asking if name != runs]
        self._heard(runs)
        self.sample = self._view.pod(runs)
        for name in without:
            self._sees_none(name)
        for name in waits:
            self._waits(name)
        return (
            f"{runs} runs on all GPUs, {' and '.join(waits)} waits for them, "
            f"{' and '.join(without)} without a limit sees none"
        )

    def _exporter_reads(self) -> str:
        """A pod with the DCGM exporter's rights reads the GPUs' sensors, beside the sample."""
        api = self.sandbox.control_plane.api
        config = config_of(self.sandbox.stack, self.sandbox.folder / "program")
        settings = settings_of(self.sandbox.stack, config, kubeconfig=NOWHERE)
        pool = settings.pools[self.overrides.pool].pool
        api.create(exporter.PODS, exporter.manifest(pool, overrides.SAMPLE))
        try:
            self._until(
                lambda: (
                    self._view.ended(exporter.POD)
                    and phase(self._view.pod(exporter.POD)) in ("succeeded", "failed")
                ),
                lambda: self._view.not_running([exporter.POD]),
            )
            self._heard(exporter.POD)
        finally:
            api.delete(f"{exporter.PODS}/{exporter.POD}")
        return str(self.samples[exporter.POD]["said"]).splitlines()[0]

    def _variables_taken(self) -> str:
        """With the other kind of EKS image, the sample without a limit sees all GPUs."""
        without = [name for name, item in self._workloads().items() if not item.get("gpus", 1)]
        self._take_variables(True)
        self._until(
            lambda: len(self._view.running(without)) == len(without),
            lambda: self._view.not_running(without),
        )
        for name in without:
            self._heard(name, f"{name}, whose variables are taken")
        self._take_variables(False)
        return f"{' and '.join(without)} sees all GPUs without a limit"

    def _take_variables(self, taken: bool) -> None:
        if self.sandbox.real_node is not None:
            self.sandbox.real_node.take_variables(taken)

    def _measured(self) -> str:
        """Runs the acceptance test, with the machine's PyTorch, on all GPUs."""
        if self.pytorch is None:
            return "not measured: this machine's python3 has no PyTorch"
        sandbox, how = self.sandbox, self.pytorch
        self._edit(lambda config: overrides.measured(config, self.overrides.pool, how))
        self._allow(how.mounts.values())
        self._up()
        label = job_name(self.overrides.pool)

        def pods() -> list[Any]:
            return [
                pod
                for pod in sandbox.cluster_cache.pods
                if pod["metadata"].get("labels", {}).get("app") == label
            ]

        self._until(
            lambda: [phase(pod) for pod in pods()] in (["succeeded"], ["failed"]),
            lambda: self._view.not_running([pod["metadata"]["name"] for pod in pods()]) or label,
            MEASURE_SECONDS,
        )
        log = _SERIAL.sub(r"\1...", self._view.log(pods()[0]["metadata"]["name"]))
        self.measured = result_in(log)
        if self.measured is None:
            raise Failure(f"{label} left no result: {' | '.join(log.strip().splitlines()[-3:])}")
        # Read by `python -m quality docs`.
        (sandbox.folder / "gpu-test.json").write_text(json.dumps(self.measured, indent=1) + "\n")
        self.samples[label] = {
            "state": phase(pods()[0]),
            "node": NAME,
            "said": result_text(self.measured),
        }
        if self.measured["verdict"]["exit"]:
            raise Failure(*map(str, self.measured["verdict"]["findings"]))
        return f"every one of {len(self.measured['gpus'])} GPUs is good"

    def _trained(self) -> str:
        """Runs the documented training job: its loss falls, and it survives losing its worker."""
        if (how := self._training) is None:
            return "not trained: this machine's python3 has no PyTorch"
        api = self.sandbox.control_plane.api
        how.provide(api, self._stack_file.parent)
        self._edit(lambda config: overrides.trained(config, self.overrides.pool, how))
        self._up()
        lost = LostWorker(how.name, self._view, self.sandbox.cluster_cache, api, self._until)
        try:
            return lost.resumes()
        finally:
            for pod, log in lost.logs.items():
                text = _SERIAL.sub(r"\1...", log)
                self.samples[pod] = {"state": "trained", "node": NAME, "said": text}

    @property
    def _training(self) -> Training | None:
        if self.pytorch is None:
            return None
        return Training(pytorch=self.pytorch, folder=self.sandbox.folder / "checkpoints")

    def _share(self) -> str:
        """A separate update: the kubelet refuses a pod that is created while one plugin replaces
        another, and a pod without a controller then stays failed. From now on, NVIDIA's runtime
        takes variables, so that pods with CDI devices are seen with both kinds of image."""
        self._take_variables(True)
        self._edit(lambda config: overrides.shared(config, self.overrides.pool, REPLICAS))
        return self._up()

    def _share_pods(self) -> str:
        pods = REPLICAS * len(self.machine.gpus) + 1
        self._edit(lambda config: overrides.sharing_pods(config, self.overrides.pool, pods))
        return self._up()

    def _all_but_one_run(self, *reason: str) -> tuple[Sequence[str], str]:
        """The names of the pods that run, and of the one that waits for this reason."""
        names = list(self._workloads())
        self._until(
            lambda: len(self._view.running(names)) == len(names) - 1,
            lambda: self._view.not_running(names),
        )
        running = self._view.running(names)
        for name in running:
            self._heard(name)
        (waits,) = [name for name in names if name not in running]
        self._waits(waits, *reason)
        return running, waits

    def _shares_run(self) -> str:
        running, waits = self._all_but_one_run()
        gpu_models = {line for name in running for line in self.samples[name]["said"].splitlines()}
        return (
            f"{len(running)} pods at once on {len(self.machine.gpus)} GPU, which they see as "
            f"{' and '.join(sorted(_without_uuid(gpu_models)))}; {waits} waits"
        )

    def _share_by_mps(self) -> str:
        self._take_variables(False)
        pool, pods = self.overrides.pool, REPLICAS * len(self.machine.gpus)
        self._edit(lambda config: overrides.shared(config, pool, REPLICAS, "mps"))
        first = self._up()
        self._edit(lambda config: overrides.sharing_pods(config, pool, pods, self._training))
        return f"{first}, then {self._up()}"

    def _mps_shares_run(self) -> str:
        names = list(self._workloads())
        self._until(
            lambda: len(self._view.running(names)) == len(names),
            lambda: self._view.not_running(names),
        )
        shares = set()
        for name in names:
            self._heard(name, f"{name} with MPS", "computed" if self.pytorch else "GPU")
            for word, share, whole, third in _COMPUTED.findall(self._view.log(name)):
                if int(share) * REPLICAS > int(whole) or third != "refused":
                    raise Failure(f"pod {name} has no share of {REPLICAS} by MPS: it {word}")
                shares.add(f", each on {share} of {whole} multiprocessors")
        return f"{len(names)} pods at once{''.join(sorted(shares))}"

    def _claim(self) -> str:
        """The stack's own DRA driver in place of its device plugin: each GPU has one owner."""
        pods = len(self.machine.gpus) + 1
        self._edit(lambda config: overrides.claiming(config, self.overrides.pool, pods))
        return f"{self._up()}, {self._offers(0)}"

    def _claims_run(self) -> str:
        running, waits = self._all_but_one_run("cannot allocate all claims")
        return f"{' and '.join(running)} run with a GPU each, {waits} waits"

    def _unchanged(self) -> str:
        """The pods of the device plugin, with the stack's driver, once no other pod has a claim."""
        assert self.claims is not None
        self._edit(lambda config: overrides.claiming(config, self.overrides.pool, 0))
        return f"{self._up()}, {self.claims.unchanged(self.sample)}"

    def _without_driver(self) -> str:
        """The stack's driver ends; the next steps need one with other settings."""
        self._edit(lambda config: overrides.unmanaged(config, self.overrides.pool))
        return self._up()

    def _claimable(self) -> str:
        assert self.claims is not None
        offered = self.claims.offered()
        text = _SERIAL.sub(r"\1...", self.claims.published)
        self.samples["ResourceSlice"] = {"state": "published", "node": NAME, "said": text}
        return offered

    def _gone(self) -> str:
        """Does not wait for a deleted sample's pod: a real one takes up to its 30 s of grace."""
        cloud = self.sandbox.cloud
        if self.claims is not None:
            self.claims.withdraw()
        if self._training is not None:
            self._training.withdraw(self.sandbox.control_plane.api)
        self._until(lambda: not cloud.list_resources(), lambda: "; ".join(cloud.list_resources()))
        return self._leak_check()

    def _allow(self, directories: Iterable[str]) -> None:
        """Allows pods to mount these directories, as a user would in the policy pack's settings."""
        if self.policy_pack is None:
            return
        environment, own = self.sandbox.engine.environment, self.sandbox.folder / "policy.json"
        settings = Path(environment.get(POLICY_SETTINGS, self.policy_pack / "config.json"))
        self.overrides.allow(settings, own, directories)
        environment[POLICY_SETTINGS] = str(own)

    def _edit(self, change: Callable[[Any], object]) -> None:
        """Changes the copy of the stack file, as its user would change the file."""
        overrides.edit(self._stack_file, change)

    @property
    def _stack_file(self) -> Path:
        return self.sandbox.program.file

    def _heard(self, name: str, title: str = "", word: str = "GPU") -> None:
        """Records a sample's whole output, which must come from the driver, under a title, and the
        events of one that started late."""
        self._until(
            lambda: word in self._view.output(name),
            lambda: f"pod {name} runs, but says: {self._view.log(name)!r}",
        )
        text = _SERIAL.sub(r"\1...", self._view.output(name))
        pod = self._view.pod(name)
        late = late_start(pod, self.sandbox.cluster_cache.all("Event"))
        sample = {"state": phase(pod), "node": NAME, "said": text}
        self.samples[title or name] = sample | ({"late": late} if late else {})

    def _sees_none(self, name: str) -> None:
        """Records the output of a sample that finds neither driver nor GPU."""
        self._until(
            lambda: self._view.ended(name),
            lambda: f"pod {name}, which has no GPU in its limits, still runs",
        )
        output = self._view.log(name)
        if "GPU" in output:
            raise Failure(f"pod {name} has no GPU in its limits, but sees one: {output!r}")
        self.samples[name] = {"state": "without a GPU", "node": NAME, "said": output}

    def _waits(self, name: str, word: str = "nvidia.com/gpu") -> None:
        """Records why a sample waits, according to the scheduler and to the rehearsal."""
        pod = self._view.pod(name)
        if phase(pod) != "pending":
            raise Failure(f"pod {name} is {phase(pod)}, although no GPU is free for it")
        diagnosis = diagnose(pod, self.sandbox.snapshot())
        message = condition(pod, "PodScheduled").get("message", "")
        if word not in message:
            raise Failure(f"pod {name} waits for something other than GPUs: {message}")
        self.samples[name] = {"state": "pending", "scheduler": message, "why": diagnosis.message}

    def _workloads(self) -> dict[str, Any]:
        """The stack's workloads on the real node's pool."""
        config = config_of(self.sandbox.stack, self.sandbox.folder / "program")
        if self.overrides.pool not in config[POOLS]:
            raise Failure(f"the stack has no pool {self.overrides.pool}")
        return {
            name: workload
            for name, workload in config[WORKLOADS].items()
            if workload["pool"] == self.overrides.pool
        }

    def _until(
        self, true: Callable[[], bool], why: Callable[[], str], seconds: float | None = None
    ) -> None:
        limit = self.deadline if seconds is None else seconds
        began = time.monotonic()
        while not true():
            if time.monotonic() - began > limit:
                raise Failure(f"{why()} (waited {limit:.0f} s)")
            time.sleep(0.1)


def _without_uuid(lines: Iterable[str]) -> set[str]:
    return {line.partition(" (UUID")[0] for line in lines}
