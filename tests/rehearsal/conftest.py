"""Rehearsals of a committed environment with one thing wrong, in the program or in the cloud."""

import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.control_plane.pods import allocatable_gpus
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.processes import Processes
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.definition.program import Mutation
from quality.faults.fault_run import FaultRunner


@pytest.fixture(autouse=True)
def no_traceback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A defect of a simulator, which a client may get over by asking again, fails the test."""
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.exc_info] == []


Rehearse = Callable[..., Rehearsal]
Sandboxes = Callable[[str], Sandbox]
"""Stack -> its sandbox, the same for every test of this process that asks for it."""
Runners = Callable[[str], FaultRunner]
"""Stack -> its sandbox in which operations may fail, likewise."""

SHARED = ExitStack()
"""What the tests of a group share. It ends with the group: what runs costs processor time as long
as it runs, and a worker has other groups after this one."""


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0] if mark else item.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Ends what a group shares after its last test on this worker."""
    try:
        return (yield)
    finally:
        if nextitem is None or _group(nextitem) != _group(item):
            SHARED.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Iterator[None]:
    """A failure of a test shows why nodes or pods of its rehearsal may have been late."""
    report: Any = yield
    for value in item.funcargs.values() if report.failed else ():
        if isinstance(sandbox := getattr(value, "sandbox", value), Sandbox):
            report.sections.append((f"rehearsal of {sandbox.stack}", "\n".join(late(sandbox))))
    return report


def late(sandbox: Sandbox) -> Iterator[str]:
    """The ends of what happened and of Karpenter's log, and the events of pods that wait. Asks
    no server: it may be what failed."""
    for file in (sandbox.folder / "events.jsonl", sandbox.processes.logs / "karpenter.log"):
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        yield from (f"{file.name}: {line[:600]}" for line in lines[-15:])
    cache = sandbox.cluster_cache
    waiting = {pod["metadata"]["uid"] for pod in cache.pods if pod["status"]["phase"] == "Pending"}
    for event in cache.all("Event"):
        if event["involvedObject"].get("uid") in waiting:
            yield f"pod {event['involvedObject']['name']}: {event['reason']}: {event['message']}"


STATE_AT_THE_END = {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}
"""The engine writes its state once. After every operation, as it does by itself, is for runs that
are killed, and half of the work where the state has Kueue's definitions in it."""


@contextmanager
def entered(
    stack: str,
    folder: Path,
    *mutations: Mutation,
    source: Path = ROOT,
    faults: Faults | None = None,
    options: SandboxOptions | None = None,
) -> Iterator[Sandbox]:
    """A sandbox with these things wrong, for runs that nobody kills. `source`: the program."""

    def mutate(program: Path) -> None:
        for mutation in mutations:
            mutation(program)

    with Sandbox(
        stack, source=source, folder=folder, mutate=mutate, faults=faults, options=options
    ) as sandbox:
        sandbox.engine.environment.update(STATE_AT_THE_END)
        yield sandbox


def with_inventory(folder: Path, stack: str, inventory: object, **options: Any) -> SandboxOptions:
    """Options of a sandbox of the stack in which there is what this inventory says."""
    (folder / f"{stack}.yaml").write_text(yaml.safe_dump(inventory))
    return SandboxOptions(inventories=folder, **options)


@pytest.fixture
def rehearse(tmp_path: Path) -> Iterator[Rehearse]:
    """Rehearses a stack, dev by default, up to the point where its workloads run, or cannot."""
    with ExitStack() as sandboxes:

        def run(
            *mutations: Mutation,
            stack: str = "dev",
            faults: Faults | None = None,
            deadline: float = 45,
        ) -> Rehearsal:
            sandbox = sandboxes.enter_context(
                entered(stack, tmp_path / "sandbox", *mutations, faults=faults)
            )
            rehearsal = Rehearsal(sandbox=sandbox, deadline=deadline)
            rehearsal.run_up_only()
            return rehearsal

        yield run


@pytest.fixture(scope="session")
def previewing(tmp_path_factory: pytest.TempPathFactory) -> Sandboxes:
    """Sandboxes in which nothing is ever applied, each without a cluster of its own.

    Tests that use it are of one group, and change the program only within `as_it_was`.
    """

    @cache
    def sandbox(stack: str) -> Sandbox:
        folder = tmp_path_factory.mktemp(stack) / "sandbox"
        made = Sandbox(stack, folder=folder, options=SandboxOptions(prestart=False))
        SHARED.callback(sandbox.cache_clear)
        return SHARED.enter_context(made)

    return sandbox


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Sandboxes:
    """Sandboxes with the environment up and its workloads running, for tests of one group."""

    @cache
    def sandbox(stack: str) -> Sandbox:
        folder = tmp_path_factory.mktemp(stack) / "sandbox"
        made = Sandbox(stack, folder=folder, options=SandboxOptions(job_seconds=1))
        SHARED.callback(sandbox.cache_clear)
        rehearsal = Rehearsal(sandbox=SHARED.enter_context(made), deadline=120)
        assert rehearsal.run_up_only(), rehearsal.failures
        return made

    return sandbox


