"""The pack over the real program: no false alarm on the committed environments."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.cli import ceiling
from gpu_cluster.policy import settings
from gpu_cluster.policy.pack import POLICIES
from gpu_cluster.policy.reading import Resource
from gpu_cluster.stacks.cost.stack_cost import bill_at
from gpu_cluster.stacks.definition.settings import config_of as config_of_stack
from gpu_cluster.stacks.engine.urn import Urn, of_reference
from tests.components.recording import Recording, Registration, record
from tests.policy.cases import findings
from tests.program.environments import (
    ANSWERS,
    ROOT,
    STACKS,
    as_engine_config,
    config_of,
    run_program,
    values_of,
    with_changes,
)

EXPECTED = {
    ("onprem", "gpu-all"): [
        "pod gpu-all sets DP_DISABLE_HEALTHCHECKS and has no GPU in its limits: it sees every "
        "GPU of its node, including those of other pods; give it limits, or accept that they "
        "share GPUs"
    ]
}
"""(stack, policy) -> what it says of a committed environment, by intent."""


def resources_of(stack: str, recording: Recording) -> list[Resource]:
    """What the program registered, as the engine shows it to policies."""
    return [
        Resource(
            type=one.type,
            name=one.name,
            props=dict(one.inputs),
            urn=_urn(stack, one.type, one.name),
            protect=one.protect,
            ignore_changes=one.ignore_changes,
            provider=Urn.parse(of_reference(one.provider)[0]).name if one.provider else None,
            uses={"autoscalingGroupName": [_renamed(stack, urn) for urn in one.depends_on]},
        )
        for one in _distinct(stack, recording)
    ]


def _distinct(stack: str, recording: Recording) -> list[Registration]:
    """Without components of the same type and name under other parents: they have no rule."""
    return list({_urn(stack, one.type, one.name): one for one in recording.resources}.values())


def _urn(stack: str, type_token: str, name: str) -> str:
    return str(Urn(stack=stack, project="gpu-cluster", type=type_token, name=name))


def _renamed(stack: str, urn: str) -> str:
    of = Urn.parse(urn)
    return _urn(stack, of.type, of.name)


@pytest.fixture(scope="module", params=STACKS)
def environment(request: pytest.FixtureRequest) -> tuple[str, list[Resource]]:
    """A stack, and its resources in an update."""
    stack = str(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(ROOT / "tests" / "program" / "kubeconfig.yaml"))
        update = record(run_program, config=config_of(stack), outputs=ANSWERS)
    return stack, resources_of(stack, update)


@pytest.mark.parametrize("policy", [policy.name for policy in POLICIES])
def test_committed_environments_keep_every_rule(
    environment: tuple[str, list[Resource]], policy: str
) -> None:
    """No rule complains of what ships, but where the scenario means to show the warning."""
    stack, resources = environment
    assert findings(policy, resources) == EXPECTED.get((stack, policy), [])


@pytest.mark.parametrize("file", ["fallback/Pulumi.fallback-autopilot.yaml",
                                  "queued/Pulumi.queued.yaml"])  # fmt: skip
def test_examples_keep_every_rule(file: str) -> None:
    """They are accepted, and no policy complains of what they declare."""
    document = yaml.safe_load((ROOT / "examples" / file).read_text())
    config = as_engine_config(document["config"])
    resources = resources_of("dev", record(run_program, config=config, outputs=ANSWERS))
    assert {policy.name: findings(policy.name, resources) for policy in POLICIES} == {
        policy.name: [] for policy in POLICIES
    }


@pytest.mark.parametrize("scaler", ["karpenter", "auto-mode", "compute-classes"])
def test_pools_of_a_scaler_keep_every_rule_and_are_counted(
    scaler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No node pool of a cloud has their nodes; the ceiling counts them as `cost` does."""
    if scaler == "compute-classes":
        document = yaml.safe_load((ROOT / "examples/fallback/Pulumi.fallback.yaml").read_text())
        values = document["config"]
    else:
        change: list[list[Any]] = [
            ["gpu-cluster:cluster", "autoscaler", "absent"],
            ["gpu-cluster:cluster", "scaler", scaler],
        ]
        if scaler == "karpenter":
            # The group of system nodes declares more nodes than anything starts there.
            change.append(["gpu-cluster:cluster", "systemPool", {"minNodes": 1, "maxNodes": 1}])
        values = with_changes(values_of("train"), change)
    config = as_engine_config(values)
    resources = resources_of("dev", record(run_program, config=config, outputs=ANSWERS))
    assert {policy.name: findings(policy.name, resources) for policy in POLICIES} == {
        policy.name: [] for policy in POLICIES
    }
    given = {"monthly-ceiling": {"stacks": {"dev": 1}}}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(given))
    monkeypatch.setenv(settings.ELSEWHERE, str(file))
    (said,) = findings("monthly-ceiling", resources, settings=given)
    line = ceiling.line("dev", bill_at("dev", values))
    assert line == f"policy monthly-ceiling: {said.rpartition(' (prices of')[0]}"


