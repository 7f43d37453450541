"""EKS addons, which moto does not have."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from components.kube.taints import keeps_away, tolerated
from plugins.cloud.schema import UNKNOWN
from simulators.aws.access import associate, cluster_of, disassociate, now
from simulators.aws.account import ClusterParts
from simulators.aws.evaluation import allowed
from simulators.aws.kind import CloudError, Config, Kind, NotFoundError, Problem
from simulators.aws.node_join_checks import guarded
from simulators.aws.nodes import EFFECTS
from simulators.aws.roles import policies, role_name, role_of

_NAMESPACES = {
    "vpc-cni": "kube-system",
    "kube-proxy": "kube-system",
    "coredns": "kube-system",
    "eks-pod-identity-agent": "kube-system",
    "aws-ebs-csi-driver": "kube-system",
    "aws-efs-csi-driver": "kube-system",
    "aws-fsx-csi-driver": "kube-system",
    "aws-mountpoint-s3-csi-driver": "kube-system",
    "snapshot-controller": "kube-system",
    "eks-node-monitoring-agent": "kube-system",
    "metrics-server": "kube-system",
    "amazon-cloudwatch-observability": "amazon-cloudwatch",
    "adot": "opentelemetry-operator-system",
    "kube-state-metrics": "kube-state-metrics",
    "prometheus-node-exporter": "prometheus-node-exporter",
    "cert-manager": "cert-manager",
    "external-dns": "external-dns",
}
"""Addon -> its namespace (general knowledge; `aws eks describe-addon-versions` has them all)."""
_NEED_NODES = frozenset({"coredns", "aws-ebs-csi-driver", "aws-efs-csi-driver", "metrics-server"})
"""Those with a Deployment: without a node for its pods they never become active."""
_WORKS_AS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "aws-ebs-csi-driver": (
        "ebs-csi-controller-sa",
        {
            "ec2:DescribeAvailabilityZones": "*",
            "ec2:DescribeVolumes": "*",
            "ec2:CreateVolume": "volume/vol-0123456789abcdef0",
            "ec2:AttachVolume": "volume/vol-0123456789abcdef0",
            "ec2:DetachVolume": "volume/vol-0123456789abcdef0",
            "ec2:DeleteVolume": "volume/vol-0123456789abcdef0",
        },
    ),
}
"""Addon -> the service account of the pods that ask EC2, and what for: action -> on what. No pod
gets the node's role, and one without rights ends again and again. Whether the vpc-cni may is
`joining`'s."""
_VOLUME_TAGS = {
    f"{prefix}Tag/ebs.csi.aws.com/cluster": "true" for prefix in ("aws:Request", "ec2:Resource")
}
"""What the EBS CSI driver puts on every volume that it makes."""
_CONFIGURATION = {
    "eks-node-monitoring-agent": ("global", "nodeAgent", "dcgmAgent", "extraObjects"),
}
"""Addon -> what its configuration may have at its top (charts/configuration.schema.json of the
agent's repository, 2026-11-21)."""
_TOLERATED = ("CriticalAddonsOnly", "node-role.kubernetes.io/control-plane")
_VERSION = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?")