@pytest.fixture(scope="session")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Runners:
    """Environments without nodes that scale, up until a test destroys them, for tests of one
    group."""

    @cache
    def runner(stack: str) -> FaultRunner:
        made = SHARED.enter_context(FaultRunner(stack, tmp_path_factory.mktemp(stack)))
        SHARED.callback(runner.cache_clear)
        made.baseline_up()
        return made

    return runner


@pytest.fixture(scope="session")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], LocalControlPlane]:
    """The control plane of one group's tests."""

    @cache
    def started() -> LocalControlPlane:
        folder = tmp_path_factory.mktemp("plane")
        processes = Processes(folder / "logs", str(folder))
        SHARED.callback(started.cache_clear)
        SHARED.callback(processes.stop)
        found = LocalControlPlane(folder, processes)
        SHARED.callback(found.stop)
        found.ensure_started()
        return found

    return started


@pytest.fixture(scope="module")
def plane(planes: Callable[[], LocalControlPlane]) -> LocalControlPlane:
    """A control plane without nodes, for tests of one group: each has names of its own in it."""
    return planes()


def run_cli(
    *words: str, folder: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`gpu-cluster` with these words, in this folder; one that hangs fails after five minutes."""
    return subprocess.run(
        [sys.executable, "-m", "gpu_cluster.cli", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


@contextmanager
def as_it_was(sandbox: Sandbox) -> Iterator[Path]:
    """The program's copy and the stack's file, which mutations may change: put back at the end."""
    program = sandbox.folder / "program"
    files = [program / "__main__.py", program / f"Pulumi.{sandbox.stack}.yaml"]
    kept = {file: file.read_text() for file in files}
    try:
        yield program
    finally:
        for file, text in kept.items():
            file.write_text(text)


@contextmanager
def updated(sandbox: Sandbox, *mutations: Mutation, deadline: float = 60) -> Iterator[Rehearsal]:
    """A running environment with these changes, rehearsed again; at the end it is as it was."""

    def gpu_nodes() -> int:
        return sum(allocatable_gpus(node) > 0 for node in sandbox.cluster_cache.nodes)

    before = gpu_nodes()
    try:
        with as_it_was(sandbox) as program:
            for mutation in mutations:
                mutation(program)
            rehearsal = Rehearsal(sandbox=sandbox, deadline=deadline)
            rehearsal.run_up_only()
            yield rehearsal
    finally:
        up(sandbox)
        until(lambda: gpu_nodes() <= before, "the nodes that came are gone")


def up(sandbox: Sandbox, *mutations: Mutation) -> None:
    """Runs the program with these changes, which stay."""
    for mutation in mutations:
        mutation(sandbox.folder / "program")
    outcome = sandbox.engine.up()
    assert outcome.ok, outcome.errors


def until(found: Callable[[], Any], what: str, seconds: float = 120) -> Any:
    """Waits for what is true, and returns it; fails with `what` it waited for."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return value


def details(rehearsal: Rehearsal) -> dict[str, str]:
    """Step -> what it shows."""
    return {step.name: step.detail for step in rehearsal.steps}


def nothing_stays(rehearsal: Rehearsal) -> None:
    """A second up changed nothing, and a destroy left nothing."""
    steps = details(rehearsal)
    assert steps["idempotency"] == "no changes"
    assert steps["leak check"] == (
        "nothing left in the state, nothing left in the cloud, no cluster"
    )


def rehearsed(
    stack: str,
    folder: Path,
    *mutations: Mutation,
    whole: bool = True,
    between: Callable[[Sandbox], None] = lambda sandbox: None,
    deadline: float = 90,
    policy_pack: Path | None = None,
    source: Path = ROOT,
    options: SandboxOptions | None = None,
) -> Rehearsal:
    """A rehearsal that has ended. `whole`: with a second up, and until everything has left;
    `between`: before that."""
    with entered(stack, folder, *mutations, source=source, options=options) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=deadline, policy_pack=policy_pack)
        if not whole:
            rehearsal.run_up_only()
            between(sandbox)
        elif rehearsal.run_until_ready():
            between(sandbox)
            rehearsal.teardown()
        return rehearsal


@contextmanager
def whole_life(
    stack: str,
    folder: Path,
    *mutations: Mutation,
    deadline: float = 180,
    options: SandboxOptions | None = None,
) -> Iterator[Rehearsal]:
    """A rehearsal whose workloads have run and whose second up changed nothing; at the end, destroy
    leaves nothing."""
    with entered(stack, folder, *mutations, options=options) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=deadline)
        assert rehearsal.run_until_ready(), rehearsal.failures
        yield rehearsal
        rehearsal.teardown()
        assert rehearsal.failures == []
        nothing_stays(rehearsal)


