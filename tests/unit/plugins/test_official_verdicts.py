"""The offline plugin's verdicts on changes are those of the official Google provider."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.simulators.reservations import Reservation
from tests.unit.plugins.official_rows import changes, merged
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import (
    ACCOUNT,
    BUCKET_MEMBER,
    CLUSTER,
    FIREWALL,
    MEMBER,
    NAT,
    NETWORK,
    POOL,
    ROUTER,
    SUBNETWORK,
    GoogleStack,
    cluster,
    pool,
    subnetwork,
)

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

RESERVATIONS = [
    Reservation(name=name, type="n1-standard-4", zone="us-central1-a", count=1)
    for name in ("a", "b")
]
NAT_INPUTS = {
    "router": "router",
    "region": "us-central1",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    "natIpAllocateOption": "AUTO_ONLY",
}


def declared(stack: GoogleStack, kind: str) -> tuple[str, str, dict[str, Any]]:
    """Type, name and inputs of the stack's resource of a kind, which is not made yet."""
    if kind == "bucket member":
        given = {"bucket": "data", "role": "roles/storage.objectViewer", "member": "user:a@b.c"}
        return BUCKET_MEMBER, "reader", given
    if kind == "network":
        return NETWORK, "net", {"autoCreateSubnetworks": False}
    network = stack.up(NETWORK, "net", {"autoCreateSubnetworks": False})
    if kind == "subnetwork":
        return SUBNETWORK, "nodes", subnetwork(network["selfLink"])
    if kind == "nat":
        stack.up(ROUTER, "router", {"name": "router", "network": network["selfLink"]})
        return NAT, "nat", NAT_INPUTS
    nodes = stack.up(SUBNETWORK, "nodes", subnetwork(network["selfLink"]))
    if kind == "cluster":
        return CLUSTER, "dev", cluster(nodes)
    workloads = {"workloadPool": "p.svc.id.goog"}
    stack.up(CLUSTER, "dev", cluster(nodes, workloadIdentityConfig=workloads))
    return POOL, "gpu", pool()


@changes("official_verdicts.yaml")
def test_the_verdict_is_the_official_one(kind: str, row: dict[str, Any]) -> None:
    """Of the same change to the same inputs; nothing else is planned."""
    stack = GoogleStack(reservations=RESERVATIONS)
    token, name, inputs = declared(stack, kind)
    before = merged(inputs, row.get("before", {}))
    stack.up(token, name, before)
    found, answer = stack.diff(
        token, name, merged(before, row["change"]), tuple(row.get("ignore", ()))
    )
    verdict = "replace" if answer.replaces else "update" if found else "same"
    assert verdict == row["verdict"], found


def test_what_is_no_longer_given_stays_after_an_update() -> None:
    """The other changes of the update are made, and a refresh finds what was kept."""
    stack = GoogleStack()
    network = stack.network()
    before = cluster(network, loggingConfig={"enableComponents": ["SYSTEM_COMPONENTS"]})
    stack.up(CLUSTER, "dev", before)
    after = cluster(network, resourceLabels={"team": "ml"})
    assert stack.diff(CLUSTER, "dev", after)[0] == {"resourceLabels": "ADD"}
    made = stack.up(CLUSTER, "dev", after)
    assert made["resourceLabels"] == {"team": "ml"}
    assert made["loggingConfig"] == {"enableComponents": ["SYSTEM_COMPONENTS"]}


@pytest.mark.parametrize(
    ("token", "inputs", "reason"), TABLE["test_check_refuses_what_the_official_one_does"]
)
def test_check_refuses_what_the_official_one_does(
    token: str, inputs: dict[str, Any], reason: str | None
) -> None:
    """Before the cloud is asked, so in a preview already."""
    _, problems = GoogleStack().check(token, "gpu", inputs)
    if reason is None:
        assert not [line for line in problems if "asn" in line]
    else:
        assert reason in "\n".join(problems)


