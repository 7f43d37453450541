"""Read-only requests to Google Cloud's APIs with Google's own authentication library.

The generated client, google-cloud-compute, would be 70 MB for a few reads, and its releases need a
protobuf that the policy SDK refuses.
"""

import json
import os
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import google.auth
import google.auth.credentials
import google.auth.environment_vars
import google.auth.exceptions
import google.auth.transport.urllib3
import urllib3

from gpu_cluster.components.settings.endpoints import on_this_machine
from gpu_cluster.stacks.capacity.verdict import Unknown

SCOPES = (
    "https://www.googleapis.com/auth/compute.readonly",
    "https://www.googleapis.com/auth/cloud-platform.read-only",
)
TIMEOUT_SECONDS = 20.0
_NAMED = google.auth.environment_vars.CREDENTIALS
_SERVICES = {
    "artifactregistry": ("https://artifactregistry.googleapis.com/v1", "artifactregistry/v1"),
    "cloudkms": ("https://cloudkms.googleapis.com/v1", "cloudkms/v1"),
    "compute": ("https://compute.googleapis.com/compute/v1", "compute/v1"),
    "compute beta": ("https://compute.googleapis.com/compute/beta", "compute/beta"),
    "cloudresourcemanager": (
        "https://cloudresourcemanager.googleapis.com/v1",
        "cloudresourcemanager/v1",
    ),
    "container": ("https://container.googleapis.com/v1", "container/v1"),
    "iam": ("https://iam.googleapis.com/v1", "iam/v1"),
    "storage": ("https://storage.googleapis.com/storage/v1", "storage/v1"),
    # Dashboards have another API version than alert policies.
    "monitoring": ("https://monitoring.googleapis.com", "monitoring"),
}
"""API -> its base URL, and its path below a simulator's URL."""


Answered = tuple[int, Any]
"""HTTP status, and the body as JSON; None if it is not JSON."""


