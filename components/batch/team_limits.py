"""Limits that keep a team within its share, no matter who creates objects in its namespaces."""

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.admissionregistration.v1 import ValidationArgsDict
from pulumi_kubernetes.meta.v1 import LabelSelectorRequirementArgsDict, ObjectMetaArgsDict

from ..catalog import kubernetes as names
from ..cluster import Cluster
from . import jobset
from .team_args import TeamQueue


class TeamLimits(pulumi.ComponentResource):
    """Quotas and defaults of a team's namespaces, and a policy that makes its training jobs wait in
    its queue, with a priority that the team may use.

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
        (resource,) = {cluster.pools[pool].resource for pool in queue.pools}
        requests = queue.team.requests.quantities()
        for namespace in queue.namespaces:
            metadata: ObjectMetaArgsDict = {"name": "team", "namespace": namespace}
            kubernetes.core.v1.ResourceQuota(
                f"team-{namespace}",
                metadata=metadata,
                spec={"hard": {f"requests.{resource}": str(sum(queue.nominal_quota.values()))}},
                opts=cluster.options(self),
            )
            if requests:
                kubernetes.core.v1.LimitRange(
                    f"team-{namespace}",
                    metadata=metadata,
                    spec={"limits": [{"type": "Container", "default_request": requests}]},
                    opts=cluster.options(self),
                )
        self._queued(name, queue, cluster)
        self.register_outputs({})

    def _queued(self, name: str, queue: TeamQueue, cluster: Cluster) -> None:
        """Refuses training jobs that do not wait in the team's queue or would skip ahead."""
        policy = f"team-{name}-queue"
        label = "object.metadata.?labels[?'{}'].orValue('')"
        validations: list[ValidationArgsDict] = [
            {
                "expression": f"{label.format(names.QUEUE_LABEL)} == '{name}'",
                "message": f"training jobs of this namespace wait in the queue of team {name}: set "
                f"queue to {name}",
            },
            {
                # Kueue treats it as the job's priority, and the scheduler preempts pods of others
                # for it.
                "expression": "object.spec.replicatedJobs.all(job, "
                "!has(job.template.spec.template.spec.priorityClassName))",
                "message": "priorityClassName: cannot be set in training jobs of a team; set "
                "priority",
            },
        ]
        if queue.priorities is not None:
            expression = f"{label.format(names.PRIORITY_LABEL)} in {['', *queue.priorities]}"
            allowed = ", ".join(queue.priorities) or "none"
            message = f"priority: is not available to jobs of team {name}; allowed: {allowed}"
            validations.append({"expression": expression, "message": message})
        namespaces: LabelSelectorRequirementArgsDict = {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": list(queue.namespaces),
        }
        declared = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy(
            policy,
            metadata={"name": policy},
            spec={
                "failure_policy": "Fail",
                "match_constraints": {
                    "namespace_selector": {"match_expressions": [namespaces]},
                    "resource_rules": [
                        {
                            "api_groups": [jobset.GROUP],
                            "api_versions": ["*"],
                            "operations": ["CREATE"],
                            "resources": ["jobsets"],
                        }
                    ],
                },
                "validations": validations,
            },
            opts=cluster.options(self),
        )
        kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
            policy,
            metadata={"name": policy},
            spec={"policy_name": policy, "validation_actions": ["Deny"]},
            opts=cluster.options(self, depends_on=[declared]),
        )
