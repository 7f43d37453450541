"""What is said of a setting for which the cloud replaces something, or which it keeps."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, get_type_hints

import pytest

from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.components.eks.cpu_pool_args import replaced
from gpu_cluster.components.eks.fallback_args import EksFallbackArgs
from gpu_cluster.components.eks.immutable import node_pools_kept
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.gke.cluster_args import GkeClusterArgs
from gpu_cluster.components.gke.immutable import POOL as GKE_POOL
from gpu_cluster.components.gke.network_args import GkeNetworkArgs
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from gpu_cluster.components.gke.sharing_args import GkeSharingArgs
from gpu_cluster.components.gke_autopilot.cluster_args import GkeAutopilotArgs
from gpu_cluster.components.lifecycle.kept_disks import lost_disks
from gpu_cluster.components.lifecycle.replacement import valued, warnings
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import scalers
from gpu_cluster.components.schema.on_change import (
    NEVER,
    ChangeRules,
    Refusal,
    Rule,
    Verdict,
    change_rules,
    if_longer,
    kept,
)

GKE_CLUSTER, EKS_CLUSTER = change_rules(GkeClusterArgs), change_rules(EksClusterArgs)
EKS_POOL = change_rules(EksGpuNodeGroupArgs)
RULES: dict[str, Rule] = {
    "cluster.location": "cluster",
    "cluster.network.podsCidr": NEVER,
    "gpuPools.train-gpu.accelerator": "GPU pool",
}
BEFORE = {
    "cluster.location": "us-central1-a",
    "cluster.network.podsCidr": "10.16.0.0/14",
    "gpuPools.train-gpu.accelerator": "nvidia-tesla-t4",
}


def test_a_setting_that_stays_is_not_mentioned() -> None:
    """An update of anything else goes without a word."""
    assert list(warnings(BEFORE, BEFORE, RULES)) == []


def test_the_setting_is_named_with_what_goes() -> None:
    """Key, old value, new value, and what it means for what runs there."""
    after = BEFORE | {"gpuPools.train-gpu.accelerator": "nvidia-tesla-v100"}
    assert list(warnings(BEFORE, after, RULES)) == [
        "gpuPools.train-gpu.accelerator: nvidia-tesla-t4 -> nvidia-tesla-v100 replaces the GPU "
        "pool: its nodes are deleted, and the pods on them start again [GPUC-REPLACE-GPU-POOL]"
    ]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_another_scaler_is_warned_of(platform: str) -> None:
    """Or refused: on every platform that has a choice, the pods of GPU pools start again."""
    cluster = PLATFORMS[platform].settings.CLUSTER
    choices, rules = scalers(cluster), change_rules(cluster)
    silent = [
        (old, new)
        for old, new in itertools.permutations(choices, 2)
        if "scaler" not in rules or not _said(rules["scaler"], old, new)
    ]
    assert silent == []


def _said(rule: Rule, old: str, new: str) -> bool:
    try:
        return bool([*warnings({"k": old}, {"k": new}, {"k": rule})])
    except ValueError:
        return True


def test_what_was_not_remembered_is_not_compared() -> None:
    """A pool that is new, and the state of a version that remembered less."""
    assert list(warnings({}, BEFORE, RULES)) == []


def test_a_setting_that_cannot_change_is_refused() -> None:
    """The provider would find out half way."""
    after = BEFORE | {"cluster.network.podsCidr": "10.32.0.0/14"}
    with pytest.raises(ValueError, match=r"^cluster.network.podsCidr: 10.16.0.0/14 -> 10.32"):
        list(warnings(BEFORE, after, RULES))


def test_with_a_new_cluster_it_can_change() -> None:
    """Nothing holds the old value then."""
    after = BEFORE | {"cluster.network.podsCidr": "10.32.0.0/14", "cluster.location": "us-east1-b"}
    (line,) = warnings(BEFORE, after, RULES)
    assert line.startswith("cluster.location: us-central1-a -> us-east1-b replaces the cluster: ")


def test_a_cluster_that_holds_claims_is_not_replaced() -> None:
    """Their disks would stay and bill; another setting that replaces a pool alone is no harm."""
    after = BEFORE | {"cluster.location": "us-east1-b"}
    with pytest.raises(ValueError, match=r"^cluster.location: .* disks of volumeClaims a, b behin"):
        list(warnings(BEFORE, after, RULES, ["a", "b"]))
    assert list(warnings(BEFORE, BEFORE, RULES, ["a"])) == []


def test_an_update_that_would_delete_a_disk_is_refused() -> None:
    """A claim that is new, unchanged or removed is not mentioned."""
    before = {"a": {"zone": "z1", "storageClass": ""}, "gone": {"zone": "z1"}}
    assert lost_disks(before, {"a": before["a"], "new": {"zone": "z2"}}) == ""
    assert lost_disks(before, {"a": {"zone": "z2"}}) == (
        "volumeClaims.a.zone: z1 -> z2 would delete the disk with its data; put the old value "
        "back, add a claim with another name, copy the data to it, and remove a [GPUC-CLAIMS]"
    )
    reason = lost_disks(before, {"a": {"storageClass": "fast"}})
    assert reason.startswith("volumeClaims.a.storageClass: none -> fast would delete the disk")


ZONES = "cluster.network.zones"
A, AB, ABC, B = '["a"]', '["a", "b"]', '["a", "b", "c"]', '["b"]'


def test_a_list_may_grow_at_its_end() -> None:
    """What was in use stays as it is."""
    (line,) = warnings({ZONES: AB}, {ZONES: ABC}, {ZONES: if_longer("node pools")})
    assert line.startswith(f"{ZONES}: {AB} -> {ABC} replaces the node pools: ")


@pytest.mark.parametrize(("old", "new"), [(AB, A), (AB, B), (B, AB), ("[]", AB), (AB, "[]")])
def test_a_list_that_loses_or_moves_something_is_refused(old: str, new: str) -> None:
    """What it held is still in use; a list that was empty was no setting of this cluster."""
    with pytest.raises(
        ValueError,
        match=r"cannot change while the cluster exists; .* only at its end, .*GPUC-IMMUTABLE\]$",
    ):
        list(warnings({ZONES: old}, {ZONES: new}, {ZONES: if_longer("node pools")}))


@pytest.mark.parametrize(
    ("rules", "args"),
    [
        (GKE_CLUSTER, GkeClusterArgs),
        (change_rules(GkeAutopilotArgs), GkeAutopilotArgs),
        ({**change_rules(GkeGpuNodePoolArgs), **GKE_POOL}, GkeGpuNodePoolArgs),
        (EKS_CLUSTER, EksClusterArgs),
        (EKS_POOL, EksGpuNodeGroupArgs),
    ],
)
def test_every_rule_names_a_setting(rules: ChangeRules, args: type) -> None:
    """No path leads nowhere."""
    assert rules
    for path in rules:
        kind = args
        for step in path.split("."):
            if isinstance(getattr(kind, step, None), property):
                break
            assert step in {field.name for field in dataclasses.fields(kind)}, path
            kind = get_type_hints(kind)[step]


def test_a_cluster_s_secrets_keep_their_key() -> None:
    """EKS keeps the first one, which the stack would delete once another is named."""
    assert EKS_CLUSTER["secrets_encryption_key"] == NEVER


def said(rules: ChangeRules, path: str, old: str, new: str) -> list[str]:
    """The warnings for a change of one setting of a cluster."""
    return list(warnings({"k": old}, {"k": new}, {"k": rules[path]}))


@pytest.mark.parametrize(
    ("new", "replaced"),
    [("10.0.0.0/19", False), ("10.0.0.0/21", True), ("10.1.0.0/20", True), ("10.0.0.0/8", False)],
)
def test_a_range_grows_in_place(new: str, replaced: bool) -> None:
    """And replaces the cluster where it moves or shrinks: the subnetwork's successor is another."""
    found = said(GKE_CLUSTER, "network.nodes_cidr", "10.0.0.0/20", new)
    assert [" replaces the cluster: " in line for line in found] == [True] * replaced


