"""Kueue: jobs wait until the GPUs for all of their pods are free, and then start as a whole."""

from collections.abc import Iterable, Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

from ..access.rights import READ, rule
from ..catalog import images
from ..catalog import kubernetes as names
from ..cluster import Cluster, GpuPool
from .controller import Controller
from .controller_args import ControllerArgs, Webhook

GROUP, VERSION = names.KUEUE_GROUP, names.KUEUE_VERSION

CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
"""The kinds with two different versions, which the controller converts:
config/components/crd/kustomization.yaml of 0.16.9, and pkg/util/cert, which adds its CA."""

UNCOUNTED = ("cpu", "memory", "ephemeral-storage")
"""Resources that queues do not count: they hand out only GPUs. How much of these a node has left is
known only once it exists; a pod that does not fit waits for the autoscaler."""

_CHANGE = ("patch", "update")

RULES: list[PolicyRuleArgsDict] = [
    rule("", ["events"], "create", "patch"),
    rule("", ["limitranges", "namespaces", "nodes"], *READ),
    rule("", ["pods"], *READ),
    rule("scheduling.k8s.io", ["priorityclasses"], *READ),
    rule("node.k8s.io", ["runtimeclasses"], *READ),
    rule("batch", ["jobs"], *READ, *_CHANGE),
    rule("batch", ["jobs/finalizers", "jobs/status"], "get", *_CHANGE),
    rule(GROUP, ["workloads"], *READ, *_CHANGE, "create", "delete"),
    rule(
        GROUP,
        ["admissionchecks", "clusterqueues", "cohorts", "localqueues", "resourceflavors"],
        *READ,
        *_CHANGE,
    ),
    rule(GROUP, ["provisioningrequestconfigs", "topologies", "workloadpriorityclasses"], *READ),
    # GKE serves this kind. If it is served, Kueue does not start without this permission.
    rule("autoscaling.x-k8s.io", ["provisioningrequests"], *READ, *_CHANGE, "create", "delete"),
    rule("autoscaling.x-k8s.io", ["provisioningrequests/status"], "get"),
    rule("", ["podtemplates"], *READ, "create", "delete", "update"),
    # It writes its CA into the definitions that it converts.
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], "list", "watch"),
    rule(
        "apiextensions.k8s.io",
        ["customresourcedefinitions"],
        "get",
        "update",
        only=[f"{kind}.{GROUP}" for kind in CONVERTED],
    ),
    rule(
        GROUP,
        [
            f"{kind}/{part}"
            for kind in (
                "admissionchecks",
                "clusterqueues",
                "cohorts",
                "localqueues",
                "resourceflavors",
                "workloads",
            )
            for part in ("finalizers", "status")
        ],
        "get",
        *_CHANGE,
    ),
]
"""The rules of config/components/rbac/role.yaml in 0.16.9 that Jobs and queues need."""

FAIR = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
"""Kueue's own default before the field became required (apis/config/v1beta2 of 0.16.9)."""

TOPOLOGY_GATES = (
    "TASFailedNodeReplacement",
    "TASFailedNodeReplacementFailFast",
    "TASProfileMixed",
    "TASReplaceNodeOnPodTermination",
)
"""On by default; without TopologyAwareScheduling Kueue refuses them at its start since 0.16.9
(LoadAndValidateFeatureGates in pkg/config/validation.go)."""

TOPOLOGY_RULES: list[PolicyRuleArgsDict] = [
    rule("", ["pods"], *_CHANGE),
    rule(GROUP, ["topologies"], "update"),
    rule(GROUP, ["topologies/finalizers"], "update"),
]
"""Rules of the same file for placing pods, which have a scheduling gate that Kueue removes."""

CLAIM_RULES: list[PolicyRuleArgsDict] = [
    rule("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates"], *READ),
]
"""Rules of the same file for counting the devices that pods claim."""

JOB_SET_RULES: list[PolicyRuleArgsDict] = [
    rule(names.JOB_SET_GROUP, ["jobsets"], *READ, *_CHANGE),
    rule(names.JOB_SET_GROUP, ["jobsets/finalizers", "jobsets/status"], "get", *_CHANGE),
]


