"""The settings of an environment on an existing cluster."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..access.service_accounts import Access
from ..cluster import Metrics, ResolvedPool, Runs, resolved
from ..schema.decode import NAMESPACE, at
from ..schema.outputs import is_output
from ..schema.refusal import Refusal, Refusals, collected, known_only, refuse
from .cluster_args import ExistingClusterArgs
from .pool_args import ExistingGpuPoolArgs

CLUSTER, POOL = ExistingClusterArgs, ExistingGpuPoolArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingSettings:
    """An existing cluster and its GPU nodes."""

    cluster: ExistingClusterArgs
    kubeconfig: str
    """The kubeconfig's content, reduced to one context; an output if a program passes an output."""
    pools: Mapping[str, ResolvedPool[ExistingGpuPoolArgs]]

    def warnings(self, runs: Runs) -> list[str]:
        """Of pools with the same nodes, whose GPUs would be handed out twice."""
        return [
            f"gpuPools.{name}.nodeSelector: selects nodes that pool {other} selects too, so that "
            "queues and teams would hand out their GPUs twice; name a label that only its nodes "
            "have"
            for name, other in _overlaps({key: pool.args for key, pool in self.pools.items()})
        ]

    @property
    def metrics(self) -> Metrics:
        """The stack's own exporter, for a Prometheus that the user runs."""
        return Metrics(sources=("exporter",))

    @property
    def access(self) -> Access:
        """Only a service account's name, because the cloud is unknown."""
        return Access()


def account(config: Mapping[str, str]) -> None:
    """Nothing: the kubeconfig has the identity."""


def resolve(
    config: Mapping[str, str],
    cluster: ExistingClusterArgs,
    pools: Mapping[str, ExistingGpuPoolArgs],
    refusals: Refusals,
) -> ExistingSettings:
    """Resolves the settings, as `SettingsModule.resolve` says."""
    refusals.run(partial(_check_selectors, pools))
    settings = known_only(
        ExistingSettings, cluster=cluster, pools=resolved(pools, refusals, cluster)
    )
    with refusals:
        return replace(settings, kubeconfig=_kubeconfig(cluster))
    return settings


def _overlaps(pools: Mapping[str, ExistingGpuPoolArgs]) -> Iterator[tuple[str, str]]:
    """Pools whose nodes another pool, above them, selects too."""
    for (other, known), (name, pool) in itertools.combinations(pools.items(), 2):
        less, more = sorted((pool.node_selector, known.node_selector), key=len)
        if less.items() <= more.items():
            yield name, other


@collected
def _check_selectors(pools: Mapping[str, ExistingGpuPoolArgs]) -> Iterator[Refusal]:
    """Refuses two pools of the same nodes with different numbers of GPUs, or of which one has the
    DRA driver: a second one there, or the device plugin, would give its GPUs away too."""
    for name, other in _overlaps(pools):
        both = (pools[name], pools[other])
        same = len({pool.gpus_per_node for pool in both}) == 1
        if not same or any(pool.device_plugin == "dra" for pool in both):
            yield refuse((f"{NAMESPACE}:gpuPools", name, "nodeSelector"))(
                f"selects nodes that pool {other} selects too",
                remedy="name a label in each pool that only its nodes have",
            )


def _kubeconfig(cluster: ExistingClusterArgs) -> Any:
    content: Any = cluster.kubeconfig
    if not is_output(content):
        return at(f"{NAMESPACE}:cluster", cluster.read_kubeconfig)
    import pulumi

    def read(text: str) -> str:
        try:
            return at(f"{NAMESPACE}:cluster", replace(cluster, kubeconfig=text).read_kubeconfig)
        except Refusal as refusal:  # Nothing above an output turns it into lines.
            raise pulumi.RunError("\n".join(map(str, refusal.every))) from None

    return pulumi.Output.from_input(content).apply(read)
