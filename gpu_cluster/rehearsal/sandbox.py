"""Everything that a rehearsal needs around the engine, owned by one process and ended with it.

There is one sandbox per folder: starting one ends an earlier one's remains there.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.rehearsal.control_plane import keda
from gpu_cluster.rehearsal.control_plane.cluster_cache import ClusterCache
from gpu_cluster.rehearsal.control_plane.controllers import Controllers
from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.control_plane.pod_network import PodNetwork
from gpu_cluster.rehearsal.control_plane.pods import full_name, maps_requests, with_published
from gpu_cluster.rehearsal.engine.engine import BIN, Engine
from gpu_cluster.rehearsal.engine.program_copy import copied
from gpu_cluster.rehearsal.engine.provider_plugins import POINTED, Choice, Plugin, chosen
from gpu_cluster.rehearsal.engine.proxied_plugins import ProxiedPlugins
from gpu_cluster.rehearsal.event_log import EventLog
from gpu_cluster.rehearsal.existing.cluster import (
    disturbed,
    owners_objects,
    with_controllers,
    with_objects,
    with_runtime_classes,
)
from gpu_cluster.rehearsal.existing.gpu_operator import GpuOperator
from gpu_cluster.rehearsal.gpu_node import host_changes
from gpu_cluster.rehearsal.lock import holder, take_over
from gpu_cluster.rehearsal.nodes.autoscaler import Autoscaler
from gpu_cluster.rehearsal.nodes.bounds import Bounds
from gpu_cluster.rehearsal.nodes.kwok import Kwok
from gpu_cluster.rehearsal.nodes.node_registration import group_name
from gpu_cluster.rehearsal.nodes.nodes import Nodes
from gpu_cluster.rehearsal.platforms import simulator
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.plugins.kubernetes.server import KubernetesProviderServer
from gpu_cluster.rehearsal.processes import ProcessError, Processes, base_env
from gpu_cluster.rehearsal.simulators.cloud import Cloud
from gpu_cluster.rehearsal.simulators.inventory import (
    INVENTORIES,
    controllers,
    file_of,
    gpu_operator,
    objects,
    startup_taints,
)
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot
from gpu_cluster.stacks.definition.files import ROOT as ROOT
from gpu_cluster.stacks.definition.files import stack_file
from gpu_cluster.stacks.definition.program import Mutation

if TYPE_CHECKING:
    from gpu_cluster.rehearsal.gpu_node.host_node import HostNode
    from gpu_cluster.rehearsal.gpu_node.node import RealNode

MACHINES_SECONDS = 30.0
"""How long the machines of an existing cluster may take to join."""
OWNERS_SECONDS = 60.0
"""How long its owner's Deployments may take to be available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """Options of a sandbox; the defaults are a rehearsal's."""

    job_seconds: float = 5.0
    """How long the pods of a Job run."""
    scaling: bool = True
    """If false, only nodes that the cloud itself creates join."""
    prestart: bool = True
    """Whether the control plane starts before a cluster is created; previews do not need it."""
    here: "HostNode | None" = None
    """This machine as one of an existing cluster's nodes."""
    kept: bool = False
    replace: str = ""
    """`kept` and `replace` are passed to `take_over`."""
    inventories: Path = INVENTORIES
    plugins: Choice = "auto"
    """Which provider plugins to use; `official` is refused if one is not installed."""


