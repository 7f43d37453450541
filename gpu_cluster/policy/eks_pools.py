"""EKS node groups as the rules see them: shape, labels, taints, limits, price; and their tags."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_cluster.components.catalog import eks
from gpu_cluster.components.catalog.autoscaler_tags import TEMPLATE
from gpu_cluster.components.catalog.aws_prices import eks_node
from gpu_cluster.components.catalog.bad_releases import harm
from gpu_cluster.components.catalog.clouds import AWS
from gpu_cluster.policy.pool import Pool, Software, taint_of
from gpu_cluster.policy.reading import UNKNOWN, Resource, entries, get, items, number, of_type

TAG = "aws:autoscaling/tag:Tag"
_TEMPLATE = f"{TEMPLATE}/"


def pool(resource: Resource, resources: Sequence[Resource]) -> Pool | None:
    """A node group."""
    if resource.type != AWS.node_pool:
        return None
    props = resource.props
    given = items(props, "instanceTypes")
    # EKS copies them from the template, so that a preview does not show them although the template,
    # and thus the nodes' cost, is known.
    unknown = not given or UNKNOWN in given
    types = (_templates_types(resource, resources) if unknown else []) or given
    known = [name for name in types if isinstance(name, str)]
    image = get(props, "amiType")
    rows = [eks.INSTANCE_TYPES.get(name) for name in known]
    return Pool(
        resource=resource,
        gpu=(isinstance(image, str) and "NVIDIA" in image) or any(row is not None for row in rows),
        labels=entries(props, "labels"),
        taints=[taint_of(taint) for taint in items(props, "taints")],
        least=get(props, "scalingConfig", "minSize"),
        most=get(props, "scalingConfig", "maxSize"),
        size="scalingConfig.desiredSize",
        limit="scalingConfig.maxSize",
        warm=_warm(props),
        price=eks_node(known) if known and len(known) == len(types) else None,
    )


def _warm(props: Mapping[str, Any]) -> tuple[int, int]:
    """As `Pool.warm` has it."""
    config = get(props, "warmPoolConfig")
    if get(config, "poolState") != "RUNNING":
        return 0, 0
    least, most = (number(get(props, "scalingConfig", key)) or 0 for key in ("minSize", "maxSize"))
    prepared = number(get(config, "maxGroupPreparedCapacity"))
    if prepared is None or prepared < 0:  # without one, and with -1, all that the group can have
        prepared = most
    waiting = int(number(get(config, "minSize")) or 0)
    idle, full = (eks.warm_instances(int(n), int(prepared), waiting) for n in (least, most))
    return idle, full


def _templates_types(group: Resource, resources: Sequence[Resource]) -> list[Any]:
    """The instance type in a group's launch template, which a Capacity Block uses."""
    used = group.uses.get("launchTemplate", ())
    return [
        kind
        for resource in resources
        if resource.urn in used and (kind := get(resource.props, "instanceType")) is not None
    ]


def known_bad_release(resource: Resource) -> Iterator[str]:
    """Of the images of a node group, and of an addon."""
    props, image = resource.props, get(resource.props, "amiType")
    if resource.type == AWS.node_pool and isinstance(image, str) and "NVIDIA" in image:
        of, release = image.partition("_")[0].lower(), get(props, "releaseVersion")
    elif resource.type == "aws:eks/addon:Addon":
        of, release = get(props, "addonName"), get(props, "addonVersion")
    else:
        return
    if isinstance(release, str) and (bad := harm(of, release)):
        yield f"{resource.name}: {bad.line(release)}"


def software(pool: Pool, resources: Sequence[Resource], *, maybe: bool) -> Software | None:
    """What the image of the nodes has, or `maybe` may have."""
    if pool.resource.type != AWS.node_pool:
        return None
    image = get(pool.resource.props, "amiType")
    unsure = ["the image"] if maybe and not isinstance(image, str) else []
    text = image if isinstance(image, str) else ""
    return (
        ["the image"] if "NVIDIA" in text else unsure,
        ["the image"] if "BOTTLEROCKET" in text else unsure,
    )


def autoscaler_tags(resources: Sequence[Resource]) -> Iterator[tuple[str, Resource]]:
    """The tags of an Auto Scaling group describe its nodes as the node group does."""
    tags = list(of_type(resources, TAG))
    for group in [found for resource in resources if (found := pool(resource, resources))]:
        # A group that always has a node is described by that node.
        if not group.gpu or number(group.least) != 0:
            continue
        mine = [tag for tag in tags if _tags(tag, group)]
        unsure = any(_tags(tag, group) is None for tag in tags)
        announced = {
            key.removeprefix(_TEMPLATE): get(tag.props, "tag", "value")
            for tag in mine
            if isinstance(key := get(tag.props, "tag", "key"), str) and key.startswith(_TEMPLATE)
        }
        if any(get(tag.props, "tag", "key") is UNKNOWN for tag in mine):
            unsure = True
        yield from _compare(group, announced, unsure)


def _compare(
    pool: Pool, announced: Mapping[str, Any], unsure: bool
) -> Iterator[tuple[str, Resource]]:
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
