"""Rules over the whole stack, which need pools, tags, pods and prices together."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog.prices import HOURS_PER_MONTH, priced_on
from gpu_cluster.policy.ceiling import Word, confirmed_for, judged
from gpu_cluster.policy.clouds import pools_of, software
from gpu_cluster.policy.pods import (
    asks_for_gpu,
    claims_devices,
    installs_driver,
    plugs_devices,
    pods_of,
    reaches,
    tolerates,
)
from gpu_cluster.policy.pool import Pool
from gpu_cluster.policy.reading import Resource, get, number

Finding = tuple[str, Resource | None]
"""A message, and the resource that it is about; None means the whole stack."""


def tolerations(resources: Sequence[Resource]) -> Iterator[Finding]:
    """A pod that requests or claims GPUs tolerates the taints of the pool that it selects."""
    pools = [pool for pool in pools_of(resources) if pool.gpu]
    if not pools:
        return
    for resource in resources:
        for pods in pods_of(resource):
            asks = asks_for_gpu(pods)
            claims = claims_devices(pods) and get(pods.spec, "nodeSelector") is not None
            if pods.kind == "DaemonSet" or not (asks or claims):
                continue
            verdicts = [(pool, reaches(pods, pool)) for pool in pools]
            if all(verdict is False for _, verdict in verdicts):
                if not asks:
                    continue
                yield (
                    f"{pods.title} requests a GPU but selects no GPU pool of the stack, which has "
                    f"{', '.join(pool.name for pool in pools)}; select one by its labels",
                    resource,
                )
                continue
            selected = [pool for pool, verdict in verdicts if verdict is not False]
            blocked = [(pool, taint) for pool in selected for taint in pool.taints
                       if tolerates(pods, taint) is False]  # fmt: skip
            if blocked and {pool.name for pool, _ in blocked} == {pool.name for pool in selected}:
                pool, (key, value, effect) = blocked[0]
                yield (
                    f"{pods.title} does not tolerate {key}={value or ''}:{effect} of pool "
                    f"{pool.name}, so it would stay pending; add the toleration",
                    resource,
                )


def one_driver(resources: Sequence[Resource]) -> Iterator[Finding]:
    """Only one installer installs the driver on a node."""
    for pool, installers, _ in _software(resources):
        if len(installers) > 1:
            yield (
                f"GPU pool {pool.name} gets its driver from {' and from '.join(installers)}; use "
                "only one of them",
                pool.resource,
            )


def one_device_plugin(resources: Sequence[Resource]) -> Iterator[Finding]:
    """Only one device plugin runs on a node."""
    for pool, _, plugins in _software(resources):
        if len(plugins) > 1:
            yield (
                f"GPU pool {pool.name} has its device plugin from {' and from '.join(plugins)}; "
                "use only one of them",
                pool.resource,
            )


def gpu_software(resources: Sequence[Resource]) -> Iterator[Finding]:
    """Every GPU pool gets a driver and a device plugin from the cloud or the stack."""
    if any(
        resource.type.endswith(":DaemonSet") and not pods_of(resource) for resource in resources
    ):
        return  # A pool of which nothing is known yet may be it.
    for pool, installers, plugins in _software(resources, maybe=True):
        for what, doers in (("driver", installers), ("device plugin", plugins)):
            if not doers:
                yield (
                    f"nothing in this stack gives GPU pool {pool.name} its {what}, and without it "
                    "the nodes offer no GPUs; install it, or make sure that another stack does",
                    pool.resource,
                )


def _software(
    resources: Sequence[Resource], *, maybe: bool = False
) -> Iterator[tuple[Pool, list[str], list[str]]]:
    """GPU pools, with the providers of their driver and of their device plugin.

    With `maybe`, also possible ones.
    """
    sets = [pods for resource in resources for pods in pods_of(resource)]
    enough = (True, None) if maybe else (True,)
    for pool in pools_of(resources):
        if not pool.gpu:
            continue
        here = [pods for pods in sets if reaches(pods, pool) in enough]
        drivers, plugins = software(pool, resources, maybe=maybe)
        yield (
            pool,
            drivers + sorted(pods.title for pods in here if installs_driver(pods) in enough),
            plugins + sorted(pods.title for pods in here if plugs_devices(pods) in enough),
        )


def ceiling(
    resources: Sequence[Resource], *, dollars: float | None, stacks: Mapping[str, float]
) -> Iterator[Finding]:
    """No stack costs more than its confirmed ceiling."""
    yield from _ceiling("above", resources, dollars, stacks)


def confirmed(
    resources: Sequence[Resource], *, dollars: float | None, stacks: Mapping[str, float]
) -> Iterator[Finding]:
    """A ceiling is confirmed for every stack that can be expensive."""
    yield from _ceiling("unconfirmed", resources, dollars, stacks)


def _ceiling(
    wanted: Word, resources: Sequence[Resource], dollars: float | None, stacks: Mapping[str, float]
) -> Iterator[Finding]:
    pools = pools_of(resources)
    for pool in pools:
        most = confirmed_for(pool.resource.stack, dollars, stacks)
        if pool.most is None and wanted == ("unconfirmed" if most is None else "above"):
            yield (
                f"neither the number of nodes that pool {pool.name} starts nor their cost is "
                f"limited; set {pool.limit}",
                pool.resource,
            )
    costs = {pool.name: cost for pool in pools if (cost := _most(pool)) is not None}
    complete = len(costs) == len(pools)
    costs = _counted_once(pools, costs)
    if not costs:
        return
    word, message = judged(
        pools[0].resource.stack, costs, complete=complete, dollars=dollars, stacks=stacks
    )
    if word == wanted:
        sources = [pool.price.source for pool in pools if pool.price is not None]
        yield f"{message} ({priced_on(sources)})", None


def priced(resources: Sequence[Resource]) -> Iterator[Finding]:
    """The ceiling includes every pool."""
    for pool in pools_of(resources):
        if pool.price is not None and pool.price.most is None:
            yield (
                f"pool {pool.name} has nodes whose price is unknown, so the monthly ceiling does "
                "not count it; look up its price",
                pool.resource,
            )


def _most(pool: Pool) -> float | None:
    nodes = number(pool.most)
    price = pool.price.most if pool.price is not None else None
    if nodes is None or price is None:
        return None
    return (nodes + pool.warm[1]) * price * HOURS_PER_MONTH


def _counted_once(pools: Sequence[Pool], costs: Mapping[str, float]) -> dict[str, float]:
    """Removes pools that share a limit with one that can cost more."""
    dearest: dict[Any, str] = {}
    left = dict(costs)
    for pool in pools:
        if pool.shared is None or pool.name not in left:
            continue
        other = dearest.setdefault(pool.shared, pool.name)
        if other != pool.name:
            cheaper = min(pool.name, other, key=lambda name: costs[name])
            dearest[pool.shared] = pool.name if cheaper == other else other
            del left[cheaper]
    return left
