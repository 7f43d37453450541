"""What monitoring each platform can have, and what is refused, in one line."""

from typing import Any

import pytest

from components.gke.gpu_monitoring_args import monitoring_of
from components.gpu.monitoring_args import MonitoringArgs
from components.settings import load as settings
from components.settings import model
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
    google = monitoring_of(found.runs)
    assert google is not None
    assert (google.source, google.dcgm) == ("exporter", False)
    assert list(google.notification_channels) == [CHANNEL]
    off = read("dev", {})
    assert monitoring_of(off.runs) is None


@pytest.mark.parametrize(
    ("stack", "given", "says"),
    [
        ("dev", {"source": "managed"}, "enabled: is missing; set it"),
        (
            "dev",
            {"enabled": "yes"},
            "enabled: 'yes' is not a boolean (true or false); write true",
        ),
        (
            "dev",
            {"enabled": True, "source": "exporters"},
            "source: 'exporters' is not known; did you mean 'exporter'? allowed: exporter, managed",
        ),
        (
            "autopilot",
            {"enabled": True, "source": "exporter"},
            "source: exporter runs privileged on the nodes, which gke-autopilot does not allow; "
            "allowed there: managed",
        ),
        (
            "train",
            {"enabled": True, "source": "managed"},
            "source: managed exists only on GKE, and the platform is eks; allowed there: exporter",
        ),
        (
            "dev",
            {"enabled": True, "prometheusOperator": True},
            "prometheusOperator: on Google Cloud the managed Prometheus collects; drop the key",
        ),
        (
            "train",
            {"enabled": True, "notificationChannels": [CHANNEL]},
            "notificationChannels: exist only in Google Cloud; drop the key, and configure "
            "receivers in Alertmanager",
        ),
        (
            "dev",
            {"enabled": True, "notificationChannels": [CHANNEL, "me@example.com"]},
            "notificationChannels[1]: 'me@example.com' is not a channel; give it as "
            "projects/PROJECT/notificationChannels/NUMBER",
        ),
        (
            "train",
            {"enabled": True, "intervalSeconds": 5},
            "intervalSeconds: 5 is out of range; allowed: 10 to 300",
        ),
        (
            "train",
            {"enabled": True, "prometheusLabels": {"release": "prometheus"}},
            "prometheusLabels: needs prometheusOperator: true; set it, or drop both",
        ),
        (
            "train",
            {"enabled": True, "prometheusOperator": True, "prometheusLabels": {"a b": "c"}},
            "prometheusLabels.a b: must be letters, digits, '-', '_' and '.', with a letter or "
            "digit at each end",
        ),
    ],
)
def test_refuses_what_the_platform_does_not_have(
    stack: str, given: dict[str, Any], says: str
) -> None:
    """Each refusal names the key, what was given and what to do, in one line."""
    with pytest.raises(ValueError, match=r"^gpu-cluster:monitoring\.") as refused:
        read(stack, given)
    assert str(refused.value) == f"{KEY}.{says}"


def test_monitoring_on_gke_needs_its_prometheus() -> None:
    """With managed Prometheus off nobody would collect what either exporter shows."""
    with pytest.raises(
        ValueError, match=r"^gpu-cluster:monitoring\.enabled: needs cluster\."
    ) as no:
        read("dev", {"enabled": True}, managedPrometheus=False)
    assert str(no.value).endswith("set that to true")
    assert read("dev", {}, managedPrometheus=False).monitoring is None
