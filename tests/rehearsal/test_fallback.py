"""An order of fallback: the next choice is taken, and on GKE pods move back."""

import re
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.sandbox import ROOT, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.verify.fallbacks import seen
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import changed, nothing_stays, rehearsed
from tests.rehearsal.own_stacks import folder_of

EXAMPLES = ROOT / "examples" / "fallback"
EXAMPLE, EKS, AUTOPILOT = (
    EXAMPLES / f"Pulumi.fallback{end}.yaml" for end in ("", "-eks", "-autopilot")
)


def run_out(
    tmp_path: Path, text: str, inventory: str = "inventory.yaml", *mistakes: Mutation
) -> Rehearsal:
    """The example, with machines that run out."""
    (tmp_path / "dev.yaml").write_text((EXAMPLES / inventory).read_text())
    return rehearsed(
        "dev", tmp_path / "sandbox", *mistakes, deadline=180,
        source=folder_of("dev", tmp_path, text),
        options=SandboxOptions(inventories=tmp_path, job_seconds=2),
    )  # fmt: skip


def without_failures(tmp_path: Path, text: str, inventory: str = "inventory.yaml") -> Rehearsal:
    """The same, in which nothing fails and of which nothing stays."""
    rehearsal = run_out(tmp_path, text, inventory)
    assert rehearsal.failures == []
    nothing_stays(rehearsal)
    return rehearsal


@pytest.mark.prove(reason="the simulators' tests have each choice; this is a whole rehearsal")
def test_the_next_choice_runs_the_pods_and_they_come_back(tmp_path: Path) -> None:
    """Spot and flex-start are refused, on demand runs; Spot returns, and nothing stays."""
    rehearsal = without_failures(tmp_path, EXAMPLE.read_text())
    refused, back = seen(rehearsal.sandbox.event_log.events)
    spot, flex, on_demand = re.findall(r"nap-[-a-z0-9]+", refused)
    assert "-spot-" in spot
    assert len({spot, flex, on_demand}) == 3
    assert back.startswith(f"pods moved from {on_demand} back to {spot}")


@pytest.mark.prove(reason="the simulators' tests have each choice; this is a whole rehearsal")
def test_the_next_choice_runs_the_pods_on_autopilot_and_they_come_back(tmp_path: Path) -> None:
    """GKE creates the nodes of the class, and nothing stays."""
    rehearsal = without_failures(tmp_path, AUTOPILOT.read_text(), "inventory-autopilot.yaml")
    refused, back = seen(rehearsal.sandbox.event_log.events)
    *spot, on_demand = re.findall(r"nap-[-a-z0-9]+", refused)
    assert all("-spot-" in one for one in spot)
    assert "-spot-" not in on_demand
    assert back.startswith(f"pods moved from {on_demand} back to nap-g2-standard-32-spot-gpu1-")


@pytest.mark.prove(reason="the expander's and the simulator's tests have each step")
@pytest.mark.parametrize(
    ("scaler", "spot", "on_demand"),
    [
        ("cluster-autoscaler", r"l4_spot-\w+", r"l4_on-demand-\w+"),
        ("karpenter", "l4 as spot", "l4 as on-demand"),
        ("auto-mode", "l4 as spot", "l4 as on-demand"),
    ],
)
def test_the_next_choice_runs_the_pods_on_eks(
    tmp_path: Path, scaler: str, spot: str, on_demand: str
) -> None:
    """Spot is refused, and on demand runs: another node group, or the same NodePool."""
    text = EKS.read_text().replace("scaler: cluster-autoscaler", f"scaler: {scaler}")
    rehearsal = without_failures(tmp_path, text, "inventory-eks.yaml")
    (line,) = seen(rehearsal.sandbox.event_log.events)
    number = r"( \(choice \d\))?"
    told = rf"{spot}{number} unavailable from \S+ s on; {on_demand}{number} had GPUs \S+ s later"
    assert re.fullmatch(told, line)
    (step,) = [step for step in rehearsal.steps if step.name == "workloads run"]
    assert step.detail.endswith(line)


_L4, _LARGER = "g2-standard-4", "g2-standard-8"
_ZONES = """stock:
  - {{ {key}: {kind}, zone: {region}a, nodes: 0{returns} }}
  - {{ {key}: {kind}, zone: {region}b, nodes: 0 }}
"""


def with_zones(text: str, entries: str, **cluster: str) -> str:
    """The example with these entries of fallback."""
    for key, value in cluster.items():
        text = re.sub(rf"{key}: .*", f"{key}: {value}", text)
    return re.sub(r"fallback: .*", f"fallback: [{entries}]", text)


def stocked(tmp_path: Path, rows: str) -> str:
    """An inventory with these rows, as a path from the examples' folder."""
    file = tmp_path / "stock.yaml"
    file.write_text(rows)
    return str(file)


@pytest.mark.prove(reason="the components' tests have the class; this is a whole rehearsal")
def test_the_next_zone_and_machine_type_run_the_pods_on_gke(tmp_path: Path) -> None:
    """Zone a, then b, then a larger machine; once zone a has machines, the pods move there."""
    text = with_zones(
        EXAMPLE.read_text(),
        "{zones: [us-central1-a]}, {zones: [us-central1-b]}, "
        f"{{zones: [us-central1-b], machineType: {_LARGER}}}",
    )
    rows = _ZONES.format(
        key="machineType", kind=_L4, region="us-central1-", returns=", returns: 20"
    )
    rehearsal = without_failures(tmp_path, text, stocked(tmp_path, rows))
    refused, back = seen(rehearsal.sandbox.event_log.events)
    first, second, third = re.findall(r"nap-([-a-z0-9]+)-gpu1-\w+ \(choice \d\)", refused)
    assert (first, second, third) == (_L4, _L4, _LARGER)
    assert re.match(rf"pods moved from nap-{_LARGER}-gpu1-\w+ back to nap-{_L4}-gpu1-", back)


