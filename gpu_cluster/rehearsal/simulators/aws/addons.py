"""EKS addons, which moto lacks."""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.kube.taints import keeps_away, tolerated
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.api import Params, operation, page
from gpu_cluster.rehearsal.simulators.aws.cluster_rules import minor
from gpu_cluster.rehearsal.simulators.aws.collection import Collection, Rows
from gpu_cluster.rehearsal.simulators.aws.eks import begun, cluster_of, issue, kept, now
from gpu_cluster.rehearsal.simulators.aws.evaluation import allowed
from gpu_cluster.rehearsal.simulators.aws.node_join_checks import guarded
from gpu_cluster.rehearsal.simulators.aws.nodes import EFFECTS
from gpu_cluster.rehearsal.simulators.aws.pod_identity import ASSOCIATIONS
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid
from gpu_cluster.rehearsal.simulators.aws.roles import policies, role_name, role_of
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class _Addon:
    """An addon as its row in `addons.yaml`, which explains the keys."""

    namespace: str
    deployment: bool = False
    configuration: Sequence[str] = ()
    strings: str = ""
    removes: str = ""
    runs_as: str = ""
    needs: Mapping[str, str] = field(default_factory=dict)


_ROWS = {
    name: _Addon(**row)
    for name, row in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text()).items()
}
_VOLUME_TAGS = {
    f"{prefix}Tag/ebs.csi.aws.com/cluster": "true" for prefix in ("aws:Request", "ec2:Resource")
}
"""Tags that the EBS CSI driver sets on every volume that it creates."""
_FOUND = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
"""Type -> its name in the messages of EKS's validator."""
_TOLERATED = ("CriticalAddonsOnly", "node-role.kubernetes.io/control-plane")
_NVLINK_BEFORE_BLACKWELL = ("p3.", "p3dn.", "p4d.", "p4de.", "p5.", "p5e.", "p5en.")
_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?")


class _Addons(Collection):
    """Refused: an unknown name or configuration, and a second addon of the same name. An addon is
    DEGRADED if its pods have no node, or a role that lacks a permission."""

    noun, member, key = "Addon", "addon", "addonName"
    exists = ("ResourceInUseException", "Addon already exists: {addonName}")
    unknown = (
        "ResourceNotFoundException",
        "No addon: {addonName} found in cluster: {clusterName}",
    )
    updates = ("addonVersion", "serviceAccountRoleArn", "configurationValues")

    def rows(self, account: Account, params: Params) -> Rows:
        return cluster_of(account, params["clusterName"]).addons

    def new(self, account: Account, params: Params) -> Row:
        cluster, name = cluster_of(account, params["clusterName"]), params["addonName"]
        if name not in _ROWS:
            raise invalid(
                f"Addon {name} specified is not supported: there are {', '.join(_ROWS)}",
            )
        at = now()
        return {
            "addonName": name,
            "clusterName": params["clusterName"],
            "addonVersion": _default(cluster.row["version"]),
            "health": {"issues": []},
            "addonArn": account.arn("eks", f"addon/{params['clusterName']}/{name}/{uuid.uuid4()}"),
            "createdAt": at,
            "modifiedAt": at,
            "tags": params.get("tags") or {},
            "namespaceConfig": {"namespace": _ROWS[name].namespace},
            **{key: params[key] for key in self.updates if key in params},
        }

    def check(self, account: Account, row: Row, params: Params) -> None:
        _check(account, params)

    def shown(self, account: Account, row: Row) -> Row:
        """The addon with its associations and its current health: EKS keeps retrying."""
        cluster = cluster_of(account, row["clusterName"])
        reason = _why_degraded(account, cluster, row)
        owned = _owned(cluster, row).values()
        return row | {
            "podIdentityAssociations": [association["associationArn"] for association in owned],
            "status": "DEGRADED" if reason else "ACTIVE",
            "health": {"issues": [issue(*reason)] if reason else []},
        }

    def create(self, account: Account, params: Params) -> Row:
        row = self.add(account, params)
        cluster = cluster_of(account, params["clusterName"])
        try:
            _associate(account, cluster, row, params.get("podIdentityAssociations") or [])
        except Refusal:
            _drop(cluster, row["addonName"])
            raise
        return {"addon": self.shown(account, row) | {"status": "CREATING"}}

    def update(self, account: Account, params: Params) -> Row:
        """Parameters that are not given are kept."""
        cluster, row = cluster_of(account, params["clusterName"]), self.found(account, params)
        _check(account, params)
        if "podIdentityAssociations" in params:
            _associate(account, cluster, row, params["podIdentityAssociations"])
        row |= {key: params[key] for key in self.updates if key in params} | {"modifiedAt": now()}
        return begun(cluster, "AddonUpdate", {}, addonName=row["addonName"])

    def delete(self, account: Account, params: Params) -> Row:
        """Its pod identity associations go with it."""
        cluster, row = cluster_of(account, params["clusterName"]), self.found(account, params)
        before = dict(cluster.associations)

        def undo() -> None:
            cluster.addons[row["addonName"]] = row
            cluster.associations.update(before)

        with guarded(account, undo=undo):
            _drop(cluster, row["addonName"])
        return {"addon": row | {"status": "DELETING"}}


