"""Reads teams from a stack's config, and adds them to its other blocks.

Each function raises one `Refusal`; what else it finds is in its `further`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

from ..access.service_accounts import PRINCIPAL, Access, iam_name
from ..batch.batch_args import BatchArgs, QueueArgs
from ..batch.load import Pools, pool_at
from ..batch.team_args import TeamArgs, check_creatable, namespaces_of, team_queues
from ..gpu.pod_args import NamespaceArgs
from ..schema.decode import NAMESPACE, at, decode, decode_map, type_hints
from ..schema.refusal import Keys, Refusal, Refusals, collected, known_only, raised, refuse

PATH = f"{NAMESPACE}:teams"
_NO_MEMBER = "is not accepted as a member here"
_ROLE = "arn:aws:iam::ACCOUNT:role/NAME"
_ROLE_AS_USER = re.compile(r"user:arn:aws[a-z-]*:iam::[0-9]*:role/")
_SESSION = re.compile(r"(arn:aws[a-z-]*):sts::([0-9]+):assumed-role/([^/]+)/(.+)")
_MEMBER = re.compile(r"(?P<kind>user|group):(?P<name>(?!system:).*\S.*)")


def read_teams(value: object, refusals: Refusals) -> Mapping[str, TeamArgs]:
    """Reads the config's `teams`. No two of them share a namespace. Of one that is refused, with a
    reason in `refusals`, not all is known."""
    teams = dict(decode_map(PATH, TeamArgs, value, refusals))
    owners: dict[str, str] = {}
    for name, team in teams.items():
        teams[name] = known_only(TeamArgs)
        with refusals:
            _check_namespaces(name, team, owners)
            teams[name] = team
    return teams


@collected
def _check_namespaces(name: str, team: TeamArgs, owners: dict[str, str]) -> Iterator[Refusal]:
    """Refuses namespaces that are not for teams, and those in `owners`, which gets the others."""
    if not team.namespaces:
        check_creatable(f"{PATH}.{name}", name)
    for position, entry in enumerate(namespaces_of(name, team)):
        if (other := owners.setdefault(entry, name)) != name:
            yield refuse((PATH, name, "namespaces", position), entry)(
                f"already belongs to team {other}; list it in only one"
            )


def read_cluster(kind: Any, value: object, teams: Mapping[str, TeamArgs]) -> Any:
    """The cluster's args. On a platform whose clusters have `users`, the members are added to
    these, in a group with the team's name; on an existing cluster, whose owner may have put others
    into groups, only those that are IAM principals."""
    path = f"{NAMESPACE}:cluster"
    principals, refusals, users = _principals(kind, teams), Refusals(), dict[str, Any]()
    cluster: Any = None
    members = {name: {"principals": arns} for name, arns in principals.items() if arns}
    with refusals:
        cluster = decode(path, kind, value)
    with refusals:
        if members:
            entry = get_args(type_hints(kind)["users"])[1]
            users.update(decode_map((path, "users"), entry, members))
    for name in principals:
        if name in getattr(cluster, "users", ()):
            reason = "is also a group of cluster.users, and every team is a group"
            refusals.add(refuse((PATH, name))(reason, remedy="choose another name"))
    with refusals:
        users = {**getattr(cluster, "users", {}), **users}
        _check_people(teams, users)
    with refusals:
        if members and not refusals:
            cluster = at(path, replace, cluster, users=users)
    if refusals:
        raise in_team(refusals.first(), kind, teams)
    return cluster


def _principals(kind: type[Any], teams: Mapping[str, TeamArgs]) -> dict[str, list[str]]:
    """The members of each team that are added to the cluster's `users`; empty if it has none."""
    keys = {field.name for field in fields(kind)}
    if "users" not in keys:
        return {}
    return {
        name: [member for member in team.members if "existing" not in keys or _is_arn(member)]
        for name, team in teams.items()
        if hasattr(team, "members")  # It is not refused.
    }


@collected
def _check_people(teams: Mapping[str, TeamArgs], users: Mapping[str, Any]) -> Iterator[Refusal]:
    """Refuses a person in two teams, in the same words or in others, or through a group of the
    cluster's `users`; such a person may be in the group and in one team."""
    owners: dict[str, dict[str, tuple[str, str]]] = {}

    def owner(member: str, name: str, key: str) -> tuple[str, str]:
        """The first team with this person, and where; a role is in all of its sessions."""
        person, session = _person(member)
        before = owners.setdefault(person, {})
        same = [entry for other, entry in before.items() if session in ("", other) or not other]
        before.setdefault(session, (name, key))
        return next((row for row in same if row[0] != name), (name, key))

    members = [
        (name, f"{PATH}.{name}.members[{position}]", member)
        for name, team in teams.items()
        for position, member in enumerate(team.members)
    ]
    for name, key, member in sorted(members, key=lambda member: member[2].startswith("group:")):
        first, at_key = owner(member, name, key)
        if first != name:
            yield refuse(key, member)(
                f"already belongs to team {first}, in {at_key}; list it in only one"
            )
            continue
        group = member.removeprefix("group:")
        for arn in users[group].principals if group in users else ():
            first, at_key = owner(arn, name, key)
            if first != name:
                where = "" if group in teams else f" (in {NAMESPACE}:cluster.users.{group})"
                yield refuse(key, member)(
                    f"includes {arn}{where}, which already belongs to team {first}, in {at_key}; "
                    f"list the ARNs of team {name} instead, or remove that one from the other"
                )
                break


