"""Which Cluster Autoscalers run in a cluster, and what that means for its groups."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_cluster.rehearsal.control_plane.pods import STARTING
from gpu_cluster.rehearsal.nodes.autoscaler import node_pool, pool_weights
from gpu_cluster.rehearsal.nodes.scalers import KeptTemplates, running, scaled_groups
from gpu_cluster.rehearsal.simulators.cloud import NodeTaint, Scaler
from tests.unit.rehearsal.rehearsed import T4, group, node, pod, shape

DISCOVERY = "--node-group-auto-discovery=asg:tag=a/enabled,a/k8s-ml"
SCALER = Scaler(
    namespace="default",
    service_account="scaler",
    discovers=(("a/enabled", "a/k8s-ml"),),
    made=datetime(2026, 1, 1, tzinfo=UTC).timestamp(),
)


def autoscaler(phase: str = "Running", **container: Any) -> Any:
    given = {
        "name": "c",
        "image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0",
        "command": ["./cluster-autoscaler"],
        "args": ["--v=2", DISCOVERY],
    }
    spec = {"containers": [{**given, **container}], "serviceAccountName": "scaler"}
    return pod("cluster-autoscaler-x", on="n1", phase=phase, **spec)


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        ([autoscaler()], [SCALER]),
        ([autoscaler(image="mirror.example/ca@sha256:00")], [SCALER]),
        ([autoscaler(command=None)], [SCALER]),
        ([autoscaler(image="nginx:1", command=["nginx"])], []),
        ([autoscaler("Pending")], []),
        ([autoscaler(), autoscaler()], [SCALER]),
    ],
)
def test_an_autoscaler_is_known_by_its_image_or_its_command(
    pods: list[Any], found: list[Scaler]
) -> None:
    """One that is not ready scales nothing."""
    for each in pods:
        each["spec"]["containers"][0].setdefault("image", "cuda")
    assert running(pods) == found


def test_the_youngest_pod_counts() -> None:
    """Others of the same Deployment may be older than what it needs."""
    younger = autoscaler()
    younger["metadata"]["creationTimestamp"] = "2026-01-01T00:00:05Z"
    (found,) = running([autoscaler(), younger, autoscaler()])
    assert SCALER.made is not None
    assert found == replace(SCALER, made=SCALER.made + 5)


def test_a_startup_taint_is_no_part_of_the_template() -> None:
    """The autoscaler takes it to be gone once the node has started, if its flag says so."""
    taint = NodeTaint(key="a/not-ready", value="true", effect="NoExecute")
    cloud: Any = SimpleNamespace(node_groups=lambda: [group(template=shape(taints=(taint,)))])
    scaler = autoscaler(args=[DISCOVERY, "--startup-taint=a/not-ready"])
    assert [one.template.taints for one in scaled_groups(cloud, [autoscaler()])] == [(taint,)]
    assert [one.template.taints for one in scaled_groups(cloud, [scaler])] == [()]


def test_groups_say_why_nobody_scales_them() -> None:
    """The cloud knows, from who runs; the others stay as they are."""
    asked: list[Any] = []

    def not_scaled(scalers: Any) -> dict[str, str]:
        asked.append(scalers)
        return {"b": "nobody may"}

    groups = [group("a"), group("b")]
    cloud: Any = SimpleNamespace(
        node_groups=lambda: groups, not_scaled=not_scaled, compare_template=str
    )
    assert [one.unscaled for one in scaled_groups(cloud, [autoscaler()])] == ["", "nobody may"]
    assert asked == [[SCALER]]


def test_a_group_that_nobody_scales_neither_grows_nor_shrinks() -> None:
    """Karpenter may take no node away from it either."""
    pool = node_pool(group(unscaled="nobody may"), "t", 0)["spec"]
    assert pool["limits"] == {"cpu": "0m"}
    assert pool["disruption"]["budgets"] == [{"nodes": "0"}]


def test_a_node_starts_with_the_taint_that_keeps_pods_off() -> None:
    """Karpenter takes it to have GPUs from the beginning; nobody may be bound to them yet."""
    assert node_pool(group(), "t", None)["spec"]["template"]["spec"]["startupTaints"] == [STARTING]


def test_the_smallest_shape_goes_first() -> None:
    """Fewest GPUs, then price, then size; Spot after what costs the same and is not."""
    groups = [
        group("four", template=shape(gpus=4), on_demand_per_hour=1.0),
        group("dear", template=shape(gpus=1), on_demand_per_hour=3.0),
        group("spot", template=shape(gpus=1), on_demand_per_hour=2.0, spot=True),
        group("one", template=shape(gpus=1), on_demand_per_hour=2.0),
        group("same", template=shape(gpus=1), on_demand_per_hour=2.0),
        group("none", template=shape(gpus=0), on_demand_per_hour=9.0),
    ]
    weights = pool_weights(groups)
    assert weights == {"none": 100, "one": 99, "same": 99, "spot": 98, "dear": 97, "four": 96}
    many = [group(str(n), template=shape(gpus=n), on_demand_per_hour=1.0) for n in range(150)]
    assert min(pool_weights(many).values()) == 1


EXPIRES = "--node-info-cache-expire-time={}"
TIER = shape(labels={**T4, "tier": "b"})
SCALED = node(of=group(node=shape(labels={"karpenter.sh/nodepool": "train-gpu"})))


@pytest.mark.parametrize(
    ("flags", "later", "sees", "misses"),
    [
        ((), 3600.0, False, "label tier is b, was not there"),
        ((EXPIRES.format("1h"),), 29.0, False, "label tier is b, was not there"),
        ((EXPIRES.format("1h"),), 31.0, True, ""),
        ((EXPIRES.format("1m"),), 0.4, False, ""),
        ((EXPIRES.format("1m"),), 0.6, True, ""),
    ],
)
def test_the_template_of_a_group_is_its_last_nodes_until_it_expires(
    flags: tuple[str, ...], later: float, sees: bool, misses: str
) -> None:
    """A label that an update added since is not seen, 120 times sooner than in life."""
    clock = [0.0]
    kept = KeptTemplates(now=lambda: clock[0])
    scaler = autoscaler(args=[DISCOVERY, *flags])
    before, after = group(), group(template=TIER)
    assert kept.applied([before], [], [scaler]) == [before]
    for clock[0] in (1.0, 2.0):
        assert kept.applied([before], [SCALED], [scaler]) == [before]
    clock[0] = 2.0 + later
    (found,) = kept.applied([after], [], [scaler])
    assert (found.template == after.template) is sees
    assert (misses in found.outdated) if misses else found.outdated == ""


def test_a_node_that_was_ready_for_a_moment_is_no_template() -> None:
    """The autoscaler takes a node that has been ready for a minute."""
    clock = [0.0]
    kept = KeptTemplates(now=lambda: clock[0])
    for clock[0] in (1.0, 1.4):
        kept.applied([group()], [SCALED], [autoscaler()])
    after = group(template=TIER)
    assert kept.applied([after], [], [autoscaler()]) == [after]


def test_a_new_pod_of_the_autoscaler_keeps_nothing() -> None:
    """As does a cluster without one, such as GKE's."""
    clock = [0.0]
    kept = KeptTemplates(now=lambda: clock[0])
    for clock[0] in (1.0, 2.0):
        kept.applied([group()], [SCALED], [autoscaler()])
    younger = autoscaler()
    younger["metadata"]["uid"] = "another"
    after = group(template=TIER)
    assert kept.applied([after], [], [autoscaler()]) != [after]
    assert kept.applied([after], [], [younger]) == [after]
    assert kept.applied([after], [], []) == [after]