ADDONS = _Addons()
ADDONS.serve()


def _default(kubernetes: str) -> str:
    """The version of an addon that is created without one. The real one follows EKS's releases;
    this one only has the same format."""
    return f"v{kubernetes}.0-eksbuild.1"


@operation("eks", "DescribeAddonVersions")
def describe_addon_versions(account: Account, params: Params) -> Row:
    """The addon versions that this account creates by default: kube-proxy's fit a single minor
    version of Kubernetes, those of other addons the next minor as well."""
    minors = sorted(catalog.KUBERNETES_VERSIONS, key=minor)
    wanted = params.get("kubernetesVersion")
    addons = []
    for name in [params["addonName"]] if "addonName" in params else _ROWS:
        reach = 1 if name == "kube-proxy" else 2
        rows = [(_default(own), minors[at : at + reach]) for at, own in enumerate(minors)]
        versions = [
            {
                "addonVersion": version,
                "compatibilities": [
                    {"clusterVersion": fit, "defaultVersion": version == _default(fit)}
                    for fit in fits
                    if wanted in (None, fit)
                ],
            }
            for version, fits in rows
            if wanted is None or wanted in fits
        ]
        addons.append({"addonName": name, "addonVersions": versions})
    return page(params, "addons", addons)


def _owned(cluster: Cluster, row: Row) -> dict[str, Row]:
    """ID -> pod identity association that the addon owns."""
    return {
        identity: association
        for identity, association in cluster.associations.items()
        if association.get("ownerArn") == row["addonArn"]
    }


def _drop(cluster: Cluster, name: str) -> None:
    for identity in _owned(cluster, cluster.addons.pop(name)):
        del cluster.associations[identity]


def works(account: Account, cluster: Cluster, name: str) -> bool:
    """Whether the cluster has the addon and it is not degraded."""
    return not why_degraded(account, cluster, name)


def why_degraded(account: Account, cluster: Cluster, name: str) -> str:
    """Why the addon's pods do not work; empty if they do."""
    row = cluster.addons.get(name)
    if row is None:
        return "the cluster has none"
    return (_why_degraded(account, cluster, row) or ("", ""))[1]


def may_attach(account: Account, cluster: Cluster, volume: Row) -> bool:
    """Whether the role of the EBS CSI driver allows attaching a volume, depending on its tags."""
    name = "aws-ebs-csi-driver"
    role = _role(cluster, cluster.addons[name])
    tags = {f"ec2:ResourceTag/{tag['Key']}": tag["Value"] for tag in volume.get("Tags") or []}
    arn = account.arn("ec2", f"volume/{volume['VolumeId']}")
    return role is not None and allowed(policies(account, role), "ec2:AttachVolume", arn, tags)


def _role(cluster: Cluster, row: Row) -> str | None:
    """The role of the pods that call EC2."""
    addon = _ROWS[row["addonName"]]
    association = cluster.association(addon.namespace, addon.runs_as)
    return association["roleArn"] if association else row.get("serviceAccountRoleArn")


def taints_taken_off(account: Account, cluster: Cluster) -> set[str]:
    """Keys of the taints that the drivers' pods remove from a node as soon as they run there."""
    return {
        addon.removes
        for name, addon in _ROWS.items()
        if addon.removes and works(account, cluster, name)
    }


