"""An API server's refusal, as one error class for every caller.

There are two clients. The provider's signs in as a kubeconfig says; the rehearsal's own,
`rehearsal.control_plane.api`, needs only a token. Neither is `kubernetes.dynamic.DynamicClient`
(tried with 36.0.3): its calls take the same 5 ms, but discovery adds 130 ms before the first one;
it caches what it discovers in the temporary folder under the server's address, where the next
control plane on that port would find this one's kinds; and it has no `fieldValidation`, without
which a field that a kind does not have is dropped.
"""

import json
from typing import Self


class ApiError(Exception):
    """A request that the API server refused."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """`status` is the HTTP status, 0 without a response; `reason` is one such as `Conflict`."""
        super().__init__(message)
        self.status = status
        self.reason = reason

    @classmethod
    def of(cls, status: int, reason: str | None, body: bytes | str, *, request: str = "") -> Self:
        """Creates the error from a response. `reason` is HTTP's; `request`: such as `GET /api`."""
        try:
            document = json.loads(body)
        except (TypeError, ValueError):
            document = {}
        known = document if isinstance(document, dict) else {}
        message = known.get("message") or f"HTTP {status} {reason}"
        text = f"{request}: {message}" if request else message
        return cls(status, known.get("reason") or str(reason), text)

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed in a moment."""
        return self.status in {0, 429} or self.status >= 500
