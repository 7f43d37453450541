"""The HTTP load balancers that GKE creates for Ingresses and Gateways.

Names follow kubernetes/ingress-gce (pkg/utils/namer, read 2026-11-22): `k8s1-` for network endpoint
groups, backend services and health checks, `k8s2-` with `fr`, `tp` and `um` for forwarding rule,
proxy and URL map, `k8s-fw-l7--` for the one firewall rule of a cluster. GKE's Gateway controller is
not public: `gkegw1-` names are as existing Gateways show them in their annotations.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cluster.rehearsal.simulators.cloud import Wanted
from gpu_cluster.rehearsal.simulators.google.compute.resources import LINK, new
from gpu_cluster.rehearsal.simulators.google.resource import CloudResource

_PROBES = ["130.211.0.0/22", "35.191.0.0/16"]
"""The source ranges of Google's health checks and proxies."""
_GATEWAYS = {
    "gke-l7-global-external-managed": "EXTERNAL_MANAGED",
    "gke-l7-gxlb": "EXTERNAL",
    "gke-l7-regional-external-managed": "EXTERNAL_MANAGED",
    "gke-l7-rilb": "INTERNAL_MANAGED",
}
"""GatewayClasses for a single cluster -> scheme of their load balancers (docs.cloud.google.com,
"About GKE Gateway")."""
_LONGEST_LABELS = {"k8s1": 38, "k8s2": 36}
"""The most characters that the names of namespace, object and port may have together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cluster, as its controllers see it; network and subnetwork by their full names."""

    uid: str
    cluster: str
    project: str
    region: str
    zones: tuple[str, ...]
    network: str
    subnetwork: str
    ingresses: bool
    """Whether the addon that creates load balancers for Ingresses is enabled."""

    @property
    def links(self) -> dict[str, Any]:
        """Links to network and subnetwork, as in Compute Engine's resources."""
        return {"network": LINK + self.network, "subnetwork": LINK + self.subnetwork}


def resources(place: Place, request: Wanted) -> Iterator[CloudResource]:
    """The resources of one Ingress or Gateway; none for those of other controllers."""
    if request.kind == "ingress":
        # pkg/utils, IsGCEIngress: only the annotation can name one of GKE's classes.
        ours = request.class_name in ("gce", "gce-internal") or (
            not request.class_name and request.spec_class is None
        )
        if ours and place.ingresses:
            yield from _ingress(place, request)
    elif request.class_name in _GATEWAYS:
        yield from _gateway(place, request)


def _ingress(place: Place, need: Wanted) -> Iterator[CloudResource]:
    internal = need.class_name == "gce-internal"
    namespace, _, name = need.name.partition("/")
    labels = "-".join(_trimmed(_LONGEST_LABELS["k8s2"], namespace, name))
    system, cluster = _letters(place.uid, 8), place.uid[:8]
    rest = f"{system}-{labels}-{_letters(f'{system};{namespace};{name}', 8)}"
    backends = [*need.backends, *([] if internal else [("kube-system/default-http-backend", 80)])]
    about = {"kubernetes.io/ingress-name": need.name}
    groups = [neg for backend in backends for neg in _groups(place, backend)]
    scheme = "INTERNAL_MANAGED" if internal else "EXTERNAL"
    scope = f"regions/{place.region}" if internal else "global"
    names = [_group_name(cluster, backend) for backend in backends]
    yield from groups
    yield from _chain(place, scope, scheme, about, names, groups,
                      [f"k8s2-{part}-{rest}" for part in ("um", "tp", "fr")])  # fmt: skip
    ports = [str(port) for port in sorted({port for _, port in backends})]
    yield firewall(place, f"k8s-fw-l7--{place.uid[:16]}", {}, _PROBES, ports)


def _gateway(place: Place, request: Wanted) -> Iterator[CloudResource]:
    regional = request.class_name in ("gke-l7-rilb", "gke-l7-regional-external-managed")
    namespace, _, name = request.name.partition("/")
    prefix = f"gkegw1-{_letters(place.uid, 4)}"
    groups = [neg for backend in request.backends for neg in _groups(place, backend)]
    scope = f"regions/{place.region}" if regional else "global"
    about = {"networking.gke.io/gateway": request.name}

    def own(*parts: str) -> str:
        return f"{prefix}-{'-'.join(_trimmed(36, *parts))}-{_letters(';'.join(parts), 12)}"

    names = [own(*service.split("/"), str(port)) for service, port in request.backends]
    yield from groups
    yield from _chain(place, scope, _GATEWAYS[request.class_name], about, names, groups,
                      [own(namespace, name)] * 3)  # fmt: skip
    where = place.region if regional else "global"
    network = place.network.rpartition("/")[2]
    ports = [str(port) for port in sorted({port for _, port in request.backends})]
    yield firewall(place, f"{prefix}-l7-{network}-{where}"[:63], {}, _PROBES, ports)


