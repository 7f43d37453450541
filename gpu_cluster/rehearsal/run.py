"""A whole rehearsal of one stack, from an empty sandbox to the report."""

import json
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from dataclasses import replace as with_fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_cluster import tools
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.rehearsal.engine.provider_plugins import Choice
from gpu_cluster.rehearsal.event_log import Event
from gpu_cluster.rehearsal.gpu_node import host_changes
from gpu_cluster.rehearsal.kept import how_to_use, write_runner
from gpu_cluster.rehearsal.processes import end_leftovers
from gpu_cluster.rehearsal.report import differences
from gpu_cluster.rehearsal.report.progress import Progress
from gpu_cluster.rehearsal.report.report import (
    Report,
    created,
    gpu_nodes_over_time,
    node_lives,
    pod_lives,
    report_text,
)
from gpu_cluster.rehearsal.report.timeline import svg
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.simulators.cloud import Assuming
from gpu_cluster.tools import on_machine

if TYPE_CHECKING:
    from gpu_cluster.rehearsal.gpu_node.machine import Machine

POLICIES = ROOT / "policy"
"""The policy pack of every rehearsal, unless the project has none."""

SECRET = ("pki", "etcd", "kubeconfig", "home", "pulumi", "program", host_changes.FILE)
"""Files that a finished rehearsal removes from its folder."""


def hold(
    stack: str,
    folder: Path,
    *,
    keep: Callable[[int], None] | None,
    deadline: float,
    machine: "Machine | None" = None,
    replace: str = "",
    revision: str = "",
    plugins: Choice = "auto",
) -> int:
    """Rehearses; returns the exit status. `keep` is called with it if the sandbox is to be kept,
    and returns when the sandbox may end. With `machine`, that machine is one of the nodes.
    `replace`: the command on whose behalf a rehearsal running in the folder is ended; without it,
    FolderError is raised. With `revision`, that revision is deployed before this tree. `plugins`:
    as in SandboxOptions."""
    began = time.monotonic()
    options = SandboxOptions(kept=keep is not None, replace=replace, plugins=plugins)
    with Progress() as progress:
        run = _rehearsal(stack, folder, options, deadline, machine, progress.say, revision)
        return _rehearse(run, progress, keep, began)


def _rehearse(
    run: Rehearsal, progress: Progress, keep: Callable[[int], None] | None, began: float
) -> int:
    sandbox = run.sandbox
    progress.say(f"rehearsing {sandbox.stack}: starting the sandbox ...")
    with sandbox:
        sandbox.event_log.listen(partial(_tell, progress))
        running = run.run_until_ready()
        if keep is not None:
            _write(sandbox, make_report(run, time.monotonic() - began), progress)
            progress.say(how_to_use(sandbox, write_runner(sandbox), running=running))
            keep(0 if running else 1)
            return 0
        if running:
            run.teardown()
        report_seconds = time.monotonic() - began
    run.failures += leftovers(sandbox)
    left = traces(sandbox)
    for name in SECRET:
        _remove(sandbox.folder / name)
    report = make_report(run, report_seconds, left)
    _write(sandbox, report, progress)
    return 0 if report.ok else 1


def _rehearsal(
    stack: str,
    folder: Path,
    options: SandboxOptions,
    deadline: float,
    machine: "Machine | None",
    say: Callable[[str], None],
    revision: str,
) -> Rehearsal:
    pack = POLICIES if POLICIES.is_dir() else None
    if revision:
        from gpu_cluster.rehearsal.change import ChangeRehearsal, before

        return ChangeRehearsal(
            before=before(revision, stack),
            sandbox=Sandbox(stack, folder=folder, options=options),
            deadline=deadline,
            policy_pack=pack,
            say=say,
        )
    if machine is None:
        return Rehearsal(
            sandbox=Sandbox(stack, folder=folder, options=options),
            deadline=deadline,
            policy_pack=pack,
            say=say,
        )
    # Imports what only a node on this machine needs.
    from gpu_cluster.rehearsal.gpu_node.host_node import here
    from gpu_cluster.rehearsal.real_node.scenario import RealNodeRehearsal

    node = here(stack, machine)
    overrides = node.overrides()
    return RealNodeRehearsal(
        sandbox=Sandbox(
            stack, folder=folder, mutate=overrides, options=with_fields(options, here=node)
        ),
        deadline=deadline,
        policy_pack=pack,
        say=say,
        machine=machine,
        overrides=overrides,
        pytorch=node.pytorch,
    )


def leftovers(sandbox: Sandbox) -> list[str]:
    """Processes and ports of an ended sandbox that are still open, and traces of its real node;
    empty unless something is wrong with the sandbox."""
    found = [
        f"process {pid} of the rehearsal was still running" for pid in end_leftovers(sandbox.mark)
    ]
    description = json.loads((sandbox.folder / "sandbox.json").read_text())
    ports = {**description["providers"], "kube-apiserver": description["apiServer"].split(":")[1]}
    for name, port in ports.items():
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                found.append(f"port {port} of {name} is still open")
    return found + [line for lines in traces(sandbox).values() for line in lines]


