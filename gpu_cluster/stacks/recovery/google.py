"""The id of a Google Cloud or Kubernetes resource that was being created, from its inputs.

If its generated name is not known any more, Google is queried. Read-only.
"""

import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from gpu_cluster.clouds.rows.google import rows
from gpu_cluster.components.catalog.gke import region_of
from gpu_cluster.components.lifecycle.ownership import GOOGLE_LABEL
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.stacks.recovery.protocols import Clouds
from gpu_cluster.stacks.recovery.state import Interrupted, auto_named, check_own, check_within

Inputs = Mapping[str, Any]


def names(operation: Interrupted, clouds: Clouds) -> list[str] | None:
    """What `stacks.recovery.protocols.Recovers` asks for."""
    inputs = complete(operation.inputs, operation.provider)
    known = identity(operation.type, inputs)
    if known is None or (operation.orphaned and auto_named(operation.inputs)):
        return find(operation.type, Urn.parse(operation.urn).name, inputs, clouds.google)
    check(operation.type, known, inputs, clouds.google)
    return [known]


def described(resource: Mapping[str, Any], clouds: Clouds) -> Mapping[str, Any]:
    """What `stacks.recovery.protocols.Recovers` asks for."""
    return clouds.google("container", resource["id"])


def identity(type_token: str, inputs: Inputs) -> str | None:
    """The id that the provider gives it; None for a type whose ids Google chooses, and if it does
    not follow from the inputs."""
    if make := _IDENTITIES.get(type_token):
        return make(inputs)
    row = rows().get(type_token)
    if row is None or not row.id:
        return None
    try:
        return row.id.format_map(inputs)
    except KeyError:
        return None


def complete(inputs: Inputs, provider: Inputs) -> dict[str, Any]:
    """The inputs with the project, region and zone from the provider's settings."""
    given = {name: provider[name] for name in ("project", "region", "zone") if provider.get(name)}
    if zone := given.pop("zone", None):
        given.setdefault("region", region_of(zone))
    return {**given, **inputs}


_IN_NETWORKS = {
    "gcp:compute/subnetwork:Subnetwork": "subnetwork",
    "gcp:compute/router:Router": "router",
    "gcp:compute/firewall:Firewall": "firewall",
}
"""What has no mark of its own, and is the stack's if its network is -> its name in messages."""
Get = Callable[[str, str], Mapping[str, Any]]
"""API, such as `compute`, and path -> the answer to a GET, as JSON, empty if the resource does not
exist; raises LookupError with Google's message."""


def find(type_token: str, name: str, inputs: Inputs, get: Get) -> list[str] | None:
    """Ids of resources that the provider may have created with a generated name, `name-0123abc`, or
    with a number from Google; None for an unsupported type."""
    ours = re.compile(re.escape(name) + "-[0-9a-f]{7}")
    region = f"projects/{inputs['project']}/regions/{inputs.get('region')}"
    rows: list[Any]
    match type_token:
        case "gcp:compute/network:Network":
            parent = f"projects/{inputs['project']}/global/networks"
            # A network has no labels. One that already has subnetworks belongs to others.
            rows = [
                row for row in _all(get, "compute", parent, "items") if not row.get("subnetworks")
            ]
        case _ if word := _IN_NETWORKS.get(type_token):
            everywhere = f"projects/{inputs['project']}/global"
            parent = f"{everywhere if word == 'firewall' else region}/{word}s"
            rows = [
                row
                for row in _all(get, "compute", parent, "items")
                if _last(row["network"]) == _last(inputs["network"])
            ]
        case "gcp:compute/routerNat:RouterNat":
            parent = f"{inputs['project']}/{inputs['region']}/{_last(inputs['router'])}"
            router = get("compute", f"{region}/routers/{_last(inputs['router'])}")
            rows = list(router.get("nats") or ())
        case "gcp:container/nodePool:NodePool":
            parent = _node_pool({**inputs, "name": ""}).rstrip("/")
            rows = list(get("container", parent).get("nodePools") or ())
            label = _stack_of(inputs.get("nodeConfig"))
            # In an existing cluster; in the stack's own, a pool has no label.
            rows = [row for row in rows if label in (None, _stack_of(row.get("config")))]
        case "gcp:monitoring/dashboard:Dashboard":
            dashboard = json.loads(inputs["dashboardJson"])
            path = f"v1/projects/{inputs['project']}/dashboards"
            label = (dashboard.get("labels") or {}).get(GOOGLE_LABEL)
            rows = _all(get, "monitoring", path, "dashboards")
            return _own(rows, "dashboard", dashboard["displayName"], label, "labels")
        case "gcp:monitoring/alertPolicy:AlertPolicy":
            path = f"v3/projects/{inputs['project']}/alertPolicies"
            label = (inputs.get("userLabels") or {}).get(GOOGLE_LABEL)
            rows = _all(get, "monitoring", path, "alertPolicies")
            return _own(rows, "alert policy", inputs["displayName"], label, "userLabels")
        case _:
            return None
    return [f"{parent}/{row['name']}" for row in rows if ours.fullmatch(row["name"])]