def _person(member: str) -> tuple[str, str]:
    """The same text for all spellings of one, and the session if it is one of a role: EKS calls a
    user by its ARN, and a role by those of its sessions
    (docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html)."""
    name = member.removeprefix("user:")
    session = _SESSION.fullmatch(name)
    arn = f"{session[1]}:iam::{session[2]}:role/{session[3]}" if session else name
    return iam_name(arn) or (member.lower() if "@" in member else member), (
        session[4] if session else ""
    )


@collected
def check_priorities(teams: Mapping[str, TeamArgs], batch: BatchArgs | None) -> Iterator[Refusal]:
    """Refuses priorities of a team that `batch` does not have."""
    for name, team in teams.items():
        for position, priority in enumerate(team.priorities or ()):
            path = f"{PATH}.{name}.priorities[{position}]"
            yield from raised((batch or BatchArgs()).check_priority, path, priority)


def in_team(refusal: Refusal, kind: type[Any], teams: Mapping[str, TeamArgs]) -> Refusal:
    """The refusals of users of the cluster, with the keys of the teams of these users."""
    members: dict[Keys, Keys] = {
        (f"{NAMESPACE}:cluster", "users", name, "principals", position): (
            PATH, name, "members", teams[name].members.index(arn)
        )
        for name, arns in _principals(kind, teams).items()
        for position, arn in enumerate(arns)
    }  # fmt: skip

    def moved(path: Keys) -> Keys:
        return next((member for user, member in members.items() if path[:5] == user), path)

    refusals = Refusals()
    for item in refusal.every:
        refusals.add(item.but(path=moved(item.path), other=moved(item.other)))
    return refusals.first()


def queues_of(
    teams: Mapping[str, TeamArgs], pools: Pools, access: Access
) -> Mapping[str, QueueArgs]:
    """The teams' queues. Raises `Refusal` if a pool has fewer GPUs than its teams together."""
    totals: Counter[str] = Counter()
    refusals = Refusals()
    subjects: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
    for name, team in teams.items():
        with refusals:
            subjects[name] = _subjects(name, team, access)
        for pool, gpus in getattr(team, "gpus", {}).items():
            with refusals:
                _check_share((PATH, name, "gpus", pool), gpus, pools, totals)
    refusals.check()
    return at(PATH, team_queues, teams, subjects)


def _check_share(path: Keys, gpus: int, pools: Pools, totals: Counter[str]) -> None:
    """Refuses a team's share of a pool that has fewer GPUs; adds it to `totals` otherwise."""
    pool = pool_at(path, str(path[-1]), pools)
    before, most = totals[pool.name], pool.max_nodes and pool.max_nodes * pool.allocatable
    if most is not None and before + gpus > most:
        others = f", of which the teams above have {before}" if before else ""
        reason = f"is more than the pool's maxNodes allows, at most {most}{others}"
        raise refuse(path, gpus)(reason, remedy="give less, or raise it")
    totals[pool.name] += gpus


def _is_arn(member: str) -> bool:
    return member.startswith("arn:")


def _subjects(name: str, team: TeamArgs, access: Access) -> tuple[Sequence[str], Sequence[str]]:
    """The Kubernetes groups of the team, and its users."""
    if access.groups is not None:
        return (name,), ()
    names: dict[str, list[str]] = {"group": [], "user": []}
    refusals = Refusals()
    for position, member in enumerate(team.members):
        refused = refuse((PATH, name, "members", position), member)(_NO_MEMBER)
        in_group = access.principals and _is_arn(member)
        parts = _MEMBER.fullmatch(f"group:{name}" if in_group else member)
        if _is_arn(member) and not (access.principals or access.emails):
            reason = "is accepted only on platform eks"
            remedy = (
                f"give group:{name}, and have this cluster's owner map the role to the "
                f"Kubernetes group {name}: aws eks create-access-entry --cluster-name CLUSTER "
                "--region REGION --principal-arn "
                f"{member if PRINCIPAL.fullmatch(member) else _ROLE} --kubernetes-groups {name}"
            )
            refusals.add(refused.but(reason=reason, remedy=remedy))
        elif access.principals and _ROLE_AS_USER.match(member):
            # docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html, "username".
            reason = (
                "would match nobody, because EKS knows a role only by the names of its "
                "sessions, arn:aws:sts::ACCOUNT:assumed-role/..."
            )
            refusals.add(refused.but(reason=reason, remedy="give the ARN itself, without user:"))
        elif access.emails and member.startswith("serviceAccount:"):
            account = member.removeprefix("serviceAccount:")
            refusals.add(refused.but(remedy=f"write user:{account}"))
        elif parts is None or (access.emails and "@" not in parts["name"]):
            what = "an e-mail address" if access.emails else "the name that the cluster knows"
            arn = f"{_ROLE}, the ARN of an IAM role or user, or " if access.principals else ""
            host = "@example.com" if access.emails else ""
            remedy = f"give {arn}user: or group: and {what}, such as group:researchers{host}"
            if ":system:" in member:
                remedy += "; names that begin with system: belong to Kubernetes"
            refusals.add(refused.but(remedy=remedy))
        elif parts["name"] not in names[parts["kind"]]:
            names[parts["kind"]].append(parts["name"])
    refusals.check()
    return names["group"], names["user"]


def with_namespaces(
    namespaces: Mapping[str, NamespaceArgs], teams: Mapping[str, TeamArgs]
) -> Mapping[str, NamespaceArgs]:
    """The namespaces of the block together with those of the teams."""
    of_teams = {item for name, team in teams.items() for item in namespaces_of(name, team)}
    return {**namespaces, **{name: NamespaceArgs() for name in sorted(of_teams - {*namespaces})}}
