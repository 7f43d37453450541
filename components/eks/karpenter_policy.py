"""The AWS permissions of Karpenter.

From the CloudFormation template of aws/karpenter-provider-aws 1.14
(website/content/en/v1.14/getting-started/getting-started-with-karpenter/cloudformation.yaml, read
2026-11-24), without what this stack does not use: the stack declares the instance profiles, so
Karpenter creates none, and zonal shifts are off. 1.15.0 calls only RebootInstances besides
(pkg/aws/sdk.go), behind a gate that is off.
"""

from collections.abc import Sequence

from . import regions
from .iam import Statement, document

_LAUNCHED = (
    "fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request",
)  # fmt: skip
_CENTRAL = (
    "us-east-1", "ap-south-1", "eu-central-1", "cn-northwest-1", "cn-north-1", "us-gov-west-1",
)  # fmt: skip
"""Regions of the Pricing and IAM endpoints, whatever region Karpenter runs in."""
_CREATED_BY = ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]


def policy(cluster: str, region: str, *, node_role: str, queue: str, key: str | None) -> str:
    """The policy document. `node_role`, `queue` and `key` are ARNs; `key`: the KMS key of nodes'
    disks, None for the account's default."""
    partition = regions.partition(region)
    ec2 = f"arn:{partition}:ec2:{region}"
    owned = f"kubernetes.io/cluster/{cluster}"
    pool = "karpenter.sh/nodepool"
    name = "eks:eks-cluster-name"
    requested = {
        "StringEquals": {f"aws:RequestTag/{owned}": "owned", f"aws:RequestTag/{name}": cluster},
        "StringLike": {f"aws:RequestTag/{pool}": "*"},
    }
    existing = {
        "StringEquals": {f"aws:ResourceTag/{owned}": "owned"},
        "StringLike": {f"aws:ResourceTag/{pool}": "*"},
    }
    launched = [f"{ec2}:*:{kind}/*" for kind in _LAUNCHED]
    return document(
        {
            "Sid": "UseWhatExists",
            "Effect": "Allow",
            "Action": ["ec2:RunInstances", "ec2:CreateFleet"],
            "Resource": [
                f"{ec2}::image/*",
                f"{ec2}::snapshot/*",
                f"{ec2}:*:security-group/*",
                f"{ec2}:*:subnet/*",
                f"{ec2}:*:capacity-reservation/*",
                f"{ec2}:*:placement-group/*",
            ],
        },
        {
            "Sid": "UseItsLaunchTemplates",
            "Effect": "Allow",
            "Action": ["ec2:RunInstances", "ec2:CreateFleet"],
            "Resource": f"{ec2}:*:launch-template/*",
            "Condition": existing,
        },
        {
            "Sid": "Launch",
            "Effect": "Allow",
            "Action": ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
            "Resource": launched,
            "Condition": requested,
        },
        {
            "Sid": "TagWhatItLaunches",
            "Effect": "Allow",
            "Action": "ec2:CreateTags",
            "Resource": launched,
            "Condition": {
                **requested,
                "StringEquals": {**requested["StringEquals"], "ec2:CreateAction": _CREATED_BY},
            },
        },
        {
            "Sid": "TagItsInstances",
            "Effect": "Allow",
            "Action": "ec2:CreateTags",
            "Resource": f"{ec2}:*:instance/*",
            "Condition": {
                **existing,
                "StringEqualsIfExists": {f"aws:RequestTag/{name}": cluster},
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": [name, "karpenter.sh/nodeclaim", "Name"]
                },
            },
        },
        {
            "Sid": "DeleteItsOwn",
            "Effect": "Allow",
            "Action": ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            "Resource": [f"{ec2}:*:instance/*", f"{ec2}:*:launch-template/*"],
            "Condition": existing,
        },
        {
            "Sid": "Look",
            "Effect": "Allow",
            "Action": [
                "ec2:DescribeCapacityReservations",
                "ec2:DescribeImages",
                "ec2:DescribeInstanceStatus",
                "ec2:DescribeInstanceTypeOfferings",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeInstances",
                "ec2:DescribeLaunchTemplates",
                "ec2:DescribePlacementGroups",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSpotPriceHistory",
                "ec2:DescribeSubnets",
            ],
            # None of these supports resource-level permissions.
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:RequestedRegion": region}},
        },
        {
            "Sid": "LookUpImages",
            "Effect": "Allow",
            "Action": "ssm:GetParameter",
            "Resource": f"arn:{partition}:ssm:{region}::parameter/aws/service/*",
        },
        {
            "Sid": "LookUpPricesAndProfiles",
            "Effect": "Allow",
            "Action": ["pricing:GetProducts", "iam:ListInstanceProfiles"],
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:RequestedRegion": list(_CENTRAL)}},
        },
        {
            "Sid": "LookAtProfiles",
            "Effect": "Allow",
            "Action": "iam:GetInstanceProfile",
            "Resource": f"arn:{partition}:iam::*:instance-profile/*",
        },
        {
            "Sid": "PassTheRoleOfNodes",
            "Effect": "Allow",
            "Action": "iam:PassRole",
            "Resource": node_role,
            "Condition": {
                "StringEquals": {
                    "iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]
                }
            },
        },
        {
            "Sid": "FindTheEndpoint",
            "Effect": "Allow",
            "Action": "eks:DescribeCluster",
            "Resource": f"arn:{partition}:eks:{region}:*:cluster/{cluster}",
        },
        {
            "Sid": "HearOfInterruptions",
            "Effect": "Allow",
            "Action": ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
            "Resource": queue,
        },
        *(_disks(key, region) if key else []),
    )


def _disks(key: str, region: str) -> Sequence[Statement]:
    """EC2 uses a disk's key on behalf of the identity that launches the instance.

    https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html
    """
    suffix = ".cn" if region.startswith("cn-") else ""
    through = {"kms:ViaService": f"ec2.{region}.amazonaws.com{suffix}"}
    return [
        {
            "Sid": "EncryptDisks",
            "Effect": "Allow",
            "Action": [
                "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext",
                "kms:ReEncrypt*",
            ],
            "Resource": key,
            "Condition": {"StringEquals": through},
        },
        {
            "Sid": "LetDisksUseTheKey",
            "Effect": "Allow",
            "Action": "kms:CreateGrant",
            "Resource": key,
            "Condition": {
                "StringEquals": through,
                "Bool": {"kms:GrantIsForAWSResource": "true"},
            },
        },
    ]  # fmt: skip