def _stack_of(config: Any) -> str | None:
    """The stack in the labels of a node pool's machines."""
    label: str | None = ((config or {}).get("resourceLabels") or {}).get(GOOGLE_LABEL)
    return label


def _own(rows: list[Any], what: str, title: str, wanted: str | None, labels: str) -> list[str]:
    """The names of the stack's own resources with this title; raises NotOursError if there are only
    others."""
    alike = [item for item in rows if item.get("displayName") == title]
    labels_by_name = {item["name"]: (item.get(labels) or {}).get(GOOGLE_LABEL) for item in alike}
    names = [name for name, label in labels_by_name.items() if wanted in (None, label)]
    if labels_by_name and not names:
        check_own(f"{what} {title!r}", wanted, next(iter(labels_by_name.values())))
    return names


def check(type_token: str, identity: str, inputs: Inputs, get: Get) -> None:
    """Raises NotOursError if a resource with this name exists but is not this stack's.

    A resource without its own mark is the stack's if its network, router or cluster is.
    """
    match type_token:
        case "gcp:container/cluster:Cluster":
            expected = (inputs.get("resourceLabels") or {}).get(GOOGLE_LABEL)
            if expected is not None and (item := get("container", identity)):
                label = (item.get("resourceLabels") or {}).get(GOOGLE_LABEL)
                check_own(f"cluster {_last(identity)}", expected, label)
        case "gcp:serviceaccount/account:Account":
            expected = inputs.get("description")
            if expected is not None and (item := get("iam", identity)):
                check_own(f"service account {_last(identity)}", expected, item.get("description"))
        case _ if word := _IN_NETWORKS.get(type_token):
            if item := get("compute", identity):
                check_within(f"{word} {_last(identity)}", item["network"], inputs["network"])


def _all(get: Get, service: str, path: str, key: str) -> list[Any]:
    """The items of all pages."""
    rows: list[Any] = []
    page = ""
    while True:
        answer = get(service, path + page)
        rows += answer.get(key) or ()
        if not (token := answer.get("nextPageToken") or ""):
            return rows
        page = f"?{urllib.parse.urlencode({'pageToken': token})}"


def kubernetes_identity(inputs: Inputs) -> str:
    """`namespace/name`, or only the name for a resource without a namespace."""
    metadata = inputs["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _last(path: object) -> str:
    return str(path).rpartition("/")[2]


def _node_pool(i: Inputs) -> str:
    cluster = str(i["cluster"])
    if "/" not in cluster:
        cluster = f"projects/{i['project']}/locations/{i['location']}/clusters/{cluster}"
    return f"{cluster}/nodePools/{i['name']}"


def _condition(i: Inputs) -> str:
    """Without the title, a conditional grant would be confused with an unconditional one."""
    return f"/{i['condition']['title']}" if i.get("condition") else ""


_IDENTITIES: Mapping[str, Callable[[Inputs], str]] = {
    "gcp:compute/routerNat:RouterNat": lambda i: (
        f"{i['project']}/{i['region']}/{_last(i['router'])}/{i['name']}"
    ),
    "gcp:projects/iAMMember:IAMMember": lambda i: (
        f"{i['project']}/{i['role']}/{i['member']}{_condition(i)}"
    ),
    "gcp:storage/bucketIAMMember:BucketIAMMember": lambda i: (
        f"b/{i['bucket'].removeprefix('b/')}/{i['role']}/{i['member']}{_condition(i)}"
    ),
    "gcp:container/nodePool:NodePool": _node_pool,
}
"""Resource type -> id, for types whose row in `clouds` does not define it."""
