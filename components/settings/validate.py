"""Checks that need pools, workloads, queues and jobs together.

Each function raises one `Refusal`; what else it finds is in its `further`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from ..batch.team_args import TeamQueue, check_quota, chooses_gpus
from ..batch.training_args import TrainingArgs
from ..catalog import cuda, images
from ..catalog import kubernetes as names
from ..gpu.acceptance_args import job_name
from ..gpu.pod_args import NamespaceArgs, PodArgs
from ..kube import quantity
from ..platforms import PLATFORMS
from ..schema.decode import NAMESPACE, at
from ..schema.refusal import UNKNOWN_NAMESPACE, Keys, Refusal, collected, raised, refuse, unknown
from .blocks import RUNNING
from .model import Settings

_START_MINUTES = 15
"""How many minutes pass from the request of a node until pods run on it, with driver and images."""


@collected
def check_names(settings: Settings[Any]) -> Iterator[Refusal]:
    """Refuses an entry with the name of a Job that measures GPUs: their pods would have the same
    labels."""
    test = settings.gpu_test
    measuring = {job_name(pool): pool for pool in test.pools} if test else {}
    for path, args in settings.entries.items():
        pool = measuring.get(path.partition(".")[2])
        if test and pool and args.namespace == test.namespace:
            yield refuse(path)(f"is the name of the Job that tests pool {pool}; choose another")


@collected
def check_namespaces(settings: Settings[Any]) -> Iterator[Refusal]:
    """Refuses a namespace that nothing creates, and pods that one of the stack's own would refuse.
    The namespaces of an existing cluster are not known here."""
    created = {name: args for name, args in settings.namespaces.items() if not args.existing}
    for key, namespaces in settings.own.access.editors.items():
        for position, name in enumerate(namespaces):
            where = (f"{NAMESPACE}:cluster.{key}", position)
            yield from raised(check_restricted_namespace, where, name, created)
    yield from _check_members(settings)
    for name in created:
        if names.RESERVED_NAMESPACE.fullmatch(name):
            yield refuse((f"{NAMESPACE}:namespaces", name), name)(
                "belongs to Kubernetes, the cloud or a controller; set existing: true if the "
                "cluster has it, or choose a name other than default that does not begin with "
                "kube-, gke-, gmp- or amazon- and does not end in -system"
            )
    existing = not PLATFORMS[settings.platform].owned
    for path, name, uses_host in _named(settings):
        if name not in (*settings.namespaces, *names.OWN_NAMESPACES) and not existing:
            yield _nothing_creates(path, name, settings.namespaces)
        if uses_host and name in created and created[name].pod_security != "privileged":
            yield refuse(path)(
                f"{name} enforces the Pod Security Standard {created[name].pod_security}, and "
                "these pods use directories or the IPC namespace of the host",
                remedy=f"set {NAMESPACE}:namespaces.{name}.podSecurity to privileged",
            )


def _nothing_creates(path: str, name: str, created: Iterable[str]) -> Refusal:
    return refuse(path, name)(
        f"nothing creates the namespace {name!r}",
        remedy=f"add it to {NAMESPACE}:namespaces, with existing: true if somebody else creates "
        f"it, or use one of {', '.join([*created, 'default'])}",
        code=UNKNOWN_NAMESPACE,
    )


def _listed(entry: object, key: str) -> Sequence[Any]:
    """The list that an entry has under a key, as it is written; empty for anything else."""
    given = entry.get(key) if isinstance(entry, Mapping) else None
    return given if isinstance(given, list) else ()


def unknown_namespaces(blocks: Mapping[str, Any], platform: str) -> Iterator[Refusal]:
    """The refusals of namespaces that nothing creates, beside settings of the same entries that are
    refused. `blocks`: their values as they are written."""
    maps = {key: value for key, value in blocks.items() if isinstance(value, Mapping)}
    of_teams = {
        str(namespace)
        for name, team in maps.get("teams", {}).items()
        for namespace in _listed(team, "namespaces") or [name]
    }
    declared = maps.get("namespaces", {})
    created = [*declared, *sorted(of_teams - {*declared})]
    for key in ("serviceAccounts", "volumeClaims", *RUNNING):
        named = RUNNING[key].names is not None if key in RUNNING else True
        for name, entry in maps.get(key, {}).items() if named else ():
            space = entry.get("namespace") if isinstance(entry, Mapping) else None
            known = not isinstance(space, str) or space in (*created, *names.OWN_NAMESPACES)
            if not known and platform in PLATFORMS and PLATFORMS[platform].owned:
                yield _nothing_creates(f"{NAMESPACE}:{key}.{name}.namespace", str(space), created)


@collected
def check_scaling(settings: Settings[Any]) -> Iterator[Refusal]:
    """Refuses pods whose autoscaler the cluster's version of Kubernetes does not accept."""
    minor = names.minor_number(getattr(settings.cluster, "version", None))
    for path, args in settings.entries.items():
        if scaling := getattr(args, "scaling", None):
            yield from raised(at, (path, "scaling"), scaling.check_zero, minor)