def kueue(
    *, job_set: bool, fair_sharing: bool, topology: bool, claimed: bool,
    pods_ready_minutes: int | None, protected: bool, cluster: Cluster, parent: pulumi.Resource,
) -> Controller:  # fmt: skip
    """The controller in this stack's version; with `job_set`, it also manages JobSets.
    `fair_sharing`: whether queues lend each other idle GPUs by weight. `topology`: whether it
    places pods. `claimed`: whether it counts GPUs that pods claim. `pods_ready_minutes`: after how
    long a job returns to its queue if not all of its pods run."""
    frameworks = ["batch/job", *(["jobset.x-k8s.io/jobset"] if job_set else [])]
    # Without it, Kueue also evicts a running job whose pod was not replaced within `timeout`, and
    # may then never release the job's quota (kueue issue 14811, open on 2026-11-28).
    ready = {"timeout": f"{pods_ready_minutes}m", "recoveryTimeout": "0s"}
    asked = {
        "fairSharing": FAIR if fair_sharing else None,
        "waitForPodsReady": ready if pods_ready_minutes else None,
    }
    args = ControllerArgs(
        source="kueue",
        image=images.KUEUE,
        config={
            **_config(frameworks, topology, claimed, _uncounted(cluster.pools.values())),
            **{key: value for key, value in asked.items() if value},
        },
        lease="c1f6bfd2.kueue.x-k8s.io",
        rules=[
            *RULES,
            *(JOB_SET_RULES if job_set else []),
            *(TOPOLOGY_RULES if topology else []),
            *(CLAIM_RULES if claimed else []),
        ],
        webhooks=_webhooks(job_set),
        protected=protected,
        converted=[f"{kind}.{GROUP}" for kind in CONVERTED],
    )
    return Controller("kueue", args, cluster=cluster, opts=pulumi.ResourceOptions(parent=parent))


def _uncounted(pools: Iterable[GpuPool]) -> list[str]:
    return [*UNCOUNTED, *sorted({name for pool in pools for name in pool.extended_resources or ()})]


def _config(
    frameworks: Sequence[str], topology: bool, claimed: bool, uncounted: Sequence[str]
) -> dict[str, Any]:
    # Queues count a claimed GPU as one unit of the resource that other pools' pods request.
    mapping = {"name": names.GPU_RESOURCE, "deviceClassNames": [names.GPU_CLASS]}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "namespace": "kueue-system",
        "clientConnection": {"qps": 50, "burst": 100},
        "integrations": {"frameworks": list(frameworks)},
        "resources": {
            "excludeResourcePrefixes": list(uncounted),
            **({"deviceClassMappings": [mapping]} if claimed else {}),
        },
        "featureGates": {
            # 0.16.6, which rehearsals run, turns it on, and may take new jobs for finished ones
            # (kueue PR 11019).
            "FinishOrphanedWorkloads": False,
            # The others would need additional permissions, and only the second of them is ever
            # used here.
            "MultiKueue": False,
            "TopologyAwareScheduling": topology,
            **({} if topology else dict.fromkeys(TOPOLOGY_GATES, False)),
            "VisibilityOnDemand": False,
            # Alpha until 0.18, where it is beta, called KueueDRAIntegration, and on: without it,
            # Kueue starts jobs with claims at once. It counts templates of an exact number without
            # selectors; what it cannot count is refused (pkg/dra/claims.go of 0.16.6).
            **({"DynamicResourceAllocation": True} if claimed else {}),
        },
    }


def _webhooks(job_set: bool) -> list[Webhook]:
    job = Webhook(
        kind="job", group="batch", version="v1", resources=["jobs"], label=names.QUEUE_LABEL
    )
    sets = Webhook(
        kind="jobset",
        group=names.JOB_SET_GROUP,
        version=names.JOB_SET_VERSION,
        resources=["jobsets"],
        label=names.QUEUE_LABEL,
    )
    group = {
        "clusterqueue": ["clusterqueues"],
        "resourceflavor": ["resourceflavors"],
        "workload": ["workloads", "workloads/status"],
        "cohort": ["cohorts"],
    }
    return [
        job,
        *([sets] if job_set else []),
        *(
            Webhook(
                kind=kind,
                group=GROUP,
                version=VERSION,
                resources=resources,
                completes=kind != "cohort",
            )
            for kind, resources in group.items()
        ),
    ]
