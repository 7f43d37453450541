"""Whether a stack's GPU pools can be added to an existing GKE cluster; read-only.

Queries the Kubernetes Engine API: `clusters.get`, and `clusters.list` for a cluster that does not
exist. The contents of the cluster are checked by `stacks.capacity.conflicts`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.components.cluster import POOL_LABEL
from gpu_cluster.components.gke.existing_args import (
    DRIVER_ADDONS,
    FoundCluster,
    GkeExistingClusterArgs,
    bounded,
    doubts,
    gcloud,
    no_dns,
    unfit,
)
from gpu_cluster.components.gke.kubeconfig import kubeconfig
from gpu_cluster.components.gke.settings import GkeSettings
from gpu_cluster.components.lifecycle.ownership import GOOGLE_LABEL, google_label
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.verdict import Finding, Unknown
from gpu_cluster.stacks.outcome import CheckError

Row = Mapping[str, Any]


def cluster_findings(
    api: GoogleApi, settings: Settings[GkeSettings], owner: str, *, simulated: bool = False
) -> list[Finding]:
    """A finding for each thing that is missing or in conflict; none for a cluster that the stack
    creates. `owner`: the stack, `<project>/<stack>`. `simulated`: whether a simulator answers,
    whose cluster has another address."""
    gke_settings, args = settings.own, settings.own.cluster
    if not isinstance(args, GkeExistingClusterArgs):
        return []
    cluster = api.found("container", args.path_in(gke_settings.project))
    if isinstance(cluster, Unknown):
        return [Finding.unknown("cluster.existing", cluster.reason)]
    lines = (
        [_elsewhere(api, gke_settings.project, args)]
        if cluster is None
        else list(_lines(cluster, settings, args, owner, simulated))
    )
    findings = [
        Finding.wrong(about, reason)
        for about, _, reason in (line.partition(": ") for line in lines)
    ]
    direct = [name for name, pool in gke_settings.pools.items() if pool.args.gpu_direct == "rdma"]
    if cluster is not None and direct and not _dataplane(cluster):
        reason = (
            f"GKE gives nodes RDMA only in clusters with Dataplane V2, which {args.existing} has "
            "not, and which only a new cluster can have; drop the key"
        )
        findings += [Finding.wrong(f"gpuPools.{name}.gpuDirect", reason) for name in direct]
    if cluster is not None and settings.protected and not _enforces(cluster):
        reason = (
            f"{args.existing} has neither Dataplane V2 nor GKE's Calico, so that every pod may "
            "reach the workers of training jobs and services, unless its owner has installed "
            "something else that enforces NetworkPolicies; ask its owner to turn on Calico, which "
            f"recreates all nodes: {gcloud('update', args, gke_settings.project)} with "
            "--update-addons NetworkPolicy=ENABLED, then with --enable-network-policy"
        )
        findings.append(Finding.unknown("cluster.existing", reason))
    return findings


def _enforces(row: Row) -> bool:
    """Whether GKE enforces NetworkPolicies in the cluster.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/network-policy
    """
    addon = (row.get("addonsConfig") or {}).get("networkPolicyConfig") or {}
    calico = (row.get("networkPolicy") or {}).get("enabled") and not addon.get("disabled")
    return bool(calico) or _dataplane(row)


def _dataplane(row: Row) -> bool:
    """Whether the cluster has Dataplane V2."""
    return bool((row.get("networkConfig") or {}).get("datapathProvider") == "ADVANCED_DATAPATH")


def kubeconfig_of(api: GoogleApi, settings: GkeSettings) -> str:
    """The kubeconfig that the program would write; raises CheckError if Google Cloud does not
    answer."""
    args = settings.cluster
    assert isinstance(args, GkeExistingClusterArgs)
    cluster = api.get("container", args.path_in(settings.project))
    if isinstance(cluster, Unknown):
        raise CheckError(cluster.reason)
    if args.dns_endpoint or not has_address(cluster):
        return kubeconfig(name=args.name, endpoint=str(_dns(cluster).get("endpoint")))
    return kubeconfig(
        name=args.name,
        endpoint=cluster["endpoint"],
        ca_certificate=cluster["masterAuth"]["clusterCaCertificate"],
    )


def _dns(row: Row) -> Row:
    endpoints = row.get("controlPlaneEndpointsConfig") or {}
    config: Row = endpoints.get("dnsEndpointConfig") or {}
    return config


def has_address(row: Row) -> bool:
    """Whether the control plane is reached by an IP address, public or private; an answer without
    endpoints is from before there was a choice."""
    endpoints = row.get("controlPlaneEndpointsConfig")
    return not endpoints or bool((endpoints.get("ipEndpointsConfig") or {}).get("enabled"))


def found_in(row: Row) -> FoundCluster:
    """The API's answer about a cluster; it omits values that are false, 0 or empty."""
    monitoring = row.get("monitoringConfig") or {}
    scaling = row.get("autoscaling") or {}
    limits = scaling.get("resourceLimits") if scaling.get("enableNodeAutoprovisioning") else None
    addons = row.get("addonsConfig") or {}
    prometheus = monitoring.get("managedPrometheusConfig") or {}
    components = (monitoring.get("componentConfig") or {}).get("enableComponents") or ()
    return FoundCluster(
        version=row["currentMasterVersion"],
        autopilot=bool((row.get("autopilot") or {}).get("enabled")),
        confidential=bool((row.get("confidentialNodes") or {}).get("enabled")),
        workload_pool=(row.get("workloadIdentityConfig") or {}).get("workloadPool", ""),
        drivers=frozenset(
            name for name in DRIVER_ADDONS if (addons.get(name) or {}).get("enabled")
        ),
        dcgm="DCGM" in components,
        multi_networking=bool((row.get("networkConfig") or {}).get("enableMultiNetworking")),
        managed_prometheus=bool(prometheus.get("enabled")),
        network=(row.get("networkConfig") or {}).get("network", ""),
        pools=[
            (
                pool["name"],
                (config.get("labels") or {}).get(POOL_LABEL),
                (config.get("resourceLabels") or {}).get(GOOGLE_LABEL),
            )
            for pool in row.get("nodePools") or ()
            for config in [pool.get("config") or {}]
        ],
        limits={limit["resourceType"]: int(limit["maximum"]) for limit in limits or ()},
    )