@collected
def check_claimed(settings: Settings[Any]) -> Iterator[Refusal]:
    """Refuses pools of queues whose GPUs pods claim, and what Kueue cannot do with these: it places
    pods, and requests nodes, by the resources that pods request, and of all their claims it counts
    only those for NVIDIA's GPUs."""
    queues = settings.batch.queues.values() if settings.batch else ()
    pools = [settings.pools[name].pool for name in sorted({p for q in queues for p in q.pools})]
    claimed = [pool for pool in pools if pool.device_class]
    for pool in claimed:
        for key, used, what in (
            ("topologyAware", pool.topology, "places pods"),
            ("queued", pool.all_at_once, "requests nodes"),
        ):
            if used:
                yield refuse((f"{NAMESPACE}:gpuPools", pool.name, key))(
                    f"is not possible with devicePlugin dra: Kueue {what} by GPUs that pods "
                    "request, not by those that they claim; drop one of the two"
                )
    if claimed and settings.batch and settings.batch.pods_ready_minutes is not None:
        # pkg/controller/core/workload_controller.go:351 of v0.16.9; kueue issue 13930.
        yield refuse((f"{NAMESPACE}:batch", "podsReadyMinutes"))(
            f"is not possible with a queue of pool {claimed[0].name} with devicePlugin dra: Kueue "
            f"{images.KUEUE.tag} puts a job that it stops back in its queue without the GPUs that "
            "its pods claim, and starts it beyond the queue's quota",
            remedy=f"drop the key, or take pool {claimed[0].name} out of its queue",
        )
    for pool in pools:
        if claimed and pool.fabric and pool.fabric.claimed:
            yield refuse((f"{NAMESPACE}:gpuPools", pool.name, "gpuDirect"))(
                f"is not possible in a queue beside pool {claimed[0].name} with devicePlugin dra: "
                f"Kueue then refuses jobs with claims for {pool.fabric.resource}, which have no "
                "quota; drop one of the two, or take one of the pools out of its queue"
            )


def _cuda_mismatches(settings: Settings[Any]) -> Iterator[tuple[str, str, cuda.Mismatch]]:
    """The key and the image of each entry with GPUs whose image does not fit its pool's driver or
    GPUs, and why."""
    groups = ((pods, settings.pools[pods.pool].pool) for pods in settings.pod_groups if pods.gpus)
    places = {(f"{pods.path}.image", pods.image, pool.name): pool for pods, pool in groups}
    for (path, image, name), pool in places.items():
        if found := cuda.mismatch(image, name, pool.driver_branch, pool.models):
            yield path, image, found


@collected
def check_cuda(settings: Settings[Any]) -> Iterator[Refusal]:
    """Refuses images whose CUDA does not run on the nodes of their pool."""
    for path, image, found in _cuda_mismatches(settings):
        if found.refused:
            yield refuse(path, image)(found.reason, remedy=found.remedy)


def _limited_cuda(settings: Settings[Any]) -> Iterator[str]:
    """Warns of images whose CUDA runs with limits on the nodes of their pool."""
    for path, image, found in _cuda_mismatches(settings):
        if not found.refused:
            yield f"{path}: {image} {found.reason}; {found.remedy}"


