"""The `GpuStack`s of one program: each has its own prefix, and a cluster gets no object twice."""

import json
import re
from collections.abc import Hashable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import config as runtime_config

from .platforms import PLATFORMS
from .schema.outputs import is_output
from .schema.refusal import Refusal, refuse
from .settings.model import Settings
from .settings.owners import identity

_PREFIX = re.compile("(?:[a-z](?:[-a-z0-9]{0,14}[a-z0-9])?)?")
_KEY = "gpu-cluster:prefix"


class Siblings:
    """The stacks that a program has declared so far."""

    def __init__(self) -> None:
        self._prefixes: set[str] = set()
        self._kubeconfigs: list[tuple[object, Hashable]] = []
        """Outputs with a kubeconfig, each with its cluster."""
        self._declared: dict[Hashable, str] = {}
        """Cluster and what it has once -> the stack that declares it."""

    def take_prefix(self, prefix: object) -> str:
        """The prefix, unless another stack of the program has the same, or also none."""
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
            raise pulumi.RunError(str(refuse(_KEY, prefix)(
                "is not the prefix of a stack; allowed: at most 16 lowercase letters, digits and "
                "'-', a letter first, no '-' at the end"
            )))  # fmt: skip
        if prefix in self._prefixes:
            raise pulumi.RunError(str(refuse(_KEY, prefix)(
                "is that of another GpuStack of this program",
                remedy="give each of them another, of which one may be empty",
            )))  # fmt: skip
        self._prefixes.add(prefix)
        return prefix

    def take_cluster(self, settings: Settings[Any], name: str) -> Hashable:
        """The identity of the cluster, in which `name` is the stack's. Raises `pulumi.RunError` for
        a cluster and pools that another stack declares."""
        cluster = self._identity(settings)
        if refusals := [str(refusal) for refusal in self._refusals(settings, cluster, name)]:
            raise pulumi.RunError("\n".join(refusals))
        return cluster

    def add_kubeconfig(self, kubeconfig: object, cluster: Hashable) -> None:
        """Lets a later stack be on the cluster by this very output."""
        self._kubeconfigs.append((kubeconfig, cluster))

    def guard(self, cluster: Hashable, name: str, prefix: str) -> pulumi.ResourceTransformation:
        """A transformation that refuses an object of another stack in the cluster, and an access
        entry, of which EKS has one for each identity."""

        def check(args: pulumi.ResourceTransformationArgs) -> None:
            metadata, kind = args.props.get("metadata"), args.type_.rpartition(":")[2]
            what: object = args.props.get("principal_arn")
            if args.type_.startswith("kubernetes:") and isinstance(metadata, Mapping):
                what = metadata.get("name")
                if isinstance(what, str) and isinstance(metadata.get("namespace"), str):
                    what = f"{metadata['namespace']}/{what}"
            if isinstance(what, str) and (other := self._other(cluster, name, args.type_, what)):
                parent = args.opts.parent
                part = f" for {parent.pulumi_resource_name}" if parent else ""
                raise pulumi.RunError(str(refuse(_KEY, prefix)(
                    f"creates {kind} {what}{part}, as GpuStack {other} does in the same cluster",
                    remedy="leave it to one of the two, or give it another name",
                )))  # fmt: skip

        return check

    def _identity(self, settings: Settings[Any]) -> Hashable:
        engine = {**runtime_config.get_config_env(), **runtime_config.CONFIG.get()}
        if (home := identity(settings.platform, settings.cluster, engine)) is not None:
            return home
        kubeconfig = settings.cluster.kubeconfig
        if not is_output(kubeconfig):
            reached = json.loads(settings.own.kubeconfig)["clusters"][0]["cluster"]
            return str(reached.get("server"))
        for output, cluster in self._kubeconfigs:
            if output is kubeconfig:
                return cluster
        self.add_kubeconfig(kubeconfig, id(kubeconfig))
        return id(kubeconfig)

    def _refusals(self, settings: Settings[Any], cluster: Hashable, name: str) -> Iterator[Refusal]:
        owned = PLATFORMS[settings.platform].owned
        if owned and (other := self._other(cluster, name, "cluster")):
            yield refuse("gpu-cluster:cluster.name", settings.cluster.name)(
                f"is the cluster that GpuStack {other} creates",
                remedy="name another, or give the args of an existing cluster",
            )
        for key, account in settings.auxiliary.accounts.items():
            # GKE knows pods of all clusters of a project by namespace and account.
            project = isinstance(cluster, tuple) and cluster[0] == "google" and cluster[1:3]
            granted = (account.roles or account.buckets) and not account.this_cluster_only
            pods = f"{account.namespace}/{key}"
            if project and granted and (other := self._other(project, name, "account", pods)):
                yield refuse(("gpu-cluster:serviceAccounts", key))(
                    f"{pods} is one identity in every cluster of the project, and GpuStack {other} "
                    "grants it permissions too, which would be deleted with either",
                    remedy="set thisClusterOnly: true, or give the account another namespace",
                )
        own = [key for key, pool in settings.pools.items() if pool.pool.max_nodes is not None]
        for path, pools in (
            ("gpu-cluster:gpuPools", own),
            ("gpu-cluster:cluster.cpuPools", getattr(settings.cluster, "cpu_pools", ())),
        ):
            for pool in pools:
                if other := self._other(cluster, name, "pool", pool):
                    yield refuse((path, pool))(
                        f"is a pool of GpuStack {other} in the same cluster, and pods select nodes "
                        "by the pool's name",
                        remedy="give one of them another name",
                    )

    def _other(self, cluster: Hashable, name: str, *what: str) -> str | None:
        """The other stack that declares this in the cluster."""
        other = self._declared.setdefault((cluster, *what), name)
        return other if other != name else None


_PROGRAMS: WeakKeyDictionary[pulumi.Resource, Siblings] = WeakKeyDictionary()
"""The root of a program -> its stacks."""


_PROGRAMS_AT: dict[str, Siblings] = {}
"""Address of an engine's resource monitor -> the stacks of its program."""
MONITOR: ContextVar[str] = ContextVar("monitor", default="")
"""That address in the component package, where a program in another language has no root."""


def siblings() -> Siblings:
    """Those of the program that runs."""
    if monitor := MONITOR.get():
        return _PROGRAMS_AT.setdefault(monitor, Siblings())
    root = pulumi.runtime.settings.get_root_resource()
    return _PROGRAMS.setdefault(root, Siblings()) if root else Siblings()
