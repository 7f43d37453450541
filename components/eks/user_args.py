"""The people and roles that may use an EKS cluster without administering it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from annotated_types import MinLen

from ..access.service_accounts import PRINCIPAL, iam_name
from ..catalog import kubernetes as names
from ..schema.effect import Sent
from ..schema.limits import DNS_LABEL, UNIQUE, Example, Hint, Limit, pattern
from ..schema.outputs import MaybeOutput, Named, keyed, named
from ..schema.refusal import OTHER, Keys, Refusal, refuse, shown
from ..schema.rules import Checked, only, rule

# IAM Identity Center's roles have a path:
# docs.aws.amazon.com/singlesignon/latest/userguide/referencingpermissionsets.html, 2026-11-26.
_NOT_ITS_ARN: Final = re.compile(
    r"arn:[^:]*:(?:sts::[^:]*:assumed-role/([^/]+)/.*|iam::[^:]*:role/(AWSReservedSSO_[^/]+))"
)


def _not_a_principal(arn: str) -> str | None:
    if match := _NOT_ITS_ARN.fullmatch(arn):
        what = (
            "the session of a role" if match[1] else "an IAM Identity Center role without its path"
        )
        return (
            f"{arn!r} is {what}; give the ARN of the role itself with its path, which this command "
            f"prints: aws iam get-role --role-name {match[1] or match[2]} --query Role.Arn"
        )
    if ":role/aws-service-role/" in arn:
        return (
            f"{arn!r} is a service-linked role, for which EKS accepts no access entry; give a role "
            "that people or programs assume, arn:aws:iam::ACCOUNT:role/NAME"
        )
    if PRINCIPAL.fullmatch(arn):
        return None
    return (
        f"{shown(arn)} is not the ARN of an IAM role or user; give it as "
        "arn:aws:iam::ACCOUNT:role/NAME"
    )


Principal = Annotated[MaybeOutput, Limit(_not_a_principal, pattern(PRINCIPAL))]
"""The ARN of an IAM role or user."""
POLICIES: Final[Mapping[str, str]] = {"view": "AmazonEKSViewPolicy", "edit": "AmazonEKSEditPolicy"}
"""Access level -> EKS access policy:
https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EksUserArgs(Checked):
    """A group of people who may use the cluster. Its name is a Kubernetes group, to which
    RoleBindings and `batch.queues.<name>.groups` grant permissions."""

    principals: Annotated[
        Named[Principal],
        MinLen(1),
        UNIQUE,
        Hint("give the ARN of an IAM role or user"),
        Sent("AccessEntry principalArn"),
        Example('["arn:aws:iam::123456789012:role/researchers"]'),
    ]
    """ARNs of the IAM roles and users in the group; outputs in a map, by a name of yours."""
    access: Annotated[
        Literal["view", "edit"] | None,
        only(of=("edit",), namespaces=True)(
            "edit in every namespace would include the system namespaces; list namespaces"
        ),
        Sent("AccessPolicyAssociation policyArn"),
    ] = None
    """What EKS itself allows the group to do in `namespaces`: read everything except Secrets, or
    also change it. By default, only what RoleBindings allow."""
    namespaces: Annotated[
        Sequence[Annotated[str, DNS_LABEL]],
        UNIQUE,
        only(access=True)("has no effect without access; set access, or drop it"),
        Sent("AccessPolicyAssociation accessScope.namespaces[]"),
    ] = ()
    """The namespaces in which `access` applies; by default, `view` applies in all of them. For
    `edit`, those of the stack's `namespaces` whose `podSecurity` is `baseline`."""

    def possible(self, key: str) -> Sequence[str]:
        return ["view"] if key == "access" and not self.namespaces else ()

    @rule
    def _check_namespaces(self) -> Iterator[Refusal]:
        for position, namespace in enumerate(self.namespaces):
            if self.access == "edit" and names.RESERVED_NAMESPACE.fullmatch(namespace):
                yield refuse(("namespaces", position))(
                    f"edit in {namespace} would give access to the service accounts of Kubernetes "
                    "or of controllers; give a namespace that belongs to the group"
                )


def principal_name(key: str | int, arn: MaybeOutput) -> str:
    """The principal's part of the names of its resources: its key in a map, or account and path."""
    return named(key, arn, lambda text: text.split(":", 4)[4])


def principals(users: Mapping[str, EksUserArgs]) -> Iterator[tuple[Keys, MaybeOutput]]:
    """Path in the cluster's block -> ARN, in pairs."""
    for group, user in users.items():
        for key, arn in keyed(user.principals):
            yield ("users", group, "principals", key), arn


def check_principals(users: Mapping[str, EksUserArgs], admins: Named[MaybeOutput] = ()) -> None:
    """Refuses an administrator among the users, and two ARNs of one name: one at most exists."""
    seen: dict[str | None, tuple[Keys, str]] = {}
    of_admins: list[tuple[Keys, MaybeOutput]]
    of_admins = [(("admins", key), arn) for key, arn in keyed(admins)]
    for key, arn in [*of_admins, *principals(users)]:
        if not isinstance(arn, str):
            continue
        before, other = seen.setdefault(iam_name(arn), (key, arn))
        if (key[0], before[0]) == ("users", "admins"):
            spelled = "" if other == arn else f", as {other!r},"
            raise refuse(key, arn)(
                f"is also in admins{spelled} and already has all permissions",
                remedy="remove it from one of the two",
            )
        if other != arn:
            kind = "role" if ":role/" in arn else "user"
            raise refuse(key, arn)(
                f"is {other!r} of {OTHER} in another spelling, and an account has one {kind} of a "
                "name, whatever its path and case",
                other=before,
                remedy=f"give both as this command prints it: aws iam get-{kind} --{kind}-name "
                f"{arn.rpartition('/')[2]} --query {kind.title()}.Arn",
            )


@dataclass(frozen=True, slots=True)
class Entry:
    """A principal's access entry: it has one, however many groups it is in."""

    name: str
    """Part of its resources' names."""
    groups: list[str] = field(default_factory=list)
    policies: dict[str, list[str]] = field(default_factory=dict)
    """Access policy -> its namespaces; none means all. An entry has each policy in one scope."""


def entries(users: Mapping[str, EksUserArgs]) -> dict[MaybeOutput, Entry]:
    """ARN -> its entry."""
    by_arn: dict[MaybeOutput, Entry] = {}
    for group, user in users.items():
        for key, arn in keyed(user.principals):
            unique = f"{group}:{key}" if isinstance(key, str) else key
            entry = by_arn.setdefault(arn, Entry(principal_name(unique, arn)))
            groups, policies = entry.groups, entry.policies
            groups.append(group)
            if user.access is not None:
                policy = POLICIES[user.access]
                before = policies.get(policy)
                everywhere = not user.namespaces or before == []
                policies[policy] = [] if everywhere else sorted({*(before or ()), *user.namespaces})
    return by_arn