def check_groups(settings: Settings[Any]) -> list[str]:
    """Refuses groups that may submit jobs, and thus any pod, in a namespace that does not enforce
    the Pod Security Standard `baseline`.

    Returns a warning for each namespace of an existing cluster that the stack does not create.
    """
    created = {name: args for name, args in settings.namespaces.items() if not args.existing}
    warnings, refused = list[str](), list[Refusal]()
    for name, queue in (settings.batch.queues if settings.batch else {}).items():
        path = f"{NAMESPACE}:{queue.key(name, 'namespaces')}"
        for position, namespace in enumerate(queue.namespaces if queue.submitters else ()):
            known = namespace in (*created, "default") or namespace.startswith("kube-")
            if known or PLATFORMS[settings.platform].owned:
                where = (path, position)
                refused += raised(check_restricted_namespace, where, namespace, created)
                continue
            warnings.append(
                f"{path}: the groups of the queue can run privileged pods in {namespace} unless "
                "that namespace enforces a Pod Security Standard; check its label "
                "pod-security.kubernetes.io/enforce"
            )
    if refused:
        raise refused[0].but(further=refused[1:])
    return warnings


def warnings(settings: Settings[Any]) -> list[str]:
    """Warnings about valid settings that may not be intended, each starting with the key's path."""
    return [
        *map(_with_namespace, settings.own.warnings(settings.runs)),
        *check_groups(settings),
        *_past_queues(settings),
        *_left_requests(settings),
        *_without_queue(settings),
        *_soon_stopped(settings),
        *_in_team_quotas(settings),
        *_of_entries(settings),
        *_without_disk(settings),
        *_unknown_groups(settings),
        *_overfull(settings),
        *_plain_secrets(settings),
        *_limited_cuda(settings),
    ]


_SECRET_NAME = re.compile(
    "(?:.*_)?(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY)",
    re.IGNORECASE,
)
_KEY_NAME = re.compile("(?!.*PUBLIC).*_KEY", re.IGNORECASE)
_NO_SECRET = re.compile("(?:EOS|BOS|PAD|UNK|SEP|CLS|MASK)_TOKEN", re.IGNORECASE)
"""Tokens of a language model's vocabulary."""
_REFERENCE = re.compile(r"\$\(.*\)|\$\{.*\}|<.*>|\[.*\]|")
"""A value that another variable has, or the reader is to fill in."""
_RANDOM = "(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"
_SECRET_VALUE = re.compile(
    rf"(?:^|[\s'\"`:=/])(?:hf_|sk-|ghp_|github_pat_|glpat-|nvapi-|xox[bp]-|AKIA|AIza){_RANDOM}"
    "|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|://[^\s/:@]*:(?![$<])[^\s/@]+@"
)
"""Prefixes that issuers give to their tokens, as secret scanners know them; and URLs with a
password."""


def _is_secret(name: str, value: str) -> bool:
    named = _SECRET_NAME.fullmatch(name) and not _NO_SECRET.fullmatch(name)
    key = _KEY_NAME.fullmatch(name) and re.fullmatch(_RANDOM, value)
    if _REFERENCE.fullmatch(value):
        return False
    return bool(named or key or _SECRET_VALUE.search(value))


def _teams(settings: Settings[Any]) -> Mapping[str, tuple[str, TeamQueue]]:
    """Namespace -> the team that it belongs to, and the team's queue."""
    return {
        namespace: (name, queue)
        for name, queue in (settings.batch.queues if settings.batch else {}).items()
        if isinstance(queue, TeamQueue)
        for namespace in queue.namespaces
    }


@collected
def check_teams(settings: Settings[Any]) -> Iterator[Refusal]:
    """Refuses what the policies and quotas of a team's namespaces, which apply to the stack's own
    objects too, would refuse during `pulumi up`."""
    teams = _teams(settings)
    for path, args in settings.entries.items():
        if isinstance(args, PodArgs) and args.namespace in teams:
            yield from raised(_check_policies, path, args, teams[args.namespace][0])
    for namespace, (name, queue) in teams.items():
        yield from raised(_check_quotas, settings, namespace, name, queue)


