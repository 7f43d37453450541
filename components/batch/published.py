"""The settings that a stack publishes in its cluster, to check jobs before their submission.

They are in a ConfigMap in each namespace that has a queue. It contains nothing secret, and nothing
that the cluster's objects do not show as well.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..access.service_accounts import BucketDriver
from ..catalog import kubernetes as names
from ..cluster import GpuPool
from ..gpu.pod_args import Auxiliary
from ..schema.decode import camel, decode
from .batch_args import BatchArgs, QueueArgs

SUBMIT: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (
    ("", ("configmaps",), ("get", "create", "patch", "delete")),
    ("networking.k8s.io", ("networkpolicies",), ("get", "create", "patch", "delete")),
    (names.JOB_SET_GROUP, ("jobsets",), ("get", "list", "create", "delete")),
    (names.KUEUE_GROUP, ("workloads",), ("list",)),
    ("", ("events", "pods"), ("list",)),
    ("", ("pods/log",), ("get",)),
)
"""The permissions that `gpu-cluster job` needs in a namespace: API group, resources, verbs."""
CLAIM = ("resource.k8s.io", ("resourceclaimtemplates",), ("get", "create", "patch", "delete"))
"""The permission for jobs on a pool whose pods claim GPUs or network adapters, likewise."""
SUBMIT_ROLE = "submit-jobs"
CONFIG_MAP, KEY = "gpu-cluster", "settings"
"""The ConfigMap's name, and its only key."""


PROTECTED: Final[Any] = {
    "api_groups": [""],
    "api_versions": ["v1"],
    "operations": ["UPDATE", "DELETE"],
    "resources": ["configmaps"],
    "resource_names": [CONFIG_MAP],
}
"""What the admission policy with `protection` judges."""


def protection(namespace: str) -> Any:
    """In the namespace, only those who may delete rights, such as administrators and the cluster's
    own controllers, change what the stack published."""
    rights = "authorizer.group('rbac.authorization.k8s.io').resource('rolebindings')"
    return {
        "expression": f"{rights}.namespace('{namespace}').check('delete').allowed()",
        "message": f"ConfigMap {CONFIG_MAP} is the stack's own: jobs are checked by it; ask those "
        "who run the stack to change its settings",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Pools, queues, accounts and claims as they are configured."""

    pools: Mapping[str, GpuPool]
    batch: BatchArgs = field(default_factory=BatchArgs)
    beside: Auxiliary = field(default_factory=Auxiliary)
    """Accounts and claims. The name is fixed: other versions read it as a key."""
    buckets: BucketDriver | None = None

    def text(self) -> str:
        """The text that `read` parses."""
        return json.dumps(_plain(self), sort_keys=True)


def parse_published(text: str) -> Published:
    """Parses what a stack published. Raises ValueError if no stack of this version writes it."""
    return decode(CONFIG_MAP, Published, json.loads(text))


def namespaces(batch: BatchArgs) -> list[str]:
    """The namespaces that get it: those in which jobs may name a queue, else the default one."""
    names = {namespace for queue in batch.queues.values() for namespace in queue.namespaces}
    return sorted(names or {"default"})


def batch_of(args: BatchArgs, namespace: str) -> BatchArgs:
    """The queues that are published in a namespace, in a form that older commands understand: of a
    team, only its own queue."""
    queues = {
        name: QueueArgs(
            pools=queue.pools,
            namespaces=queue.namespaces,
            nominal_quota=queue.nominal_quota,
            groups=queue.groups,
        )
        for name, queue in args.queues.items()
        if namespace in queue.namespaces or not queue.sharing
    }
    allowed = [
        set(args.priorities if queue.priorities is None else queue.priorities)
        for queue in args.queues.values()
        if namespace in queue.namespaces
    ]
    priorities = {
        name: value
        for name, value in args.priorities.items()
        if all(name in permitted for permitted in allowed)
    }
    # The rest is of no use to submitters, and older commands do not accept it.
    return dataclasses.replace(
        args,
        queues=queues,
        priorities=priorities,
        pods_ready_minutes=None,
        deletion_protection=None,
    )


def _plain(value: Any) -> Any:
    """The value as it would be in a stack's config: camelCase keys, without omitted settings."""
    if dataclasses.is_dataclass(value):
        values = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if not values.get("priorities", True):
            del values["priorities"]  # A key that older commands refuse.
        for key in ("cdi", "driver_branch", "max_pods"):
            values.pop(key, None)  # Of no use to submitters, and a key that older commands refuse.
        return {camel(name): _plain(item) for name, item in values.items() if item is not None}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
