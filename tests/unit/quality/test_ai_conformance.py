"""The page of CNCF's AI conformance names tests that exist, and says what is missing elsewhere."""

import ast
from pathlib import Path

import pytest

from gpu_cluster.components.platforms import PLATFORMS
from quality.docs.ai_conformance import REQUIREMENTS, shown

TESTS = Path(__file__).parents[2]
CELL = {"tests", "missing"}
CHECKLIST = {
    # docs/AIConformance-1.36.yaml
    "driver_runtime_management": "SHOULD", "gpu_sharing": "SHOULD",
    "virtualized_accelerator": "SHOULD", "ai_inference": "MUST",
    "advanced_inference_ingress": "SHOULD", "high_performance_networking": "SHOULD",
    "disaggregated_inference": "SHOULD", "gang_scheduling": "MUST", "cluster_autoscaling": "MUST",
    "pod_autoscaling": "MUST", "accelerator_metrics": "MUST", "ai_service_metrics": "MUST",
    "secure_accelerator_access": "MUST", "robust_controller": "MUST",
    # docs/AIConformance-1.35.yaml
    "dra_support": "MUST",
}  # fmt: skip
"""CNCF's requirements and their levels."""


def test_every_requirement_of_the_checklist_is_there_at_its_level() -> None:
    assert {name: row["level"] for name, row in REQUIREMENTS.items()} == CHECKLIST


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_each_platform_has_tests_or_a_reason(requirement: str) -> None:
    row = {key: cell for key, cell in REQUIREMENTS[requirement].items()
           if key not in ("level", "means")}  # fmt: skip
    own = {name for name in PLATFORMS if not name.endswith("-existing")}
    assert own <= row.keys() or "elsewhere" in row
    assert row.keys() <= {*PLATFORMS, "elsewhere"}
    assert all(len(cell) == 1 and cell.keys() <= CELL and all(cell.values())
               for cell in row.values())  # fmt: skip


@pytest.mark.parametrize("name", sorted(
    {name for row in REQUIREMENTS for platform in PLATFORMS for name in shown(row, platform)}
))  # fmt: skip
def test_a_named_test_exists(name: str) -> None:
    file, _, function = name.partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert function in functions or (not function and functions)
