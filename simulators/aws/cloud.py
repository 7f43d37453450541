"""The AWS account of a rehearsal, seen from the sandbox: node groups, sizes, what is left."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plugins.cloud.handler import CloudError
from plugins.faults import Faults
from simulators.aws import node_template_check, nodes
from simulators.aws.account import Account, GroupParts, answering
from simulators.aws.addons import why_unrepaired
from simulators.aws.ami_types import has_driver
from simulators.aws.attached import Parts, attach
from simulators.aws.cluster import access_due, access_granted
from simulators.aws.instances import instance
from simulators.aws.list_resources import list_resources
from simulators.aws.node_group import check_start
from simulators.aws.nodes import GPU
from simulators.aws.permissions import why_late, why_not_scaled
from simulators.aws.scaling_group import bounds, group_tags, resize
from simulators.cloud import (
    ControlPlane,
    NodeGroup,
    NodeTemplate,
    Scaler,
    TemplateComparison,
    Wanted,
)
from simulators.inventory import Network

FRESH_SECONDS = 5.0
"""How long what was read of the account counts: somebody may change it by an AWS client."""


class AwsCloud:
    """Implements `simulators.cloud.Cloud`. Thread-safe. One at a time in a process."""

    def __init__(
        self,
        *,
        control_plane: ControlPlane,
        faults: Faults | None = None,
        existing: Network | None = None,
        on_access: Callable[[bool], None] = lambda granted: None,
    ) -> None:
        self.control_plane = control_plane
        self.faults = faults if faults is not None else Faults()
        self.account = Account(existing)
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._announced: list[NodeGroup] = []
        self._on_access = on_access
        """Told after every change whether anybody may use the cluster."""
        self._later: threading.Timer | None = None
        """Tells again when access that was given takes effect."""
        self._scalers: Sequence[Scaler] = ()
        """Those that ran when somebody last asked."""
        self._read: dict[object, tuple[float, Any]] = {}
        """What was asked for -> when it was read, and what it was."""
        self._attached: Parts = {}
        """What EKS' controllers have made, by the uid of the object that asked for it."""

    @property
    def endpoint(self) -> str:
        """URL of the AWS APIs on loopback, for the `endpoint_url` of any client."""
        return self.account.endpoint

    def close(self) -> None:
        """Ends the APIs; what was in the account is gone."""
        if self._later is not None:
            self._later.cancel()
        self.account.stop()

    def node_groups(self) -> list[NodeGroup]:
        """One per managed node group."""
        groups: list[NodeGroup] = self._known("groups", self._groups)
        return groups

    def _known(self, what: object, read: Callable[[], Any]) -> Any:
        """What an earlier read found, until something changes: the sandbox asks many times a
        second, and a read takes some ten requests for each group."""
        with self._lock:
            at, found = self._read.get(what, (0.0, None))
        if found is not None and time.monotonic() - at < FRESH_SECONDS:
            return found
        with self.account.lock, answering():
            at, found = time.monotonic(), read()
            with self._lock:
                self._read[what] = at, found
        return found

    def _forget(self) -> None:
        with self._lock:
            self._read.clear()

    def _groups(self) -> list[NodeGroup]:
        return [self._group(name, parts) for name, parts in self.account.groups.items()]

    def _group(self, name: str, parts: GroupParts) -> NodeGroup:
        group, account = parts.inputs, self.account
        row, image = instance(account, group["instanceTypes"][0]), group["amiType"]
        least, most = bounds(account, parts)
        return NodeGroup(
            name=name,
            min_nodes=least,
            max_nodes=most,
            target_nodes=parts.kept,
            template=nodes.template(account, parts),
            node=nodes.node(account, parts),
            # Without NVIDIA's image nobody brings a driver: no installer is made for these images.
            driver="cloud" if has_driver(image) or not row.gpus else "pod",
            plugin="cloud" if nodes.node_os(group) == "bottlerocket" or not row.gpus else "pod",
            node_os=nodes.node_os(group),
            spot=group["capacityType"] == "SPOT",
            on_demand_per_hour=row.on_demand,
            revision=parts.revision,
            gpus=int(row.gpus) if row.vendor == "NVIDIA" else 0,
            sharing=nodes.sharing(account, parts),
        )

    def set_size(self, group: str, nodes: int) -> None:
        """The autoscaler's word on a group. Raises CloudError where its nodes would not start or
        not join, and KeyError for an unknown group."""
        with self.account.lock, answering():
            parts = self.account.groups[group]
            running, (least, most) = len(parts.interfaces), bounds(self.account, parts)
            if nodes > most:
                raise CloudError(
                    f"ValidationError: New SetDesiredCapacity value {nodes} is above max value "
                    f"{most} for the AutoScalingGroup."
                )
            if nodes > running:
                check_start(self.account, self.faults, group, parts.inputs, nodes)
            # Below its minimum the Auto Scaling group starts another one by itself.
            short = max(least - nodes, 0)
            parts.kept += short
            resize(self.account, parts, nodes + short)
            self._forget()

    def not_scaled(self, scalers: Sequence[Scaler]) -> Mapping[str, str]:
        """Node group -> why none of these autoscalers can scale it."""

        def read() -> dict[str, str]:
            return {
                name: reason
                for name, parts in self.account.groups.items()
                if (reason := self._why_not_scaled(parts, scalers))
            }

        self._scalers = tuple(scalers)
        reasons: dict[str, str] = self._known(self._scalers, read)
        return reasons

    def _why_not_scaled(self, parts: GroupParts, scalers: Sequence[Scaler]) -> str:
        if not scalers:
            return "no Cluster Autoscaler runs in the cluster"
        reasons = [why_not_scaled(self.account, parts, scaler) for scaler in scalers]
        return "; ".join(reasons) if all(reasons) else ""

    def _why_late(self, parts: GroupParts) -> list[str]:
        """What is wrong with the autoscalers that do scale the group; one without fault does."""
        account = self.account
        at_work = [one for one in self._scalers if not why_not_scaled(account, parts, one)]
        reasons = [why_late(account, parts, one) for one in at_work]
        return reasons if all(reasons) else []

    def compare_template(self, group: str, node: NodeTemplate) -> TemplateComparison | None:
        """The node template in the Auto Scaling group's tags, against this node; None for a group
        that has none and never is at zero, where Cluster Autoscaler goes by the nodes that are
        there. What it may not see of a group that it scales is a difference as well."""
        with self.account.lock, answering():
            parts = self.account.groups[group]
            tags = group_tags(self.account, parts.scaling_group)
            real = node_template_check.real(tags, node)
            if bounds(self.account, parts)[0] and not real:
                return None
            template = nodes.template_at_zero(self.account, parts)
            late = self._why_late(parts)
            if GPU in node.capacity:
                late = [*late, why_unrepaired(self.account.clusters[parts.cluster], parts.inputs)]
        return TemplateComparison(
            tags={key: tags[key] for key in real},
            real=real,
            differences=[*node_template_check.compare(template, node), *filter(None, late)],
        )

    def scaling_group_tags(self, group: str) -> dict[str, str]:
        """The tags of a node group's Auto Scaling group, read through the AWS API."""
        with self.account.lock, answering():
            return group_tags(self.account, self.account.groups[group].scaling_group)

    def access_granted(self, cluster: str) -> bool:
        """Whether `aws eks get-token` gives a token that the cluster takes: not before an access
        policy association makes somebody its administrator."""
        with self.account.lock:
            parts = self.account.clusters.get(cluster)
            return parts is not None and access_granted(parts)

    def on_change(self, callback: Callable[[], None]) -> None:
        """The callback runs on the thread of the operation that changed something, unlocked."""
        with self._lock:
            self._callbacks.append(callback)

    def notify(self) -> None:
        """Calls back if `node_groups` changed since the last time."""
        self._forget()
        with self.account.lock:
            # Told under the lock: a later grant must not be overtaken by an earlier refusal.
            self._on_access(any(map(access_granted, self.account.clusters.values())))
            self._tell_later([access_due(parts) for parts in self.account.clusters.values()])
        current = self.node_groups()
        with self._lock:
            changed, self._announced = current != self._announced, current
            callbacks = list(self._callbacks) if changed else []
        for callback in callbacks:
            callback()

    def _tell_later(self, due: Sequence[float | None]) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if seconds := max((each for each in due if each is not None), default=None):
            self._later = threading.Timer(seconds, self.notify)
            self._later.daemon = True
            self._later.start()

    def attach(self, wanted: Sequence[Wanted]) -> Mapping[str, str]:
        """What EKS' controllers make for Services and PersistentVolumeClaims."""
        with self.account.lock, answering():
            return attach(self.account, self._attached, wanted)

    def list_resources(self) -> list[str]:
        """`VPC vpc-...`, one line each, sorted: whatever was not there before the stack, and what
        was and is gone."""
        with self.account.lock, answering():
            if not self.account.region:
                return []
            before, now = self.account.before, set(list_resources(self.account))
            gone = [f"not any more: {line}, which is somebody else's" for line in before - now]
            return [*sorted(now - before), *sorted(gone)]
