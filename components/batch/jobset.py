"""The JobSet controller: jobs whose pods address each other by name, start and fail together."""

import pulumi
from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

from ..access.rights import READ, rule
from ..catalog import images
from ..catalog import kubernetes as names
from ..cluster import Cluster
from .controller import Controller
from .controller_args import ControllerArgs, Webhook

RULES: list[PolicyRuleArgsDict] = [
    rule("", ["nodes"], *READ),
    rule("", ["persistentvolumeclaims"], *READ, "create"),
    rule("", ["pods"], *READ, "delete", "patch", "update"),
    rule("", ["services"], *READ, "create", "delete", "patch", "update"),
    rule("", ["events"], "create", "patch"),
    rule("events.k8s.io", ["events"], "create", "patch"),
    rule("batch", ["jobs"], *READ, "create", "delete", "patch", "update"),
    rule("batch", ["jobs/status"], "get", "patch", "update"),
    rule(names.JOB_SET_GROUP, ["jobsets"], *READ, "patch", "update"),
    rule(names.JOB_SET_GROUP, ["jobsets/finalizers"], "update"),
    rule(names.JOB_SET_GROUP, ["jobsets/status"], "get", "patch", "update"),
]
"""The rules of config/components/rbac/role.yaml in 0.12.0, except creating and deleting JobSets."""


def job_set(*, protected: bool, cluster: Cluster, parent: pulumi.Resource) -> Controller:
    """The controller in the version that this stack runs."""
    args = ControllerArgs(
        source="jobset",
        image=images.JOBSET,
        config={"apiVersion": "config.jobset.x-k8s.io/v1alpha1"},
        lease="6d4f6a47.x-k8s.io",
        rules=RULES,
        protected=protected,
        webhooks=[
            Webhook(
                kind="jobset",
                group=names.JOB_SET_GROUP,
                version=names.JOB_SET_VERSION,
                resources=["jobsets"],
            ),
            Webhook(
                kind="pod",
                group="",
                version="v1",
                resources=["pods"],
                updates=False,
                label=names.JOB_SET_LABEL,
            ),
        ],
    )
    return Controller("jobset", args, cluster=cluster, opts=pulumi.ResourceOptions(parent=parent))