@collected
def _check_policies(path: str, args: PodArgs, team: str) -> Iterator[Refusal]:
    """Asks the rules of `batch.team_limits`; pools, volumes and envFrom have no keys for others."""
    variables = {
        f"volumes.{name}.files[{position}]": PurePath(file).name
        for name, volume in args.volumes.items()
        for position, file in enumerate(volume.files)
    }
    if isinstance(args, TrainingArgs):
        if args.queue != team:
            yield refuse((path, "queue"))(
                f"is missing, and training jobs in namespace {args.namespace} wait in the queue "
                f"of team {team}; set it to {team}, or choose another namespace"
            )
        variables |= {f"env.{name}": name for name in args.env}
        variables |= {
            f"envFrom[{position}].name": source.name or ""
            for position, source in enumerate(args.env_from)
        }
    for key, variable in variables.items():
        if chooses_gpus(variable):
            yield refuse((path, key))(
                f"{variable} chooses which GPUs a container sees, also those of other pods, and "
                f"is not possible in namespace {args.namespace} of team {team}; drop it"
            )


@collected
def _check_quotas(
    settings: Settings[Any], namespace: str, name: str, queue: TeamQueue
) -> Iterator[Refusal]:
    """Refuses a quota with less than what always exists in the namespace and the largest job."""
    quota, entries = queue.team.quota, settings.entries
    always = dict.fromkeys(("cpu", "memory", "pods"), Decimal())
    largest = dict(always)
    for pods in settings.pod_groups:
        args = entries.get(pods.path)
        if pods.namespace != namespace or not isinstance(args, PodArgs):
            continue
        count = pods.least if pods.long_running else pods.count if pods.together else 1
        amounts = {"pods": Decimal(count)}
        for key in ("cpu", "memory"):
            asked = (args.requests, args.limits, queue.team.requests)
            amount = next(filter(None, (getattr(resources, key) for resources in asked)), "0")
            amounts[key] = count * quantity.parse(amount)
        for key, total in amounts.items():
            if pods.long_running:
                always[key] += total
            else:
                largest[key] = max(largest[key], total)
    what = f"what this stack's own pods in namespace {namespace} request,"
    path = f"{NAMESPACE}:{queue.key(name, 'quota')}"
    for key in always:
        most = getattr(quota, key)
        amount = always[key] + largest[key]
        yield from raised(check_quota, (path, key), most and str(most), amount, what)
    claims = [claim for claim in settings.auxiliary.claims.values() if claim.namespace == namespace]
    size = sum((quantity.parse(claim.size) for claim in claims), Decimal())
    yield from raised(
        check_quota, (path, "storage"), quota.storage, size, what.replace("pods", "claims")
    )


def _plain_secrets(settings: Settings[Any]) -> Iterator[str]:
    """Warns of values that look like secrets, because everyone who may read the pod sees them."""
    for path, args in settings.entries.items():
        values = [(f"env.{name}", name, text) for name, text in getattr(args, "env", {}).items()]
        values += [
            (f"{key}[{position}]", "", word)
            for key in ("command", "args")
            for position, word in enumerate(getattr(args, key, None) or ())
        ]
        for key, name, value in values:
            if _is_secret(name, value):
                yield (
                    f"{path}.{key}: looks like a secret, which everyone who sees the pod can read, "
                    "also if it is encrypted in this file; put it into a Secret and name that in "
                    "envFrom"
                )


def _with_namespace(line: str) -> str:
    """A platform's warning with the full path of its key, which may be another provider's. An
    environment variable has no path."""
    key = line.partition(": ")[0]
    return line if ":" in key or key.isupper() else f"{NAMESPACE}:{line}"


def _in_team_quotas(settings: Settings[Any]) -> Iterator[str]:
    """Warns of pods that never end in a team's namespace, whose ResourceQuota counts their GPUs."""
    teams = _teams(settings)
    for pods in settings.pod_groups:
        if pods.long_running and pods.gpus and pods.namespace in teams:
            name, queue = teams[pods.namespace]
            taken, most = pods.gpus_of(pods.count), sum(queue.nominal_quota.values())
            yield (
                f"{pods.path}.namespace: {pods.namespace} is of team {name}, whose quota counts "
                f"this {pods.kind} too: its pods take {taken} of the {most} GPUs that pods there "
                "can have, and jobs that the queue has started may wait for them; choose another "
                f"namespace, or raise teams.{name}.gpus"
            )


