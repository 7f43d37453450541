"""Policies and roles in AWS: their part of the rules."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gpu_cluster.components.catalog.broad_rights import AWS_POLICIES
from gpu_cluster.policy.iam import granted, parsed
from gpu_cluster.policy.reading import Resource, get, items
from gpu_cluster.policy.schema import texts

_POLICIES = {
    "aws:iam/rolePolicy:RolePolicy": "policy",
    "aws:iam/policy:Policy": "policy",
    "aws:iam/userPolicy:UserPolicy": "policy",
    "aws:iam/groupPolicy:GroupPolicy": "policy",
    "aws:iam/role:Role": "assumeRolePolicy",
}
_ATTACHMENTS = (
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    "aws:iam/policyAttachment:PolicyAttachment",
    "aws:iam/userPolicyAttachment:UserPolicyAttachment",
    "aws:iam/groupPolicyAttachment:GroupPolicyAttachment",
    "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive",
)
_SHARED = {
    "aws:sqs/queuePolicy:QueuePolicy": "policy",
    "aws:sqs/queue:Queue": "policy",
    "aws:sns/topicPolicy:TopicPolicy": "policy",
    "aws:sns/topic:Topic": "policy",
    "aws:s3/bucketPolicy:BucketPolicy": "policy",
}
"""Types with a resource's own policy, which services of AWS use on behalf of every account."""
_SOURCES = ("aws:sourcearn", "aws:sourceaccount", "aws:sourceorgid", "aws:sourceorgpaths")
PERMISSIONS_TOO_BROAD = {
    "policies": texts(
        *AWS_POLICIES, about="Patterns of AWS managed policies that are never attached."
    ),
    "unscoped": texts(
        "*:Describe*",
        "*:List*",
        "ec2:Get*",
        "ecr:GetAuthorizationToken",
        "sts:GetCallerIdentity",
        about="Patterns of AWS actions that may have resource *.",
    ),
}
"""The settings of `permissions_too_broad`."""


def permissions_too_broad(
    resource: Resource, *, policies: Sequence[str], unscoped: Sequence[str], **of_others: Any
) -> Iterator[str]:
    """Policies that are attached, and the statements of others."""
    props = resource.props
    if resource.type in _ATTACHMENTS:
        for arn in [get(props, "policyArn"), *items(props, "policyArns")]:
            yield from granted(resource, arn, policies)
    if resource.type == "aws:iam/role:Role":
        for arn in items(props, "managedPolicyArns"):
            yield from granted(resource, arn, policies)
        for inline in items(props, "inlinePolicies"):
            for statement in _statements(get(inline, "policy")):
                yield from _statement(resource.name, statement, unscoped)
    if resource.type in _SHARED:
        for statement in _statements(get(props, _SHARED[resource.type])):
            yield from _of_any_account(resource.name, statement)
    if resource.type in _POLICIES:
        trust = resource.type == "aws:iam/role:Role"
        for statement in _statements(get(props, _POLICIES[resource.type])):
            if trust:
                yield from _trust(resource.name, statement)
            else:
                yield from _statement(resource.name, statement, unscoped)


def _statement(name: str, statement: Any, unscoped: Sequence[str]) -> Iterator[str]:
    if get(statement, "Effect") != "Allow":
        return
    if get(statement, "NotAction") is not None or get(statement, "NotResource") is not None:
        yield f"{name} allows everything except what it lists; list what is allowed instead"
        return
    actions = [action for action in _texts(get(statement, "Action")) if action]
    for action in actions:
        if action == "*" or action.endswith(":*"):
            yield f"{name} allows {action}; name the actions that are needed"
    if "*" not in _texts(get(statement, "Resource")) or get(statement, "Condition"):
        return
    for action in actions:
        whole = action == "*" or action.endswith(":*")
        if not whole and not any(fnmatchcase(action, pattern) for pattern in unscoped):
            yield (
                f"{name} allows {action} on every resource without a condition; name the "
                "resources, or add a condition"
            )


def _trust(name: str, statement: Any) -> Iterator[str]:
    principal = get(statement, "Principal")
    anybody = principal == "*" or "*" in _texts(get(principal, "AWS"))
    if get(statement, "Effect") == "Allow" and anybody and not get(statement, "Condition"):
        yield f"role {name} can be assumed by anybody; name the principals"


def _of_any_account(name: str, statement: Any) -> Iterator[str]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html"""
    services = _texts(get(get(statement, "Principal"), "Service"))
    conditions = get(statement, "Condition")
    keys = [
        key.lower()
        for condition in (conditions.values() if isinstance(conditions, dict) else ())
        for key in (condition if isinstance(condition, dict) else ())
    ]
    if get(statement, "Effect") != "Allow" or any(key in _SOURCES for key in keys):
        return
    for service in services:
        yield (
            f"the policy of {name} admits {service} on behalf of every AWS account; add a "
            "condition on aws:SourceArn or aws:SourceAccount"
        )


def _statements(document: Any) -> list[Any]:
    """The statements of a policy document in JSON; empty if it is not known."""
    statements = get(parsed(document), "Statement")
    return statements if isinstance(statements, list) else [statements]


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str)]
