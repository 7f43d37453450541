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