def _groups(place: Place, backend: tuple[str, int]) -> Iterator[CloudResource]:
    """The network endpoint group of a Service's port in each zone."""
    service, port = backend
    namespace, _, name = service.partition("/")
    about = {"cluster-uid": place.uid[:16], "namespace": namespace, "service-name": name,
             "port": str(port)}  # fmt: skip
    for zone in place.zones:
        body = {
            "description": json.dumps(about),
            "networkEndpointType": "GCE_VM_IP_PORT",
            "size": 0,
            **place.links,
        }
        identity = f"projects/{place.project}/zones/{zone}/networkEndpointGroups/"
        yield new(
            identity + _group_name(place.uid[:8], backend),
            "compute.networkEndpointGroups",
            "network endpoint group",
            body,
            uses=[place.network],
        )


def _chain(
    place: Place, scope: str, scheme: str, about: Mapping[str, str],
    backends: Sequence[str], groups: Sequence[CloudResource], names: Sequence[str],
) -> Iterator[CloudResource]:  # fmt: skip
    """Health checks, backend services with their groups, URL map, proxy, forwarding rule: each
    prevents the deletion of the previous one. `names`: those of the last three."""
    start, description = f"projects/{place.project}/{scope}", json.dumps(about)
    shares = len(place.zones)
    services = [f"{start}/backendServices/{name}" for name in backends]
    for number, name in enumerate(backends):
        check, own = f"{start}/healthChecks/{name}", groups[number * shares :][:shares]
        yield new(check, "compute.healthChecks", "health check", {"type": "HTTP"})
        body = {
            "loadBalancingScheme": scheme,
            "protocol": "HTTP",
            "healthChecks": [LINK + check],
            "backends": [
                {"group": LINK + neg.identity, "balancingMode": "RATE", "maxRatePerEndpoint": 1}
                for neg in own
            ],
        }
        uses = [check, *(neg.identity for neg in own)]
        yield new(services[number], "compute.backendServices", "backend service", body, uses=uses)
    urls, proxy, rule = (
        f"{start}/{kind}/{name}"
        for kind, name in zip(("urlMaps", "targetHttpProxies", "forwardingRules"), names,
                              strict=True)
    )  # fmt: skip
    first = {"defaultService": LINK + services[-1]} if services else {}
    yield new(urls, "compute.urlMaps", "url map", first, uses=services)
    body = {"urlMap": LINK + urls}
    yield new(proxy, "compute.targetHttpProxies", "target http proxy", body, uses=[urls])
    internal = scheme == "INTERNAL_MANAGED"
    body = {
        "description": description,
        "IPProtocol": "TCP",
        "portRange": "80-80",
        "loadBalancingScheme": scheme,
        "target": LINK + proxy,
        **(place.links if internal else {}),
    }
    uses = [proxy, *([place.network, place.subnetwork] if internal else [])]
    yield new(rule, "compute.forwardingRules", "forwarding rule", body, uses=uses)


def firewall(
    place: Place, name: str, about: Mapping[str, str], sources: Sequence[str], ports: Sequence[str]
) -> CloudResource:
    """A rule that admits `sources` to the nodes."""
    body = {
        "direction": "INGRESS",
        "priority": 1000,
        "disabled": False,
        "logConfig": {"enable": False},
        "network": LINK + place.network,
        "sourceRanges": list(sources),
        "allowed": [{"IPProtocol": "tcp", **({"ports": list(ports)} if ports else {})}],
        "targetTags": [f"gke-{place.cluster}-{place.uid[:8]}-node"],
        **({"description": json.dumps(about)} if about else {}),
    }
    # A rule is in its network's project: in a Shared VPC, the host project.
    identity = f"projects/{place.network.split('/')[1]}/global/firewalls/{name}"
    return new(identity, "compute.firewalls", "firewall rule", body, uses=[place.network])


def _group_name(cluster: str, backend: tuple[str, int]) -> str:
    service, port = backend
    namespace, _, name = service.partition("/")
    labels = _trimmed(_LONGEST_LABELS["k8s1"], namespace, name, str(port))
    known = ";".join([cluster, namespace, name, str(port)])
    return f"k8s1-{cluster}-{'-'.join(labels)}-{hashlib.sha256(known.encode()).hexdigest()[:8]}"


def _trimmed(most: int, *labels: str) -> list[str]:
    """Shortens each label in proportion to the excess characters."""
    total = sum(map(len, labels))
    if total <= most:
        return list(labels)
    return [label[: max(1, len(label) * most // total)] for label in labels]


def _letters(of: str, count: int) -> str:
    """A hash of letters and digits."""
    known = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(known[digit % 36] for digit in hashlib.sha256(of.encode()).digest()[:count])
