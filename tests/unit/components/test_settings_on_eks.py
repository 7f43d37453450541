"""The settings of GPU pools on an existing cluster are read, or refused in one line."""

from typing import Any

import pytest

from components.eks.existing_args import EksExistingClusterArgs
from components.owners import owned
from components.settings import load as settings
from tests.program.environments import values_of, without_keys
from tests.unit.components.test_settings import changed, refusal

CLUSTER = "gpu-cluster:cluster"


def test_existing_names_a_cluster_of_its_platform() -> None:
    """The platform is the one that says where the cluster runs; it has no groups that it knows."""
    read = settings.from_config(changed("on-eks", []))
    assert read.platform == "eks-existing"
    assert isinstance(read.cluster, EksExistingClusterArgs)
    assert read.cluster.name == "platform"
    assert read.own.access.groups is None


def test_two_stacks_may_add_to_one_cluster() -> None:
    """Neither deletes it."""
    assert owned(values_of("on-eks")) is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ([CLUSTER, "version", "absent"], 'version: is missing; set it, for instance to "1.35"'),
        (
            [CLUSTER, "version", "1.10"],
            "version: '1.10' is not a Kubernetes minor that EKS and Cluster Autoscaler both have",
        ),
        (
            [CLUSTER, "endpoint", "absent"],
            "endpoint: endpoint and certificateAuthority belong together; give both, or drop "
            "both to have them read from the cluster",
        ),
        ([CLUSTER, "endpoint", "a.eks.amazonaws.com"], "endpoint: 'a.eks.amazonaws.com' is not the "
         "URL of a control plane such as https://0123ABCD.gr7.us-east-1.eks.amazonaws.com"),
        (
            [CLUSTER, "network", "subnetIds", []],
            "network.subnetIds: is empty; name the private subnets in which GPU nodes start",
        ),
        (
            [CLUSTER, "network", "securityGroupIds", ["nodes"]],
            "network.securityGroupIds[0]: 'nodes' is not the ID of a security group such as "
            "sg-0123456789abcdef0",
        ),
        (
            [CLUSTER, "admins", []],
            "admins: is not available with existing: the cluster's owner decides it; drop it",
        ),
        ([CLUSTER, "cpuPools", {"a": {"instanceTypes": ["m7i.large"], "zones": ["us-east-1a"]}}],
         "cpuPools.a.zones: 'us-east-1a' is not in the cluster's network; give IDs of "
         "subnets here; allowed: subnet-0aaaaaaaaaaaaaaa1, subnet-0aaaaaaaaaaaaaaa2"),
        ([CLUSTER, "cpuPools", {"train-gpu": {"instanceTypes": ["m7i.large"]}}],
         "cpuPools.train-gpu: is also the name of a GPU pool; choose another"),
        (
            [CLUSTER, "name", "ml"],
            "name: is not available with existing: that is the cluster's name; drop it",
        ),
        ([CLUSTER, "systemPool", {}], "systemPool: is not available with existing: system pods run "
         "on its owner's nodes; drop it, and declare other nodes without GPUs in cpuPools"),
        ([CLUSTER, "metricsServer", True], "metricsServer: is not available with existing: the "
         "stack changes no addons there; drop it, and ask its owner for the addon"),
        ([CLUSTER, "systemPol", {}], "systemPol: there is no such key; ..."),
        ([CLUSTER, "network", "cidr", "10.0.0.0/16"],
         "network.cidr: is only available on eks without existing; drop it"),
        (
            [CLUSTER, "disksEncryptionKey", "arn:aws:kms:us-west-2:123456789012:key/"
             "00000000-0000-0000-0000-000000000000"],
            "disksEncryptionKey: "
            "'arn:aws:kms:us-west-2:123456789012:key/00000000-0000-0000-0000-000000000000' is "
            "not in us-east-1; EKS needs a key in the cluster's region",
        ),
        ([CLUSTER, "karpenterNodeRole", "arn:aws:iam::123456789012:role/nodes"],
         "karpenterNodeRole: 'arn:aws:iam::123456789012:role/nodes' is not the name of an IAM "
         "role; give the name, without arn:aws:iam::123456789012:role/"),
        ([CLUSTER, "existing", ""], "existing: '' is not an EKS cluster name"),
        ([CLUSTER, "platform", "gke-autopilot"],
         "existing: is not available on platform gke-autopilot; an Autopilot cluster starts "),
        (
            [CLUSTER, "platform", "eks-existing"],
            "platform: 'eks-existing' is not known; did you mean 'existing'?",
        ),
    ],
    ids=lambda value: ".".join(map(str, value[1:-1])) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_bad_config_is_refused(change: list[Any], says: str) -> None:
    """With the key's path in front; keys of a cluster that the stack would create have no place."""
    said = without_keys(refusal(changed("on-eks", [change])) or "accepted")
    assert said.startswith(f"{CLUSTER}.{says.removesuffix('...')}")
    assert "\n" not in said


