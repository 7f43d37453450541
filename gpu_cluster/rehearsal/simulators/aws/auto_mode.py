"""EKS Auto Mode: EKS's rules for it, and its resources in the cluster and in the account.

EKS runs Karpenter for such a cluster, with its own node classes (`NodeClass`), with the cluster's
role, and in place of addons. API reference: CreateCluster, UpdateClusterConfig; user guide:
create-node-class, auto-learn-iam, set-builtin-node-pools, automode-learn-instances (2026-11-24).
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.components.catalog.eks import AUTO_MODE_FAMILIES
from gpu_cluster.rehearsal.simulators.aws.account import NUMBER, Account, Pod
from gpu_cluster.rehearsal.simulators.aws.api import Params, rule
from gpu_cluster.rehearsal.simulators.aws.eks import begun, entry_row, policy_row
from gpu_cluster.rehearsal.simulators.aws.evaluation import trusts
from gpu_cluster.rehearsal.simulators.aws.refusal import Refusal, invalid
from gpu_cluster.rehearsal.simulators.aws.roles import document, role_name, role_of
from gpu_cluster.rehearsal.simulators.aws.rows import Cluster, Row
from gpu_cluster.rehearsal.simulators.inventory import AUTO_MODE_POOLS
from gpu_cluster.tools.definitions import FOLDER

NODE_CLASS = "NodeClass"
NODE_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy"
PARTS = ("computeConfig", "storageConfig", "kubernetesNetworkConfig")
_TOO_SMALL = ("nano", "micro", "small")
_DEFINITION = Path(__file__).with_name("auto_node_class.yaml")
_TAGS = {
    "karpenter.sh/nodepool": "eks:kubernetes-node-pool-name",
    "karpenter.k8s.aws/ec2nodeclass": "eks:kubernetes-node-class-name",
    "karpenter.sh/nodeclaim": "",
    "Name": "",
}
"""Karpenter's tag -> Auto Mode's, which AWS's policies for it use; empty if it has none."""


def rows(params: Params) -> Row:
    """Auto Mode's three settings in a cluster's description; none if the cluster never had them."""
    if not any(part in params for part in PARTS[:2]):
        return {}
    return {part: params[part] for part in PARTS[:2] if part in params}


def load_balancing(params: Params) -> Row:
    """The load balancing setting in `kubernetesNetworkConfig`."""
    network = params.get("kubernetesNetworkConfig") or {}
    return {key: network[key] for key in ("elasticLoadBalancing",) if key in network}


def _switches(params: Mapping[str, Any]) -> tuple[bool | None, bool | None, bool | None]:
    compute, storage, network = (params.get(part) or {} for part in PARTS)
    return (
        compute.get("enabled"),
        (storage.get("blockStorage") or {}).get("enabled"),
        (network.get("elasticLoadBalancing") or {}).get("enabled"),
    )


