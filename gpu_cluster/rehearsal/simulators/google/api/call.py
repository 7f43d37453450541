"""One request to the simulated APIs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.rehearsal.simulators.google.state import CloudState


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request with a known method and a body that matches the method's schema."""

    cloud: CloudState
    service: str
    version: str
    method: str
    """The method's ID, such as `compute.networks.insert`."""
    path: Mapping[str, str]
    """The path's parameters, named as in the document's flat path."""
    name: str
    """The path below the version, such as `projects/p/global/networks/n`; without `:verb`."""
    query: Mapping[str, str]
    body: dict[str, Any] = field(default_factory=dict)
    endpoint: str = ""
    """This server's URL, such as `http://127.0.0.1:12345`."""

    @property
    def base(self) -> str:
        """The URL with which links of this API version begin."""
        return f"{self.endpoint}/{self.service}/{self.version}"

    def page(self, key: str, rows: list[Any], most: int, size: str = "pageSize") -> dict[str, Any]:
        """One page of rows under `key`, and `nextPageToken` if there are more. `most`: rows per
        page if the request has no `size`."""
        start, length = int(self.query.get("pageToken") or 0), int(self.query.get(size) or most)
        end = start + length
        more = {"nextPageToken": str(end)} if len(rows) > end else {}
        return {key: rows[start:end]} | more


def get_operation(call: Call) -> dict[str, Any]:
    """The long-running operation that the call names or waits for."""
    return call.cloud.operations.get(call.name.removesuffix("/wait")).body(call.base)
