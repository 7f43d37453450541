"""An API server's refusal, as one error class for every caller.

There are two ways to speak to it. The provider uses the official client, which knows every way
to sign in that a kubeconfig can name; the rehearsal's own control plane is reached by
`rehearsal.control_plane.api`, which needs a token and no more. Neither is
`kubernetes.dynamic.DynamicClient` (tried with 36.0.3): a call by it takes the same 5 ms, and before
the first one there are 130 ms of discovery; what it discovers stays in the temporary folder under
the server's address, where the next control plane on that port would find the kinds of this one;
and it has no `fieldValidation`, without which a field that a kind does not have is dropped.
"""

import json
from typing import Self


class ApiError(Exception):
    """The API server's refusal."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """`status` is HTTP's, 0 if there was no answer; `reason` is one such as `Conflict`."""
        super().__init__(message)
        self.status = status
        self.reason = reason

    @classmethod
    def of(cls, status: int, reason: str | None, body: bytes | str, *, request: str = "") -> Self:
        """From an answer. `reason` is HTTP's; `request`, such as `GET /api`, begins the message."""
        try:
            document = json.loads(body)
        except (TypeError, ValueError):
            document = {}
        known = document if isinstance(document, dict) else {}
        message = known.get("message") or f"HTTP {status} {reason}"
        said = f"{request}: {message}" if request else message
        return cls(status, known.get("reason") or str(reason), said)

    @property
    def passing(self) -> bool:
        """Whether the same request may do better in a moment."""
        return self.status in {0, 429} or self.status >= 500
