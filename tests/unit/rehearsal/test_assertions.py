"""What must be so once the workloads run, from events, nodes and pods written by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_cluster.rehearsal.nodes.node_registration import GROUP
from gpu_cluster.rehearsal.report.report import NodeLife, PodLife
from gpu_cluster.rehearsal.simulators.cloud import TemplateComparison
from gpu_cluster.rehearsal.verify import assertions
from gpu_cluster.rehearsal.verify.diagnosis import ClusterSnapshot
from tests.unit.rehearsal.rehearsed import (
    DEVICE_PLUGIN,
    GPU,
    SHARING_PLUGIN,
    T4,
    config_map,
    daemon_set,
    group,
    node,
    pod,
    shape,
    sharing_config,
)

OWN_PLUGIN = group(plugin="pod")


def life(**fields: Any) -> NodeLife:
    given = {"name": "n1", "joined": 1.0, "group": "train-gpu", "gpus": 1, "gpus_at": 5.0}
    return NodeLife(**{**given, **fields})


def bound(at: float) -> PodLife:
    return PodLife(
        name="default/s", workload="Job default/s", gpus=1, created=0.0, bound=at, node="n1"
    )


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"plugin": 4.9}, None),
        ({"plugin": 5.1}, "but the device plugin's pod ran only from 5.1 s there"),
        ({}, "but the device plugin's pod never ran there"),
    ],
)
def test_no_gpu_comes_before_the_device_plugins_pod(
    parts: dict[str, float], words: str | None
) -> None:
    """Where a pod brings the plugin, GPUs that are offered earlier are a finding."""
    found = assertions.too_early([OWN_PLUGIN], [life(parts=parts)], [])
    assert [words in line for line in found if words] == ([True] if words else [])
    assert len(found) == (1 if words else 0)


def test_where_the_cloud_brings_the_plugin_no_pod_is_waited_for() -> None:
    """GKE's own plugin is no pod that anybody sees."""
    assert assertions.too_early([group()], [life()], []) == []


def test_no_pod_gets_a_gpu_before_the_node_offers_any() -> None:
    """A pod that is bound earlier was given what nobody had advertised."""
    (line,) = assertions.too_early([group()], [life()], [bound(4.0), bound(5.0)])
    assert line == (
        "pool train-gpu: node n1 was given Job default/s at 4.0 s, before a GPU of it was "
        "allocatable"
    )


def test_a_real_nodes_pods_are_its_kubelets_affair() -> None:
    """It admits none before it offers a GPU; only when it did is seen later."""
    assert assertions.too_early([group(real=True)], [life()], [bound(4.0)]) == []


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"added": True, "granted": 2.0}, 1),
        ({"added": True, "granted": 2.0, "used": True}, 0),
        ({"added": False}, 0),
        ({"added": True}, 0),
        ({"added": True, "joined": 9.5, "granted": 9.6}, 0),
        ({"added": True, "joined": 9.5, "granted": 9.6, "left": 9.9}, 1),
    ],
)
def test_nodes_on_which_no_pod_ran_came_for_nothing(fields: dict[str, Any], found: int) -> None:
    """Only the autoscaler's, once the cloud has agreed, and not those that have only just come."""
    assert len(assertions.unnecessary_scale_ups([life(**fields)], now=10.0)) == found


@pytest.mark.parametrize(
    ("lives", "found"),
    [
        ([{"left": 5.0}, {"joined": 5.1}], 1),
        ([{"left": 5.0}, {"joined": 4.8, "left": 6.0}, {"joined": 6.1, "left": 7.0}], 2),
        ([{"left": 5.0}, {}], 0),
        ([{"left": 5.0}], 0),
        ([{"left": 5.0, "reason": "recycled"}, {"joined": 5.1}], 0),
        ([{"left": 9.0, "reason": "recycled"}, {"left": 5.0}, {"joined": 9.1}], 0),
        ([{"left": 9.0, "reason": "recycled"}, {"left": 8.0}, {"joined": 8.1}, {"joined": 9.1}], 1),
        ([{"left": 5.0, "reason": "scaled in"}, {"joined": 9.0}], 0),
        ([{"left": 5.0}, {"joined": 5.1, "group": "other"}], 0),
        ([{"left": 5.0, "added": True}, {"joined": 5.1, "added": True}], 0),
    ],
)
def test_a_kept_node_comes_once(lives: list[dict[str, Any]], found: int) -> None:
    """Unless it is recycled, and then its successor is no other node's; a pool that shrinks loses
    some and gets none."""
    lines = assertions.came_again([life(**{"joined": 1.0} | each) for each in lives])
    words = "nodes" if found > 1 else "node"
    assert lines == [
        f"pool train-gpu: {found} {words} left and rejoined although the cloud kept them and none "
        "had been recycled, removed or replaced"
    ] * bool(found)


@pytest.mark.parametrize(
    ("load", "cores", "seconds"),
    [(0.5, 2, 2.0), (4.0, 2, 2.0), (8.0, 2, 4.0), (16.0, 2, 8.0), (90.0, 2, 10.0), (16.0, 16, 2.0)],
)
def test_a_busy_machine_is_given_time(
    monkeypatch: pytest.MonkeyPatch, load: float, cores: int, seconds: float
) -> None:
    """As much longer as its cores have more to do than two programs each."""
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert assertions.settle_seconds() == seconds


def cluster_cache(*pods: Any, nodes: list[Any], **more: Any) -> Any:
    kinds = {"DaemonSet": more.get("daemon_sets", [])}
    return SimpleNamespace(
        pods=list(pods),
        nodes=nodes,
        gpu_nodes=more.get("gpu_nodes", []),
        config_maps=more.get("config_maps", {}),
        all=lambda kind: kinds[kind],
    )


