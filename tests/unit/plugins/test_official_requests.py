import yaml

from gpu_cluster.rehearsal.simulators.google.api.server import Request
from tests.unit.plugins.google_failures import failed_updates, failures
from tests.unit.plugins.google_requests import writes
from tests.unit.plugins.official_plugin import FAILED_UPDATES, FAILURES, RECORDED
from tests.unit.simulators.google_stack import GoogleStack


def test_the_offline_plugin_writes_what_the_official_one_does() -> None:
    """Over a life of every resource type, both plugins send the same requests with the same bodies;
    those of the official one are recorded, with its version."""
    recorded = yaml.safe_load(RECORDED.read_text(encoding="utf-8"))
    assert recorded["plugin"].startswith("9.")
    requests: list[Request] = []
    stack = GoogleStack(seen=requests.append)
    assert writes(stack, requests) == recorded["writes"]
    assert stack.cloud.list_resources() == []


def test_the_offline_plugin_makes_of_half_a_create_what_the_official_one_does() -> None:
    """The engine keeps what the cloud kept; the next update sends nothing and finds nothing wrong;
    a delete takes it away."""
    recorded = yaml.safe_load(FAILURES.read_text(encoding="utf-8"))
    assert recorded["plugin"].startswith("9.")
    requests: list[Request] = []
    stack = GoogleStack(seen=requests.append)
    assert failures(stack, requests) == recorded["failures"]


def test_the_offline_plugin_makes_of_a_failed_update_what_the_official_one_does() -> None:
    """The engine keeps the state that the provider left, which is the old one, the planned one or a
    part of both; what a next update finds and sends follows from that."""
    recorded = yaml.safe_load(FAILED_UPDATES.read_text(encoding="utf-8"))
    assert recorded["plugin"].startswith("9.")
    requests: list[Request] = []
    stack = GoogleStack(seen=requests.append)
    assert failed_updates(stack, requests) == recorded["failed updates"]
