"""Code that Compute Engine's collections share: names, links, fingerprints, lists, operations."""

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpu_cluster.rehearsal.simulators.google.api.call import Call, get_operation
from gpu_cluster.rehearsal.simulators.google.api.server import Answer
from gpu_cluster.rehearsal.simulators.google.errors import ApiError, bad_request, not_found
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource

LINK = "https://www.googleapis.com/compute/v1/"
_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
_FILTER = re.compile(r'\(?\s*(?P<field>[\w.-]+)\s*(?P<how>=|eq|:)\s*"?(?P<value>[^")]*)"?\s*\)?')
_numbers = itertools.count(4_000_000_000_000_001)


def insert(
    call: Call, token: str, word: str, body: dict[str, Any], *, uses: Iterable[str] = ()
) -> dict[str, Any]:
    """Creates a resource in the call's collection, and returns the operation. `token`: the
    collection's, such as `compute.networks`; `word`: the resource's name in messages; `uses`: full
    names of resources that must exist, and cannot be deleted before this one."""
    name = body.get("name")
    if not name:
        raise bad_request("Required field 'resource.name' not specified", "required")
    if not re.fullmatch(_NAME, name):
        raise invalid("resource.name", name, f"Must be a match of regex '{_NAME}'")
    identity = f"{call.name}/{name}"
    if identity in call.cloud.resources:
        raise ApiError(409, f"The resource '{identity}' already exists")
    needed = list(uses)
    for used in needed:
        call.cloud.found(used)
    call.cloud.resources[identity] = new(identity, token, word, body, uses=needed)
    return operation(call, "insert", identity)


def new(
    identity: str, token: str, word: str, body: Mapping[str, Any], *, uses: Iterable[str] = ()
) -> CloudResource:
    """A resource of a collection, with the fields that Compute Engine adds to all resources.
    Arguments as for `insert`; `identity`: its full name."""
    place = identity.split("/")
    state = {
        "kind": _kind(place[-2]),
        "id": str(next(_numbers)),
        "creationTimestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "name": place[-1],
        **body,
        "selfLink": LINK + identity,
    }
    if place[2] in ("regions", "zones"):
        state[place[2].removesuffix("s")] = LINK + "/".join(place[:4])
    return CloudResource(
        token=token, display_name=word, identity=identity, state=state, depends_on=list(uses)
    )


def _kind(collection: str) -> str:
    """`compute#targetHttpProxy` for `targetHttpProxies`."""
    plural = collection.removesuffix("ies")
    return f"compute#{collection.removesuffix('s') if plural == collection else plural + 'y'}"


def get(call: Call) -> dict[str, Any]:
    """Returns the call's resource."""
    return row(call, call.cloud.found(call.name).state)


def list_(call: Call) -> dict[str, Any]:
    """Lists the call's collection, with `filter`, `maxResults` and `pageToken`."""
    found = [
        resource.state
        for identity, resource in sorted(call.cloud.resources.items())
        if identity.rpartition("/")[0] == call.name
    ]
    found = [resource for resource in found if matches(resource, call.query.get("filter", ""))]
    return listed(call, f"{_kind(call.name.rpartition('/')[2])}List", found)


def delete(call: Call) -> dict[str, Any]:
    """Deletes the call's resource; refuses while another one uses it."""
    resource = call.cloud.found(call.name)
    for user in call.cloud.resources.values():
        if call.name in user.depends_on and user.parent != call.name:
            raise bad_request(
                f"The {resource.display_name.replace(' ', '_')} resource '{call.name}' is already "
                f"being used by '{user.identity}'",
                "resourceInUseByAnotherResource",
            )
    call.cloud.remove(call.name)
    return operation(call, "delete", call.name)


def methods(collection: str, **own: Answer) -> dict[str, Answer]:
    """A collection's methods: the three above, and its own, such as `insert`."""
    answers = {"get": get, "list": list_, "delete": delete, **own}
    return {f"compute.{collection}.{verb}": answer for verb, answer in answers.items()}


def page(call: Call, rows: list[Any]) -> dict[str, Any]:
    """One page of rows, in the form of all Compute Engine collections."""
    return call.page("items", rows, 500, size="maxResults")


