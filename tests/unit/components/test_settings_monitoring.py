"""What monitoring each platform can have, and what is refused, in one line."""

from typing import Any

import pytest

from gpu_cluster.components.gpu.monitoring_args import MonitoringArgs
from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings import model
from tests.program.environments import as_engine_config, values_of

KEY = "gpu-cluster:monitoring"
CHANNEL = "projects/my-project/notificationChannels/42"


def read(stack: str, monitoring: Any, **cluster: Any) -> model.Settings:
    """The stack's settings with this monitoring."""
    values = {**values_of(stack), KEY: monitoring}
    values["gpu-cluster:cluster"] = {**values["gpu-cluster:cluster"], **cluster}
    return settings.from_config(as_engine_config(values))


@pytest.mark.parametrize(
    "given", [{}, {"enabled": False}, {"enabled": False, "source": "exporter"}]
)
def test_there_is_none_unless_it_is_enabled(given: dict[str, Any]) -> None:
    """Without `enabled: true` nothing is monitored, whatever else stands there."""
    assert read("dev", given).monitoring is None


@pytest.mark.parametrize(
    ("stack", "source"), [("dev", "exporter"), ("autopilot", "managed"), ("train", "exporter")]
)
def test_the_platform_decides_where_metrics_come_from(stack: str, source: str) -> None:
    """GKE has an exporter of its own; elsewhere the stack runs one."""
    found = read(stack, {"enabled": True}).monitoring
    assert found == MonitoringArgs(enabled=True, source=source)  # type: ignore[arg-type]


def test_google_cloud_learns_source_and_channels() -> None:
    """What the dashboard and alerts of Google Cloud need is what the user said."""
    found = read("dev", {"enabled": True, "source": "exporter", "notificationChannels": [CHANNEL]})
    assert found.runs.metrics == "exporter"
    assert list(found.runs.notification_channels) == [CHANNEL]
    assert read("dev", {}).runs.metrics is None
