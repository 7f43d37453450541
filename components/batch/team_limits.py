"""Limits that keep a team within its share, no matter who creates objects in its namespaces."""

from collections.abc import Collection, Iterator
from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.admissionregistration.v1 import ValidationArgsDict
from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

from ..catalog import kubernetes as names
from ..cluster import GPU_RESOURCE, Cluster, GpuPool
from ..gpu.admission import admission_policy
from .team_args import CHOOSES_GPUS, HARMLESS_VARIABLE, TeamQueue

_VARIABLES = (
    "{}: NVIDIA_VISIBLE_DEVICES and others that begin with NVIDIA_ choose which GPUs a container "
    "sees, also those of other pods; drop them, except NVIDIA_DRIVER_CAPABILITIES"
)


class TeamLimits(pulumi.ComponentResource):
    """Quotas and defaults of a team's namespaces, and policies that make its training jobs wait in
    its queue, with a priority that the team may use, and keep them off GPUs that are not theirs.

    The quotas also count GPUs of pods that bypass the queue. They include everything that the team
    could borrow: whether it may borrow at the moment is up to Kueue.
    """

    def __init__(
        self,
        name: str,
        queue: TeamQueue,
        *,
        cluster: Cluster,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:batch:TeamLimits", name, None, opts)
        requests = queue.team.requests.quantities()
        for namespace in queue.namespaces:
            metadata: ObjectMetaArgsDict = {"name": "team", "namespace": namespace}
            kubernetes.core.v1.ResourceQuota(
                f"team-{namespace}",
                metadata=metadata,
                spec={
                    "hard": {
                        **_most_gpus(queue, cluster),
                        **queue.team.quota.hard(),
                    }
                },
                opts=cluster.options(self),
            )
            if requests:
                kubernetes.core.v1.LimitRange(
                    f"team-{namespace}",
                    metadata=metadata,
                    spec={"limits": [{"type": "Container", "default_request": requests}]},
                    opts=cluster.options(self),
                )
        claims = any(cluster.pools[pool].device_class for pool in queue.pools)
        self._policy(
            f"team-{name}-queue",
            queue,
            cluster,
            (names.JOB_SET_GROUP, "jobsets", ["CREATE"]),
            [*queued(name, queue), *on_gpu_nodes(cluster.pools.values(), claims=claims)],
            _ENVIRONMENT,
        )
        # Members create the files of their jobs, and a pod may take its variables from them.
        self._policy(
            f"team-{name}-variables",
            queue,
            cluster,
            ("", "configmaps", ["CREATE", "UPDATE"]),
            [CONFIG_MAPS],
            _unwanted("object.?data.orValue({})", "name"),
        )
        if claims:
            admission_policy(
                f"team-{name}-claims",
                namespaces=queue.namespaces,
                rule={
                    "api_groups": ["resource.k8s.io"],
                    "api_versions": ["*"],
                    # Their specs cannot be changed.
                    "operations": ["CREATE"],
                    "resources": ["resourceclaims", "resourceclaimtemplates"],
                },
                validations=[CLAIMS],
                cluster=cluster,
                parent=self,
            )
        self.register_outputs({})

    def _policy(
        self,
        policy: str,
        queue: TeamQueue,
        cluster: Cluster,
        rule: tuple[str, str, list[str]],
        validations: list[ValidationArgsDict],
        unwanted: str,
    ) -> None:
        """`rule`: API group, resource, operations. `unwanted`: an expression that lists variables
        which choose GPUs."""
        group, resource, operations = rule
        admission_policy(
            policy,
            namespaces=queue.namespaces,
            rule={
                "api_groups": [group],
                "api_versions": ["*"],
                "operations": operations,
                "resources": [resource],
            },
            validations=validations,
            variables=[{"name": "unwanted", "expression": unwanted}],
            cluster=cluster,
            parent=self,
        )


def _most_gpus(queue: TeamQueue, cluster: Cluster) -> dict[str, pulumi.Input[str]]:
    """The entries of the ResourceQuota for GPUs that pods request, and for those that they claim,
    if pods of any pool do. Members can create claims of every DeviceClass, and change them once
    Kueue has counted them."""
    quota, pools = queue.nominal_quota, cluster.pools
    claimed = sum(gpus for name, gpus in quota.items() if pools[name].device_class)
    # If the DeviceClass serves such requests too, claims of it also count as requests: kubernetes
    # v1.36.3, pkg/quota/v1/evaluator/core/resource_claims.go, addExtendedResourceQuota.
    requested = pulumi.Output.from_input(cluster.mapped).apply(
        lambda mapped: str(sum(quota.values()) - (0 if mapped else claimed))
    )
    hard: dict[str, pulumi.Input[str]] = {f"requests.{GPU_RESOURCE}": requested}
    if any(pool.device_class for pool in pools.values()):
        hard[names.GPU_CLASS + names.QUOTA_OF_CLASS_SUFFIX] = str(claimed)
        hard[names.MIG_CLASS + names.QUOTA_OF_CLASS_SUFFIX] = "0"
    return hard


def queued(name: str, queue: TeamQueue) -> Iterator[ValidationArgsDict]:
    """Refuses training jobs that do not wait in the team's queue or would skip ahead."""
    label = "object.metadata.?labels[?'{}'].orValue('')"
    yield {
        "expression": f"{label.format(names.QUEUE_LABEL)} == '{name}'",
        "message": f"training jobs of this namespace wait in the queue of team {name}: set queue "
        f"to {name}",
    }
    yield {
        # Kueue treats it as the job's priority, and the scheduler preempts pods of others for it.
        "expression": _pods("!has(pod.priorityClassName)"),
        "message": "priorityClassName: cannot be set in training jobs of a team; set priority",
    }
    if queue.priorities is not None:
        allowed = ", ".join(queue.priorities) or "none"
        yield {
            "expression": f"{label.format(names.PRIORITY_LABEL)} in {['', *queue.priorities]}",
            "message": f"priority: is not available to jobs of team {name}; allowed: {allowed}",
        }


def on_gpu_nodes(pools: Collection[GpuPool], *, claims: bool) -> Iterator[ValidationArgsDict]:
    """Refuses pods that occupy GPU nodes without GPUs of their quota, or see those of other pods:
    what the policy pack's `gpu-limits` and `gpu-all` refuse in a stack file. `claims`: whether the
    team has GPUs that pods claim."""
    taints, labels = set(), set()
    for pool in pools:
        keys = {taint.key for taint in pool.taints}
        taints |= {GPU_RESOURCE} if GPU_RESOURCE in keys else keys
        labels |= {f"{key}={value}" for key, value in pool.node_selector.items()}
    goes = (
        f"pod.?tolerations.orValue([]).exists(t, t.?key.orValue('') in {sorted(taints)}) || "
        "pod.?nodeSelector.orValue({}).exists(key, (key + '=' + pod.nodeSelector[key]) in "
        f"{sorted(labels)})"
    )
    limit = f"container.?resources.limits[?'{GPU_RESOURCE}'].orValue('0')"
    # dyn: the limit may be a number, and the expression is compiled for the text of the default.
    has_gpus = f"pod.containers.exists(container, !(string(dyn({limit})) in ['0', '']))"
    need = f"{GPU_RESOURCE} in the limits of a container"
    if claims:
        has_gpus = f"({has_gpus} || size(pod.?resourceClaims.orValue([])) > 0)"
        need += ", or a ResourceClaim"
    yield {
        "expression": _pods(f"!({goes}) || {has_gpus}"),
        "message": f"a pod that selects or tolerates GPU nodes needs {need}, or else it occupies "
        "them without a GPU; set it, or drop nodeSelector and tolerations",
    }
    yield {
        "expression": _pods("pod.?tolerations.orValue([]).all(t, t.?key.orValue('') != '')"),
        "message": "tolerations: one without a key tolerates the taints of every node; name a key",
    }
    yield {
        "expression": _pods("!has(pod.nodeName)"),
        "message": "nodeName: bypasses the scheduler and the queue; drop it",
    }
    yield _none_choose_gpus("variables")
    yield {
        "expression": _pods(
            f"{_CONTAINERS}.all(container, container.?envFrom.orValue([]).all(source, "
            "source.?prefix.orValue('') == ''))"
        ),
        "message": "envFrom cannot have a prefix, which could make variables that choose GPUs; "
        "drop it",
    }


def _pods(condition: str) -> str:
    """True if the condition holds for `pod`, the pod spec of each replicated job."""
    return f"{_SPECS}.all(pod, {condition})"


def _unwanted(values: str, name: str) -> str:
    """Names of variables that choose the GPUs that a container sees, as a text; empty if none is
    among `values`, of which `name` is the name."""
    harmless = f"!{name}.startsWith('{CHOOSES_GPUS}') || {name} == '{HARMLESS_VARIABLE}'"
    item = name.partition(".")[0]
    return f"{values}.filter({item}, !({harmless})).map({item}, {name}).join(', ')"


def _none_choose_gpus(noun: str) -> ValidationArgsDict:
    """Refuses the variables that the policy lists as unwanted, and names them."""
    why = "variables that begin with NVIDIA_ choose which GPUs a container sees, also those of"
    return {
        "expression": "variables.unwanted == ''",
        "message": _VARIABLES.format(noun),
        "message_expression": f"'{noun}: drop ' + variables.unwanted + '; {why} other pods'",
    }


_SPECS: Final = "object.spec.replicatedJobs.map(job, job.template.spec.template.spec)"
_CONTAINERS: Final = "(pod.containers + pod.?initContainers.orValue([]))"
_JOINED: Final = "filter(found, found != '').join(', ')"
_ENVIRONMENT: Final = (
    f"{_SPECS}.map(pod, {_CONTAINERS}.map(container, "
    f"{_unwanted('container.?env.orValue([])', 'variable.name')}).{_JOINED}).{_JOINED}"
)
"""The unwanted variables of all containers of a job."""
CONFIG_MAPS: Final = _none_choose_gpus("keys of a ConfigMap")
"""Refuses ConfigMaps from which a pod would take such a variable."""
_REQUESTS: Final = "dyn(object).spec.?spec.orValue(dyn(object).spec).?devices.?requests.orValue([])"
"""Of a ResourceClaim, or of a template, in which the claim's spec is nested. dyn: the expression is
compiled for both."""
CLAIMS: Final[ValidationArgsDict] = {
    "expression": f"size({_REQUESTS}) > 0 && {_REQUESTS}.all(request, "
    f"request.?exactly.?deviceClassName.orValue('') == '{names.GPU_CLASS}')",
    "message": f"a claim of a team requests GPUs of DeviceClass {names.GPU_CLASS} and nothing "
    "else, or else its pod occupies a GPU node without a GPU of the quota; set exactly."
    "deviceClassName of each request",
}
"""Refuses claims without any request, which Kubernetes accepts (pkg/apis/resource/validation of
v1.35), and for devices that no quota counts."""