class GoogleApi:
    """Sends requests with Application Default Credentials. `endpoint`: the URL of a simulator,
    which gets none."""

    def __init__(self, endpoint: str | None = None, scopes: Sequence[str] = SCOPES) -> None:
        self._scopes = scopes
        self._endpoint = endpoint.rstrip("/") if endpoint else None
        self._http: google.auth.transport.urllib3.AuthorizedHttp | Unknown | None = None
        self._answers: dict[tuple[str, str], Mapping[str, Any] | Unknown] = {}

    def get(self, service: str, path: str) -> Mapping[str, Any] | Unknown:
        """The answer to a GET of a path below the API's base, requested only once; Unknown with the
        reason if there is none."""
        key = (service, path)
        if key not in self._answers:
            self._answers[key] = _body(self._ask("GET", service, path))
        return self._answers[key]

    def aggregated(
        self, project: str, collection: str, wanted: str
    ) -> list[tuple[str, Mapping[str, Any]]] | Unknown:
        """(zone or region, resource) of everything that matches a filter, wherever it is."""
        pages = self._pages(f"projects/{project}/aggregated/{collection}", {"filter": wanted})
        if isinstance(pages, Unknown):
            return pages
        return [
            (scope.rpartition("/")[2], resource)
            for page in pages
            for scope, part in page.get("items", {}).items()
            for resource in part.get(collection, ())
        ]

    def listed(self, path: str) -> list[Mapping[str, Any]] | Unknown:
        """All resources in a list of Compute Engine's, from all pages."""
        pages = self._pages(path, {})
        if isinstance(pages, Unknown):
            return pages
        return [resource for page in pages for resource in page.get("items", ())]

    def _pages(self, path: str, query: Mapping[str, str]) -> list[Mapping[str, Any]] | Unknown:
        """The pages of a list of Compute Engine's."""
        query, pages = {**query, "maxResults": "500"}, list[Mapping[str, Any]]()
        while True:
            body = self.get("compute", f"{path}?{urllib.parse.urlencode(query)}")
            if isinstance(body, Unknown):
                return body
            pages.append(body)
            if not body.get("nextPageToken"):
                return pages
            query = {**query, "pageToken": body["nextPageToken"]}

    def found(self, service: str, path: str) -> Mapping[str, Any] | Unknown | None:
        """Like `get`, but None for a resource that does not exist."""
        asked = self._ask("GET", service, path)
        missing = not isinstance(asked, Unknown) and asked[0] == 404
        return None if missing else _body(asked)

    def post(self, service: str, path: str, body: Mapping[str, Any]) -> Mapping[str, Any] | Unknown:
        """The answer to a POST of JSON that changes nothing."""
        return _body(self._ask("POST", service, path, body))

    def scoped(self, scope: str) -> "GoogleApi":
        """The same API with another scope; itself if it has that one, or no credentials."""
        if self._scopes == (scope,) or isinstance(self._session(), Unknown):
            return self
        return GoogleApi(self._endpoint, (scope,))

    def policy(self, service: str, path: str) -> Mapping[str, Any] | Unknown:
        """An IAM policy, for which Resource Manager requires a POST."""
        verb = "POST" if service == "cloudresourcemanager" else "GET"
        return _body(self._ask(verb, service, path))

    def _ask(
        self, verb: str, service: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Answered | Unknown:
        base, simulated = _SERVICES[service]
        url = f"{self._endpoint}/{simulated}/{path}" if self._endpoint else f"{base}/{path}"
        try:
            session = self._session()
            if isinstance(session, Unknown):
                return session
            response = session.request(
                verb,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=None if body is None else {"Content-Type": "application/json"},
                timeout=TIMEOUT_SECONDS,
                retries=urllib3.Retry(2, backoff_factor=0.5),
            )
        except google.auth.exceptions.GoogleAuthError as error:
            message = " ".join(str(error.args[0]).split()) if error.args else type(error).__name__
            return Unknown(reason=f"the Google Cloud credentials do not work: {message}")
        except urllib3.exceptions.HTTPError as error:
            host = "/".join(url.split("/")[:3])
            return Unknown(reason=f"{host} does not respond ({type(error).__name__})")
        try:
            return response.status, json.loads(response.data)
        except ValueError:
            return response.status, None

    def _session(self) -> google.auth.transport.urllib3.AuthorizedHttp | Unknown:
        """An authenticated session, or why there is none; searching in vain takes seconds."""
        if self._http is None:
            try:
                self._http = self._signed_in()
            except google.auth.exceptions.DefaultCredentialsError:
                # A file that is set explicitly takes precedence over a login, and may be wrong or
                # missing.
                named = os.environ.get(_NAMED)
                instead = f"fix or unset {_NAMED} ({named}), or then " if named else ""
                self._http = Unknown(
                    reason=f"no Google Cloud credentials: {instead}"
                    "run `gcloud auth application-default login`"
                )
        return self._http

    def _signed_in(self) -> google.auth.transport.urllib3.AuthorizedHttp:
        if on_this_machine(self._endpoint):
            credentials: Any = google.auth.credentials.AnonymousCredentials()  # type: ignore[no-untyped-call]
        else:
            credentials, _ = google.auth.default(scopes=list(self._scopes))
        authorized = google.auth.transport.urllib3.AuthorizedHttp
        return authorized(credentials)  # type: ignore[no-untyped-call]


def _body(answered: Answered | Unknown) -> Mapping[str, Any] | Unknown:
    if isinstance(answered, Unknown):
        return answered
    status, body = answered
    is_object = isinstance(body, dict)
    if status == 200 and is_object:
        return body  # type: ignore[no-any-return]
    message = body.get("error", {}).get("message", "") if is_object else ""
    denied = "not allowed to look" if status in (401, 403) else "no answer"
    return Unknown(reason=f"{denied}: HTTP {status} {' '.join(message.split())}".rstrip())