def check_create(account: Account, params: Params) -> None:
    """Raises Refusal for a cluster with only some of Auto Mode's settings."""
    switches = {bool(switch) for switch in _switches(params)}
    if len(switches) > 1:  # kubernetes-sigs/cluster-api-provider-aws 5278
        raise invalid(
            "For EKS Auto Mode, please ensure that all required configs, including computeConfig, "
            "kubernetesNetworkConfig, and blockStorage are all either fully enabled or fully "
            "disabled."
        )
    _check_nodes(account, params.get("computeConfig") or {})
    if switches == {False}:
        return
    # hashicorp/terraform-provider-aws website/docs/r/eks_cluster.html.markdown
    if params.get("bootstrapSelfManagedAddons", True):
        raise invalid("bootstrapSelfManagedAddons must be false for EKS Auto Mode")
    if (params.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP") == "CONFIG_MAP":
        raise invalid("EKS Auto Mode needs the authentication mode API or API_AND_CONFIG_MAP")


def _check_nodes(account: Account, compute: Mapping[str, Any]) -> None:
    role, pools = compute.get("nodeRoleArn"), compute.get("nodePools") or []
    if pools and not role:  # terraform-aws-modules/terraform-aws-eks 3366
        raise invalid(
            "When Compute Config nodeRoleArn is null or empty, nodePool list cannot be populated."
        )
    if role and not pools:  # terraform-aws-modules/terraform-aws-eks 3238
        raise invalid(
            "When Compute Config nodeRoleArn is not null or empty, nodePool value(s) must be "
            "provided."
        )
    if strange := [pool for pool in pools if pool not in AUTO_MODE_POOLS]:
        raise invalid(f"nodePools has {', '.join(strange)}: there are {', '.join(AUTO_MODE_POOLS)}")
    if role:
        trust = document(role_of(account, role).assume_role_policy_document)
        if not trusts(trust, "ec2.amazonaws.com", "sts:AssumeRole"):
            raise invalid(f"The role {role} does not trust ec2.amazonaws.com")


def update_cluster(account: Account, cluster: Cluster, params: Params) -> Row:
    """Refuses only some of the three settings, and another role for running nodes."""
    given = {**params, "kubernetesNetworkConfig": load_balancing(params)}
    if None in _switches(given):  # awsdocs/amazon-eks-user-guide 819
        raise invalid("The type for cluster update was not provided.")
    check_create(
        account,
        {**given, "bootstrapSelfManagedAddons": False, "accessConfig": cluster.row["accessConfig"]},
    )
    before, after = cluster.row.get("computeConfig") or {}, params["computeConfig"]
    role = before.get("nodeRoleArn")
    if cluster.automatic and after["enabled"] and role and after.get("nodeRoleArn", role) != role:
        raise invalid(
            "nodeRoleArn cannot be changed after the compute capability of EKS Auto Mode is enabled"
        )
    for part in PARTS[:2]:
        cluster.row[part] = {**(cluster.row.get(part) or {}), **params[part]}
    cluster.row["kubernetesNetworkConfig"] |= load_balancing(params)
    admit_nodes(account, cluster)
    return begun(cluster, "AutoModeUpdate", {"ComputeConfig": after})


def admit_nodes(account: Account, cluster: Cluster) -> None:
    """Creates the access entry for the role of the built-in node pools, as EKS does."""
    role = (cluster.row.get("computeConfig") or {}).get("nodeRoleArn")
    if cluster.automatic and role and role not in cluster.entries:
        name = cluster.row["name"]
        cluster.entries[role] = entry_row(account, name, role, {"type": "EC2"})
        cluster.policies[role] = {NODE_POLICY: policy_row(NODE_POLICY, {"type": "cluster"})}


def definitions() -> list[Mapping[str, Any]]:
    """EKS's resource definitions: its NodeClass, and Karpenter's kinds with EKS's labels."""
    found = [yaml.safe_load(_DEFINITION.read_text())]
    # Those in the repository: an account is also simulated where Karpenter has not been built.
    for definition in json.loads((FOLDER / "karpenter-aws.json").read_text())["definitions"]:
        if definition["metadata"]["name"] in ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh"):
            text = json.dumps(definition).replace(
                r"\"karpenter.k8s.aws/ec2nodeclass\"",
                r"\"eks.amazonaws.com/nodeclass\", \"eks.amazonaws.com/compute-type\"",
            )
            found.append(json.loads(text.replace("karpenter.k8s.aws", "eks.amazonaws.com")))
    return found


def built_in(cluster: Cluster) -> list[dict[str, Any]]:
    """The objects that EKS creates in the cluster: the built-in node pools, with their class."""
    compute, config = cluster.row["computeConfig"], cluster.row["resourcesVpcConfig"]
    pools = compute.get("nodePools") or []
    label = {"app.kubernetes.io/managed-by": "eks"}
    objects: list[dict[str, Any]] = []
    if pools:
        objects.append(
            {
                "apiVersion": "eks.amazonaws.com/v1",
                "kind": NODE_CLASS,
                "metadata": {"name": "default", "labels": label},
                "spec": {
                    "role": role_name(compute["nodeRoleArn"]),
                    "subnetSelectorTerms": [{"id": subnet} for subnet in config["subnetIds"]],
                    # Assumed: what owners print of EKS's own class has it.
                    "networkPolicy": "DefaultAllow",
                    "securityGroupSelectorTerms": [{"id": cluster.security_group}],
                },
            }
        )
    for pool in sorted(pools):
        wanted = {
            "karpenter.sh/capacity-type": ("In", ["on-demand"]),
            "eks.amazonaws.com/instance-category": ("In", ["c", "m", "r"]),
            "eks.amazonaws.com/instance-generation": ("Gt", ["4"]),
            "kubernetes.io/arch": ("In", ["amd64", *(["arm64"] if pool == "system" else [])]),
            "kubernetes.io/os": ("In", ["linux"]),
        }
        template: dict[str, Any] = {
            "expireAfter": "336h",
            "nodeClassRef": {
                "group": "eks.amazonaws.com", "kind": NODE_CLASS, "name": "default",
            },
            "requirements": [
                {"key": key, "operator": operator, "values": values}
                for key, (operator, values) in wanted.items()
            ],
            "terminationGracePeriod": "24h0m0s",
        }  # fmt: skip
        if pool == "system":
            template["taints"] = [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]
        objects.append(
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodePool",
                "metadata": {"name": pool, "labels": label},
                "spec": {
                    "disruption": {
                        "budgets": [{"nodes": "10%"}],
                        "consolidateAfter": "30s",
                        "consolidationPolicy": "WhenEmptyOrUnderutilized",
                    },
                    "template": {"spec": template},
                },
            }
        )
    return objects