@pytest.mark.prove(reason="the components' tests have the class; this is a whole rehearsal")
def test_the_next_zone_runs_the_pods_on_autopilot(tmp_path: Path) -> None:
    """GKE creates the nodes of the class in the zones that its entries name."""
    text = with_zones(AUTOPILOT.read_text(), "{zones: [us-central1-a]}, {zones: [us-central1-b]}")
    rows = "stock: [{ machineType: g2-standard-32, zone: us-central1-a, nodes: 0 }]"
    rehearsal = without_failures(tmp_path, text, stocked(tmp_path, rows))
    (line,) = seen(rehearsal.sandbox.event_log.events)
    assert re.match(r"nap-\S+ \(choice 1\) unavailable from \S+ s on; nap-\S+ \(choice 2\)", line)


@pytest.mark.prove(reason="the components' tests have the groups; these are whole rehearsals")
@pytest.mark.parametrize(
    ("scaler", "names"),
    [
        ("cluster-autoscaler",
         [r"l4_on-demand_a-\S+ \S+ \d\)", r"l4_on-demand_b-\S+ \S+ \d\)",
          r"l4_on-demand_b_g6-2xlarge-\S+ \S+ \d\)"]),
        ("karpenter",
         [f"l4.on-demand.{part} as on-demand" for part in ("a", "b", "b.g6-2xlarge")]),
        ("auto-mode",
         [f"l4.on-demand.{part} as on-demand" for part in ("a", "b", "b.g6-2xlarge")]),
    ],
)  # fmt: skip
def test_the_next_zone_and_instance_type_run_the_pods_on_eks(
    tmp_path: Path, scaler: str, names: list[str]
) -> None:
    """Each entry is a node group or a NodePool; the one with machines runs the pods."""
    text = with_zones(
        EKS.read_text(),
        "{zones: [us-east-1a]}, {zones: [us-east-1b]}, "
        "{zones: [us-east-1b], instanceTypes: [g6.2xlarge]}",
        scaler=scaler,
    )
    rows = _ZONES.format(key="instanceType", kind="g6.xlarge", region="us-east-1", returns="")
    rehearsal = without_failures(tmp_path, text, stocked(tmp_path, rows))
    (line,) = seen(rehearsal.sandbox.event_log.events)
    first, second, third = names
    assert re.fullmatch(
        rf"{first}, then {second} unavailable from \S+ s on; {third} had GPUs \S+ s later", line
    )


@pytest.mark.prove(reason="the expander's tests have the rule; this is a whole rehearsal")
def test_an_autoscaler_without_its_order_is_named(tmp_path: Path) -> None:
    """It takes any of the choices, and says so only in its log."""
    config_map = changed(
        "kubernetes:core/v1:ConfigMap",
        'if props["metadata"]["name"].endswith("priority-expander"): props["data"] = {}',
    )
    rehearsal = run_out(tmp_path, EKS.read_text(), "inventory-eks.yaml", config_map)
    assert any("has no valid priorities" in line for line in rehearsal.failures), rehearsal.failures


@pytest.mark.prove(reason="the simulator's tests have GKE's words; each is a rehearsal")
@pytest.mark.parametrize(
    ("example", "inventory"),
    [(EXAMPLE, "inventory.yaml"), (AUTOPILOT, "inventory-autopilot.yaml")],
    ids=["standard", "autopilot"],
)
@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (
            'for rule in props["spec"]["priorities"]: rule["gpu"]["count"] = 3',
            "compute class l4: priority 1: GPU type nvidia-l4 with count 3 is not supported",
        ),
        (
            'ssds = {"machineType": "g2-standard-4", "storage": {"localSSDCount": 2}}\n'
            'for rule in props["spec"]["priorities"]: rule.update(ssds)',
            "compute class l4: priority 1: Local SSD count 2 is not supported with machine type g2",
        ),
        (
            'props["spec"]["nodePoolAutoCreation"] = {"enabled": False}',
            "compute class l4: Crd with NAP disabled should have at least one matching nodepool",
        ),
        (
            'props["metadata"] = {"name": "l5"}',
            "it selects label cloud.google.com/compute-class=l4, a node there has cloud.goo",
        ),
    ],
    ids=["no such node", "local SSDs", "no node pools", "another name"],
)
def test_what_is_wrong_with_a_class_is_named(
    tmp_path: Path, example: Path, inventory: str, mistake: str, says: str
) -> None:
    """In GKE's words, and as the pods see it."""
    mutation = changed("kubernetes:cloud.google.com/v1:ComputeClass", mistake)
    rehearsal = run_out(tmp_path, example.read_text(), inventory, mutation)
    assert any(says in line for line in rehearsal.failures), rehearsal.failures


@pytest.mark.prove(reason="the components' tests refuse most mistakes before")
def test_a_class_without_the_account_of_its_nodes_is_named(tmp_path: Path) -> None:
    """No node starts as an account that does not exist."""
    account = "gone@my-project.iam.gserviceaccount.com"
    mutation = changed("kubernetes:cloud.google.com/v1:ComputeClass",
        f'props["spec"]["nodePoolConfig"]["serviceAccount"] = "{account}"')  # fmt: skip
    rehearsal = run_out(tmp_path, EXAMPLE.read_text(), "inventory.yaml", mutation)
    assert any(
        line.startswith("compute class l4: priority 0: ") and "gone@my-project" in line
        for line in rehearsal.failures
    ), rehearsal.failures
