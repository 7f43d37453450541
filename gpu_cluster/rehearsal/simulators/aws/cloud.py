"""A rehearsal's AWS account as the sandbox sees it: node groups, sizes, leftovers."""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_cluster.rehearsal.simulators.aws import (
    auto_mode,
    eks,
    karpenter_pools,
    node_template_check,
    nodes,
    topology,
)
from gpu_cluster.rehearsal.simulators.aws.account import Account, Existing, Pod
from gpu_cluster.rehearsal.simulators.aws.addons import (
    taints_taken_off,
    why_unenforced,
    why_unrepaired,
)
from gpu_cluster.rehearsal.simulators.aws.ami_types import has_driver, toolkit
from gpu_cluster.rehearsal.simulators.aws.api import list_resources
from gpu_cluster.rehearsal.simulators.aws.attached import (
    DRIVERS,
    Parts,
    attach,
    disk_zone,
    why_not_mounted,
)
from gpu_cluster.rehearsal.simulators.aws.buckets import why_not_mounted as why_no_bucket
from gpu_cluster.rehearsal.simulators.aws.eks import (
    access_due,
    access_granted,
    bounds,
    group_tags,
    identified_at,
    kept,
    running,
    warm_instances,
)
from gpu_cluster.rehearsal.simulators.aws.instances import instance
from gpu_cluster.rehearsal.simulators.aws.network_interfaces import why_silent
from gpu_cluster.rehearsal.simulators.aws.node_groups import why_not_started
from gpu_cluster.rehearsal.simulators.aws.nodes import GPU
from gpu_cluster.rehearsal.simulators.aws.permissions import why_late, why_not_scaled
from gpu_cluster.rehearsal.simulators.aws.pod_calls import key_for, still_denied
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal
from gpu_cluster.rehearsal.simulators.aws.rows import Group
from gpu_cluster.rehearsal.simulators.aws.scaling import (
    end_instance,
    end_surge,
    outside,
    resize,
    set_elastic,
)
from gpu_cluster.rehearsal.simulators.aws.served_account import serve
from gpu_cluster.rehearsal.simulators.aws.states import states
from gpu_cluster.rehearsal.simulators.aws.warm_pools import warm_starts
from gpu_cluster.rehearsal.simulators.cloud import (
    ApiFaults,
    AutoMode,
    ControlPlane,
    Mount,
    NodeGroup,
    NodePools,
    NodeTemplate,
    Recycled,
    RefusedError,
    Scaler,
    TemplateComparison,
    Wanted,
    not_as_before,
    storage_class,
)

_POLL_SECONDS = 0.05


