"""One request to the simulated APIs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.simulators.google.state import CloudState


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, once its method is known and its body fits the method's schema."""

    cloud: CloudState
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

    @property
    def base(self) -> str:
        """The URL that links of this version of the API begin with."""
        return f"{self.endpoint}/{self.service}/{self.version}"

    def page(self, key: str, rows: list[Any], most: int, size: str = "pageSize") -> dict[str, Any]:
        """One page of rows under `key`, and `nextPageToken` if there are more. `most`: rows of a
        page for which the request names no `size`."""
        start, length = int(self.query.get("pageToken") or 0), int(self.query.get(size) or most)
        end = start + length
        more = {"nextPageToken": str(end)} if len(rows) > end else {}
        return {key: rows[start:end]} | more


def get_operation(call: Call) -> dict[str, Any]:
    """The long-running operation that the call names, or waits for."""
    return call.cloud.operations.get(call.name.removesuffix("/wait")).body(call.base)