IDS = [f"sg-0aaaaaaaaaaaaaa{number}" for number in range(10, 34)]


@pytest.mark.parametrize(
    ("cluster", "pool", "says"),
    [
        (IDS[:1], IDS[1:5], None),
        (IDS[:5], [], None),
        (IDS[:8], IDS[8:16], None),
        (IDS[:8], IDS[8:17], "the 9 groups and the 8 of cluster.network.securityGroupIds are 17, "
         "and a network interface has at most 16; drop some"),
        (IDS[:2], IDS[1:3], f"{IDS[1]} is also in cluster.network.securityGroupIds"),
    ],
)  # fmt: skip
def test_an_interface_has_sixteen_security_groups_of_cluster_and_pool_together(
    cluster: list[str], pool: list[str], says: str | None
) -> None:
    """EC2 refuses more, and the same one twice, when it launches an instance."""
    said = refusal(
        changed(
            "on-eks",
            [
                [CLUSTER, "network", "securityGroupIds", cluster],
                ["gpu-cluster:gpuPools", "train-gpu", "securityGroupIds", pool],
            ],
        )
    )
    assert (said is None) is (says is None), said
    assert not says or f"gpuPools.train-gpu.securityGroupIds: {says}" in str(said)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["ssm", True], "ssm: is for a role that the stack creates, and the nodes have Karpenter; "
         "ask its owner to attach the policy, and drop it"),
        (["nodePolicies", ["arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"]],
         "nodePolicies: is for a role that the stack creates"),
        (["network", "cniPolicy", False],
         "network.cniPolicy: is for a role that the stack creates"),
        (["cpuPools", {"heads": {"instanceTypes": ["m7i.large"], "minNodes": 1}}],
         "cpuPools.heads.minNodes: needs Karpenter's feature gate StaticCapacity"),
        (["cpuPools", {"heads": {"instanceTypes": ["m7i.large"]}}], None),
    ],
)  # fmt: skip
def test_the_cluster_s_own_karpenter_gives_nodes_its_role(
    change: list[Any], says: str | None
) -> None:
    """So the stack adds no policy to it; and its feature gates are its owner's."""
    own = [[CLUSTER, "scaler", "karpenter"], [CLUSTER, "karpenterNodeRole", "Karpenter"]]
    repair = ["gpu-cluster:gpuPools", "train-gpu", "nodeRepair", "absent"]
    said = refusal(changed("on-eks", [*own, repair, [CLUSTER, *change]]))
    assert (said is None) == (says is None)
    assert (said or "").startswith(f"{CLUSTER}.{says}" if says else "")