class Addon(Kind):
    """An EKS addon. Refused: a name or configuration that EKS does not know, a second one of the
    name; CREATE_FAILED where its pods have no node, or a role that lacks a right."""

    token = "aws:eks/addon:Addon"
    supported_inputs = (
        "clusterName", "addonName", "addonVersion", "configurationValues", "preserve",
        "podIdentityAssociations", "resolveConflictsOnCreate", "resolveConflictsOnUpdate",
        "serviceAccountRoleArn", "tags",
    )  # fmt: skip
    computed = ("addonVersion", "configurationValues")

    def validate_preview(self, config: Config, inputs: Mapping[str, Any]) -> list[Problem]:
        found = super().validate_preview(config, inputs)
        version = inputs.get("addonVersion")
        if version in (None, UNKNOWN) or _VERSION.fullmatch(str(version)):
            return found
        words = (
            f"'addonVersion' ('{version}') must be a version with a leading v: v1.2.3-eksbuild.1"
        )
        return [*found, Problem("addonVersion", words)]

    def create(self, inputs: dict[str, Any]) -> str:
        cluster, name = cluster_of(self.account, inputs["clusterName"]), inputs["addonName"]
        if name not in _NAMESPACES:
            raise CloudError(
                f"InvalidParameterException: Addon {name} specified is not supported: there are "
                f"{', '.join(_NAMESPACES)}"
            )
        if name in cluster.addons:
            raise CloudError(f"ResourceInUseException: Addon already exists: {name}")
        self._check(inputs)
        if name in _NEED_NODES and not self._has_nodes(inputs["clusterName"]):
            raise _degraded(
                inputs,
                "InsufficientNumberOfReplicas: The add-on is unhealthy because it doesn't have the "
                "desired number of replicas: the cluster has no node that its pods can run on",
            )
        made = now()
        cluster.addons[name] = dict(inputs) | {"createdAt": made, "modifiedAt": made}
        try:
            self._associate(cluster, name, [], inputs.get("podIdentityAssociations") or [])
            self._check_rights(cluster, inputs)
        except CloudError:
            del cluster.addons[name]
            for key in [k for k, each in cluster.associations.items() if each.get("owner") == name]:
                del cluster.associations[key]
            raise
        return f"{inputs['clusterName']}:{name}"

    def _check_rights(self, cluster: ClusterParts, inputs: Mapping[str, Any]) -> None:
        """Raises CloudError where the addon's pods would ask EC2 for what they may not do."""
        name = inputs["addonName"]
        if name not in _WORKS_AS:
            return
        account, actions = _WORKS_AS[name]
        association = cluster.associations.get((_NAMESPACES[name], account))
        role = association["roleArn"] if association else inputs.get("serviceAccountRoleArn")
        if role is None:
            given = [each["serviceAccount"] for each in inputs.get("podIdentityAssociations") or []]
            raise _degraded(
                inputs,
                f"its pods run as the service account {account}, which has no role"
                + (f": the addon's is {', '.join(given)}'s" if given else ""),
            )
        if association and "eks-pod-identity-agent" not in cluster.addons:
            raise _degraded(inputs, "the cluster has no eks-pod-identity-agent addon")
        documents = policies(self.account, role)
        missing = [
            action
            for action, what in actions.items()
            if not allowed(
                documents,
                action,
                what if what == "*" else self.account.arn("ec2", what),
                _VOLUME_TAGS,
            )
        ]
        if missing:
            raise _degraded(inputs, f"its role {role_name(role)} may not do {', '.join(missing)}")

    def _check(self, inputs: Mapping[str, Any]) -> None:
        if role := inputs.get("serviceAccountRoleArn"):
            role_of(self.account, role)
        if text := inputs.get("configurationValues"):
            try:
                values = yaml.safe_load(text)
            except yaml.YAMLError as error:
                values = str(error).splitlines()[0]
            if not isinstance(values, Mapping):
                raise CloudError(
                    "InvalidParameterException: ConfigurationValue is not in valid JSON or YAML "
                    f"format: {values}"
                )
            known = _CONFIGURATION.get(inputs["addonName"])
            if known and (strange := [key for key in values if key not in known]):
                raise CloudError(
                    "InvalidParameterException: ConfigurationValue provided in request is not "
                    "supported: Json schema validation failed with error: "
                    f"[$.{strange[0]}: is not defined in the schema and the schema does not allow "
                    "additional properties]"
                )

    def _has_nodes(self, cluster: str) -> bool:
        """Whether a node group of the cluster keeps a node that any pod may run on."""
        return any(
            group.cluster == cluster
            and group.kept > 0
            and all(
                taint["effect"] == "PREFER_NO_SCHEDULE" or taint["key"] in _TOLERATED
                for taint in group.inputs.get("taints") or []
            )
            for group in self.account.groups.values()
        )

    def _associate(self, cluster: ClusterParts, addon: str, old: list[Any], new: list[Any]) -> None:
        namespace = _NAMESPACES[addon]
        for each in old:
            if each not in new:
                disassociate(self.account, cluster, (namespace, each["serviceAccount"]))
        for each in new:
            if each not in old:
                associate(self.account, {
                    "clusterName": cluster.inputs["name"],
                    "namespace": namespace,
                    "owner": addon,
                    **each,
                })  # fmt: skip

    def _row(self, identity: str) -> tuple[ClusterParts, dict[str, Any]]:
        name, _, addon = identity.partition(":")
        cluster = cluster_of(self.account, name)
        if addon not in cluster.addons:
            raise NotFoundError(f"ResourceNotFoundException: No addon: {addon} found in {name}")
        return cluster, cluster.addons[addon]

    def read(self, identity: str, state: Mapping[str, Any]) -> dict[str, Any]:
        name, _, addon = identity.partition(":")
        cluster, row = self._row(identity)
        return {
            "arn": self.account.arn("eks", f"addon/{name}/{addon}"),
            "createdAt": row["createdAt"],
            "modifiedAt": row["modifiedAt"],
            # The real default follows EKS's releases; this one only has its form.
            "addonVersion": row.get("addonVersion", f"v{cluster.inputs['version']}.0-eksbuild.1"),
            "configurationValues": row.get("configurationValues", ""),
            "serviceAccountRoleArn": row.get("serviceAccountRoleArn"),
            "tagsAll": row["tagsAll"],
        }

    def update(self, identity: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._check(new)
        cluster, row = self._row(identity)
        name = new["addonName"]
        self._associate(
            cluster,
            name,
            old.get("podIdentityAssociations") or [],
            new.get("podIdentityAssociations") or [],
        )
        self._check_rights(cluster, new)
        cluster.addons[name] = row | new | {"modifiedAt": now()}

    def set_tags(
        self, identity: str, state: Mapping[str, Any], tags: Mapping[str, str], gone: list[str]
    ) -> None:
        self._row(identity)[1]["tagsAll"] = dict(tags)

    def delete(self, identity: str, state: dict[str, Any]) -> None:
        cluster, row = self._row(identity)
        name, before = row["addonName"], dict(cluster.associations)

        def undo() -> None:
            cluster.addons[name] = row
            cluster.associations.update(before)

        with guarded(self.account, undo=undo):
            del cluster.addons[name]
            for key in [key for key, each in before.items() if each.get("owner") == name]:
                del cluster.associations[key]


def _degraded(inputs: Mapping[str, Any], reason: str) -> CloudError:
    """EKS goes on trying, and the provider waits for it until its own time is over."""
    return CloudError(
        f"waiting for EKS Add-On ({inputs['clusterName']}:{inputs['addonName']}) create: timeout "
        "while waiting for state to become 'ACTIVE' (last state: 'DEGRADED', timeout: 20m0s): "
        f"{reason}"
    )


def why_unrepaired(cluster: ClusterParts, group: Mapping[str, Any]) -> str:
    """Why node auto repair never sees a fault of this group's GPUs; empty where it does, or where
    nothing is to be repaired."""
    if not (group.get("nodeRepairConfig") or {}).get("enabled"):
        return ""
    addon = cluster.addons.get("eks-node-monitoring-agent")
    if addon is None:
        return (
            "node auto repair sees no fault of a GPU: the cluster has no eks-node-monitoring-agent "
            "addon, and the kubelet knows of none"
        )
    values = yaml.safe_load(addon.get("configurationValues") or "{}")
    tolerations = (values.get("dcgmAgent") or {}).get("tolerations") or []
    # The agent itself tolerates everything; the DCGM server that it asks, nothing by itself.
    for taint in group.get("taints") or []:
        key, value, effect = taint["key"], taint.get("value"), EFFECTS[taint["effect"]]
        if keeps_away(effect) and not tolerated(tolerations, key=key, value=value, effect=effect):
            return (
                "node auto repair sees no finding of DCGM: the eks-node-monitoring-agent's "
                f"dcgmAgent.tolerations leave the taint {key} out"
            )
    return ""