def changed(resource_type: str, code: str, *, name: str = "") -> Mutation:
    """A mutation of the program: `code` changes `props` of every resource of this type.

    It runs where the resource is registered, so it holds however the program is written.
    """
    condition = f"args.type_ == {resource_type!r}" + (f" and args.name == {name!r}" if name else "")
    return patched(
        "import pulumi\n\n\n"
        "def _mutation(args):\n"
        f"    if {condition}:\n"
        "        props = args.props\n"
        f"{textwrap.indent(textwrap.dedent(code).strip(), ' ' * 8)}\n"
        "    return pulumi.ResourceTransformationResult(args.props, args.opts)\n\n\n"
        "pulumi.runtime.register_stack_transformation(_mutation)\n"
    )


def without_pods(daemon_set: str) -> Mutation:
    """A mutation by which a DaemonSet selects no node."""
    code = 'props["spec"]["template"]["spec"]["node_selector"] = {"no": "node"}'
    return changed("kubernetes:apps/v1:DaemonSet", code, name=daemon_set)


def configured(change: Callable[[dict], None]) -> Mutation:
    """A mutation of the stack's file; `change` gets its `config`."""

    def mutate(program: Path) -> None:
        (file,) = program.glob("Pulumi.*.yaml")
        document = yaml.safe_load(file.read_text())
        change(document["config"])
        file.write_text(yaml.safe_dump(document, sort_keys=False))

    return mutate


def pools(**values: object) -> Mutation:
    """Other settings of the pool train-gpu, which the program accepts."""
    return configured(lambda config: config["gpu-cluster:gpuPools"]["train-gpu"].update(values))


def all_pools(**values: object) -> Mutation:
    """Other settings of all GPU pools, likewise."""

    def change(config: dict[str, Any]) -> None:
        for pool in config["gpu-cluster:gpuPools"].values():
            pool.update(values)

    return configured(change)


def patched(code: str) -> Mutation:
    """A mutation of what the program is made of: `code` runs before it, and replaces by name what
    no resource's properties show."""

    def mutate(program: Path) -> None:
        main = program / "__main__.py"
        main.write_text(f"{textwrap.dedent(code).strip()}\n\n{main.read_text()}")

    return mutate


def every_pool(**fields: object) -> Mutation:
    """A mutation of all GPU pools, whatever the platform makes of its settings."""
    return patched(
        f"""
        from gpu_cluster.components.cluster import GpuPool

        _resolved = GpuPool.__init__
        GpuPool.__init__ = lambda self, **fields: _resolved(self, **{{**fields, **{fields!r}}})
        """
    )


def every_contract(**fields: str) -> Mutation:
    """A mutation of the output `gpuPools`: field -> an expression, in which `pool` is the pool."""
    values = ", ".join(f"{name!r}: {expression}" for name, expression in fields.items())
    return patched(
        f"""
        from gpu_cluster.components.cluster import GpuPool

        _contract = GpuPool.contract
        GpuPool.contract = lambda pool: {{**_contract(pool), {values}}}
        """
    )


def plain(message: str) -> str:
    """A message without the random part of names: those of nodes, pods, pools and roles."""
    message = re.sub(r"(train-gpu|gpu-dev-system|k8s-ml-system)-[0-9a-f]{7}\b", r"\1", message)
    message = re.sub(r"(train-gpu|system)-\d{14}[0-9a-f]{12}\b", r"\1", message)
    message = re.sub(r"eks-train-gpu-[0-9a-f-]{36}", "eks-train-gpu", message)
    message = re.sub(r"(k8s-ml-(?:nodes|vpc-cni|autoscaler))-[0-9a-f]{7}\b", r"\1", message)
    message = re.sub(r"(installer-cos|nvidia-device-plugin)-[a-z0-9]{5}\b", r"\1-POD", message)
    message = re.sub(
        r"node (gpu-dev-system|k8s-ml-system|system)-[0-9a-f]{4}\b", r"node \1-NODE", message
    )
    message = re.sub(
        r"node (dgx-a|dgx-b|workstation|forgotten|control)-[0-9a-f]{4}\b", r"node \1", message
    )
    return re.sub(r"node [a-z]+-[a-z]+-\d+", "node NODE", message)


def found_by_its_words(
    rehearse: Rehearse,
    change: Callable[[dict[str, Any]], None],
    mistake: tuple[Mutation, str],
    *,
    stack: str,
    deadline: int = 90,
) -> None:
    """A rehearsal of the stack with the change of its config and this mistake fails in its words.
    `deadline`: seconds for the pods to become ready."""
    mutation, words = mistake
    rehearsal = rehearse(configured(change), mutation, stack=stack, deadline=deadline)
    assert any(words in line for line in said(rehearsal)), said(rehearsal)


def said(rehearsal: Rehearsal) -> list[str]:
    """What failed, without random names."""
    return [plain(failure) for failure in rehearsal.failures]
