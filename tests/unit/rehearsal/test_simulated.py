"""What a report says of the programs that ran in the place of the stack's."""

import pytest

from gpu_cluster.rehearsal.event_log import Event
from gpu_cluster.rehearsal.report import differences


@pytest.mark.parametrize("name", [*differences.CONTROLLERS, "auto-mode"])
def test_every_program_that_ran_has_its_version_in_the_report(name: str) -> None:
    """Auto Mode's is upstream's Karpenter, in the place of AWS's."""
    detail = {"program": name, "image": "example.com/a:1"}
    ran = Event(at=0.0, kind="cloud", subject="controllers", what="runs", detail=detail)
    ((called, version),) = differences.versions([ran]).items()
    assert called in differences.CONTROLLERS.values()
    assert version
