"""An EKS node group takes no older image, and addons do not follow their cluster."""

import re
from types import SimpleNamespace

import pytest

from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.components.eks.existing_args import EksExistingClusterArgs
from gpu_cluster.components.eks.releases import (
    check_release,
    check_version,
    left_behind,
    old_toolkit,
)
from gpu_cluster.components.eks.scaling import check_size
from gpu_cluster.components.lifecycle.replacement import warnings
from gpu_cluster.components.schema.on_change import change_rules
from gpu_cluster.components.schema.refusal import Refusal


@pytest.mark.parametrize(
    ("before", "release", "good"),
    [
        ("1.35.6-20260714", "1.35.5-20260601", False),
        ("1.35.6-20260714", "1.35.6-20260714", True),
        ("1.35.6-20260714", "1.35.7-20260917", True),
        # Another minor is a matter of version.
        ("1.35.6-20260917", "1.36.2-20260714", True),
        ("1.54.0-5a8d13d7", "1.53.9-00000000", False),
        ("1.54.0-5a8d13d7", "1.54.0-00000000", True),
        ("1.9.0-5a8d13d7", "1.54.0-00000000", True),
        (None, "1.35.6-20260714", True),
        ("1.35.6-20260714", None, True),
    ],
)
def test_an_older_release_is_refused(before: str | None, release: str | None, good: bool) -> None:
    """AL2023's releases go by their date, Bottlerocket's by their version."""
    if good:
        check_release("gpuPools.t4", before, release)
        return
    with pytest.raises(ValueError, match=r"^gpuPools\.t4\.releaseVersion: ") as refusal:
        check_release("gpuPools.t4", before, release)
    assert str(refusal.value) == (
        f"gpuPools.t4.releaseVersion: {release} is older than the group's {before}, and EKS "
        "cannot downgrade a node group; drop the key, or add another pool with it"
    )


@pytest.mark.parametrize(("size", "bound"), [(1, "min.*: 2 is above"), (5, "max.*: 4 is below")])
def test_a_size_outside_of_its_bounds_is_refused(size: int, bound: str) -> None:
    """By the path of the bound, with the number that makes the update possible."""
    scaling = {"minSize": 2, "maxSize": 4, "desiredSize": size}
    line = rf"^gpuPools\.t4\.{bound} the {size} nodes .*, set desiredNodes: {min(size * 2, 4)} for "
    with pytest.raises(Refusal, match=line):
        check_size("gpuPools.t4", {"scalingConfig": scaling})


@pytest.mark.parametrize(
    ("before", "version", "good"),
    [
        ("1.36", "1.35", False),
        ("1.10", "1.9", False),
        ("1.35", "1.36", True),
        ("1.35", "1.35", True),
        (None, "1.35", True),
        ("1.35", None, True),
    ],
)
def test_an_earlier_version_than_the_running_one_is_refused(
    before: str | None, version: str | None, good: bool
) -> None:
    """After somebody else's upgrade, a refreshed state has the newer version as an output."""
    change = SimpleNamespace(
        old_outputs={"version": before}, old_inputs={}, new_inputs={"version": version}
    )
    if good:
        check_version("the cluster", change)  # type: ignore[arg-type]
        return
    with pytest.raises(ValueError, match=r"^cluster\.version: ") as refusal:
        check_version("the cluster", change)  # type: ignore[arg-type]
    assert str(refusal.value) == (
        f"cluster.version: {version} is older than {before}, which the cluster runs, and EKS would "
        f'roll it back; set "{before}", or, if it has been rolled back already, pulumi up --refresh'
    )


MINORS = ("1.33", "1.34", "1.35", "1.36", "1.37")


@pytest.mark.parametrize("running", MINORS[1:4])
@pytest.mark.parametrize("recorded", MINORS)
@pytest.mark.parametrize("version", MINORS)
def test_what_a_refusal_of_a_version_recommends_is_accepted(
    running: str, recorded: str, version: str
) -> None:
    """Whatever the last update had set: after EKS's own upgrades, and after a rollback."""

    def update(value: str) -> None:
        key = "cluster.version"
        for kind in (EksClusterArgs, EksExistingClusterArgs):
            if rule := change_rules(kind, "cluster.").get(key):
                list(warnings({key: recorded}, {key: value}, {key: rule}))
        change = SimpleNamespace(
            old_outputs={"version": running}, old_inputs={}, new_inputs={"version": value}
        )
        check_version("the cluster", change, ahead=False)  # type: ignore[arg-type]

    try:
        update(version)
    except ValueError as error:
        (advice,) = re.findall(
            r'(?:roll it back|is more than one minor).*set "([0-9.]+)"', str(error)
        )
        update(advice)
    else:
        assert MINORS.index(version) - MINORS.index(running) in (0, 1)


def test_node_groups_skip_minors() -> None:
    """They follow a cluster that was upgraded twice in one update."""
    change = SimpleNamespace(old_outputs={"version": "1.33"}, new_inputs={"version": "1.35"})
    check_version("the node group", change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("release", "old"),
    [
        ("1.34.1-20251016", True),
        ("1.34.1-20251023", False),
        ("1.36.2-20260714", False),
        ("1.54.0-5a8d13d7", False),
        (None, False),
    ],
)
def test_a_node_group_with_an_old_toolkit_is_named(release: str | None, old: bool) -> None:
    """Its nodes stay as they are while the device plugin changes."""
    line = old_toolkit("gpuPools.t4", release)
    assert bool(line) is old
    assert not line or line.startswith(f"gpuPools.t4: its nodes have the image {release}, whose")


def test_addons_are_left_behind_by_a_new_version() -> None:
    """EKS updates no addon with its cluster; without a change there is no warning."""
    addons = ["vpc-cni", "coredns"]
    assert left_behind("1.35", "1.36", addons) == (
        "cluster.version: 1.35 -> 1.36 leaves these addons at the versions they have: vpc-cni, "
        "coredns; set addonVersions for each once the nodes have followed (aws eks "
        "describe-addon-versions --kubernetes-version 1.36) [GPUC-ADDONS]"
    )
    assert left_behind("1.35", "1.35", addons) is left_behind(None, "1.35", addons) is None
    assert left_behind("1.35", "1.36", []) is None