def on_node(name: str, of: Any) -> Any:
    """A node that the cloud keeps for this group."""
    return node(name, of, **{GROUP: of.name})


def test_a_pod_without_a_limit_is_not_what_autopilot_makes_nodes_for() -> None:
    """It would be refused there; here it runs, and is named."""
    auto = group("t4-1", auto_provisioned=True, autopilot=True)
    idle = pod(on="n1", phase="Running", gpus=0)
    (line,) = assertions.misplaced([auto], cluster_cache(idle, nodes=[on_node("n1", auto)]))
    assert "runs on node n1 of pool t4-1, but requests no nvidia.com/gpu" in line
    assert (
        assertions.misplaced([group("t4-1")], cluster_cache(idle, nodes=[on_node("n1", auto)]))
        == []
    )


def test_on_autopilot_a_spot_pod_cannot_ask_to_keep_its_node() -> None:
    """The cluster would not admit it; others may ask."""
    spot = group("t4-1", auto_provisioned=True, autopilot=True, spot=True)
    stays = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    staying = pod(on="n", phase="Running", annotations=stays)
    seen = cluster_cache(staying, nodes=[on_node("n", spot)])
    (line,) = assertions.misplaced([spot], seen)
    assert line.endswith("GKE Autopilot does not grant that to Spot pods")
    assert assertions.misplaced([replace(spot, spot=False)], seen) == []
    # A compute class of GKE Standard.
    assert assertions.misplaced([replace(spot, autopilot=False)], seen) == []


def test_who_tolerates_spot_by_name_is_meant_for_spot() -> None:
    """On a node that is none, the pod costs what it was not to cost."""
    spot = {"key": "cloud.google.com/gke-spot", "operator": "Exists"}
    meant = pod(on="n1", phase="Running", tolerations=[spot])
    where = cluster_cache(meant, nodes=[on_node("n1", group())])
    (line,) = assertions.misplaced([group()], where)
    assert "does not select cloud.google.com/gke-spot" in line
    assert assertions.misplaced([group(spot=True)], where) == []


def test_a_done_pod_is_judged_by_the_node_that_has_left() -> None:
    """Else the verdict would depend on when it is looked at. A pod that runs leaves with its node,
    and may be seen for longer."""
    spot = {"key": "cloud.google.com/gke-spot", "operator": "Exists"}
    done = pod(on="n1", phase="Succeeded", tolerations=[spot])
    left = cluster_cache(done, nodes=[], gpu_nodes=[on_node("n1", group())])
    (line,) = assertions.misplaced([group()], left)
    assert "runs on node n1 of pool train-gpu, which is not a Spot node" in line
    running = pod(on="n1", phase="Running", tolerations=[spot])
    gone = cluster_cache(running, nodes=[], gpu_nodes=[on_node("n1", group())])
    assert assertions.misplaced([group()], gone) == []


def test_a_plugin_that_selects_a_node_and_is_kept_away_is_named() -> None:
    """Nobody waits for those GPUs, so that nothing else would tell."""
    intolerant = daemon_set("plugin", {**DEVICE_PLUGIN, "nodeSelector": T4, "tolerations": []})
    bare = node(gpus=0)

    def found(*daemon_sets: Any) -> list[str]:
        return assertions.without_gpus(
            ClusterSnapshot(groups=[group()], nodes={"train-gpu": [bare]}, daemon_sets=daemon_sets)
        )

    (line,) = found(intolerant)
    assert line == (
        "pool train-gpu: node n1 has none of its GPUs allocatable: DaemonSet kube-system/plugin "
        "selects it, "
        "but it does not tolerate the taint nvidia.com/gpu=present:NoSchedule"
    )
    elsewhere = daemon_set("other", {**DEVICE_PLUGIN, "nodeSelector": {"gpus": "true"}})
    assert found(elsewhere, daemon_set("plugin", DEVICE_PLUGIN)) == []


class Cloud:
    """Remembers which node a promise was compared with."""

    def __init__(self, made: Any) -> None:
        self.groups, self.asked = [made], []

    def node_groups(self) -> Any:
        return self.groups

    def not_scaled(self, scalers: Any) -> Any:
        return {}

    def compare_template(self, name: str, node: Any) -> TemplateComparison:
        self.asked.append(node)
        return TemplateComparison(tags={"t": "1"}, real={"t": None}, differences=["tag t lies"])


def test_a_promise_is_held_against_the_node_that_came_up() -> None:
    """Its own labels and GPUs count, without those that only the rehearsal put there."""
    made = group()
    came = on_node("n1", made)
    came["metadata"]["labels"]["karpenter.sh/nodepool"] = "train-gpu"
    cloud = Cloud(made)
    (promise,) = assertions.template_checks(cloud, cluster_cache(nodes=[]), [came])  # type: ignore[arg-type]
    assert (promise["pool"], promise["node"]) == ("train-gpu", "n1")
    assert cloud.asked[0].labels == made.node.labels
    assert assertions.broken([promise]) == ["pool train-gpu: tag t lies"]


def test_without_a_node_a_promise_is_held_against_the_one_that_would_come() -> None:
    """With its GPUs as often as the device plugin's config offers them."""
    cloud = Cloud(replace(OWN_PLUGIN, node=shape(gpus=2)))
    assertions.template_checks(
        cloud,  # type: ignore[arg-type]
        cluster_cache(
            nodes=[],
            daemon_sets=[daemon_set("plugin", SHARING_PLUGIN)],
            config_maps={"kube-system/shares": config_map(sharing_config())},
        ),
        [],
    )
    assert cloud.asked[0].capacity[GPU] == "8"