class AwsCloud:
    """Implements `rehearsal.simulators.cloud.Cloud`. Thread-safe. Only one per process."""

    def __init__(
        self,
        *,
        control_plane: ControlPlane,
        faults: ApiFaults | None = None,
        existing: Existing | None = None,
        on_access: Callable[[bool], None] = lambda granted: None,
        people: Callable[[], Collection[str]] = lambda: (),
        quota_suffices: bool = False,
        rehearsed: bool = True,
    ) -> None:
        """The arguments of `Account`, and `on_access`."""
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._announced: list[NodeGroup] = []
        self._on_access = on_access
        """Called after every change with whether anyone may use the cluster."""
        self._later: threading.Timer | None = None
        """Reports again when newly granted access takes effect."""
        self._scalers: Sequence[Scaler] = ()
        """The autoscalers that were running at the last call of `not_scaled`."""
        self._node_pools = NodePools()
        self._attached: Parts = {}
        """The resources of EKS's controllers, by the UID of the object that requested them."""
        self._released: dict[str, float] = {}
        """UIDs of deleted claims whose volume the driver has not deleted yet."""
        self.account = Account(
            existing,
            control_plane=control_plane,
            faults=faults,
            changed=self.notify,
            people=people,
            quota_suffices=quota_suffices,
            rehearsed=rehearsed,
        )
        self._stop = serve(self.account)
        self.faults = self.account.faults

    @property
    def endpoint(self) -> str:
        """URL of the AWS APIs on loopback: the `endpoint_url` for any client."""
        return self.account.endpoint

    def close(self) -> None:
        """Stops the APIs and discards the account's content."""
        if self._later is not None:
            self._later.cancel()
        self._stop()

    def node_groups(self) -> list[NodeGroup]:
        """One per managed node group, and one per NodePool of Karpenter."""
        with self.account.lock, self.account.asking:
            managed = [self._group(name, group) for name, group in self.account.groups.items()]
            return [*managed, *karpenter_pools.groups(self.account, self._node_pools)]

    def declared(self, objects: NodePools) -> None:
        """Implements `rehearsal.simulators.cloud.Launching`."""
        self._node_pools = objects
        with self.account.lock:
            self.account.image_architectures |= karpenter_pools.architectures(objects)

    def pod_environment(
        self, namespace: str, service_account: str, made: float
    ) -> Mapping[str, str]:
        """The environment that EKS Pod Identity gives a pod, and this account's endpoint."""
        account = self.account
        with account.lock, account.asking:
            name = next(iter(account.clusters))
            pod = Pod(cluster=name, namespace=namespace, service_account=service_account)
            try:
                key = key_for(account, pod, made)
            except Refusal as error:
                raise RefusedError(error.message) from error
        return self._credentials(key)

    def _credentials(self, key: str) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.account.endpoint,
            "AWS_REGION": self.account.region,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": "simulated",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def auto_mode(self) -> AutoMode | None:
        """Implements `rehearsal.simulators.cloud.Automatic`."""
        with self.account.lock, self.account.asking:
            for name, cluster in self.account.clusters.items():
                if cluster.automatic and cluster.row["status"] == "ACTIVE":
                    own = self._credentials(auto_mode.key_for(self.account, name))
                    return AutoMode(
                        environment={**own, "CLUSTER_NAME": name},
                        objects=auto_mode.built_in(cluster),
                    )
        return None

    def _group(self, name: str, group: Group) -> NodeGroup:
        account, given = self.account, group.row
        row, image = instance(account, given["instanceTypes"][0]), given["amiType"]
        least, most = bounds(account, group)
        stay, node = kept(account, group), nodes.node(account, group)
        cluster, asg = (
            account.clusters[group.cluster],
            eks.asg_of(account, group.scaling_group),
        )
        node = node.without(taints_taken_off(account, cluster))
        return NodeGroup(
            name=name,
            min_nodes=least,
            max_nodes=most,
            target_nodes=len(stay),
            instances=tuple(f"aws:///{machine.availability_zone}/{machine.id}" for machine in stay),
            # If EKS keeps a node of the group, Cluster Autoscaler uses it as the template.
            template=replace(node, expected=nodes.expected_gpus(group))
            if stay
            else nodes.template(account, group),
            node=node,
            # Without NVIDIA's image there is no driver: no installer exists for these images.
            driver="cloud" if has_driver(image) or not row.gpus else "pod",
            plugin="cloud" if nodes.has_plugin(group) or not row.gpus else "pod",
            node_os=nodes.node_os(group),
            toolkit=toolkit(given),
            spot=given["capacityType"] == "SPOT",
            on_demand_per_hour=row.on_demand,
            unwaited=nodes.why_no_wait(node) if row.gpus else "",
            revision=group.revision,
            forced=group.forced,
            surging=group.surging,
            surges=(given.get("updateConfig") or {}).get("updateStrategy") != "MINIMAL",
            gpus=int(row.gpus) if row.vendor == "NVIDIA" else 0,
            gpu_model=row.gpu_model or "",
            efa_fault=why_silent(account, group.data),
            sharing=nodes.sharing(group),
            warm=len(warm_instances(asg)),
            warm_starts=warm_starts(asg),
            known_as=group.scaling_group,
            blocks=topology.blocks(row.name, account.region, account.blocks),
        )

    def set_size(self, group: str, nodes: int) -> None:
        """Sets the autoscaler's size of a group. Raises RefusedError if its nodes would not start
        or not join, and KeyError for an unknown group."""
        account = self.account
        with account.lock, account.asking:
            scaled = account.groups[group]
            least, most = bounds(account, scaled)
            if nodes > most:
                raise outside(nodes, "above max", most)
            if nodes > len(running(account, scaled)):
                cluster = account.clusters[scaled.cluster]
                if wrong := why_not_started(account, cluster, scaled, nodes):
                    raise RefusedError(f"{wrong['code']}: {wrong['message']}")
            stay = len(kept(account, scaled))
            set_elastic(account, scaled, max(nodes - stay, 0))
            # Below its minimum, the Auto Scaling group itself starts another one.
            if len(running(account, scaled)) < least:
                resize(account, scaled, least)

    def release(self, group: str, provider_id: str) -> None:
        """Implements `rehearsal.simulators.cloud.Cloud`."""
        with self.account.lock, self.account.asking:
            scaled = self.account.groups[group]
            end_instance(self.account, scaled, provider_id.rpartition("/")[2])

    def left(self, group: str, provider_id: str) -> None:
        """Implements `rehearsal.simulators.cloud.Surging`."""
        with self.account.lock, self.account.asking:
            if scaled := self.account.groups.get(group):
                end_surge(self.account, scaled, [provider_id.rpartition("/")[2]])

    def not_scaled(self, scalers: Sequence[Scaler]) -> Mapping[str, str]:
        """Node group -> why none of these autoscalers can scale it."""
        self._scalers = tuple(scalers)
        with self.account.lock:
            return {
                name: reason
                for name, group in self.account.groups.items()
                if (reason := self._why_not_scaled(group, scalers))
            }

    def _why_not_scaled(self, group: Group, scalers: Sequence[Scaler]) -> str:
        if not scalers:
            return "no Cluster Autoscaler runs in the cluster"
        reasons = [why_not_scaled(self.account, group, scaler) for scaler in scalers]
        return "; ".join(reasons) if all(reasons) else ""

    def _why_late(self, group: Group) -> list[str]:
        """Faults of the autoscalers that scale the group; empty if one of them has none."""
        account = self.account
        at_work = [scaler for scaler in self._scalers if not why_not_scaled(account, group, scaler)]
        reasons = [why_late(account, group, scaler) for scaler in at_work]
        return reasons if all(reasons) else []

    def compare_template(self, group: str, node: NodeTemplate) -> TemplateComparison | None:
        """Compares the node template in the Auto Scaling group's tags with this node. None for a
        group without a template that is never at zero, for which Cluster Autoscaler uses the
        existing nodes. Missing permissions of its autoscaler are differences, too."""
        with self.account.lock:
            if group not in self.account.groups:  # Karpenter does not read tags
                wrong = list(still_denied(self.account))
                return TemplateComparison(tags={}, real={}, differences=wrong) if wrong else None
            row = self.account.groups[group]
            tags = group_tags(self.account, row.scaling_group)
            real = node_template_check.real(tags, node)
            if bounds(self.account, row)[0] and not real:
                return None
            template = nodes.template_at_zero(self.account, row)
            # The autoscaler ignores them in its tags and on nodes.
            for scaler in self._scalers:
                template = template.without(scaler.startup_taints)
                node = node.without(scaler.startup_taints)
            late = self._why_late(row)
            if GPU in node.capacity:
                late = [*late, why_unrepaired(self.account.clusters[row.cluster], row.row)]
        return TemplateComparison(
            tags={key: tags[key] for key in real},
            real=real,
            differences=[
                *node_template_check.compare_template(template, node),
                *filter(None, late),
            ],
        )

    def followed(self, recycled: Recycled) -> None:
        """Implements `rehearsal.simulators.cloud.Recycling`."""
        self.account.recycled = recycled

    def on_change(self, callback: Callable[[], None]) -> None:
        """The callback runs on the thread of the operation that changed something, unlocked."""
        with self._lock:
            self._callbacks.append(callback)
        self.account.stock.on_return(callback)

    def notify(self) -> None:
        """Runs the callback if `node_groups` has changed since the last call; called after every
        request that changes something."""
        with self.account.lock:
            # Called with the lock held: an earlier refusal must not overtake a later grant.
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
        waits = [seconds for seconds in due if seconds is not None]
        if waits:
            self._later = threading.Timer(min(waits), self.notify)
            self._later.daemon = True
            self._later.start()

    def attach(self, wanted: Sequence[Wanted]) -> Mapping[str, str]:
        """Creates what EKS's controllers create for Services and PersistentVolumeClaims."""
        with self.account.lock, self.account.asking:
            return attach(self.account, self._attached, wanted, self._released)

    def why_not_provisioned(self, wanted: Wanted) -> str:
        """Always empty: without its driver a claim waits, which `attach` shows."""
        return ""

    def disk_zone(self, handle: str) -> str:
        """Implements `rehearsal.simulators.cloud.Attaching`."""
        with self.account.lock, self.account.asking:
            return disk_zone(self.account, handle)

    def storage_classes(self) -> Sequence[Mapping[str, Any]]:
        """EKS's own class, which has not been the default since Kubernetes 1.30."""
        # https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-extended.html
        with self.account.lock:
            return [storage_class("gp2", "kubernetes.io/aws-ebs")] if self.account.clusters else []

    def why_not_mounted(self, mount: Mount) -> str:
        """The EBS CSI driver's error about a pod's disk, or Mountpoint's about its bucket."""
        with self.account.lock, self.account.asking:
            cluster = next(iter(self.account.clusters.values()), None)
            if cluster is None:
                return ""
            if mount.driver in DRIVERS:
                return why_not_mounted(self.account, cluster, mount)
            return why_no_bucket(mount, self.account, cluster)

    def why_unenforced(
        self,
        config_maps: Mapping[str, Mapping[str, Any]],
        node_classes: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Implements `rehearsal.simulators.cloud.Enforcing`."""
        with self.account.lock:
            clusters = list(self.account.clusters.values())
        return why_unenforced(clusters[0], config_maps, node_classes) if clusters else ""

    def why_no_credentials(self, namespace: str, service_account: str, made: float) -> str:
        """A pod that is created before its association takes effect never gets credentials."""
        with self.account.lock:
            for cluster in self.account.clusters.values():
                effective = identified_at(cluster, (namespace, service_account))
                if effective is not None and made + 1 <= effective:
                    return (
                        "it was created before the pod identity association of service account "
                        f"{namespace}/{service_account} took effect, and gets no credentials"
                    )
        return ""

    def list_resources(self) -> list[str]:
        """`VPC vpc-...`, one line each, sorted: what was created since the stack began, and what
        existed before and has been deleted or changed."""
        with self.account.lock, self.account.asking:
            if not self.account.region:
                return []
            before, now = self.account.before, set(list_resources(self.account))
            as_it_is = states(self.account) if before else {}
            return not_as_before(before, now, self.account.states_before, as_it_is)

    def open(self, region: str) -> None:
        """Creates what exists before the stack, and returns when an existing cluster is up."""
        with self.account.lock:
            self.account.open(region)
        while any(item.row["status"] == "CREATING" for item in self.account.clusters.values()):
            time.sleep(_POLL_SECONDS)
        with self.account.lock, self.account.asking:
            self.account.states_before = states(self.account)
