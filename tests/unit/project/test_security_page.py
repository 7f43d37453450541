"""The page of security says of every item of the benchmarks who takes care of it."""

import re
from pathlib import Path

import pytest

from gpu_cluster.policy.pack import RULES

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "security.md").read_text()
ITEMS = {
    # aquasecurity/kube-bench cfg/gke-1.9.0 and cfg/eks-1.8.0, read 2026-11-21: group -> items
    "GKE": {"3.1": 4, "4.1": 10, "4.2": 1, "4.3": 2, "4.4": 2, "4.5": 1, "4.6": 4, "5.1": 4,
        "5.2": 2, "5.3": 1, "5.4": 1, "5.5": 7, "5.6": 7, "5.7": 2, "5.8": 3, "5.9": 2, "5.10": 4},
    "EKS": {"2.1": 2, "3.1": 4, "3.2": 9, "4.1": 12, "4.2": 5, "4.3": 2, "4.4": 2, "4.5": 2,
        "5.1": 4, "5.2": 1, "5.3": 1, "5.4": 5, "5.5": 1},
}  # fmt: skip


def rows() -> list[dict[str, str]]:
    """The rows of every table, by their column."""
    found: list[dict[str, str]] = []
    head: list[str] = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        elif not set(line) <= set("|-"):
            found.append(dict(zip(head, cells, strict=True)))
    return found


@pytest.mark.parametrize("benchmark", ITEMS)
def test_every_item_is_there_once(benchmark: str) -> None:
    """None is left out, and none is invented."""
    said = [item for row in rows() for item in re.findall(r"[\d.]+", row.get(benchmark, ""))]
    expected = [
        f"{group}.{number}"
        for group, count in ITEMS[benchmark].items()
        for number in range(1, count + 1)
    ]
    assert sorted(said) == sorted(expected)


def test_every_item_says_who_takes_care_of_it() -> None:
    """A rule that there is, the program, a choice, the cloud, or nobody."""
    rules = {rule.name for rule in RULES}
    for row in rows():
        who = row["who"]
        assert re.match(r"rules? `|program|choice `|cloud|not claimed", who), who
        named = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", who))
        assert named <= rules, named - rules