@pytest.mark.parametrize(
    ("token", "inputs"),
    [
        (FIREWALL, {"network": "n", "allows": [], "sourceRanges": ["10.0.0.0/8"]}),
        (MEMBER, {"project": "p", "role": "viewer", "member": "user:a@b.c"}),
    ],
)
def test_check_leaves_to_the_cloud_what_the_official_one_does(
    token: str, inputs: dict[str, Any]
) -> None:
    """An API refuses it, and no preview."""
    assert GoogleStack().check(token, "gpu", inputs)[1] == []


def test_shielded_nodes_are_known_in_a_preview() -> None:
    """The provider's schema has the default, of Autopilot as well, where nobody may give it."""
    given = {"name": "dev", "location": "us-central1", "enableAutopilot": True}
    assert GoogleStack().preview(CLUSTER, "dev", given)["enableShieldedNodes"] is True


def test_the_plan_is_refused_where_the_official_one_is() -> None:
    """Errors that the provider finds when it compares, in the preview."""
    stack = GoogleStack()
    token, name, inputs = declared(stack, "nat")
    stack.up(token, name, inputs)
    with pytest.raises(Refused, match=r'drain_nat_ip "a" was not previously set in nat_ips \[\]'):
        stack.diff(token, name, inputs | {"drainNatIps": ["a"]})
    with pytest.raises(Refused, match=r"bgp.advertisedGroups can only be set with .* CUSTOM"):
        stack.preview(
            ROUTER, "more", {"network": "net", "bgp": {"asn": 64512, "advertisedGroups": ["A"]}}
        )
    with pytest.raises(Refused, match="node_version can only be specified"):
        stack.preview(CLUSTER, "c", cluster({"network": "n", "selfLink": "s"}, nodeVersion="1.35"))


@pytest.mark.parametrize("part", ["aggregations", "denominatorAggregations"])
def test_to_reduce_nothing_is_to_leave_the_reducer_out(part: str) -> None:
    """Of both parts of a ratio, as the official provider compares them."""
    stack, token = GoogleStack(), "gcp:monitoring/alertPolicy:AlertPolicy"

    def policy(**reducer: str) -> dict[str, Any]:
        aligned = {"alignmentPeriod": "60s", "perSeriesAligner": "ALIGN_MEAN"}
        threshold = {
            "comparison": "COMPARISON_GT",
            "duration": "60s",
            "filter": 'metric.type="kubernetes.io/container/accelerator/duty_cycle"',
            part: [aligned | reducer],
        }
        conditions = [{"displayName": "idle", "conditionThreshold": threshold}]
        return {"displayName": "idle", "combiner": "OR", "conditions": conditions}

    stack.up(token, "idle", policy())
    assert stack.diff(token, "idle", policy(crossSeriesReducer="REDUCE_NONE"))[0] == {}
    assert stack.diff(token, "idle", policy(crossSeriesReducer="REDUCE_SUM"))[0] != {}


def test_an_account_s_letters_are_small() -> None:
    """To IAM and so to the provider they are the same."""
    stack = GoogleStack()
    email = stack.up(ACCOUNT, "nodes", {"accountId": "gpu-dev"})["member"]
    given = {"project": "p", "role": "roles/viewer", "member": email}
    stack.up(MEMBER, "m", given)
    upper = given | {"member": email.replace("gpu-dev", "GPU-DEV")}
    assert stack.diff(MEMBER, "m", upper)[0] == {}


@pytest.mark.parametrize(
    ("token", "name", "expected"),
    [
        (NETWORK, "Caps", "caps-"),
        (NETWORK, "a" * 55, "a" * 55 + "-"),
        (NETWORK, "a" * 56, None),
        (ACCOUNT, "a" * 22, "a" * 22 + "-"),
        (ACCOUNT, "a" * 23, None),
    ],
)
def test_a_generated_name_has_a_longest(token: str, name: str, expected: str | None) -> None:
    """63 characters for what Compute Engine names, 30 for an account."""
    inputs, problems = GoogleStack().check(token, name, {"project": "p"})
    found = str(inputs.get("accountId") or inputs.get("name") or "")
    if expected is None:
        assert "random chars is longer than maximum length" in problems[0]
    else:
        assert found.startswith(expected)