def _past_queues(settings: Settings[Any]) -> Iterator[str]:
    """Warns of workloads that use GPUs of a queue without waiting in it. A training job that does
    is refused; another job may have run before the queue was added."""
    if settings.batch is None:
        return
    unqueued = [pods for pods in settings.pod_groups if pods.kind]
    taken: Counter[str] = Counter()
    for pods in unqueued:
        taken[pods.pool] += pods.gpus_of(pods.count)
    for pods in unqueued:
        pool = settings.pools[pods.pool].pool
        line = settings.batch.past_queue(pool, pods.kind, pods.namespace, taken[pods.pool])
        if line and pods.gpus_of(pods.count):
            yield f"{pods.path}.{line}"


def _left_requests(settings: Settings[Any]) -> Iterator[str]:
    """Warns of queues that stop jobs while these wait for the nodes of a queued pool. Kueue keeps
    the request of a stopped job until the job requests nodes again (kubernetes-sigs/kueue v0.16.2,
    pkg/controller/admissionchecks/provisioning; PR 12522 deletes it in 0.17.7, 2026-11-24)."""
    if settings.batch is None:
        return
    for name, queue in settings.batch.queues.items():
        queued = [pool for pool in queue.pools if settings.pools[pool].pool.all_at_once]
        all_of_them = queue.priorities is None
        if isinstance(queue, TeamQueue) and queue.team.borrow:
            key, who = queue.key(name, "borrow"), "another team's"
        elif settings.batch.priorities if all_of_them else queue.priorities:
            key, who = "batch.priorities", "one with a higher value"
        else:
            continue
        if queued:
            yield (
                f"{NAMESPACE}:{key}: a job of queue {name} that waits for the nodes of pool "
                f"{queued[0]}, and is stopped for {who}, leaves its ProvisioningRequest behind: "
                "GKE may start and bill nodes that no job uses; drop the key, or delete the "
                "request: kubectl delete provisioningrequest NAME --namespace "
                + (queue.namespaces[0] if len(queue.namespaces) == 1 else "NAMESPACE")
            )


def _without_queue(settings: Settings[Any]) -> Iterator[str]:
    for name, resolved in settings.pools.items():
        for key, value, why in (
            ("queued", resolved.pool.all_at_once, "only jobs of a queue start its nodes"),
            ("topologyAware", resolved.pool.topology, "Kueue places only jobs of a queue"),
        ):
            if value and not (settings.batch and settings.batch.owners(name)):
                yield (
                    f"{NAMESPACE}:gpuPools.{name}.{key}: no queue hands out the pool, and {why}; "
                    "add it to the pools of one, or drop the key"
                )


def _soon_stopped(settings: Settings[Any]) -> Iterator[str]:
    minutes = settings.batch.pods_ready_minutes if settings.batch else None
    if minutes is not None and minutes < _START_MINUTES:
        yield (
            f"{NAMESPACE}:batch.podsReadyMinutes: {minutes} may be less than a new node takes with "
            "its driver and images, so that jobs are stopped, and pay for nodes, again and again; "
            f"set {_START_MINUTES} or more"
        )


def _without_disk(settings: Settings[Any]) -> Iterator[str]:
    """Warns of pods that get little of their node's disk, or may be refused because of it."""
    for pods in settings.pod_groups:
        if pods.default_disk:
            yield (
                f"{pods.path}.requests.ephemeralStorage: is not set, so that each container gets "
                f"{pods.default_disk} of disk, and a pod that writes more, such as a model that it "
                "downloads, is evicted; set it"
            )
        if pods.doubtful_disk:
            yield (
                f"{pods.path}.requests.ephemeralStorage: Autopilot may refuse "
                f"{pods.doubtful_disk}, as its admission refuses more than 10Gi of some pods; use "
                "a claim for more"
            )


