"""The table of scalers in the support matrix: what it lists is refused, and nothing else is."""

import dataclasses
from typing import Any

import pytest

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import check_scaler, scalers, unsupported
from gpu_cluster.components.schema.decode import camel

CASES = [
    (name, scaler)
    for name, platform in PLATFORMS.items()
    for scaler in scalers(platform.settings.CLUSTER)
]
OTHER = object()
"""Not a setting's default, nor a value that a scaler supports in addition."""


def pool_with(kind: type, setting: str = "", value: Any = None) -> Any:
    """A pool with the defaults of its fields, without their checks, except for one setting."""
    pool = object.__new__(kind)
    for field in dataclasses.fields(kind):
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        object.__setattr__(pool, field.name, value if field.name == setting else default)
    return pool


@pytest.mark.parametrize(("platform", "scaler"), CASES)
def test_every_setting_is_refused_or_possible_as_the_table_says(platform: str, scaler: str) -> None:
    """A refusal has the key, the reason and the scalers that can; values in `but` are accepted."""
    kind, cluster = PLATFORMS[platform].settings.POOL, PLATFORMS[platform].settings.CLUSTER
    check_scaler(pool_with(kind), scaler, cluster)
    for field in dataclasses.fields(kind):
        marks = {mark.scaler: mark for mark in unsupported(kind).get(field.name, ())}
        pool = pool_with(kind, field.name, OTHER)
        if scaler not in marks:
            check_scaler(pool, scaler, cluster)
            continue
        able = " or ".join(other for other in scalers(cluster) if other not in marks)
        with pytest.raises(ValueError) as refused:  # noqa: PT011  the message is compared
            check_scaler(pool, scaler, cluster)
        assert str(refused.value) == (
            f"{camel(field.name)}: is not possible with cluster.scaler {scaler}: "
            f"{marks[scaler].reason}; drop the key, or set cluster.scaler: {able}"
        )
        for value in marks[scaler].but:
            check_scaler(pool_with(kind, field.name, value), scaler, cluster)


@pytest.mark.parametrize(
    ("platform", "setting", "possible"),
    [
        ("gke", "queued", {"node-pools"}),
        ("gke", "max_run_duration_seconds", {"node-pools", "compute-classes"}),
        ("gke", "topology_aware", {"node-pools"}),
        ("gke", "fallback", {"compute-classes"}),
        ("gke-autopilot", "fallback", {"compute-classes"}),
        ("gke-autopilot", "reservation", {"gke", "compute-classes"}),
        ("eks", "fallback", {"cluster-autoscaler", "karpenter", "auto-mode"}),
        ("eks", "warm_pool", {"cluster-autoscaler"}),
        ("eks", "topology_aware", {"cluster-autoscaler"}),
    ],
)
def test_capacity_settings_are_possible_with_these_scalers(
    platform: str, setting: str, possible: set[str]
) -> None:
    """The settings that say how and where GPUs are had."""
    kind, cluster = PLATFORMS[platform].settings.POOL, PLATFORMS[platform].settings.CLUSTER
    refused = {mark.scaler for mark in unsupported(kind).get(setting, ())}
    assert setting in {field.name for field in dataclasses.fields(kind)}
    assert {*scalers(cluster)} - refused == possible