AWS = "arn:aws:iam::aws:policy"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"nodePolicies": [f"{AWS}/AmazonEKS_CNI_Policy"]}, "nodePolicies[0]: "
         f"'{AWS}/AmazonEKS_CNI_Policy' has the name of another policy that the stack attaches"),
        ({"nodePolicies": [f"{AWS}/AmazonSSMManagedInstanceCore"], "ssm": True},
         f"nodePolicies[0]: '{AWS}/AmazonSSMManagedInstanceCore' has the name"),
        ({"nodePolicies": [f"{AWS}/AmazonSSMManagedInstanceCore"]}, None),
        ({"nodePolicies": ["arn:aws-cn:iam::aws:policy/A"]},
         "nodePolicies[0]: 'arn:aws-cn:iam::aws:policy/A' is not in the partition of us-east-1"),
        ({"ssm": True, "scaler": "auto-mode"}, "ssm: is not possible with scaler auto-mode"),
    ],
)  # fmt: skip
def test_a_policy_is_attached_to_the_nodes_once(changes: dict[str, Any], says: str | None) -> None:
    """From the region's partition; and none that has no effect on the nodes of Auto Mode."""
    said = refusal(changed("on-eks", [[CLUSTER, key, value] for key, value in changes.items()]))
    assert (said is None) == (says is None)
    assert (said or "").startswith(f"{CLUSTER}.{says}" if says else "")


def test_an_order_of_fallback_needs_an_autoscaler_of_the_stack() -> None:
    """The flags of the cluster's own are its owner's."""
    order = ["gpu-cluster:gpuPools", "train-gpu", "fallback", ["on-demand", "spot"]]
    said = refusal(changed("on-eks", [order])) or "accepted"
    assert said == (
        "gpu-cluster:gpuPools.train-gpu.fallback: needs flags of Cluster Autoscaler, and that of "
        "the cluster is its owner's; set cluster.scaler to karpenter or auto-mode, drop the key, "
        "or, if the cluster has no autoscaler, set cluster.autoscaler to {} to install one here"
    )
    assert refusal(changed("on-eks", [order, [CLUSTER, "autoscaler", {}]])) is None


def test_an_existing_gke_cluster_has_no_compute_classes() -> None:
    """Nothing of the stack would bound their nodes, unlike those of node pools."""
    said = refusal(changed("on-gke", [[CLUSTER, "scaler", "compute-classes"]]))
    assert said == (
        f"{CLUSTER}.scaler: is not available with existing: pools are node pools, since a "
        "ComputeClass has no maxNodes; drop it, or create a ComputeClass and a CapacityQuota of "
        "its nodes (a preview of GKE) yourself, as docs/how-to/not-included.md describes, and use "
        "platform: existing"
    )


def test_auto_mode_takes_no_policy_for_the_network() -> None:
    """Its nodes run no CNI of their own, so that the key would do nothing."""
    auto = [[CLUSTER, "scaler", "auto-mode"], [CLUSTER, "network", "cniPolicy", False]]
    repair = ["gpu-cluster:gpuPools", "train-gpu", "nodeRepair", "absent"]
    said = refusal(changed("on-eks", [*auto, repair])) or "accepted"
    assert said.startswith(f"{CLUSTER}.network.cniPolicy: has no effect with scaler auto-mode")


@pytest.mark.parametrize(
    ("scaler", "types", "size", "known"),
    [
        ("auto-mode", ["g4dn.xlarge"], 100, False),
        ("auto-mode", ["g4dn.xlarge"], 117, True),  # 125 GB are 116.4 GiB.
        ("auto-mode", ["g4dn.xlarge", "g4dn.2xlarge"], 200, False),
        ("karpenter", ["g4dn.xlarge"], 100, True),
    ],
)
def test_auto_mode_uses_local_disks_that_are_larger_than_the_volume(
    scaler: str, types: list[str], size: int, known: bool
) -> None:
    """Then the room for pods is not known, and the volume's settings are without effect."""
    pool = {"instanceTypes": types, "diskSizeGb": size, "diskThroughput": 600}
    changes = [
        ["gpu-cluster:cluster", "autoscaler", "absent"],
        ["gpu-cluster:cluster", "scaler", scaler],
        ["gpu-cluster:gpuPools", "train-gpu", pool],
    ]
    resolved = settings.from_config(changed("train", changes)).pools["train-gpu"]
    assert (resolved.pool.disk_mib is not None) is known
    lines = [line for line in resolved.warnings if "diskThroughput: 600 has no effect" in line]
    assert len(lines) == (not known)
    assert not [line for line in resolved.warnings if "diskIops" in line]