@pytest.mark.parametrize(
    ("stack", "pool"),
    [
        ("dev", {"devicePlugin": "dra"}),
        ("train", {"instanceTypes": ["g5.8xlarge"], "zones": ["us-east-1a"], "efa": True}),
    ],
)
def test_a_pool_with_drivers_of_its_own_keeps_every_rule(stack: str, pool: dict[str, Any]) -> None:
    """Their exemptions cover what GKE's directory of NVIDIA's driver needs, and AWS's plugin."""
    change = [["gpu-cluster:gpuPools", "train-gpu", key, value] for key, value in pool.items()]
    config = as_engine_config(with_changes(values_of(stack), change))
    resources = resources_of("dev", record(run_program, config=config, outputs=ANSWERS))
    assert {policy.name: findings(policy.name, resources) for policy in POLICIES} == {
        policy.name: [] for policy in POLICIES
    }


@pytest.mark.parametrize(
    ("machine", "direct"), [("a3-megagpu-8g", "tcpxo"), ("a3-highgpu-8g", "tcpx")]
)
def test_a_job_with_a_daemon_needs_the_documented_exemptions_and_no_others(
    machine: str, direct: str
) -> None:
    """For the capability and the directories of the daemon; the stack's own pods have theirs."""
    pool = {"machineType": machine, "zones": ["us-central1-a"], "maxNodes": 2}
    job = {"pool": "fast", "nodes": 2, "image": "i:1", "command": ["a"], "namespace": "training"}
    values = values_of("train-gke") | {
        "gpu-cluster:gpuPools": {"fast": {**pool, "gpuDirect": direct}},
        "gpu-cluster:workloads": {},
        "gpu-cluster:namespaces": {"training": {"podSecurity": "privileged"}},
        "gpu-cluster:batch": {"jobSet": True},
        "gpu-cluster:trainingJobs": {"ddp": job},
    }
    values["gpu-cluster:cluster"] |= {"gpuNetworksCidr": "192.168.0.0/16"}
    config = as_engine_config(values)
    resources = resources_of("dev", record(run_program, config=config, outputs=ANSWERS))
    page = (ROOT / "docs/how-to/train-on-several-nodes-gke.md").read_text()
    exempt = json.loads(page.partition("```json")[2].partition("```")[0])
    needed = {"host-paths": 2, "pod-security-baseline": 1, "namespace-enforces": 1}
    assert exempt.keys() == needed.keys()
    for policy, controls in needed.items():
        assert len(findings(policy, resources, settings={})) == controls
        assert findings(policy, resources, settings=exempt) == []


def test_cost_and_validate_say_what_the_ceiling_says(
    environment: tuple[str, list[Resource]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The policy counts the declared pools, `cost` those of the settings: they agree to the word,
    and a stack without pools of a known size has no such line."""
    stack, resources = environment
    given = {"monthly-ceiling": {"stacks": {stack: 1}}}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(given))
    monkeypatch.setenv(settings.ELSEWHERE, str(file))
    said = findings("monthly-ceiling", resources, settings=given)
    line = ceiling.line(stack, bill_at(stack, config_of_stack(stack)))
    assert [one.rpartition(" (prices of")[0] for one in said] == (
        [line.removeprefix("policy monthly-ceiling: ")] if line else []
    )
    assert bool(line) is (stack not in ("autopilot", "onprem"))


def test_an_unconfirmed_ceiling_has_the_name_of_its_own_rule(
    environment: tuple[str, list[Resource]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`cost` and `validate` name the rule that a preview names."""
    stack, resources = environment
    file = tmp_path / "config.json"
    file.write_text("{}")
    monkeypatch.setenv(settings.ELSEWHERE, str(file))
    monkeypatch.setattr("gpu_cluster.policy.ceiling.UNCONFIRMED_DOLLARS", 1)
    said = findings("ceiling-confirmed", resources, settings={})
    line = ceiling.line(stack, bill_at(stack, config_of_stack(stack)))
    assert [one.rpartition(" (prices of")[0] for one in said] == (
        [line.removeprefix("policy ceiling-confirmed: ")] if line else []
    )
