"""Which nodes the clouds' autoscalers would start for pods that claim GPUs."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.rehearsal.control_plane.pods import CLAIMED, PUBLISHED
from gpu_cluster.rehearsal.nodes.claimed_nodes import lacks_node, unexpected, unmet
from gpu_cluster.rehearsal.simulators.cloud import NodeGroup
from tests.unit.rehearsal.rehearsed import group, node, pod, shape

EXPECTED: dict[str, str | int] = {"productName": "L4", "memory": 48}
_OF = "device.{}['gpu.nvidia.com'].{}"
PRODUCT = _OF.format("attributes", "productName.contains('{}')")
MEMORY = _OF.format("capacity", "memory.compareTo(quantity('{}')) >= 0")
NAMED, SMALL = (
    "its productName is L4 without a node",
    "its memory is 48 bytes without a node, not more than",
)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (PRODUCT.format("L4"), ""),
        (PRODUCT.format("L4") + " && " + MEMORY.format("48"), ""),
        (PRODUCT.format("NVIDIA"), "its productName is L4 without a node, without NVIDIA"),
        (MEMORY.format("8Gi"), "its memory is 48 bytes without a node, less than 8Gi"),
        (
            _OF.format("attributes", "driverVersion == '1'"),
            "its driverVersion is not known without a node",
        ),
        (_OF.format("attributes", "productName == 'NVIDIA L4'"), f"{NAMED}, without NVIDIA L4"),
        (_OF.format("attributes", "productName == 'L4'").replace("'", '"'), ""),
        (_OF.format("attributes", "memory == '48'"), "its memory is 48 without a node, without 48"),
        (_OF.format("capacity", "memory.compareTo(quantity('48')) > 0"), f"{SMALL} 48"),
        (_OF.format("capacity", "memory.isGreaterThan(quantity('8Gi'))"), f"{SMALL} 8Gi"),
        (_OF.format("capacity", "memory.isGreaterThan(quantity('47'))"), ""),
        ("true", ""),
        ("device.driver == 'gpu.nvidia.com' && " + PRODUCT.format("L4"), ""),
        *(
            (
                text,
                f"a rehearsal does not understand {text!r}, and takes it as not met without a node",
            )
            for text in (
                "quantity('8Gi').isLessThan(device.capacity['gpu.nvidia.com'].memory)",
                _OF.format("capacity", "memory.compareTo(quantity('8Gi')) != -1"),
                "!" + PRODUCT.format("L4"),
                PRODUCT.format("T4") + " || " + PRODUCT.format("L4"),
            )
        ),
    ],
)
def test_a_condition_holds_for_what_the_autoscaler_expects(expression: str, reason: str) -> None:
    """Not for what the driver will publish."""
    assert unmet(expression, EXPECTED) == reason


def waiting(name: str, gpus: int = 1, **fields: Any) -> Any:
    """A pod that claims GPUs, and that the scheduler has placed nowhere."""
    found = pod(name, gpus=0, **{CLAIMED: gpus}, **fields)
    found["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    ]
    return found


def claimable(**fields: Any) -> NodeGroup:
    """A group whose autoscaler expects one L4 of a node."""
    devices = {"gpu.nvidia.com": 1}
    return group(template=replace(shape(), **{"devices": devices, "expected": EXPECTED, **fields}))


def machine(name: str, gpus: int) -> Any:
    """A node that publishes as many GPUs."""
    return node(name, gpus=0, **{PUBLISHED: str(gpus)})


def test_a_node_is_missing_if_the_others_gpus_are_claimed() -> None:
    """Also if one pod of several finds room."""
    taken = pod("a", on="n1", phase="Running", gpus=0, **{CLAIMED: 1})
    nodes = [machine("n1", 1)]
    assert not lacks_node(claimable(), nodes, [taken])
    assert lacks_node(claimable(), nodes, [taken, waiting("b")])
    assert not lacks_node(claimable(), [*nodes, machine("n2", 1)], [taken, waiting("b")])
    both = [taken, waiting("b"), waiting("c")]
    assert lacks_node(claimable(), [*nodes, machine("n2", 1)], both)


def test_no_node_is_missing_while_another_starts() -> None:
    """Nor in a group whose autoscaler considers no claims; Karpenter starts the first."""
    assert not lacks_node(claimable(), [machine("n1", 0)], [waiting("b")])
    assert not lacks_node(claimable(), [], [waiting("b")])
    assert not lacks_node(group(), [machine("n1", 1)], [waiting("b", 2)])


def requesting(name: str) -> Any:
    """A pod that requests a GPU, and that the scheduler has placed nowhere."""
    found = waiting(name)
    found["spec"] = pod(name, gpus=1)["spec"]
    return found


def test_a_node_starts_for_pods_that_request_gpus_of_the_driver() -> None:
    """Also the first, if a DeviceClass maps them and the autoscaler expects devices of a node."""
    pods, nodes = [requesting("a")], [machine("n1", 1)]
    taken = pod("b", on="n1", phase="Running", gpus=1)
    for group_, own, mapped, lacks in (
        (claimable(), [], True, True),
        (claimable(), [], False, False),
        (claimable(devices={}), [], True, False),
        (claimable(), nodes, True, False),
    ):
        assert lacks_node(group_, own, pods, mapped=mapped) == lacks
    assert lacks_node(claimable(), nodes, [*pods, taken], mapped=True)
    assert not lacks_node(claimable(), nodes, [*pods, taken], mapped=False)
    assert not lacks_node(claimable(), [], [waiting("b")], mapped=True)


def template(expression: str) -> Any:
    """A template whose only request has this condition."""
    exactly = {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": expression}}],
    }
    return {"spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}}}


def test_a_first_node_that_the_autoscaler_would_not_start_is_explained() -> None:
    """By the condition that what it expects does not meet."""
    claims = [{"name": "gpus", "resourceClaimTemplateName": "t"}]
    pods = [waiting("b", resourceClaims=claims)]
    (line,) = unexpected(claimable(), pods, {"default/t": template(MEMORY.format("8Gi"))}, {}, {})
    assert line.startswith("no GPU there meets the claim of default/b: its memory is 48 bytes")
    assert not [
        *unexpected(claimable(), pods, {"default/t": template(PRODUCT.format("L4"))}, {}, {})
    ]
    both = [*pods, waiting("any")]
    assert not [
        *unexpected(claimable(), both, {"default/t": template(MEMORY.format("8Gi"))}, {}, {})
    ]
    (line,) = unexpected(group(template=replace(shape(), devices={})), pods, {}, {}, {})
    assert line == "a node there offers no devices that pods could claim"


def test_one_alternative_that_is_met_starts_a_node() -> None:
    """A request's own condition and that of its class count for each."""
    pods = [waiting("b", resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": "t"}])]
    options = [
        template(PRODUCT.format(part))["spec"]["spec"]["devices"]["requests"][0]["exactly"]
        for part in ("H100", "L4")
    ]
    several = template("true")
    several["spec"]["spec"]["devices"]["requests"] = [{"firstAvailable": options}]
    assert not [*unexpected(claimable(), pods, {"default/t": several}, {}, {})]
    mig = {"spec": {"selectors": [{"cel": {"expression": PRODUCT.format("MIG")}}]}}
    (line,) = unexpected(
        claimable(), pods, {"default/t": several}, {}, {options[0]["deviceClassName"]: mig}
    )
    assert "without H100" in line
    assert "without MIG" in line


def test_a_claim_that_pods_share_is_read_too() -> None:
    """One of their own, which no template has."""
    pods = [waiting("b", resourceClaims=[{"name": "gpus", "resourceClaimName": "c"}])]
    claims = {
        part: {"default/c": {"spec": template(PRODUCT.format(part))["spec"]["spec"]}}
        for part in ("L4", "H100")
    }
    assert not [*unexpected(claimable(), pods, {}, claims["L4"], {})]
    (line,) = unexpected(claimable(), pods, {}, claims["H100"], {})
    assert line.endswith("its productName is L4 without a node, without H100")