KEPT = kept("give another")


@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [
        ("true", "null", True),
        ("null", "true", False),
        ('["a"]', "[]", True),
        ("[]", '["a"]', False),
        ('{"a": "1"}', "{}", True),
        ('{"a": "1", "b": "1"}', '{"a": "2"}', True),
        ('{"a": "1"}', '{"a": "2", "b": "1"}', False),
    ],
)
def test_what_was_taken_away_and_stays_is_named(old: str, new: str, stays: bool) -> None:
    """The provider keeps it without a word, and so does the preview."""
    line = (
        f"k: {old} -> {new} has no effect: the cloud keeps the current value; give another "
        "[GPUC-KEPT]"
    )
    assert list(warnings({"k": old}, {"k": new}, {"k": KEPT})) == [line] * stays


RELEASE = "gpuPools.gpu.releaseVersion"


@pytest.mark.parametrize("new", ["1.35.6-20260601", "1.34.9-20260714", "1.35.5-20260714"])
def test_a_release_never_goes_down(new: str) -> None:
    """EKS refuses it, after other updates."""
    rules = {RELEASE: EKS_POOL["release_version"]}
    with pytest.raises(
        ValueError, match=r"cannot change while the GPU pool exists; .* newer release"
    ):
        list(warnings({RELEASE: "1.35.6-20260714"}, {RELEASE: new}, rules))


def test_a_release_is_free_where_the_pool_is_replaced() -> None:
    """By another setting of the same pool; another pool's does not help."""
    mine, other = "gpuPools.gpu.os", "gpuPools.more.os"
    rules = {RELEASE: EKS_POOL["release_version"], mine: EKS_POOL["os"], other: EKS_POOL["os"]}
    before = {RELEASE: "1.35.6-20260714", mine: "al2023", other: "al2023"}
    after = before | {RELEASE: "1.35.6-20260101"}
    (line,) = warnings(before, after | {mine: "bottlerocket"}, rules)
    assert line.startswith("gpuPools.gpu.os: al2023 -> bottlerocket replaces the GPU pool: ")
    with pytest.raises(ValueError, match="cannot change while the GPU pool exists"):
        list(warnings(before, after | {other: "bottlerocket"}, rules))


