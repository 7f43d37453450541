"""One request to the simulated APIs, and what it may be refused with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rehearsal.simulators.google.cloud import GoogleCloud

_STATUSES = {
    400: ("INVALID_ARGUMENT", "badRequest"),
    403: ("PERMISSION_DENIED", "forbidden"),
    404: ("NOT_FOUND", "notFound"),
    409: ("ALREADY_EXISTS", "alreadyExists"),
    412: ("FAILED_PRECONDITION", "conditionNotMet"),
    429: ("RESOURCE_EXHAUSTED", "rateLimitExceeded"),
    500: ("INTERNAL", "backendError"),
    501: ("UNIMPLEMENTED", "notImplemented"),
    502: ("UNAVAILABLE", "backendError"),
    503: ("UNAVAILABLE", "backendError"),
}


class ApiError(Exception):
    """What an API answers when it refuses; `reason` as Compute Engine names it."""

    def __init__(self, code: int, message: str, *, reason: str = "", status: str = "") -> None:
        super().__init__(message)
        self.code, self.message = code, message
        canonical, usual = _STATUSES[code]
        self.status, self.reason = status or canonical, reason or usual

    @property
    def body(self) -> dict[str, Any]:
        """The error as Google's APIs write it: the newer form, with the list of the older one."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "errors": [{"message": self.message, "domain": "global", "reason": self.reason}],
                "status": self.status,
            }
        }


def bad_request(message: str, reason: str = "badRequest") -> ApiError:
    """400."""
    return ApiError(400, message, reason=reason)


def not_found(identity: str) -> ApiError:
    """404, of `projects/...`."""
    return ApiError(404, f"The resource '{identity}' was not found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, once its method is known and its body fits the method's schema."""

    cloud: "GoogleCloud"
    service: str
    version: str
    method: str
    """ID of the method, e.g. `compute.networks.insert`."""
    path: Mapping[str, str]
    """Parameters of the path, by the names of the document's flat path."""
    name: str
    """The path below the version, e.g. `projects/p/global/networks/n`; without `:verb`."""
    query: Mapping[str, str]
    body: dict[str, Any] = field(default_factory=dict)
    endpoint: str = ""
    """URL of this server, e.g. `http://127.0.0.1:12345`."""

    def page(self, key: str, rows: list[Any], most: int, size: str = "pageSize") -> dict[str, Any]:
        """One page of rows under `key`, and `nextPageToken` where there are more. `most`: rows of a
        page for which the request names no `size`."""
        start, length = int(self.query.get("pageToken") or 0), int(self.query.get(size) or most)
        end = start + length
        more = {"nextPageToken": str(end)} if len(rows) > end else {}
        return {key: rows[start:end]} | more
