"""Whether the versions of a cluster's addons match its Kubernetes version; read-only.

EKS lists them in `DescribeAddonVersions`; `ListAddons` and `DescribeAddon` return what an existing
cluster runs, which EKS does not change when the cluster is upgraded.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.components.catalog.bad_releases import harm
from gpu_cluster.components.catalog.eks_addons import ADDONS
from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.components.eks.node_repair_args import counts_nvlink_errors
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.scalers import SCALERS
from gpu_cluster.stacks.capacity.aws_account import listed, unknown
from gpu_cluster.stacks.capacity.verdict import Finding

_AT = "cluster.addonVersions"


@dataclass(frozen=True, slots=True)
class _Fitting:
    """The versions of an addon that are compatible with a Kubernetes version."""

    versions: tuple[str, ...]
    """The newest version first."""
    default: str | None

    def __str__(self) -> str:
        default = f"the default is {self.default}, " if self.default else ""
        return f"{default}the newest is {self.versions[0]}"


def addon_findings(
    eks: Any, settings: EksSettings, *, simulated: bool = False
) -> tuple[list[Finding], list[str]]:
    """A finding for each version that is not compatible with `cluster.version`, pinned or running
    without a pin, and a note for each pin with a newer version.

    `simulated`: a simulated account runs addons, but does not have EKS's list: pins are not
    checked.
    """
    cluster = settings.cluster
    if not isinstance(cluster, EksClusterArgs):
        return [], []
    findings, notes = list[Finding](), list[str]()
    try:
        pinned = {} if simulated else cluster.addon_versions
        running = _running(eks, cluster.name).items()
        unpinned = {name: v for name, v in running if name not in cluster.addon_versions}
        for name, version in {**pinned, **unpinned}.items():
            fitting, about = _fitting(eks, name, cluster.version), f"{_AT}.{name}"
            if bad := harm(name, version):
                reason = f"{version} {bad.symptom} ({bad.source}); {fitting}"
                if bad.reason and _acts_on(bad.reason, settings):
                    findings.append(Finding.wrong(about, reason))
                else:
                    notes.append(f"{about}: {reason}")
            if version not in fitting.versions:
                what = (
                    version
                    if name in pinned
                    else (f"is not set, and the running version {version}")
                )
                offer = str(fitting) if fitting.versions else "no version of the addon fits"
                reason = f"{what} does not fit Kubernetes {cluster.version}; {offer}"
                findings.append(Finding.wrong(about, reason))
            elif name in pinned and version != fitting.versions[0]:
                notes.append(f"{about}: {version} fits Kubernetes {cluster.version}; {fitting}")
    except Exception as error:
        findings.append(Finding.unknown(_AT, unknown(error).reason))
    return findings, notes


def _acts_on(reason: str, settings: EksSettings) -> bool:
    """Whether a pool's healthy nodes are replaced for this reason of a node condition. Karpenter
    replaces them for every one that the agent reports."""
    cluster = settings.cluster
    pools = [pool.args for pool in settings.pools.values()]
    affected = [pool for pool in pools if counts_nvlink_errors(pool.gpu_model)]
    if not SCALERS[cluster.scaler].node_groups:
        karpenter = cluster.karpenter
        return bool(affected) and karpenter is not None and karpenter.node_repair
    return any(
        pool.node_repair.enabled
        and not any(
            (override.node_unhealthy_reason, override.repair_action) == (reason, "NoAction")
            for override in pool.node_repair.overrides_on(pool.gpu_model)
        )
        for pool in affected
    )


def _running(eks: Any, cluster: str) -> Mapping[str, str]:
    """Addon of the stack -> the version that the cluster runs; empty if there is no cluster yet."""
    try:
        names = eks.list_addons(clusterName=cluster)["addons"]
    except eks.exceptions.ResourceNotFoundException:
        return {}
    return {
        addon.name: eks.describe_addon(clusterName=cluster, addonName=addon.name)["addon"][
            "addonVersion"
        ]
        for addon in ADDONS
        if addon.name in names
    }


def _fitting(eks: Any, name: str, kubernetes: str) -> _Fitting:
    asked = {"addonName": name, "kubernetesVersion": kubernetes}
    defaults = {
        version["addonVersion"]: any(
            compatibility.get("defaultVersion") and compatibility["clusterVersion"] == kubernetes
            for compatibility in version["compatibilities"]
        )
        for addon in listed(eks, "describe_addon_versions", "addons", **asked)
        for version in addon["addonVersions"]
    }
    newest = sorted(defaults, key=lambda v: [*map(int, re.findall("[0-9]+", v))], reverse=True)
    return _Fitting(tuple(newest), next((v for v in newest if defaults[v]), None))
