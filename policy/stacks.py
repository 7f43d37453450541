"""Rules over the whole stack, which need pools, tags, pods and prices together."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.catalog import kubernetes as names
from components.catalog.autoscaler_tags import TEMPLATE
from components.catalog.clouds import AWS
from components.catalog.node_prices import priced_on
from components.catalog.prices import HOURS_PER_MONTH
from policy import scalers
from policy.ceiling import Word, confirmed_for, judged
from policy.pods import asks_for_gpu, installs_driver, plugs_devices, pods_of, reaches, tolerates
from policy.pool import Pool, driver_version, pools_of
from policy.reading import UNKNOWN, Resource, entries, get, number, of_type

Finding = tuple[str, Resource | None]
"""A message, and the resource that it is about; None means the whole stack."""

TAG = "aws:autoscaling/tag:Tag"
_TEMPLATE = f"{TEMPLATE}/"


def tolerations(resources: Sequence[Resource]) -> Iterator[Finding]:
    """A pod that requests GPUs tolerates the taints of the pool that it selects."""
    pools = [pool for pool in pools_of(resources) if pool.gpu]
    if not pools:
        return
    for resource in resources:
        for pods in pods_of(resource):
            if pods.kind == "DaemonSet" or not asks_for_gpu(pods):
                continue
            verdicts = [(pool, reaches(pods, pool)) for pool in pools]
            if all(verdict is False for _, verdict in verdicts):
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


def autoscaler_tags(resources: Sequence[Resource]) -> Iterator[Finding]:
    """The tags of an Auto Scaling group describe its nodes as the node group does."""
    tags = list(of_type(resources, TAG))
    for pool in pools_of(resources):
        # A group that always has a node is described by that node.
        if pool.resource.type != AWS.node_pool or not pool.gpu or number(pool.least) != 0:
            continue
        mine = [tag for tag in tags if _tags(tag, pool)]
        unsure = any(_tags(tag, pool) is None for tag in tags)
        announced = {
            key.removeprefix(_TEMPLATE): get(tag.props, "tag", "value")
            for tag in mine
            if isinstance(key := get(tag.props, "tag", "key"), str) and key.startswith(_TEMPLATE)
        }
        if any(get(tag.props, "tag", "key") is UNKNOWN for tag in mine):
            unsure = True
        yield from _compare(pool, announced, unsure)


def _compare(pool: Pool, announced: Mapping[str, Any], unsure: bool) -> Iterator[Finding]:
    if pool.labels is None or UNKNOWN in pool.taints:
        return
    declared = {f"label/{key}": value for key, value in pool.labels.items()}
    for key, value, effect in pool.taints:
        if UNKNOWN in (key, value, effect):
            return
        declared[f"taint/{key}"] = f"{value or ''}:{effect}"
    for key, value in declared.items():
        what = key.replace("/", " ", 1)
        if key not in announced:
            if not unsure:
                yield (
                    f"node group {pool.name} has {what}={value}, and its Auto Scaling group has "
                    f"no tag {_TEMPLATE}{key}, so the autoscaler does not know it while the pool "
                    "has no nodes; add the tag",
                    pool.resource,
                )
        elif UNKNOWN not in (value, announced[key]) and announced[key] != value:
            yield (
                f"node group {pool.name} has {what}={value}, and the tag of its Auto Scaling "
                f"group says {announced[key]}; make them match",
                pool.resource,
            )
    for key, value in announced.items():
        if key.startswith(("label/", "taint/")) and key not in declared:
            yield (
                f"the Auto Scaling group of node group {pool.name} is tagged with "
                f"{key.replace('/', ' ', 1)}={value}, which its nodes will not have; drop the tag",
                pool.resource,
            )


def _tags(tag: Resource, pool: Pool) -> bool | None:
    """Whether the tag is on the node group's Auto Scaling group; None if that is not known."""
    if (used := tag.uses.get("autoscalingGroupName")) and pool.resource.urn:
        return pool.resource.urn in used
    group = get(tag.props, "autoscalingGroupName")
    theirs = get(pool.resource.props, "resources", 0, "autoscalingGroups", 0, "name")
    if not isinstance(group, str) or not isinstance(theirs, str):
        return None
    return group == theirs


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
        if pool.resource.type in (scalers.NODE_POOL, scalers.COMPUTE_CLASS):
            drivers, plugins = scalers.software(pool, resources, maybe=maybe)
        else:
            drivers, plugins = _clouds_part(pool, maybe=maybe)
        yield (
            pool,
            drivers + sorted(pods.title for pods in here if installs_driver(pods) in enough),
            plugins + sorted(pods.title for pods in here if plugs_devices(pods) in enough),
        )


def _clouds_part(pool: Pool, *, maybe: bool) -> tuple[list[str], list[str]]:
    if pool.resource.type == AWS.node_pool:
        image = get(pool.resource.props, "amiType")
        unsure = ["the image"] if maybe and not isinstance(image, str) else []
        text = image if isinstance(image, str) else ""
        return (
            ["the image"] if "NVIDIA" in text else unsure,
            ["the image"] if "BOTTLEROCKET" in text else unsure,
        )
    version, labels = driver_version(pool), entries(pool.labels or {})
    off = (labels or {}).get(names.GKE_NO_DEFAULT_PLUGIN)
    # Newer GKE versions install a driver if it is not set, older ones do not.
    managed = version in ("DEFAULT", "LATEST") or (maybe and version in (None, UNKNOWN))
    own_plugin = off is None and pool.labels is not None
    plugin = ["GKE"] if own_plugin or (maybe and (off is UNKNOWN or pool.labels is None)) else []
    # The DaemonSet of GKE's plugin also installs its driver.
    return plugin if managed else [], plugin


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
            yield _unlimited(pool), pool.resource
    costs = {pool.name: cost for pool in pools if (cost := _most(pool)) is not None}
    complete = len(costs) == len(pools)
    costs = scalers.counted_once(pools, costs)
    if not costs:
        return
    word, message = judged(
        pools[0].resource.stack,
        costs,
        complete=complete,
        dollars=dollars,
        stacks=stacks,
    )
    if word == wanted:
        sources = [pool.price.source for pool in pools if pool.price is not None]
        yield f"{message} ({priced_on(sources)})", None


def _unlimited(pool: Pool) -> str:
    fix = (
        "set clusterAutoscaling.resourceLimits of the cluster"
        if pool.resource.type == scalers.COMPUTE_CLASS
        else "set spec.limits.nodes"
    )
    return (
        f"neither the number of nodes that pool {pool.name} starts nor their cost is limited; {fix}"
    )


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