def _elsewhere(api: GoogleApi, project: str, args: GkeExistingClusterArgs) -> str:
    body = api.get("container", f"projects/{project}/locations/-/clusters")
    rows = [] if isinstance(body, Unknown) else body.get("clusters") or []
    for cluster in rows:
        if cluster["name"] == args.existing:
            return (
                f"cluster.location: {args.existing} is in {cluster['location']}, not in "
                f"{args.location}; correct the location"
            )
    known = ", ".join(f"{cluster['name']} in {cluster['location']}" for cluster in rows)
    return (
        f"cluster.existing: {project} has no GKE cluster {args.existing}; it has {known or 'none'}"
    )


def _lines(
    row: Row,
    settings: Settings[GkeSettings],
    args: GkeExistingClusterArgs,
    owner: str,
    simulated: bool,
) -> Iterator[str]:
    """The findings' lines, each starting with the key."""
    own, found = settings.own, found_in(row)
    stack = google_label(*owner.split("/", 1))
    status = row.get("status")
    if status not in ("RUNNING", "RECONCILING"):
        yield f"cluster.existing: {args.name} is {status} in GKE; wait until it is RUNNING"
    refusals = unfit(args, own.pools, settings.runs, found, project=own.project, stack=stack)
    yield from map(str, refusals)
    yield from doubts(args, own.pools, found)
    yield from bounded(args, own.pools, found)
    by_name = args.dns_endpoint or not has_address(row)
    if by_name and not _dns(row).get("allowExternalTraffic"):
        yield f"cluster.{no_dns(args, own.project)}"
    if args.endpoint is None or simulated:
        return
    authority = row["masterAuth"]["clusterCaCertificate"]
    dns = _dns(row).get("endpoint")
    private = (row.get("privateClusterConfig") or {}).get("privateEndpoint")
    addresses = [row.get("endpoint"), private] if has_address(row) else []
    name = "controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint" if by_name else "endpoint"
    for key, given, known, field in (
        ("endpoint", args.endpoint, [*addresses, dns], name),
        ("certificateAuthority", args.certificate_authority, [None, authority],
         "masterAuth.clusterCaCertificate"),
    ):  # fmt: skip
        if given not in known:
            yield (
                f"cluster.{key}: does not match {args.name}; set it to the output of "
                f"{gcloud('describe', args, own.project)} --format 'value({field})', or drop both "
                "keys"
            )
