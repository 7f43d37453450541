"""Calls Google's APIs over HTTP, and phrases their errors as the provider does."""

import json
import re
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

import urllib3

from gpu_cluster.rehearsal.plugins.cloud.handler import CloudError, NotFoundError

_POLLS = (0.0, 0.01, 0.02, 0.05)
"""Seconds between polls of an operation; the last one is repeated."""
_RETRIES = urllib3.Retry(
    total=5,
    connect=False,
    read=False,
    status_forcelist=(429, 500, 502, 503),
    allowed_methods=None,
    backoff_factor=0.05,
    raise_on_status=False,
)
"""Like the official provider, retries every request with these statuses: for 2 seconds instead of
90 (`isCommonRetryableErrorCode` and `defaultRetryTransportTimeoutSec` in google-beta/transport of
terraform-provider-google-beta, read on 2026-11-22)."""
_API = re.compile(r"https://www\.googleapis\.com/compute/(beta|v1)/")


class Client:
    """Calls the given endpoints, by the names of the official plugin's variables:
    `GOOGLE_COMPUTE_CUSTOM_ENDPOINT` and so on. Thread-safe."""

    def __init__(self, endpoints: Mapping[str, str]) -> None:
        self._endpoints = endpoints
        self._http = urllib3.PoolManager(maxsize=16, retries=_RETRIES)

    def call(
        self,
        service: str,
        verb: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Returns the API's response; raises CloudError. `service`: as in the variable, such as
        `COMPUTE`; `path`: below the endpoint."""
        url = self._endpoints[f"GOOGLE_{service}_CUSTOM_ENDPOINT"] + path
        try:
            answer = self._http.request(
                verb,
                f"{url}?{urllib.parse.urlencode(query)}" if query else url,
                body=json.dumps(body) if body is not None else None,
                headers={"Content-Type": "application/json"},
            )
        except urllib3.exceptions.HTTPError as error:
            raise CloudError(f"{url} does not respond ({type(error).__name__})") from None
        found = json.loads(answer.data or b"{}")
        if answer.status >= 400:
            raise _refusal(answer.status, found.get("error", {}))
        assert isinstance(found, dict)
        return found

    def wait(
        self, service: str, operation: Mapping[str, Any], where: str, doing: str
    ) -> dict[str, Any]:
        """Waits for the operation and returns it; raises CloudError if it failed. `where`: the path
        of its location, such as `projects/p/global`; `doing`: for example `creating Network`."""
        path = f"{where}/operations/{operation['name'].rpartition('/')[2]}".lstrip("/")
        turn = 0
        found = dict(operation)
        while not (found.get("done") or found.get("status") == "DONE"):
            time.sleep(_POLLS[min(turn, len(_POLLS) - 1)])
            turn += 1
            found = self.call(service, "GET", path)
        if error := found.get("statusMessage") or found.get("error"):
            raise CloudError(f"Error waiting for {doing}: {_of_operation(error)}")
        return found


def _refusal(status: int, error: Mapping[str, Any]) -> CloudError:
    message = " ".join(str(error.get("message", "")).split())
    reasons = [problem["reason"] for problem in error.get("errors", ()) if problem.get("reason")]
    text = f"googleapi: Error {status}: {message}{f', {reasons[0]}' if reasons else ''}"
    return NotFoundError(text) if status == 404 else CloudError(text)


def _of_operation(error: Mapping[str, Any] | str) -> str:
    if isinstance(error, str):  # GKE
        return error
    if "errors" in error:  # Compute Engine
        return "; ".join(problem["message"] for problem in error["errors"])
    return f"Error code {error['code']}, message: {error['message']}"


def stable(value: Any) -> Any:
    """The response with Compute Engine links in the provider's form: v1."""
    if isinstance(value, str):
        return _API.sub("https://www.googleapis.com/compute/v1/", value)
    if isinstance(value, Mapping):
        return {name: stable(inner) for name, inner in value.items()}
    return [stable(item) for item in value] if isinstance(value, list) else value
