"""A multi-node training job: a JobSet of `torchrun` workers that address the first one by name.

The workers listen without authentication (github.com/pytorch/pytorch/blob/main/SECURITY.md): a
NetworkPolicy blocks all other traffic, if the cluster enforces network policies.
"""

from collections.abc import Mapping
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.networking.v1 import NetworkPolicySpecArgsDict

from ..catalog import kubernetes as names
from ..cluster import Cluster
from ..gpu.auxiliary import ROOT, declare_claims, declare_files
from ..gpu.pod_parts import contents_of
from ..gpu.prerequisites import Prerequisites
from ..gpu.running import among_themselves, annotation_paths
from .training_args import TrainingArgs
from .training_spec import claims, labels, spec


def declare(jobs: Mapping[str, TrainingArgs], after: Prerequisites) -> None:
    """Declares each training job under its name."""
    for name, args in jobs.items():
        GpuTraining(name, args, after, opts=after.cluster.component_options)


class GpuTraining(pulumi.ComponentResource):
    """The JobSet. Its controller creates the headless Service of the same name."""

    def __init__(
        self,
        name: str,
        args: TrainingArgs,
        after: Prerequisites,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpu-cluster:batch:Training", name, None, opts)
        cluster, contents = after.cluster, contents_of(args, ROOT)
        before = [
            *after.queues,
            *(after.auxiliary if args.service_account or args.volumes else ()),
            *declare_files(name, args.namespace, contents, cluster=cluster, parent=self),
        ]
        policy = kubernetes.networking.v1.NetworkPolicy(
            name,
            metadata={"name": name, "namespace": args.namespace, "labels": {"app": name}},
            # The API's field names, which the SDK's types do not have.
            spec=cast(NetworkPolicySpecArgsDict, among_themselves({names.JOB_SET_LABEL: name})),
            opts=cluster.options(self),
        )
        if args.disruption_budget:
            before.append(self._budget(name, args, cluster))
        pool = cluster.pools[args.pool]
        before += declare_claims(
            claims(name, args, pool), name, args.namespace,
            cluster=cluster, parent=self, plugins=after.plugins,
        )  # fmt: skip
        job_set = spec(name, args, pool, contents, cluster.buckets)
        annotations = {**pool.job_annotations, **_awaited(args)}
        kubernetes.apiextensions.CustomResource(
            name,
            api_version=f"{names.JOB_SET_GROUP}/{names.JOB_SET_VERSION}",
            kind="JobSet",
            metadata={
                "name": name,
                "namespace": args.namespace,
                "labels": labels(name, args),
                **({"annotations": annotations} if annotations else {}),
            },
            spec=job_set,
            opts=pulumi.ResourceOptions.merge(
                cluster.options(
                    self,
                    delete_before_replace=True,
                    depends_on=[*before, policy],
                    holds_disk=bool(args.claims),
                ),
                # A JobSet cannot be changed once it has started.
                pulumi.ResourceOptions(
                    replace_on_changes=["spec"], ignore_changes=_annotation_paths(job_set)
                ),
            ),
        )
        self.register_outputs({})

    def _budget(self, name: str, args: TrainingArgs, cluster: Cluster) -> pulumi.Resource:
        return kubernetes.policy.v1.PodDisruptionBudget(
            name,
            metadata={"name": name, "namespace": args.namespace, "labels": {"app": name}},
            spec={
                # All of them, as a number: for pods of Jobs, which have no scale subresource, the
                # API accepts nothing else (kubernetes.io, "Specifying a Disruption Budget").
                "min_available": args.nodes,
                "unhealthy_pod_eviction_policy": "AlwaysAllow",
                "selector": {"match_labels": {names.JOB_SET_LABEL: name}},
            },
            opts=cluster.options(self),
        )


def _annotation_paths(job_set: Mapping[str, Any]) -> list[str]:
    """The paths of the workers' annotations that do not replace a running training job: all but
    those that say where its workers must be."""
    (workers,) = job_set["replicatedJobs"]
    metadata = workers["template"]["spec"]["template"]["metadata"]
    return annotation_paths(
        "spec.replicatedJobs[0].template.spec.template",
        [key for key in metadata.get("annotations", {}) if "-topology" not in key],
    )


def _awaited(args: TrainingArgs) -> dict[str, str]:
    if not args.wait:
        return {}
    return {"pulumi.com/waitFor": "condition=Completed", "pulumi.com/timeoutSeconds": "7200"}
