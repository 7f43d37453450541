"""The simulated Google Cloud's APIs on loopback, for any client.

`http://127.0.0.1:PORT/<service>/<version>/...` stands for `https://<service>.googleapis.com/...`.
The provider plugin finds it by `GOOGLE_<SERVICE>_CUSTOM_ENDPOINT`, gcloud by
`api_endpoint_overrides`, Google's client libraries by `client_options`.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from werkzeug import wrappers
from werkzeug.exceptions import HTTPException

from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.errors import ApiError
from gpu_cluster.rehearsal.simulators.google.state import CloudState
from gpu_cluster.rehearsal.simulators.serving import Served
from gpu_cluster.tools.google_discovery import WIDER, Document, Method, document, unknown_query

Answer = Callable[[Call], dict[str, Any]]
"""Implements a method, with the cloud's lock held; raises ApiError if the cloud refuses."""
Request = tuple[str, str, dict[str, Any]]
"""HTTP method, path and body."""
_CREATES = {
    "artifactregistry.projects.locations.repositories.create": (
        "gcp:artifactregistry/repository:Repository"
    ),
    "compute.firewalls.insert": "gcp:compute/firewall:Firewall",
    "compute.networks.insert": "gcp:compute/network:Network",
    "compute.routers.insert": "gcp:compute/router:Router",
    "compute.subnetworks.insert": "gcp:compute/subnetwork:Subnetwork",
    "container.projects.locations.clusters.create": "gcp:container/cluster:Cluster",
    "container.projects.locations.clusters.nodePools.create": "gcp:container/nodePool:NodePool",
    "iam.projects.serviceAccounts.create": "gcp:serviceaccount/account:Account",
    "monitoring.projects.alertPolicies.create": "gcp:monitoring/alertPolicy:AlertPolicy",
    "monitoring.projects.dashboards.create": "gcp:monitoring/dashboard:Dashboard",
}
"""Method -> the key in `ApiFaults.errors` with the errors of its next calls."""
_log = logging.getLogger(__name__)


class Api:
    """A WSGI application. `methods`: the simulated methods, by ID; `seen` is called with each
    request that an API accepts."""

    def __init__(
        self,
        cloud: CloudState,
        methods: Mapping[str, Answer],
        seen: Callable[[Request], None] = lambda request: None,
    ) -> None:
        self._cloud = cloud
        self._methods = methods
        self._seen = seen

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = wrappers.Request(environ)
        try:
            status, body = 200, self.answer(request)
        except ApiError as error:
            status, body = error.code, error.body
        except HTTPException as error:
            status, body = error.code or 500, ApiError(400, str(error)).body
        except Exception as error:  # a defect of the simulator, which is reported to the client
            _log.exception("%s %s", request.method, request.path)
            status, body = 500, ApiError(500, f"the simulator failed: {error!r}").body
        response = wrappers.Response(
            json.dumps(body), status=status, content_type="application/json"
        )
        return response(environ, start_response)

    def answer(self, request: wrappers.Request) -> dict[str, Any]:
        """The response's body; raises ApiError."""
        service, _, rest = request.path.strip("/").partition("/")
        version, _, path = rest.partition("/")
        found = document(service, version)
        matched = found.method(request.method, path) if found else None
        if found is None or matched is None:
            raise ApiError(404, f"The requested URL {request.path} was not found on this server.")
        method, parameters = matched
        answer = self._methods.get(method.id)
        if answer is None:
            raise ApiError(501, f"a rehearsal does not simulate {method.id}")
        query = {_camel(name): value for name, value in request.args.items()}
        if unknown := unknown_query(method, query):
            raise ApiError(
                400,
                f'Invalid JSON payload received. Unknown name "{unknown[0]}": Cannot bind query '
                "parameter.",
            )
        call = Call(
            cloud=self._cloud,
            service=service,
            version=version,
            method=method.id,
            path=parameters,
            name=path.partition(":")[0] if ":" in path.rpartition("/")[2] else path,
            query=query,
            body=_body(found, method, request),
            endpoint=request.host_url.rstrip("/"),
        )
        self._seen((request.method, request.path, call.body))
        with self._cloud.lock:
            if planned := self._cloud.faults.errors.get(_CREATES.get(method.id, "")):
                raise _planned(planned.pop(0))
            result = answer(call)
        if request.method != "GET":
            self._cloud.notify()
        return _checked(found, method, result)


def _planned(text: str) -> ApiError:
    """An injected error, such as `googleapi: Error 503: try again`, in the API's form."""
    found = re.fullmatch(r"googleapi: Error (\d+): (.+)", text)
    return ApiError(int(found[1]), found[2]) if found else ApiError(500, text)


def _camel(name: str) -> str:
    """Google's front end also accepts `repository_id` for `repositoryId`."""
    return re.sub(r"(?<=[a-z])_([a-z])", lambda found: found[1].upper(), name)


def _body(found: Document, method: Method, request: wrappers.Request) -> dict[str, Any]:
    raw = request.get_data()
    if method.request is None or not raw:
        return {}
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise ApiError(400, f"Invalid JSON payload received. {error}") from None
    if problems := list(found.problems(method.request, body, "")):
        raise ApiError(400, "\n".join(problems))
    assert isinstance(body, dict)  # as in every request's schema
    return body


def _checked(found: Document, method: Method, result: dict[str, Any]) -> dict[str, Any]:
    """The response in the form of this API version. A response that the document does not allow is
    a defect of the simulator, and never ignored."""
    if method.response is None:
        return result
    if (found.service, found.version) in WIDER:
        known = found.known(method.response, result)
        assert isinstance(known, dict)
        result = known
    if problems := list(found.problems(method.response, result, "")):
        raise ApiError(500, f"the simulated answer to {method.id} is wrong: {problems[0]}")
    return result


class ApiServer(Served):
    """Serves the APIs, and describes how clients reach them."""

    def __init__(self, api: Api, endpoints: Mapping[str, str]) -> None:
        """`endpoints`: the provider's name of an API -> its base path in google-beta
        (`*_custom_endpoint`)."""
        super().__init__(api)
        self._endpoints = endpoints

    @property
    def environment(self) -> dict[str, str]:
        """The environment that directs the provider plugins, Terraform and gcloud here."""
        provider = {
            f"GOOGLE_{name}_CUSTOM_ENDPOINT": f"{self.endpoint}/{path}"
            for name, path in self._endpoints.items()
        }
        # gcloud's names and base paths: `gcloud topic configurations`.
        names = dict.fromkeys(path.partition("/")[0] for path in self._endpoints.values())
        gcloud = {
            f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}": f"{self.endpoint}/{name}/"
            + ("v1/" if name in ("compute", "storage") else "")
            for name in names
        }
        return (
            provider
            | gcloud
            | {"GOOGLE_OAUTH_ACCESS_TOKEN": "fake", "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true"}
        )