def request_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Translates Karpenter's tags to Auto Mode's."""
    named = {_TAGS.get(key, key): value for key, value in tags.items()}
    return {key: value for key, value in named.items() if key}


def label(key: str) -> str:
    """Translates Karpenter's label to Auto Mode's."""
    key = key.replace("karpenter.k8s.aws/ec2nodeclass", "eks.amazonaws.com/nodeclass")
    return key.replace("karpenter.k8s.aws/", "eks.amazonaws.com/")


def starts(instance_type: str) -> bool:
    """Whether Auto Mode starts instances of this type."""
    family, _, size = instance_type.partition(".")
    return family in AUTO_MODE_FAMILIES and size not in _TOO_SMALL


def why_never(cluster: Cluster, pool: Mapping[str, Any], node_class: Any) -> Iterator[str]:
    """Why Auto Mode can never launch nodes for the pool, as far as the rules are its own."""
    role = node_class and node_class["spec"].get("role")
    if role and (why := why_unauthorized(cluster, role)):
        yield f"NodeClass {node_class['metadata']['name']}: InstanceProfileReady is False: {why}"
    for requirement in pool["spec"]["template"]["spec"].get("requirements") or []:
        values = requirement.get("values") or []
        if requirement["operator"] != "In":
            continue
        known = {
            "node.kubernetes.io/instance-type": starts,
            "eks.amazonaws.com/instance-family": AUTO_MODE_FAMILIES.__contains__,
        }.get(requirement["key"])
        if known and not any(known(value) for value in values):
            yield (
                f"NodePool {pool['metadata']['name']}: EKS Auto Mode starts no instance of "
                f"{', '.join(values)}, which {requirement['key']} asks for"
            )


def why_unauthorized(cluster: Cluster, role: str) -> str:
    """Why nodes with this role may not join the cluster under Auto Mode; empty if they may."""
    for principal, entry in cluster.entries.items():
        known = NODE_POLICY in cluster.policies.get(principal, {}) and entry["type"] == "EC2"
        if known and role_name(principal) == role:
            return ""
    return (
        f"Role {role} is unauthorized to join nodes to the cluster: it needs an access entry of "
        "the type EC2 with the access policy AmazonEKSAutoNodePolicy"
    )


@rule("iam", "AddRoleToInstanceProfile")
def check_role(account: Account, params: Params) -> None:
    """Raises Refusal for a role whose nodes could not join: Auto Mode gives it to no instance."""
    pod = account.pods.get(account.asking.response.get_access_key())
    if pod is None or not pod.automatic:
        return
    if why := why_unauthorized(account.clusters[pod.cluster], params["RoleName"]):
        raise Refusal("AccessDenied", why)


def key_for(account: Account, cluster: str) -> str:
    """The access key of Auto Mode itself in this account."""
    key = f"ASIAAUTOMODE{NUMBER[:8]}"
    account.pods[key] = Pod(cluster=cluster, namespace="", service_account="")
    return key


def end(account: Account) -> None:
    """Deletes the instances that Auto Mode launched, when its cluster is deleted."""
    ec2, iam = account.client("ec2"), account.client("iam")
    pools = [{"Name": "tag-key", "Values": ["karpenter.sh/nodepool"]}]
    found = ec2.describe_instances(Filters=pools)["Reservations"]
    rows = [instance for reservation in found for instance in reservation["Instances"]]
    if ids := [row["InstanceId"] for row in rows if row["State"]["Name"] != "terminated"]:
        ec2.terminate_instances(InstanceIds=ids)
    classes = [{"Name": "tag-key", "Values": ["karpenter.k8s.aws/ec2nodeclass"]}]
    for template in ec2.describe_launch_templates(Filters=classes)["LaunchTemplates"]:
        ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])
    for profile in iam.list_instance_profiles(PathPrefix="/karpenter/")["InstanceProfiles"]:
        name = profile["InstanceProfileName"]
        for role in profile["Roles"]:
            iam.remove_role_from_instance_profile(
                InstanceProfileName=name, RoleName=role["RoleName"]
            )
        iam.delete_instance_profile(InstanceProfileName=name)
