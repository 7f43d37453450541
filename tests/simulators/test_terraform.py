"""The simulated account serves programs of others: the requests of Terraform's modules for EKS."""

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jmespath  # type: ignore[import-untyped]
import pytest
import yaml
from botocore.exceptions import ClientError

from gpu_cluster.rehearsal.simulators.aws import node_groups
from tests.simulators.aws_account import Account

Step = Mapping[str, Any]
PROGRAM: Mapping[str, list[Step]] = yaml.safe_load(
    Path(__file__).with_name("terraform_eks.yaml").read_text(encoding="utf-8")
)
WAIT_SECONDS = 20


@pytest.fixture
def simulated() -> Iterator[Account]:
    """An account as `gpu-cluster simulate aws` has it."""
    account = Account(rehearsed=False)
    yield account
    account.cloud.close()


def filled(value: Any, kept: Mapping[str, str]) -> Any:
    """The value with every `{name}` in it."""
    if isinstance(value, dict):
        return {key: filled(inner, kept) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, kept) for inner in value]
    return value.format(**kept) if isinstance(value, str) else value


def sent(account: Account, step: Step, kept: dict[str, str]) -> None:
    """Sends the request of a step, and checks its answer."""
    service, _, method = step["call"].partition(".")
    call, params = getattr(getattr(account, service), method), filled(step.get("with", {}), kept)
    if "fails" in step:
        with pytest.raises(ClientError, match=step["fails"]):
            call(**params)
        return
    due = time.monotonic() + WAIT_SECONDS
    while True:
        answer = call(**params)
        expected = filled({**step.get("expect", {}), **step.get("until", {})}, kept)
        found = {path: jmespath.search(path, answer) for path in expected}
        if found == expected or "until" not in step or time.monotonic() > due:
            break
        time.sleep(0.2)
    assert found == expected, (step["call"], answer)
    kept |= {name: jmespath.search(path, answer) for name, path in step.get("keep", {}).items()}


def test_the_requests_of_terraforms_modules_are_answered(simulated: Account) -> None:
    """The cluster gets its node group with rules between its groups, whose nodes join once there is
    a NAT gateway; what was changed is read back; and everything is deleted in an order that AWS
    accepts."""
    kept: dict[str, str] = {}
    for step in (step for steps in PROGRAM.values() for step in steps):
        sent(simulated, step, kept)
    listed = simulated.cloud.list_resources()
    assert [line for line in listed if line.startswith(("EKS", "NAT", "launch"))] == []


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        ("in", "no rule of sg-.*, sg-.* lets port 443 in from sg-.* or 10.0.1.0/24"),
        ("out", "no rule of sg-.* lets port 443 out to sg-.* or sg-.* or 10.0.1.0/24"),
        ("route", "has no route to the internet"),
    ],
)
def test_nodes_without_a_way_to_the_endpoint_do_not_join(
    simulated: Account, without: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They try for a while; then the node group has failed, and says why."""
    *steps, last = PROGRAM["create"]
    kept: dict[str, str] = {}
    for step in steps:
        if step.get("part") != without:
            sent(simulated, step, kept)
    monkeypatch.setattr(node_groups, "JOIN_SECONDS", 0)
    sent(simulated, last | {"until": {"nodegroup.status": "CREATE_FAILED"}}, kept)
    row = simulated.described("train")
    assert row["scalingConfig"]["desiredSize"] == 1
    assert re.search(reason, row["health"]["issues"][0]["message"])