def _why_degraded(account: Account, cluster: Cluster, row: Row) -> tuple[str, str] | None:
    """The issue's code and message; None if the addon works."""
    name, addon = row["addonName"], _ROWS[row["addonName"]]
    if addon.deployment and not _has_nodes(account, cluster):
        return (
            "InsufficientNumberOfReplicas",
            "The add-on is unhealthy because it doesn't have the desired number of replicas: the "
            "cluster has no node that its pods can run on",
        )
    if reason := _why_tags_refused(row) if name == "aws-ebs-csi-driver" else "":
        return "InsufficientNumberOfReplicas", f"its controller exits: {reason}"
    if not addon.runs_as:
        return None
    association = cluster.association(addon.namespace, addon.runs_as)
    role = _role(cluster, row)
    if role is None:
        given = [association["serviceAccount"] for association in _owned(cluster, row).values()]
        return (
            "AccessDenied",
            f"its pods run as the service account {addon.runs_as}, which has no role"
            + (f": the addon's is {', '.join(given)}'s" if given else ""),
        )
    if association and not cluster.identity_agent:
        return "AccessDenied", "the cluster has no eks-pod-identity-agent addon"
    documents = policies(account, role)
    missing = [
        action
        for action, what in addon.needs.items()
        if not allowed(
            documents, action, what if what == "*" else account.arn("ec2", what), _VOLUME_TAGS
        )
    ]
    if missing:
        return "AccessDenied", f"its role {role_name(role)} may not do {', '.join(missing)}"
    return None


def _why_tags_refused(row: Row) -> str:
    """The EBS CSI driver's error about `--extra-tags`, a flag that its chart writes as
    key=value,key=value; empty if it starts.

    kubernetes-sigs/aws-ebs-csi-driver pkg/driver/validation.go, 2026-11-23; k8s.io/component-base
    cli/flag/map_string_string.go.
    """
    values = yaml.safe_load(row.get("configurationValues") or "{}")
    tags = (values.get("controller") or {}).get("extraVolumeTags") or {}
    flag = ",".join(f"{key}={value}" for key, value in tags.items())
    for pair in flag.split(",") if flag else ():
        key, separator, _ = pair.partition("=")
        if not separator:
            return f"malformed pair, expect string=string: {pair}"
        if key in _DRIVER_TAGS:
            return f"Invalid extra tags: Tag key '{key}' is reserved"
        if key.startswith("kubernetes.io"):
            return "Invalid extra tags: Tag key prefix 'kubernetes.io' is reserved"
    return ""


_DRIVER_TAGS = ("CSIVolumeName", "CSIVolumeSnapshotName", "ebs.csi.aws.com/cluster")


def _check(account: Account, params: Params) -> None:
    version = params.get("addonVersion")
    if version is not None and not _VERSION.fullmatch(version):
        words = f"addonVersion {version} is invalid: it has the form v1.2.3-eksbuild.1"
        raise invalid(words)
    if role := params.get("serviceAccountRoleArn"):
        role_of(account, role)
    if not (text := params.get("configurationValues")):
        return
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        values = str(error).splitlines()[0]
    if not isinstance(values, Mapping):
        words = f"ConfigurationValue is not in valid JSON or YAML format: {values}"
        raise invalid(words)
    known = _ROWS[params["addonName"]].configuration
    if known and (strange := [key for key in values if key not in known]):
        raise invalid(
            "ConfigurationValue provided in request is not supported: Json schema validation "
            f"failed with error: [$.{strange[0]}: is not defined in the schema and the schema "
            "does not allow additional properties]",
        )
    strings = _ROWS[params["addonName"]].strings
    for path, value in _leaves(values) if strings else ():
        if re.fullmatch(strings, path) and type(value) in _FOUND:
            raise invalid(
                "ConfigurationValue provided in request is not supported: Json schema validation "
                f"failed with error: [$.{path}: {_FOUND[type(value)]} found, string expected]",
            )


def _leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The settings that have no others below them, each with its path."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _has_nodes(account: Account, cluster: Cluster) -> bool:
    """Whether a node group of the cluster keeps a node that accepts any pod, or a node pool of
    Auto Mode's own starts one for it: of these, only `system` has a taint, which addons tolerate
    (docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html, read 2026-11-28)."""
    built_in = (cluster.row.get("computeConfig") or {}).get("nodePools")
    return bool(cluster.automatic and built_in) or any(
        kept(account, group)
        and all(
            taint["effect"] == "PREFER_NO_SCHEDULE" or taint["key"] in _TOLERATED
            for taint in group.row.get("taints") or []
        )
        for group in cluster.groups.values()
    )


def _associate(account: Account, cluster: Cluster, row: Row, wanted: list[Row]) -> None:
    """Replaces the addon's pod identity associations by these, all of them or none."""
    before = dict(cluster.associations)
    had = {(e["serviceAccount"], e["roleArn"]): key for key, e in _owned(cluster, row).items()}
    asked = [(association["serviceAccount"], association["roleArn"]) for association in wanted]

    def undo() -> None:
        cluster.associations = before

    try:
        with guarded(account, undo=undo):
            for pair in had.keys() - asked:
                del cluster.associations[had[pair]]
            for name, role in asked:
                if (name, role) not in had:
                    given = {
                        "clusterName": row["clusterName"],
                        "namespace": _ROWS[row["addonName"]].namespace,
                        "serviceAccount": name,
                        "roleArn": role,
                        "ownerArn": row["addonArn"],
                    }
                    ASSOCIATIONS.add(account, given)
    except Refusal:
        undo()
        raise


