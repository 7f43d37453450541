"""Cases of the rules on permissions."""

import json
from typing import Any

from tests.policy.cases import DROP, Case
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
DEFAULT = (
    "runs its nodes as the project's default account, which may do nearly everything; set {path}"
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


CASES = [
    Case(
        rule="node-identity",
        good=(T4_POOL,),
        path=("nodeConfig", "serviceAccount"),
        bad=DROP,
        message=f"pool t4 {DEFAULT.format(path='nodeConfig.serviceAccount')}",
    ),
    Case(
        rule="node-identity",
        good=(GKE_CLUSTER,),
        path=("nodeConfig", "serviceAccount"),
        bad="12345-compute@developer.gserviceaccount.com",
        message=f"cluster gpu {DEFAULT.format(path='nodeConfig.serviceAccount')}",
    ),
    Case(
        rule="node-identity",
        good=(GKE_CLUSTER,),
        path=("workloadIdentityConfig",),
        bad=DROP,
        message="cluster gpu has no workload identity, so pods would use the node's account; set "
        "workloadIdentityConfig.workloadPool",
    ),
    Case(
        rule="node-identity",
        good=(AUTOPILOT,),
        path=("clusterAutoscaling", "autoProvisioningDefaults", "serviceAccount"),
        bad="default",
        message="cluster auto "
        + DEFAULT.format(path="clusterAutoscaling.autoProvisioningDefaults.serviceAccount"),
    ),
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
        "autoscaler allows everything but what it names; name what is allowed",
    ),
    Case(
        rule="permissions-too-broad",
        good=(ROLE,),
        path=("inlinePolicies", 0, "policy"),
        bad=document({"Effect": "Allow", "Action": "iam:PassRole", "Resource": "*"}),
        message="nodes allows iam:PassRole on every resource without a condition; name the "
        "resources, or add a condition",
    ),
    Case(
        rule="permissions-too-broad",
        good=(ROLE,),
        path=("assumeRolePolicy",),
        bad=document({"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}),
        message="role nodes may be assumed by anybody; name who may",
    ),
    Case(
        rule="permissions-too-broad",
        good=(ROLE,),
        path=("managedPolicyArns", 0),
        bad="arn:aws:iam::aws:policy/AmazonEC2FullAccess",
        message="role nodes has AmazonEC2FullAccess; give it a policy with what is needed alone",
    ),
    Case(
        rule="permissions-too-broad",
        good=(ATTACHMENT,),
        path=("policyArn",),
        bad="arn:aws-cn:iam::aws:policy/AdministratorAccess",
        message="nodes-policy attaches AdministratorAccess; attach a policy with what is needed "
        "alone",
    ),
    Case(
        rule="permissions-too-broad",
        good=(MEMBER,),
        path=("role",),
        bad="roles/editor",
        message="logs grants roles/editor; grant a role with what is needed alone",
    ),
    Case(
        rule="permissions-too-broad",
        good=(MEMBER,),
        path=("role",),
        bad="roles/compute.instanceAdmin",
        message="logs grants roles/compute.instanceAdmin; grant a role with what is needed alone",
    ),
    *(
        Case(
            rule="permissions-too-broad",
            good=(MEMBER,),
            path=("role",),
            bad=role,
            message=f"logs grants {role}; grant a role with what is needed alone",
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
        )
    ),
    Case(
        rule="permissions-too-broad",
        good=(CUSTOM_ROLE,),
        path=("permissions", 1),
        bad="iam.serviceAccounts.actAs",
        message="train has the permission iam.serviceAccounts.actAs, by which its holder gets more "
        "than the role; drop it",
    ),
    *(
        Case(
            rule="permissions-too-broad",
            good=(EXCLUSIVE,),
            path=("policyArns", 0),
            bad=f"arn:aws:iam::aws:policy/{policy}",
            message=f"nodes attaches {policy.rpartition('/')[2]}; attach a policy with what is "
            "needed alone",
        )
        for policy in (
            "AdministratorAccess-Amplify",
            "PowerUserAccess",
            "IAMFullAccess",
            "AWSCloudTrail_FullAccess",
            "job-function/SystemAdministrator",
        )
    ),
    Case(
        rule="permissions-too-broad",
        good=(BINDING,),
        path=("members", 0),
        bad="allAuthenticatedUsers",
        message="logs grants a role to allAuthenticatedUsers; name who needs it",
    ),
    Case(
        rule="permissions-too-broad",
        good=(BUCKET,),
        path=("member",),
        bad="allUsers",
        message="models grants a role to allUsers; name who needs it",
    ),
    Case(
        rule="permissions-too-broad",
        good=(PROJECT_POLICY,),
        path=("policyData",),
        bad=json.dumps({"bindings": [{"role": "roles/owner", "members": ["user:a@b.c"]}]}),
        message="all grants roles/owner; grant a role with what is needed alone",
    ),
    Case(
        rule="permissions-too-broad",
        good=(FOLDER,),
        path=("role",),
        bad="roles/editor",
        message="team grants roles/editor; grant a role with what is needed alone",
    ),
    Case(
        rule="permissions-too-broad",
        good=(GROUP_ATTACHMENT,),
        path=("policyArn",),
        bad="arn:aws:iam::aws:policy/AdministratorAccess",
        message="team-policy attaches AdministratorAccess; attach a policy with what is needed "
        "alone",
    ),
    Case(
        rule="permissions-too-broad",
        good=(GROUP_POLICY,),
        path=("policy",),
        bad=document({"Effect": "Allow", "Action": "*", "Resource": "*"}),
        message="team allows *; name the actions that are needed",
    ),
]
