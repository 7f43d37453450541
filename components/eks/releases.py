"""Checks of updates of `version` or `releaseVersion`, whose effects a preview does not show."""

import re
from collections.abc import Sequence

import pulumi

from ..catalog import eks as catalog
from ..catalog import kubernetes as names
from ..lifecycle.prefix import hook
from ..scalers import Scaler
from ..schema.refusal import refuse

_BOTTLEROCKET = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)-[0-9a-f]{8}")


def release_check(name: str, path: str) -> pulumi.ResourceHook:
    """Refuses, even in a preview, an image that is older than the node group's current one.

    `path` is the pool's key in the config.
    """

    def check(change: pulumi.ResourceHookArgs) -> None:
        before = (change.old_outputs or {}).get("releaseVersion")
        check_release(path, before, (change.new_inputs or {}).get("releaseVersion"))

    return hook(f"{name}-release", check)


def check_release(path: str, before: str | None, release: str | None) -> None:
    """Raises `Refusal` if `release` is older than the group's current one.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
    """
    if before and release and _is_older(release, before):
        raise refuse((path, "releaseVersion"))(
            f"{release} is older than the group's {before}, and EKS cannot downgrade a node group",
            remedy="drop the key, or add another pool with it",
        )


def _is_older(release: str, before: str) -> bool:
    """Whether both are releases of the same images, and `release` is the older one. Images of
    another Kubernetes minor are checked with `version`."""
    new_day, old_day = names.al2023_day(release), names.al2023_day(before)
    if new_day and old_day:
        return names.minor_of(release) == names.minor_of(before) and new_day < old_day
    new, old = _BOTTLEROCKET.fullmatch(release), _BOTTLEROCKET.fullmatch(before)
    if new and old:
        return tuple(map(int, new.groups())) < tuple(map(int, old.groups()))
    return False


def old_toolkit(path: str, release: str | None) -> str | None:
    """The warning about a node group whose image does not start GPU pods; None if it does."""
    if not "" < names.al2023_day(release) < catalog.TOOLKIT_SINCE:
        return None
    return (
        f"{path}: its nodes have the image {release}, whose NVIDIA toolkit is older than 1.18: "
        "with the device plugin of this version, GPU pods do not start there; set releaseVersion "
        f"to one from {catalog.TOOLKIT_SINCE} or later in the same update"
    )


def check_version(path: str, change: pulumi.ResourceHookArgs, *, ahead: bool = True) -> None:
    """Raises `Refusal` if an update would return what runs to an earlier Kubernetes version, or,
    unless it may be `ahead` by any number, raise it by more than one minor.

    What runs is what the state has as an output: after a refresh, also that of an upgrade or
    rollback by somebody else. EKS takes the previous minor for seven days.
    `path` names what runs.
    https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html
    https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
    """
    before = (change.old_outputs or {}).get("version")
    version = (change.new_inputs or {}).get("version")
    if not before or not version:
        return
    major, minor = names.minor_of(before)
    if names.minor_of(version) < (major, minor):
        raise refuse("cluster.version")(
            f"{version} is older than {before}, which {path} runs, and EKS would roll it back",
            remedy=f'set "{before}", or, if it has been rolled back already, pulumi up --refresh',
        )
    if not ahead and names.minor_of(version) > (major, minor + 1):
        raise refuse("cluster.version")(
            f"{version} is more than one minor after {before}, which {path} runs, and EKS "
            f'upgrades by one at a time; set "{major}.{minor + 1}", or, if it has been '
            "upgraded since, pulumi up --refresh"
        )


def cluster_check(
    name: str, addons: Sequence[str], *, scaler: Scaler
) -> pulumi.ResourceHookBinding:
    """Refuses a `version` of a cluster that EKS would refuse or roll back to, even in a preview;
    warns, when it changes, that these addons keep their versions, and that nodes that a controller
    launches get images of the new one."""

    def check(change: pulumi.ResourceHookArgs) -> None:
        check_version("the cluster", change, ahead=False)
        before, after = (
            (inputs or {}).get("version") for inputs in (change.old_inputs, change.new_inputs)
        )
        if line := left_behind(before, after, addons):
            pulumi.log.warn(line)
        if scaler.in_cluster and before and after and before != after:
            pulumi.log.warn(
                f"cluster.version: {before} -> {after} replaces the nodes of every pool without "
                f"amiId: {scaler.title} drains each once its jobs have ended, and its pods start "
                "again [GPUC-RECYCLE-GPU-POOL]"
            )

    return pulumi.ResourceHookBinding(before_update=[hook(f"{name}-version", check)])


def left_behind(before: str | None, after: str | None, addons: Sequence[str]) -> str | None:
    """The warning about addons without a version in the config; None unless the cluster's version
    changes.

    "Amazon EKS doesn't automatically update an add-on when new versions are released or after you
    update your cluster to a new Kubernetes minor version."
    https://docs.aws.amazon.com/eks/latest/userguide/updating-an-add-on.html
    """
    if not before or not after or before == after or not addons:
        return None
    return (
        f"cluster.version: {before} -> {after} leaves these addons at the versions they have: "
        f"{', '.join(addons)}; set addonVersions for each once the nodes have followed (aws eks "
        f"describe-addon-versions --kubernetes-version {after}) [GPUC-ADDONS]"
    )