class Sandbox:
    """A stack's sandbox. Use it as a context manager; everything ends with it."""

    def __init__(
        self,
        stack: str,
        *,
        source: Path = ROOT,
        folder: Path | None = None,
        faults: Faults | None = None,
        mutate: Mutation | None = None,
        options: SandboxOptions | None = None,
    ) -> None:
        """`source`: the program's folder. `folder`: the sandbox's, by default .rehearsal/STACK.
        `mutate`: changes the copy of the program before it runs."""
        self.stack = stack
        self.folder = folder or source / ".rehearsal" / stack
        self.options = options or SandboxOptions()
        self._source = source
        self._faults = faults or Faults()
        self._mutate = mutate
        self.notes: list[str] = []
        """Notes about the sandbox for the report: what was derived or omitted."""
        self.real_node: RealNode | None = None
        self._ending = ExitStack()
        self._foreign: Mapping[str, str] = {}
        self.drop_plugins: Callable[[], None] = lambda: None
        """Drops the waits and connections that would be lost if the engine were killed."""

    def __enter__(self) -> "Sandbox":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when the engine can run; the control plane may still be starting."""
        self.mark = str(self.folder)
        stack_file(self._source, self.stack)
        options = self.options
        earlier = host_changes.read_changes(self.folder) if holder(self.folder) else None
        self._ending.callback(
            take_over(self.folder, self.stack, kept=options.kept, replace=options.replace)
        )
        if earlier is not None:
            left = [line for lines in earlier.left().values() for line in lines]
            self.notes += [f"an earlier real node left {line}" for line in left]
        self.program = copied(self.stack, self._source, self.folder / "program", self._mutate)
        self.notes += self.program.notes
        self.notes += [keda.NOTE] if keda.wanted(self.program.settings) else []
        self.event_log = EventLog(self.folder / "events.jsonl")
        self.cluster_cache = ClusterCache(self.event_log)
        self.processes = Processes(self.folder / "logs", self.mark)
        self._ending.callback(self.processes.stop)
        network = PodNetwork(self.folder)
        self._ending.callback(network.stop)
        self.control_plane = LocalControlPlane(
            self.folder,
            self.processes,
            egress=network.egress,
            version=self.kubernetes_wanted,
        )
        self.operator = GpuOperator(lambda: self.control_plane.api, self.program.settings)
        self.operator_comes = gpu_operator(self.stack, options.inventories)
        self._note_operator()
        self.control_plane.follow(self._install_what_is_there)
        kwok = Kwok(
            self.folder,
            self.processes,
            self.control_plane.kubeconfig,
            job_seconds=options.job_seconds,
        )
        self.control_plane.follow(kwok.start, kwok.stop)
        bounds = Bounds(self.control_plane.pki)
        self._ending.callback(bounds.stop)
        self._ending.callback(self.control_plane.stop)
        # A simulated cloud knows the version of a cluster that is not the stack's.
        known = self.kubernetes_wanted or PLATFORMS[self.program.platform].cloud is None
        if options.prestart and known:
            ahead = threading.Thread(target=self._start_ahead, name="prestart", daemon=True)
            ahead.start()
            self._ending.callback(ahead.join)
        ports = self._start_providers()
        self.engine = Engine(
            self.folder,
            self.program.folder,
            self.stack,
            providers=ports,
            token_file=self.control_plane.pki.token_file,
            mark=self.mark,
            plugins=tuple(path.parent for path in self._official.values()),
            environment=self._served.environment | self._pointed(),
            on_event=lambda operation, what, urn: self.event_log.record(
                "engine", operation, what, urn=urn
            ),
        )
        autoscaler = Autoscaler(
            self.folder,
            self.processes,
            bounds=bounds,
            idle=not options.scaling,
            absent=self._own_karpenter,
        )
        self.nodes = Nodes(
            self.control_plane, self.cloud, autoscaler, self.cluster_cache, self.event_log,
            self._faults.gpus_late, lambda: self.engine.working, self.operator.labels,
            startup_taints(self.stack, options.inventories),
        )  # fmt: skip
        self.control_plane.follow(self.nodes.start, self.nodes.stop)
        self.controllers = Controllers(
            self.folder, self.control_plane, self.processes, network, self.cluster_cache,
            self.event_log, self.cloud,
        )  # fmt: skip
        self.control_plane.follow(self.controllers.start, self.controllers.stop)
        if options.here is not None:
            self._start_real_node(options.here)
        if not PLATFORMS[self.program.platform].owned:
            self._wait_for_machines()
        self.engine.init()
        self._write_description(ports)

    def stop(self) -> None:
        """Stops everything, in reverse order of the start."""
        self._ending.close()

    @property
    def providers(self) -> dict[str, str]:
        """Package -> the plugin that serves it, for the report."""
        return {name: plugin.words for name, plugin in self._plugins.items()}

    @property
    def _official(self) -> dict[str, Path]:
        """Package -> the official plugin that serves it."""
        return {
            name: pair.program for name, pair in self._plugins.items() if pair.program is not None
        }

    def _pointed(self) -> dict[str, str]:
        """The environment variables with which official plugins reach the rehearsal."""
        found: dict[str, str] = {}
        for package in self._official:
            found |= POINTED[package](self._served.points)
        return found

    @property
    def _own_karpenter(self) -> bool:
        """Whether the stack or EKS runs Karpenter, which then replaces the rehearsal's own."""
        settings = self.program.settings
        cluster = settings.cluster if settings else None
        scaler = SCALERS.get(getattr(cluster, "scaler", ""))
        return scaler is not None and scaler.node_pools

    @property
    def kubernetes_wanted(self) -> str:
        """The Kubernetes version of the stack's cluster; empty if only its owner knows."""
        settings = self.program.settings
        cluster = settings.cluster if settings else None
        named = getattr(cluster, "first_version", None) or getattr(cluster, "version", None)
        return str(named or "")

    @property
    def cloud_api(self) -> str | None:
        """URL of the cloud's own API; None if there is none."""
        return self._served.api

    def snapshot(self) -> ClusterSnapshot:
        """The current cluster and cloud, for a diagnosis."""
        outdated = self.nodes.outdated
        groups = [
            replace(group, template=outdated.get(group.name, group).template)
            for group in self.nodes.scaled(self.cluster_cache.pods)
        ]
        nodes: dict[str, list[dict[str, Any]]] = {group.name: [] for group in groups}
        slices = self.cluster_cache.all("ResourceSlice")
        for node in self.cluster_cache.nodes:
            if (name := group_name(node, groups)) is not None:
                nodes[name].append(with_published(node, slices))
        return ClusterSnapshot(
            groups=groups,
            nodes=nodes,
            pods=self.cluster_cache.pods,
            daemon_sets=self.cluster_cache.all("DaemonSet"),
            events=self.cluster_cache.all("Event"),
            refusals=dict(self.nodes.refusals),
            waiting=dict(self.nodes.waiting),
            sharing=dict(self.nodes.sharing),
            device_classes=self.cluster_cache.device_classes,
            mapped=maps_requests(self.cluster_cache.device_classes.values()),
            claim_templates={
                full_name(item): item for item in self.cluster_cache.all("ResourceClaimTemplate")
            },
            resource_claims={
                full_name(item): item for item in self.cluster_cache.all("ResourceClaim")
            },
        )

    def _start_providers(self) -> dict[str, int]:
        here = self.options.here
        self._served = simulator.serve(
            self.program.platform,
            simulator.Rehearsed(
                stack=self.stack,
                control_plane=self.control_plane,
                faults=self._faults,
                folder=self.folder,
                settings=self.program.settings,
                inventories=self.options.inventories,
                here=here.inventory if here else None,
            ),
        )
        self.cloud: Cloud = self._served.cloud
        self.notes += self._served.notes
        self._ending.callback(self._served.stop)
        self._plugins: dict[str, Plugin] = chosen(
            {*self._served.ports, "kubernetes"}, self.options.plugins
        )
        ports = {
            name: port for name, port in self._served.ports.items() if name not in self._official
        }
        if "kubernetes" not in self._official:
            environment = {
                **base_env(),
                "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
                "REHEARSAL_TOKEN_FILE": str(self.control_plane.pki.token_file),
                **self._served.environment,
            }
            kubernetes = KubernetesProviderServer(
                environment, self._faults, only=self.control_plane.endpoint
            )
            kubernetes.start()
            self.drop_plugins = kubernetes.drop
            self._ending.callback(kubernetes.stop)
            ports["kubernetes"] = kubernetes.port
        if self._faults.hit_operations:
            proxies = ProxiedPlugins(self.folder / "plugins", self._faults)
            self._ending.callback(proxies.stop)
            for name, program in self._official.items():
                in_place = proxies.in_place_of(program)
                self._plugins[name] = replace(self._plugins[name], program=in_place)
        return ports

    def _start_ahead(self) -> None:
        """Starts the control plane before the cluster resource needs it."""
        try:
            self.control_plane.ensure_started()
        except ProcessError as error:
            # The cluster resource will try again, and report a failure to the engine.
            self.event_log.record("cloud", "control plane", "error", message=str(error))

    def _note_operator(self) -> None:
        pools = self.program.settings.pools.items() if self.program.settings else ()
        left = [name for name, pool in pools if pool.pool.left_to_others]
        if self.operator_comes:
            self.notes.append("of the GPU Operator, driver and device plugin are simulated")
        elif left and PLATFORMS[self.program.platform].cloud is not None:
            self.notes.append(
                f"driver or devicePlugin of {', '.join(left)} is none, but there is no GPU "
                f"Operator: gpuOperator: after in {file_of(self.stack)} installs it"
            )

    def _install_what_is_there(self) -> None:
        """Installs what an owner's cluster has before the stack."""
        if self.operator_comes == "before":
            self.operator.install()
        if keda.wanted(self.program.settings):
            self.control_plane.define([keda.DEFINITION])

    def _start_real_node(self, here: "HostNode") -> None:
        self.control_plane.ensure_started()
        (group,) = (group for group in self.cloud.node_groups() if group.real)
        node = here.node(self.folder, self.processes, self.control_plane, group)
        self.real_node = node
        self._ending.callback(node.stop)
        node.start()

    def _wait_for_machines(self) -> None:
        """Waits until an existing cluster has all its machines, before the stack is created."""
        self.control_plane.ensure_started()
        with_runtime_classes(self.control_plane.api, self.program.settings)
        with_controllers(self.control_plane.api, controllers(self.stack, self.options.inventories))
        expected = sum(group.target_nodes for group in self.cloud.node_groups())
        deadline = time.monotonic() + MACHINES_SECONDS
        while len(self.cluster_cache.nodes) < expected:
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"the {expected} machines of the cluster did not join; see the logs"
                )
            time.sleep(0.05)
        if PLATFORMS[self.program.platform].cloud is not None:
            theirs = objects(self.stack, self.options.inventories)
            with_objects(self.control_plane.api, theirs)
            self._wait_for_owners([obj for obj in theirs if obj["kind"] == "Deployment"])
            self._foreign = owners_objects(self.control_plane.api)

    def _wait_for_owners(self, deployments: Sequence[Mapping[str, Any]]) -> None:
        """Waits until what runs in the owner's cluster is up, as it was long before the stack. What
        never is, such as an autoscaler without its rights, is reported by what it does not do."""
        named = [deployment["metadata"] for deployment in deployments]
        names = {f"{metadata.get('namespace', 'default')}/{metadata['name']}" for metadata in named}
        deadline = time.monotonic() + OWNERS_SECONDS
        while time.monotonic() < deadline:
            ready = {
                full_name(deployment)
                for deployment in self.cluster_cache.all("Deployment")
                if (deployment.get("status") or {}).get("availableReplicas")
            }
            if names <= ready:
                return
            time.sleep(0.1)

    @property
    def foreign(self) -> bool:
        """Whether the cluster, in a cloud, belongs to another owner."""
        return bool(self._foreign)

    def disturbed(self) -> list[str]:
        """The stack's changes to another owner's cluster in a cloud, and its remaining objects."""
        return disturbed(self.control_plane.api, self._foreign) if self._foreign else []

    def _write_description(self, ports: dict[str, int]) -> None:
        description = {
            "pid": os.getpid(),
            "providers": ports,
            "cloudApi": self.cloud_api,
            "apiServer": self.control_plane.endpoint,
            "kubeconfig": str(self.control_plane.kubeconfig),
            "logs": str(self.folder / "logs"),
        }
        (self.folder / "sandbox.json").write_text(json.dumps(description, indent=1) + "\n")