def test_a_release_may_rise_or_be_first() -> None:
    """And one that is taken away stays."""
    rule = {"k": EKS_POOL["release_version"]}
    assert not list(warnings({"k": "1.35.6-20260714"}, {"k": "1.36.2-20260714"}, rule))
    assert not list(warnings({"k": "null"}, {"k": "1.35.6-20260714"}, rule))
    (line,) = warnings({"k": "1.35.6-20260714"}, {"k": "null"}, rule)
    assert "has no effect: the cloud keeps the current value" in line


@pytest.mark.parametrize(
    ("new", "replaced"),
    [("reservation", False), ("spot", True), ("capacity-block", True)],
)
def test_a_reservation_comes_and_goes_without_a_new_pool(new: str, replaced: bool) -> None:
    """To EKS nodes out of a reservation are on demand; its launch template recycles them."""
    rule = {"k": EKS_POOL["capacity_type"]}
    lines = list(warnings({"k": "on-demand"}, {"k": new}, rule))
    assert bool(lines) is replaced
    assert all("replaces the GPU pool" in line for line in lines)


def test_refusals_say_of_what() -> None:
    """The cluster, unless a pool is named."""
    with pytest.raises(ValueError, match="while the cluster exists; put the old value back, or"):
        list(warnings({"k": "a"}, {"k": "b"}, {"k": NEVER}))
    with pytest.raises(
        ValueError, match=r"while the GPU pool exists; .* the GPU pool another name"
    ):
        list(warnings({"k": "a"}, {"k": "b"}, {"k": Refusal(of="GPU pool")}))


def test_values_are_text() -> None:
    """As they stand in the state: maps and lists too."""
    args = GkeClusterArgs(
        name="gpu",
        location="us-central1",
        authorized_networks={"office": "203.0.113.0/24"},
        network=GkeNetworkArgs(nodes_cidr="10.1.0.0/20"),
        zones=["us-central1-a"],
    )
    pool = GkeGpuNodePoolArgs(
        machine_type="n1-standard-4",
        accelerator="nvidia-tesla-t4",
        sharing=GkeSharingArgs(strategy="mps", replicas=4),
    )
    assert valued(args, "network.nodes_cidr") == "10.1.0.0/20"
    assert valued(args, "zones") == '["us-central1-a"]'
    assert valued(args, "version") == "null"
    assert '"strategy": "mps"' in valued(pool, "sharing")


@pytest.mark.parametrize(
    ("old", "new", "loss"),
    [
        ('{"a": {"instance_types": ["x"], "spot": false, "zones": []}}', "{}", None),
        (
            '{"a": {"instance_types": ["x"], "spot": false, "zones": []}}',
            '{"a": {"instance_types": ["y"], "spot": false, "zones": []}}',
            "system pool",
        ),
    ],
)
def test_another_instance_type_replaces_a_pool(old: str, new: str, loss: str | None) -> None:
    """A pool that goes or comes replaces none."""
    assert replaced(old, new) == loss


def test_an_entry_that_stays_in_an_order_keeps_its_node_group() -> None:
    """Wherever it is; one that changes its zone or its type is another group."""
    rule, here = EKS_POOL["fallback"], EksFallbackArgs(zones=["us-east-1a"])

    def verdict(before: Sequence[Any], after: Sequence[Any]) -> Verdict:
        texts = [
            valued(EksGpuNodeGroupArgs(instance_types=["g6.xlarge"], fallback=order), "fallback")
            for order in (before, after)
        ]
        assert callable(rule)
        return rule(*map(str, texts))

    assert verdict(["spot", here], [here, "on-demand", "spot"]) is None
    assert verdict(["spot", here], ["spot", "on-demand"]) == "GPU pool"
    there = EksFallbackArgs(zones=["us-east-1a"], instance_types=["g6.2xlarge"])
    assert verdict(["spot", here], ["spot", there]) == "GPU pool"
    assert verdict(["spot", here], [EksFallbackArgs(capacity_type="spot"), here]) is None


@pytest.mark.parametrize(
    ("before", "after", "loss"),
    [
        ([], ["spot", "on-demand"], None),
        (["spot", "on-demand"], ["on-demand", "spot"], "GPU pool"),
        (["spot", "on-demand"], ["spot", EksFallbackArgs(zones=["us-east-1b"])], "GPU pool"),
        (["on-demand", "spot"], [EksFallbackArgs(), "spot"], None),
        (["on-demand", "spot"], ["spot", "on-demand"], "GPU pool"),
        (["on-demand", "spot"], [], "GPU pool"),
    ],
)
def test_an_order_of_another_node_pool_deletes_it(
    before: Sequence[Any], after: Sequence[Any], loss: str | None
) -> None:
    """Karpenter has one NodePool for an order by price, and one for each entry of another."""
    orders: list[dict[str, Any]] = [
        {"fallback": order} if order else {} for order in (before, after)
    ]
    old, new = (
        valued(EksGpuNodeGroupArgs(instance_types=["g6.xlarge"], **order), "fallback")
        for order in orders
    )
    assert node_pools_kept(str(old), str(new)) == loss
