"""Which images and Kubernetes versions a node group may have or be updated to."""

import datetime
import re
from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.aws.ami_types import PATCHES, READ, newest_release
from gpu_cluster.rehearsal.simulators.aws.cluster_rules import minor
from gpu_cluster.rehearsal.simulators.aws.refusal import invalid

_AL2023 = re.compile(r"(\d+\.\d+)\.(\d+)-(\d{8})")
_BOTTLEROCKET = re.compile(r"\d+\.\d+\.\d+-[0-9a-f]{8}")


def check_new(group: Mapping[str, Any], cluster_version: str) -> None:
    """Raises Refusal if a new group's version differs from its cluster's: "this is the only
    accepted specified value" (API_CreateNodegroup)."""
    if group["version"] != cluster_version:
        raise invalid(
            f"Requested Nodegroup Kubernetes version {group['version']} "
            f"is invalid. Allowed version is {cluster_version}"
        )
    check_exists(group)


def check_update(old: Mapping[str, Any], new: Mapping[str, Any], *, back: bool = False) -> None:
    """Raises Refusal for an update to an earlier version or release, or to a release that does not
    exist (API_UpdateNodegroupVersion). `back`: whether it is a rollback to the cluster's version
    before its upgrade, which the user guide asks for before the control plane's
    (rollback-cluster.html), although the API reference says that there is none."""
    if old["releaseVersion"] != new["releaseVersion"]:
        check_exists(new)
    if not back and old["amiType"] == new["amiType"] and _order(new) < _order(old):
        raise invalid(
            f"You cannot roll back a node group to an earlier Kubernetes "
            f"version or AMI version: from {old['version']}, {old['releaseVersion']} to "
            f"{new['version']}, {new['releaseVersion']}"
        )


def check_exists(group: Mapping[str, Any]) -> None:
    """Raises Refusal for a release that is not in the changelog, as far as it was read."""
    release, version = str(group["releaseVersion"]), group["version"]
    if group["amiType"] == "CUSTOM":
        return
    found = _AL2023.fullmatch(release)
    if group["amiType"].startswith("BOTTLEROCKET"):
        known = bool(_BOTTLEROCKET.fullmatch(release) or found)
    else:
        known = found is not None and found[1] == version and _is_day(found[3])
    if found is not None and found[3] == READ:
        known = known and int(found[2]) == PATCHES.get(version)
    if not known:
        raise invalid(
            f"Requested Nodegroup release version {release} is invalid. "
            f"Allowed release version is {newest_release(version)}"
        )


def _order(group: Mapping[str, Any]) -> tuple[int, ...]:
    found = _AL2023.fullmatch(str(group["releaseVersion"]))
    version = minor(group["version"])
    return (*version, int(found[3]), int(found[2])) if found else version


def _is_day(text: str) -> bool:
    try:
        datetime.datetime.strptime(text, "%Y%m%d")
    except ValueError:
        return False
    return True