def _unknown_groups(settings: Settings[Any]) -> Iterator[str]:
    """Warns of groups that have no members as far as the cluster knows."""
    key = settings.own.access.groups_need
    for name, queue in (settings.batch.queues if settings.batch and key else {}).items():
        if queue.groups:
            yield (
                f"{NAMESPACE}:{queue.key(name, 'groups')}: {queue.groups[0]} and other groups have "
                f"no rights, because the cluster does not ask Google who is in them; set {key}, or "
                "list users"
            )


def _of_entries(settings: Settings[Any]) -> Iterator[str]:
    for path, args in settings.entries.items():
        if hasattr(args, "warnings"):
            yield from (f"{path}.{line}" for line in args.warnings())


def _overfull(settings: Settings[Any]) -> Iterator[str]:
    """Warns of pods that never end and do not all fit: some of them would wait forever."""
    needed: Counter[tuple[str, str]] = Counter()
    for pods in settings.pod_groups:
        pool = settings.pools[pods.pool].pool
        for unit, more, of_node in (
            ("GPUs", pods.gpus_of(pods.least), pool.allocatable),
            ("adapters", pods.least * pods.adapters, pool.adapters),
        ):
            before = needed[pods.pool, unit]
            needed[pods.pool, unit] = now = before + more
            if pool.max_nodes is not None and before <= (most := pool.max_nodes * of_node) < now:
                yield (
                    f"{pods.path}: some of its pods never start: together with the entries above, "
                    f"the pods that run all the time need {now} {unit} of pool {pods.pool}, which "
                    f"has at most {most}; lower replicas, or raise its maxNodes"
                )


def _check_members(settings: Settings[Any]) -> Iterator[Refusal]:
    groups = settings.own.access.groups
    if groups is None or settings.batch is None:
        return
    for name, queue in settings.batch.queues.items():
        # The members of a team are added to the cluster's users, unless these are refused.
        for position, group in enumerate(() if isinstance(queue, TeamQueue) else queue.groups):
            if group not in groups:
                allowed = unknown(group, groups, "cluster.users has none")
                yield refuse((f"{NAMESPACE}:{queue.key(name, 'groups')}", position), group)(
                    f"is not a group in cluster.users, so it has no members; {allowed}"
                )


def check_restricted_namespace(path: Keys, name: str, created: Mapping[str, NamespaceArgs]) -> None:
    """Refuses to let people create pods in a namespace that does not keep pods from taking over the
    node or a controller's permissions. `path`: its key, `created`: the stack's namespaces."""
    level = created[name].pod_security if name in created else None
    if level != "baseline":
        what = "is not one of this stack's" if level is None else f"enforces only {level}"
        raise refuse(path)(
            f"the namespace {name!r} {what}, so that anyone who creates pods in it could take "
            f"over the node; set {NAMESPACE}:namespaces.{name}.podSecurity to baseline, or "
            "choose another namespace"
        )


def _named(settings: Settings[Any]) -> Iterator[tuple[str, str, bool]]:
    """Every namespace in the settings: the key's path, its name, whether its pods use the host."""
    for room, entries in (
        ("serviceAccounts", settings.auxiliary.accounts),
        ("volumeClaims", settings.auxiliary.claims),
    ):
        for name, entry in entries.items():
            yield f"{NAMESPACE}:{room}.{name}.namespace", entry.namespace, False
    for key, namespaces in settings.own.access.viewers.items():
        for position, namespace in enumerate(namespaces):
            # Namespaces of controllers are created with what the stack installs.
            if not names.RESERVED_NAMESPACE.fullmatch(namespace):
                yield f"{NAMESPACE}:cluster.{key}[{position}]", namespace, False
    for name, queue in (settings.batch.queues if settings.batch else {}).items():
        for position, namespace in enumerate(queue.namespaces):
            path = f"{NAMESPACE}:{queue.key(name, 'namespaces')}[{position}]"
            yield path, namespace, False
    for pods in settings.pod_groups:
        yield f"{pods.path}.namespace", pods.namespace, pods.uses_host