def traces(sandbox: Sandbox) -> dict[str, list[str]]:
    """Kind of trace -> what a real node left on the machine; empty without one."""
    node = host_changes.read_changes(sandbox.folder)
    if node is None:
        return {}
    return {sort: [f"{line} ({sort})" for line in lines] for sort, lines in node.left().items()}


def make_report(
    run: Rehearsal, seconds: float, left: Mapping[str, Sequence[str]] | None = None
) -> Report:
    """The report of a run so far; `left`: the traces of its real node."""
    events = run.sandbox.event_log.events
    nodes, cloud = node_lives(events), run.sandbox.cloud
    ran = versions(run.sandbox)
    ups = [outcome for outcome in run.outcomes if outcome.operation == "up"]
    return Report(
        stack=run.sandbox.stack,
        ok=not run.failures,
        seconds=round(seconds, 2),
        failures=list(run.failures),
        warnings=[*run.sandbox.notes, *run.warnings],
        versions=ran,
        programs=programs(),
        steps=[asdict(step) for step in run.steps],
        resources=created(urn for up in ups for what, urn in up.resources if what == "create"),
        nodes=nodes,
        pods=pod_lives(events),
        gpu_nodes=gpu_nodes_over_time(nodes),
        refusals=[
            f"{e.detail.get('choice', e.subject)}: {e.detail['message']}"
            for e in events
            if e.what == "refused"
        ],
        template_checks=list(run.template_checks),
        simulated=differences.lines(
            events,
            run.sandbox.options.job_seconds,
            cloud=PLATFORMS[run.sandbox.program.platform].cloud is not None,
            real_node=run.sandbox.real_node is not None,
            kubernetes=(run.sandbox.kubernetes_wanted, ran["Kubernetes"]),
            assumptions=cloud.assumptions() if isinstance(cloud, Assuming) else (),
        ),
        change=run.change(),
        real_node=run.real_node(left or {}),
    )


def versions(sandbox: Sandbox) -> dict[str, str]:
    """The versions of the programs that ran, as far as they report them."""
    modules = {
        "Kubernetes": ("kube-apiserver", "k8s.io/kubernetes"),
        "KWOK": ("kwok", "sigs.k8s.io/kwok"),
        "Karpenter": ("karpenter", "sigs.k8s.io/karpenter"),
    }
    built, found = tools.programs.program("control-plane"), tools.found()
    ran = {
        word: on_machine.version(found[name]) if name in found else built.version(module)
        for word, (name, module) in modules.items()
    }
    if emulated := sandbox.control_plane.emulated:
        ran["Kubernetes"] += f" as {emulated}"
    return {
        "pulumi": sandbox.engine.version(),
        **ran,
        **differences.versions(sandbox.event_log.events),
        **{f"{package} provider:": words for package, words in sandbox.providers.items()},
    }


def programs() -> dict[str, str]:
    """Program -> its version and path on the machine; empty if it was built here."""
    found = tools.found()
    named = [*tools.programs.program("control-plane").binaries, "pulumi"]
    return {
        name: f"{on_machine.version(found[name])} ({found[name]})" if name in found else ""
        for name in named
    }


def _write(sandbox: Sandbox, report: Report, progress: Progress) -> None:
    (sandbox.folder / "report.json").write_text(json.dumps(report.document(), indent=1) + "\n")
    (sandbox.folder / "timeline.svg").write_text(svg(report))
    progress.stop()
    shown = report_text(report)
    (sandbox.folder / "report.txt").write_text(shown + "\n")
    everything, _, verdict = f"\n{report_text(report, progress.width)}".rpartition("\n")
    progress.print(everything)
    progress.print(verdict, "bold green" if report.ok else "bold red")
    progress.print(f"\n{sandbox.folder / 'timeline.svg'}")


def _tell(progress: Progress, event: Event) -> None:
    """Prints one line for events that users want to see while they wait."""
    if event.kind == "node" and event.what in ("joined", "left"):
        progress.say(f"  node {event.subject} {event.what}")
    elif event.kind == "node" and event.what == "gpus":
        progress.say(f"  node {event.subject} has {event.detail['gpus']} allocatable GPUs")
    elif event.kind == "cloud" and event.what == "refused":
        progress.say(f"  the cloud rejects a node of {event.subject}: {event.detail['message']}")
    elif event.kind == "pod" and event.what in ("pending", "ready", "succeeded", "failed"):
        where = f" on {event.detail['node']}" if event.detail["node"] else ""
        progress.say(f"  {event.detail['workload']}: {event.what}{where}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
