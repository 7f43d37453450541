"""The errors of Google's APIs."""

from typing import Any

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
    """An API's refusal; `reason` as in Compute Engine."""

    def __init__(self, code: int, message: str, *, reason: str = "", status: str = "") -> None:
        super().__init__(message)
        self.code, self.message = code, message
        canonical, usual = _STATUSES[code]
        self.status, self.reason = status or canonical, reason or usual

    @property
    def body(self) -> dict[str, Any]:
        """The error in the form of Google's APIs: the newer form, with the older form's list."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "errors": [{"message": self.message, "domain": "global", "reason": self.reason}],
                "status": self.status,
            }
        }


def bad_request(message: str, reason: str = "badRequest") -> ApiError:
    """A 400 error."""
    return ApiError(400, message, reason=reason)


def not_found(identity: str) -> ApiError:
    """A 404 error about `projects/...`."""
    return ApiError(404, f"The resource '{identity}' was not found")
