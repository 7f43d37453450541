"""An EKS node group takes no older image, and addons do not follow their cluster."""

from types import SimpleNamespace

import pytest

from components.eks.releases import check_release, check_version, left_behind


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
        f'roll it back; set "{before}", or roll back with the AWS CLI first'
    )


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
