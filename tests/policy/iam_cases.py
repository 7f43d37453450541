"""Cases of the rules on permissions."""

import json
from typing import Any

from tests.policy.cases import DROP, Case, Rows, cases_of
from tests.policy.resources import (
    AUTOPILOT,
    GKE_CLUSTER,
    T4_POOL,
    document,
    resource,
    role_policy,
)

SCALE = {
    "Effect": "Allow",
    "Action": ["autoscaling:SetDesiredCapacity"],
    "Resource": "*",
    "Condition": {"StringEquals": {"aws:ResourceTag/owner": "gpu"}},
}
LOOK = {"Effect": "Allow", "Action": "ec2:DescribeInstanceTypes", "Resource": "*"}
ROLE = resource(
    "aws:iam/role:Role",
    "nodes",
    {
        "assumeRolePolicy": document(
            {
                "Effect": "Allow",
                "Principal": {"Service": "ec2.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ),
        "managedPolicyArns": ["arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"],
        "inlinePolicies": [{"name": "look", "policy": document(LOOK)}],
    },
)
QUEUE_POLICY = resource(
    "aws:sqs/queuePolicy:QueuePolicy",
    "interruptions",
    {
        "policy": document(
            {
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": "arn:aws:sqs:us-east-1:123456789012:interruptions",
                "Condition": {"ArnEquals": {"aws:SourceArn": ["arn:aws:events:r:1:rule/a"]}},
            }
        )
    },
)
ATTACHMENT = resource(
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    "nodes-policy",
    {"policyArn": "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
)
MEMBER = resource(
    "gcp:projects/iAMMember:IAMMember",
    "logs",
    {"role": "roles/logging.logWriter", "member": "serviceAccount:nodes@p.iam.gserviceaccount.com"},
)
BINDING = resource(
    "gcp:projects/iAMBinding:IAMBinding",
    "logs",
    {"role": "roles/logging.logWriter", "members": ["serviceAccount:a@p.iam.gserviceaccount.com"]},
)
BUCKET = resource(
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    "models",
    {"role": "roles/storage.admin", "member": "serviceAccount:a@p.iam.gserviceaccount.com"},
)
PROJECT_POLICY = resource(
    "gcp:projects/iAMPolicy:IAMPolicy",
    "all",
    {
        "policyData": json.dumps(
            {"bindings": [{"role": "roles/browser", "members": ["user:a@b.c"]}]}
        )
    },
)
FOLDER = resource(
    "gcp:folder/iAMBinding:IAMBinding",
    "team",
    {"role": "roles/browser", "members": ["group:team@example.com"]},
)
CUSTOM_ROLE = resource(
    "gcp:projects/iAMCustomRole:IAMCustomRole",
    "train",
    {"permissions": ["storage.objects.get", "storage.objects.list"]},
)
EXCLUSIVE = resource(
    "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive",
    "nodes",
    {"policyArns": ["arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"]},
)
GROUP_ATTACHMENT = resource(
    "aws:iam/groupPolicyAttachment:GroupPolicyAttachment",
    "team-policy",
    {"policyArn": "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
)
GROUP_POLICY = resource("aws:iam/groupPolicy:GroupPolicy", "team", {"policy": document(LOOK)})
IMPERSONATED = resource(
    "gcp:serviceaccount/iAMMember:IAMMember",
    "train",
    {"role": "roles/iam.workloadIdentityUser", "member": "serviceAccount:p.svc.id.goog[a/b]"},
)
"""What that role is for: one account."""
BROAD = "{}: {} grants far more permissions than one task needs; choose a narrower {}"
DEFAULT = (
    "runs its nodes as the project's default account, which has nearly all permissions; set {path}"
)


def _broad(statement: dict[str, Any], message: str, **more: Any) -> Case:
    return Case(
        rule="permissions-too-broad",
        good=(role_policy(SCALE, LOOK),),
        path=("policy",),
        bad=document(statement),
        message=message,
        **more,
    )


ROWS: Rows = {
    "node-identity": [
        ((T4_POOL,), ("nodeConfig", "serviceAccount"), DROP,
         f"pool t4 {DEFAULT.format(path='nodeConfig.serviceAccount')}"),
        ((GKE_CLUSTER,), ("nodeConfig", "serviceAccount"),
         "12345-compute@developer.gserviceaccount.com",
         f"cluster gpu {DEFAULT.format(path='nodeConfig.serviceAccount')}"),
        ((GKE_CLUSTER,), ("workloadIdentityConfig",), DROP,
         "cluster gpu has no workload identity, so pods would use the node's service account; "
         "set workloadIdentityConfig.workloadPool"),
        ((AUTOPILOT,), ("clusterAutoscaling", "autoProvisioningDefaults", "serviceAccount"),
         "default",
         "cluster auto "
         + DEFAULT.format(path="clusterAutoscaling.autoProvisioningDefaults.serviceAccount")),
    ],
    "permissions-too-broad": [
        ((QUEUE_POLICY,), ("policy",),
         document({
             "Effect": "Allow", "Principal": {"Service": ["events.amazonaws.com"]},
             "Action": "sqs:SendMessage", "Resource": "q",
             "Condition": {"Bool": {"aws:SecureTransport": "true"}},
         }),
         "the policy of interruptions admits events.amazonaws.com on behalf of every AWS account; "
         "add a condition on aws:SourceArn or aws:SourceAccount"),
        ((ROLE,), ("inlinePolicies", 0, "policy"),
         document({"Effect": "Allow", "Action": "iam:PassRole", "Resource": "*"}),
         "nodes allows iam:PassRole on every resource without a condition; name the resources, or "
         "add a condition"),
        ((ROLE,), ("assumeRolePolicy",),
         document({"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}),
         "role nodes can be assumed by anybody; name the principals"),
        ((ROLE,), ("managedPolicyArns", 0), "arn:aws:iam::aws:policy/AmazonEC2FullAccess",
         BROAD.format("nodes", "AmazonEC2FullAccess", "policy")),
        ((ATTACHMENT,), ("policyArn",), "arn:aws-cn:iam::aws:policy/AdministratorAccess",
         BROAD.format("nodes-policy", "AdministratorAccess", "policy")),
        ((MEMBER,), ("role",), "roles/editor",
         BROAD.format("logs", "roles/editor", "role")),
        ((MEMBER,), ("role",), "roles/compute.instanceAdmin",
         BROAD.format("logs", "roles/compute.instanceAdmin", "role")),
        ((CUSTOM_ROLE,), ("permissions", 1), "iam.serviceAccounts.actAs",
         "train has the permission iam.serviceAccounts.actAs, which lets its holder gain more "
         "than the role grants; drop it"),
        ((BINDING,), ("members", 0), "allAuthenticatedUsers",
         "logs grants a role to allAuthenticatedUsers; name the members that need it"),
        ((BUCKET,), ("member",), "allUsers", "models grants a role to allUsers; name the members "
                                             "that need it"),
        ((PROJECT_POLICY,), ("policyData",),
         json.dumps({"bindings": [{"role": "roles/owner", "members": ["user:a@b.c"]}]}),
         BROAD.format("all", "roles/owner", "role")),
        ((FOLDER,), ("role",), "roles/editor",
         BROAD.format("team", "roles/editor", "role")),
        ((IMPERSONATED,), ("role",), "roles/iam.serviceAccountTokenCreator",
         BROAD.format("train", "roles/iam.serviceAccountTokenCreator", "role")),
        ((FOLDER,), ("role",), "roles/iam.workloadIdentityUser",
         BROAD.format("team", "roles/iam.workloadIdentityUser", "role")),
        ((GROUP_ATTACHMENT,), ("policyArn",), "arn:aws:iam::aws:policy/AdministratorAccess",
         BROAD.format("team-policy", "AdministratorAccess", "policy")),
        ((GROUP_POLICY,), ("policy",),
         document({"Effect": "Allow", "Action": "*", "Resource": "*"}),
         "team allows *; name the actions that are needed"),
    ],
}  # fmt: skip

CASES = [
    *cases_of(ROWS),
    _broad(
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        "autoscaler allows *; name the actions that are needed",
    ),
    _broad(
        {"Effect": "Allow", "Action": ["ec2:*"], "Resource": "arn:aws:ec2:*:*:instance/i-1"},
        "autoscaler allows ec2:*; name the actions that are needed",
    ),
    _broad(
        {**SCALE, "Condition": {}},
        "autoscaler allows autoscaling:SetDesiredCapacity on every resource without a condition; "
        "name the resources, or add a condition",
    ),
    _broad(
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": ["*"]},
        "autoscaler allows s3:GetObject on every resource without a condition; name the resources, "
        "or add a condition",
    ),
    _broad(
        {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"},
        "autoscaler allows everything except what it lists; list what is allowed instead",
    ),
    *(
        Case(
            rule="permissions-too-broad",
            good=(MEMBER,),
            path=("role",),
            bad=role,
            message=BROAD.format("logs", role, "role"),
        )
        for role in (
            "roles/owner",
            "roles/viewer",
            "roles/container.admin",
            "roles/iam.securityAdmin",
            "roles/resourcemanager.projectIamAdmin",
            "roles/resourcemanager.organizationAdmin",
            "roles/iam.serviceAccountTokenCreator",
            "roles/iam.serviceAccountKeyAdmin",
            "roles/iam.serviceAccountAdmin",
            "roles/iam.serviceAccountUser",
            "roles/container.clusterAdmin",
            "roles/compute.instanceAdmin.v1",
            "roles/iam.roleAdmin",
            "roles/iam.workloadIdentityPoolAdmin",
            "roles/iam.workloadIdentityUser",
            "roles/cloudbuild.builds.editor",
            "roles/deploymentmanager.editor",
        )
    ),
    *(
        Case(
            rule="permissions-too-broad",
            good=(EXCLUSIVE,),
            path=("policyArns", 0),
            bad=f"arn:aws:iam::aws:policy/{policy}",
            message=BROAD.format("nodes", policy.rpartition("/")[2], "policy"),
        )
        for policy in (
            "AdministratorAccess-Amplify",
            "PowerUserAccess",
            "IAMFullAccess",
            "AWSCloudTrail_FullAccess",
            "job-function/SystemAdministrator",
        )
    ),
]
