"""Several mistakes in one stack file: each is shown, unless another one leaves it without meaning.

The single mistakes are those of the tables of refusals, `tests/unit/components/refused_*.yaml`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from random import Random
from typing import Any

import pytest

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.schema.decode import camel
from gpu_cluster.stacks.definition.validation import refusals
from tests.program.environments import values_of, with_changes, without_keys
from tests.unit.components import test_settings, test_settings_batch, test_settings_services
from tests.unit.components.test_settings_pods import REFUSED as OF_PODS

Values = dict[str, Any]
Mistake = tuple[Sequence[list[Any]], str]
"""Changes of a stack's config, and the line that refuses it."""

PODS = "workloads|trainingJobs|services|gpuTest"
DEPENDENT: Mapping[str, tuple[str, str]] = {
    "what the keys of another platform are": (".*", r"cluster\.platform"),
    "what nodes a refused pool has": (f"{PODS}|batch|teams|cluster.cpuPools", "gpuPools"),
    "what else a setting of the same pool goes with": ("gpuPools", "gpuPools"),
    "where a refused cluster is, who uses it, and what starts its nodes": (
        f"{PODS}|gpuPools|volumeClaims|serviceAccounts|cluster|teams",
        r"cluster\.(network|scaler|location|version|existing|ssm|gpu|users)|aws:region",
    ),
    "which jobs a refused queue or team takes": (f"{PODS}|batch|teams", "batch|teams"),
    "on which nodes, how many and of which kind refused pods are": (f"{PODS}", f"{PODS}"),
    "what a refused account, claim or namespace is": (
        f"{PODS}|batch|teams|volumeClaims|serviceAccounts",
        "namespaces|serviceAccounts|volumeClaims",
    ),
}
"""What is not known -> the beginnings of a sentence that depends on it, and of another mistake."""


def tables() -> Iterator[tuple[str, Values, list[Mistake]]]:
    """A name, a config, and the single mistakes in it that the tables have."""
    for stack in dict.fromkeys(stack for stack, *_ in test_settings.REFUSED):
        rows: list[Mistake]
        rows = [(changes, says) for name, changes, says in test_settings.REFUSED if name == stack]
        yield stack, values_of(stack), rows
    batch, services = test_settings_batch, test_settings_services
    for name, values, table in (
        ("batch", batch.dev(), batch.REFUSED),
        ("pods", batch.dev(), OF_PODS),
        ("services", services.dev(), services.REFUSED),
    ):
        yield name, values, [(entry["change"], entry["says"]) for entry in table]


def apart(one: Mistake, other: Mistake) -> bool:
    """Whether no key of the one is in the other, or holds it."""
    paths, others = (
        [[str(key) for key in path] for *path, _ in mistake[0]] for mistake in (one, other)
    )
    pairs = [(a, b) for a in paths for b in others]
    return not any(a[: len(b)] == b or b[: len(a)] == a for a, b in pairs)


def drawn(rows: Sequence[Mistake], number: int, random: Random) -> list[Mistake]:
    """So many mistakes in different keys, or fewer if there are no more."""
    chosen: list[Mistake] = []
    for row in random.sample(rows, len(rows)):
        free = row[1] != "accepted" and all(apart(row, other) for other in chosen)
        if free and len(chosen) < number:
            chosen.append(row)
    return chosen


def key(says: str) -> str:
    """The key of a sentence."""
    return says.partition(": ")[0].removeprefix("gpu-cluster:")


def reason(says: str, others: Sequence[str]) -> str | None:
    """Why another one of the mistakes may hide a sentence."""
    for what, (dependent, on) in DEPENDENT.items():
        if re.match(dependent, key(says)) and any(re.match(on, key(other)) for other in others):
            return what
    return None


def test_mistakes_in_one_stack_file_are_shown_together() -> None:
    """Two, five and ten of the tables' in different keys: four of five at least; and what is not
    shown depends on another mistake."""
    count, hidden = Counter[str](), list[tuple[str, list[str]]]()
    for name, values, rows in tables():
        for number in (2, 5, 10):
            for seed in range(4):
                mistakes = drawn(rows, number, Random(f"{name} {number} {seed}"))
                changes = [change for own, _ in mistakes for change in own]
                shown = {
                    without_keys(str(line)) for line in refusals(with_changes(values, changes))
                }
                count["files"] += 1
                for _, says in mistakes:
                    others = [other for _, other in mistakes if other != says]
                    why = "shown" if says in shown else reason(says, others)
                    count[why or "hidden"] += 1
                    hidden += [] if why else [(says, others)]
    print(count)
    assert hidden == []
    assert count["files"] >= 60
    known = sum(count.values()) - count["files"] - count["what the keys of another platform are"]
    assert count["shown"] / known > 0.8


@pytest.mark.parametrize("stack", ["dev", "train", "on-gke", "on-eks", "autopilot", "onprem"])
def test_a_key_of_the_wrong_type_hides_no_unknown_pool(stack: str) -> None:
    """What explains a refusal reads other keys as they are written."""
    values = values_of(stack)
    of = "eks-existing" if stack == "on-eks" else "gke-existing" if stack == "on-gke" else None
    row = PLATFORMS[of or values["gpu-cluster:cluster"].get("platform", "existing")]
    pods = {"desk": {"kind": "pod", "pool": "b", "image": "docker.io/a/b:1"}}
    for name, value in product([camel(f.name) for f in fields(row.settings.CLUSTER)], [5, [5]]):
        changes = [["gpu-cluster:workloads", pods], ["gpu-cluster:cluster", name, value]]
        shown = [key(str(line)) for line in refusals(with_changes(values, changes))]
        assert name == "platform" or "workloads.desk.pool" in shown, (name, value)


ROLE = "arn:aws:iam::123456789012:role"


def test_a_refused_option_of_the_autoscaler_hides_no_other_rule_of_the_cluster() -> None:
    """Whether the block is given is known without it."""
    changes = [
        ["gpu-cluster:cluster", "autoscaler", {"extraFlags": {"cloud-provider": "gce"}}],
        ["gpu-cluster:cluster", "admins", [f"{ROLE}/deployer", f"{ROLE}/Deployer"]],
    ]
    shown = [key(str(line)) for line in refusals(with_changes(values_of("train"), changes))]
    assert {re.sub(r"\[.*", "", path) for path in shown} == {
        "cluster.autoscaler.extraFlags.cloud-provider", "cluster.admins",
    }  # fmt: skip


@pytest.mark.parametrize("namespaces", [5, True, "x", {"a": 1}, [5]])
def test_a_team_whose_namespaces_are_no_list_of_names_is_refused_beside_its_pool(
    namespaces: object,
) -> None:
    """What a refused team would have made is not asked of it."""
    team = {"members": ["a@example.com"], "gpus": {"train-gpu": 1}, "namespaces": namespaces}
    changes = [
        ["gpu-cluster:gpuPools", "train-gpu", "maxNodes", -1],
        ["gpu-cluster:teams", {"research": team}],
    ]
    shown = [key(str(line)) for line in refusals(with_changes(values_of("dev"), changes))]
    assert "gpuPools.train-gpu.maxNodes" in shown
    assert any(path.startswith("teams.research.namespaces") for path in shown)