def listed(call: Call, kind: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One page of rows."""
    about = {"kind": kind, "id": call.name, "selfLink": LINK + call.name}
    return row(call, about | page(call, rows))


def aggregated(
    call: Call, kind: str, collection: str, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """One page of the rows of all zones and regions, grouped by location."""
    answer = listed(call, kind, rows)
    items: dict[str, dict[str, Any]] = {}
    for entry in answer["items"]:
        link = entry.get("zone") or entry.get("region") or "global"
        place = "/".join(link.split("/")[-2:])
        items.setdefault(place, {collection: []})[collection].append(entry)
    return answer | {"items": items}


def aggregated_list(call: Call) -> dict[str, Any]:
    """Lists the call's collection in all locations: `projects/p/aggregated/disks`."""
    collection = call.name.rpartition("/")[2]
    rows = [
        resource.state
        for identity, resource in sorted(call.cloud.resources.items())
        if identity.split("/")[-2] == collection
        and identity.split("/")[1] == call.path["project"]
        and matches(resource.state, call.query.get("filter", ""))
    ]
    return aggregated(call, f"{_kind(collection)}AggregatedList", collection, rows)


def reads(
    collection: str, rows: Callable[[Call, str | None], Iterable[dict[str, Any]]]
) -> dict[str, Answer]:
    """The three read methods of a collection of zonal offers. `rows`: those of one zone, or of all,
    with links of API version v1."""
    kind = _kind(collection)

    def found(call: Call, zone: str | None) -> list[dict[str, Any]]:
        wanted = call.query.get("filter", "")
        return [resource for resource in rows(call, zone) if matches(resource, wanted)]

    def get_one(call: Call) -> dict[str, Any]:
        name = call.name.rpartition("/")[2]
        for resource in rows(call, call.path["zone"]):
            if resource["name"] == name:
                return row(call, resource)
        raise not_found(call.name)

    def list_zone(call: Call) -> dict[str, Any]:
        return listed(call, f"{kind}List", found(call, call.path["zone"]))

    def list_all(call: Call) -> dict[str, Any]:
        return aggregated(call, f"{kind}AggregatedList", collection, found(call, None))

    return {
        f"compute.{collection}.get": get_one,
        f"compute.{collection}.list": list_zone,
        f"compute.{collection}.aggregatedList": list_all,
    }


def matches(row: Mapping[str, Any], wanted: str) -> bool:
    """Whether a row matches a filter such as `name=a`, `name eq a.*` or `labels.role = "b"`. A
    filter with more than one term is refused, never ignored."""
    if not wanted:
        return True
    found = _FILTER.fullmatch(wanted.strip())
    if found is None:
        raise ApiError(501, f"a rehearsal does not simulate the filter '{wanted}'")
    value: Any = row
    for part in found["field"].split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if found["how"] == "eq":
        return re.fullmatch(found["value"], str(value)) is not None
    if found["how"] == ":":
        return found["value"] in ("*", str(value)) and value is not None
    return str(value) == found["value"]


def operation(call: Call, kind: str, target: str) -> dict[str, Any]:
    """Creates an operation that is done as soon as it is polled."""
    place = call.name.split("/")
    scope = "/".join(place[: 3 if place[2] == "global" else 4])
    return call.cloud.operations.begin("compute", scope, kind, target).body(call.base)


def row(call: Call, state: Mapping[str, Any]) -> dict[str, Any]:
    """A resource or a list in the form of this API version."""
    return {name: shown(call, inner) for name, inner in state.items()}


def shown(call: Call, value: Any) -> Any:
    """The value with links of this API version."""
    if isinstance(value, str) and value.startswith(LINK):
        return value.replace("/v1/", f"/{call.version}/", 1)
    if isinstance(value, Mapping):
        return {name: shown(call, inner) for name, inner in value.items()}
    return [shown(call, item) for item in value] if isinstance(value, list) else value


def fingerprint(state: Mapping[str, Any]) -> str:
    """The fingerprint of a resource's current state, which differs after each change."""
    rest = {name: value for name, value in state.items() if name != "fingerprint"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def invalid(field: str, value: Any, reason: str) -> ApiError:
    """A 400 error about one field."""
    return bad_request(f"Invalid value for field '{field}': '{value}'. {reason}", "invalid")


def full_name(call: Call, value: str, collection: str) -> str:
    """The full name `projects/...` for a link, a path within the project, or a name."""
    _, found, path = value.partition("projects/")
    if found:
        return f"projects/{path}"
    project = "/".join(call.name.split("/")[:2])
    return f"{project}/{value}" if "/" in value else f"{project}/{collection}/{value}"


ENDPOINTS = {"COMPUTE": "compute/beta/"}
METHODS = {
    f"compute.{scope}Operations.{verb}": get_operation
    for scope in ("global", "region", "zone")
    for verb in ("get", "wait")
}
