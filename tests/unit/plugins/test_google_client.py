import pytest

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError
from gpu_cluster.rehearsal.plugins.gcp.client import Client
from gpu_cluster.rehearsal.simulators.google.api.server import Request
from tests.unit.plugins.offline_engine import Refused
from tests.unit.simulators.google_stack import NETWORK, GoogleStack


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_what_may_pass_is_asked_again(status: int) -> None:
    """As the official provider does: the user never hears of it."""
    requests: list[Request] = []
    errors = {NETWORK: [f"googleapi: Error {status}: try again"]}
    stack = GoogleStack(seen=requests.append, **errors)
    stack.up(NETWORK, "net", {"autoCreateSubnetworks": False})
    assert [verb for verb, _, _ in requests].count("POST") == 2


def test_what_does_not_pass_is_said_in_the_end() -> None:
    """In the cloud's words, and not for ever."""
    stack = GoogleStack(**{NETWORK: ["googleapi: Error 503: try again"] * 100})
    with pytest.raises(Refused, match="googleapi: Error 503: try again, backendError"):
        stack.up(NETWORK, "net", {})


def test_a_refusal_is_said_at_once() -> None:
    requests: list[Request] = []
    stack = GoogleStack(seen=requests.append, **{NETWORK: ["googleapi: Error 403: no"]})
    with pytest.raises(Refused, match="googleapi: Error 403: no, forbidden"):
        stack.up(NETWORK, "net", {})
    assert len(requests) == 1


def test_an_api_that_is_not_there_is_said_as_it_is() -> None:
    """Not as so many tries."""
    client = Client({"GOOGLE_COMPUTE_CUSTOM_ENDPOINT": "http://127.0.0.1:1/"})
    with pytest.raises(CloudError, match=r"does not respond \(NewConnectionError\)"):
        client.call("COMPUTE", "GET", "projects/p")