def why_unenforced(
    cluster: Cluster,
    config_maps: Mapping[str, Mapping[str, Any]],
    node_classes: Sequence[Mapping[str, Any]],
) -> str:
    """Why no NetworkPolicy has an effect in the cluster; empty if they have.

    The VPC CNI's agent by the addon's `enableNetworkPolicy`, Auto Mode's by a ConfigMap
    and by `networkPolicy` of each node class, which the guide does not call optional
    (docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html and
    auto-net-pol.html, read 2026-11-28).
    """
    if cluster.automatic:
        switch = (config_maps.get("kube-system/amazon-vpc-cni") or {}).get("data") or {}
        if switch.get("enable-network-policy-controller") != "true":
            return (
                "EKS Auto Mode enforces no NetworkPolicy: ConfigMap kube-system/amazon-vpc-cni has "
                'no enable-network-policy-controller: "true"'
            )
        bare = [
            row["metadata"]["name"] for row in node_classes if "networkPolicy" not in row["spec"]
        ]
        start = "EKS Auto Mode enforces no NetworkPolicy on nodes of NodeClass"
        return f"{start} {', '.join(sorted(bare))}, without spec.networkPolicy" if bare else ""
    addon = cluster.addons.get("vpc-cni") or {}
    values = yaml.safe_load(addon.get("configurationValues") or "{}")
    if str(values.get("enableNetworkPolicy", "")).lower() == "true":
        return ""
    return "the addon vpc-cni enforces no NetworkPolicy: its enableNetworkPolicy is not true"


def why_unrepaired(cluster: Cluster, group: Mapping[str, Any]) -> str:
    """Why node auto repair misses faults of this group's GPUs or replaces healthy nodes; empty if
    it does neither, or if it is disabled."""
    if not (group.get("nodeRepairConfig") or {}).get("enabled"):
        return ""
    addon = cluster.addons.get("eks-node-monitoring-agent")
    if addon is None:
        return (
            "node auto repair sees no fault of a GPU: the cluster has no eks-node-monitoring-agent "
            "addon, and the kubelet knows of none; add it (aws eks create-addon --region "
            f"{cluster.row['arn'].split(':')[3]} --cluster-name {cluster.row['name']} "
            "--addon-name eks-node-monitoring-agent), or disable "
            "nodeRepairConfig (nodeRepair: { enabled: false } of the pool)"
        )
    values = yaml.safe_load(addon.get("configurationValues") or "{}")
    tolerations = (values.get("dcgmAgent") or {}).get("tolerations") or []
    # The agent tolerates everything; the DCGM server that it queries tolerates nothing by default.
    for taint in group.get("taints") or []:
        key, value, effect = taint["key"], taint.get("value"), EFFECTS[taint["effect"]]
        if keeps_away(effect) and not tolerated(tolerations, key=key, value=value, effect=effect):
            return (
                "node auto repair sees no finding of DCGM: the eks-node-monitoring-agent's "
                f"dcgmAgent.tolerations leave the taint {key} out"
            )
    # The agent waits one minute for its DCGM server, whose image takes longer on a new node, and
    # never withdraws the finding (aws/eks-node-monitoring-agent issue 266).
    overridden = {
        (override["nodeMonitoringCondition"], override["nodeUnhealthyReason"])
        for override in group["nodeRepairConfig"].get("nodeRepairConfigOverrides") or []
    }
    if ("AcceleratedHardwareReady", "DCGMError") not in overridden:
        return (
            "node auto repair replaces healthy nodes: eks-node-monitoring-agent reports DCGMError "
            "on a node whose DCGM server starts after it, and keeps reporting it; no override says "
            "what EKS does then"
        )
    # Pull request 261 there; EKS's default may be that version.
    version = addon["addonVersion"]
    affected = version.startswith("v1.7.0-") or version == _default(cluster.row["version"])
    nvlink = group["instanceTypes"][0].startswith(_NVLINK_BEFORE_BLACKWELL)
    if affected and nvlink and ("AcceleratedHardwareReady", "DCGMHealthCode71") not in overridden:
        return (
            "node auto repair replaces healthy nodes: eks-node-monitoring-agent v1.7.0 reports "
            "DCGMHealthCode71 on H100 and A100 nodes that ever had an NVLink CRC error; no "
            "override says what EKS does then"
        )
    return ""
