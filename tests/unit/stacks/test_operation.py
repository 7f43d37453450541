"""What is read from the engine's events."""

import json
from pathlib import Path

import pytest

from gpu_cluster.stacks.engine.operation import EventReader, _with_subject, reasons

URN = (
    "urn:pulumi:dev::gpu-cluster::gpu-cluster:gke:GpuNodePool$gcp:container/nodePool:NodePool::gpu"
)
POOL = "gcp:container/nodePool:NodePool gpu"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no quota", "no quota"),
        (f"1 error occurred:\n\t* creating {URN}: 1 error occurred:\n\t* no quota", "no quota"),
        ("2 errors occurred:\n\t* a\n\t* b", "2 errors occurred:\n\t* a\n\t* b"),
    ],
)
def test_an_error_is_shown_without_what_is_said_of_every_one(message: str, shown: str) -> None:
    """Bridge and engine wrap the reason of a create that failed; two reasons stay two."""
    assert _with_subject(URN, message) == f"{POOL}: {shown}"


ENDED = "an unhandled error occurred: Program exited with non-zero exit code: 1"


def test_a_program_that_refused_its_settings_has_one_reason() -> None:
    """The engine also reports that the program ended, which says something only on its own."""
    assert reasons(["name: is missing", ENDED, "name: is missing"]) == ["name: is missing"]
    assert reasons([ENDED]) == [ENDED]


@pytest.mark.parametrize("level", ["advisory", "mandatory"])
def test_of_a_policy_only_the_finding_is_shown(level: str, tmp_path: Path) -> None:
    """Its message begins with what the policy is for."""
    event = {"policyName": "a", "enforcementLevel": level, "message": "What for.\nNo ceiling.\n"}
    file = tmp_path / "events"
    file.write_text(json.dumps({"policyEvent": event}) + "\n")
    reader = EventReader("up", file, lambda *_: None)
    reader.read()
    said = {"advisory": reader.warnings, "mandatory": reader.errors}
    assert said.pop(level) == ["policy a: No ceiling."]
    assert [*said.values()] == [[]]
