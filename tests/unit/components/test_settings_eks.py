"""EKS settings are complete and frozen, or refused in one line that names the key."""

import dataclasses
import re
from contextlib import nullcontext
from datetime import date
from typing import Any

import botocore.session
import pytest

from gpu_cluster.components.catalog import eks as catalog
from gpu_cluster.components.catalog import images
from gpu_cluster.components.cluster import Runs
from gpu_cluster.components.eks import reservation
from gpu_cluster.components.eks.cluster_args import DEFAULT_VERSION
from gpu_cluster.components.eks.pool_args import EksGpuNodeGroupArgs
from gpu_cluster.components.eks.regions import (
    is_zone_id,
    is_zone_name,
    managed_policy,
)
from gpu_cluster.components.eks.settings import EksSettings
from gpu_cluster.components.eks.warm_pool_args import EksWarmPoolArgs
from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings.validate import warnings
from tests.unit.components.test_settings import changed

POOL = ["gpu-cluster:gpuPools", "train-gpu"]
POLICY = "arn:aws:iam::123456789012:policy/own-{}"
GROUP = "arn:aws:resource-groups:us-east-1:123456789012:group/gpus"


def read(*changes: list[Any]) -> EksSettings:
    """The train environment's settings after changes."""
    own = settings.from_config(changed("train", list(changes))).own
    assert isinstance(own, EksSettings)
    return own


@pytest.mark.parametrize("name", catalog.INSTANCE_TYPES)
@pytest.mark.parametrize("os", ["al2023", "bottlerocket"])
def test_every_gpu_instance_type_is_accepted_or_refused_with_the_reason(name: str, os: str) -> None:
    """Each NVIDIA instance type gives the right image, GPUs and label, or its own reason."""
    row = catalog.INSTANCE_TYPES[name]
    if reason := catalog.refusal(name):
        with pytest.raises(ValueError, match=re.escape(name)) as raised:
            EksGpuNodeGroupArgs(instance_types=[name], os=os)
        assert str(raised.value) == f"instanceTypes[0]: {name!r} {reason}"
        return
    block: dict[str, Any] = {}
    if row.blocks == "only":
        block = {"capacity_type": "capacity-block", "reservation": "cr-0123456789abcdef0"}
    if refused := catalog.image_refusal(row, os, None):
        with pytest.raises(ValueError, match=re.escape(": ".join(refused))):
            EksGpuNodeGroupArgs(instance_types=[name], os=os, **block)
        return
    args = EksGpuNodeGroupArgs(instance_types=[name], os=os, **block)
    pool = args.gpu_pool("a-pool")
    arch = {"amd64": "x86_64", "arm64": "ARM_64"}[row.arch]
    assert args.image == f"{'AL2023' if os == 'al2023' else 'BOTTLEROCKET'}_{arch}_NVIDIA"
    assert (pool.gpus_per_node, pool.allocatable) == (row.gpus, row.gpus)
    assert pool.labels["k8s.amazonaws.com/accelerator"] == pool.accelerator
    assert pool.device_plugin is (os == "al2023")
    assert (pool.cdi is True) is (os == "al2023")
    assert row.vendor == "NVIDIA"


def test_the_default_version_is_supported_and_has_an_autoscaler() -> None:
    """A newer minor in the catalog upgrades no cluster by itself."""
    assert read(["gpu-cluster:cluster", "version", "absent"]).cluster.version == DEFAULT_VERSION
    assert DEFAULT_VERSION == "1.35"
    assert catalog.support("1.36", date(2026, 11, 23)) == "standard"
    assert catalog.support(DEFAULT_VERSION, date(2026, 11, 23)) == "standard"
    assert images.cluster_autoscaler(DEFAULT_VERSION)


@pytest.mark.parametrize(
    ("version", "day", "good"),
    [
        ("1.30", date(2026, 11, 23), False),
        ("1.31", date(2026, 11, 25), True),
        ("1.31", date(2026, 11, 26), False),
        ("1.32", date(2026, 11, 26), True),
    ],
)
def test_a_version_that_eks_ended_is_refused_from_its_last_day_on(
    version: str, day: date, good: bool
) -> None:
    """VPC and key would be created and paid for before EKS refuses the cluster."""
    cluster = read(["gpu-cluster:cluster", "version", "1.32"]).cluster
    cluster = dataclasses.replace(cluster, version=version)
    if good:
        cluster.check_support(day)
        assert [line for line in cluster.warnings(day) if line.startswith("version: standard")]
        return
    with pytest.raises(ValueError, match=rf"^version: '{version}' is a Kubernetes minor that EKS "):
        cluster.check_support(day)


@pytest.mark.parametrize(
    ("version", "day", "warning"),
    [
        ("1.34", date(2026, 10, 2), None),
        ("1.34", date(2026, 10, 3), "ends on 2026-12-02, and EKS then upgrades"),
        ("1.34", date(2026, 12, 1), "ends on 2026-12-02, and EKS then upgrades"),
        (
            "1.34",
            date(2026, 12, 2),
            "existing one automatically; set 1.35 for a new cluster, or 1.35",
        ),
        ("1.32", date(2026, 12, 2), "set 1.35 for a new cluster, or 1.33 for an existing one"),
        ("1.35", date(2026, 12, 2), None),
    ],
)
def test_the_end_of_a_version_is_a_warning_60_days_before(
    version: str, day: date, warning: str | None
) -> None:
    """EKS upgrades the cluster itself on the day, after which no pool can be added."""
    cluster = read(["gpu-cluster:cluster", "version", version]).cluster
    found = [line for line in cluster.warnings(day) if line.startswith("version: ")]
    assert len(found) == (warning is not None)
    assert not warning or warning in found[0]


def test_whoever_the_provider_signs_in_as_is_known() -> None:
    """From the provider's own keys; without them, the environment decides."""
    roles = ["aws:assumeRoles", [{"roleArn": "arn:aws:iam::123456789012:role/deployer"}]]
    found = read(["aws:profile", "ml"], roles).provider
    assert (found.profile, found.role) == ("ml", "arn:aws:iam::123456789012:role/deployer")
    assert (read().provider.profile, read().provider.role) == (None, None)


def test_an_existing_network_takes_subnets_for_zones() -> None:
    """In an existing VPC, a pool's places are subnets, and all of them by default."""
    subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
    network = ["gpu-cluster:cluster", "network", {"subnetIds": subnets}]
    found = read(network)
    assert found.pools["train-gpu"].places == tuple(subnets)
    one = read(network, [*POOL, "subnetIds", subnets[1:]])
    assert one.pools["train-gpu"].places == (subnets[1],)


def test_a_capacity_block_is_accepted_in_one_zone() -> None:
    """A Capacity Block with its reservation, one type and one zone is a pool like any other."""
    found = read(
        [*POOL, "instanceTypes", ["p5.48xlarge"]],
        [*POOL, "capacityType", "capacity-block"],
        [*POOL, "reservation", "cr-0123456789abcdef0"],
        [*POOL, "zones", ["us-east-1b"]],
    )
    assert found.pools["train-gpu"].pool.gpus_per_node == 8


@pytest.mark.parametrize(
    ("change", "types"),
    [
        ([[*POOL, "reservation", "cr-0123456789abcdef0"], [*POOL, "zones", ["us-east-1b"]]],
         ["g5.xlarge"]),
        ([[*POOL, "reservation", GROUP]], ["g5.xlarge", "g5.2xlarge"]),
    ],
)  # fmt: skip
def test_a_reservation_is_one_in_a_zone_or_a_group_in_any(
    change: list[list[Any]], types: list[str]
) -> None:
    """A resource group may hold reservations of several types in several zones."""
    found = read(
        *change, [*POOL, "capacityType", "reservation"], [*POOL, "instanceTypes", types]
    ).pools["train-gpu"]
    assert list(found.args.instance_types) == types
    assert found.places == (("us-east-1b",) if len(types) == 1 else ("us-east-1a", "us-east-1b"))


@pytest.mark.parametrize(
    "arn",
    [GROUP, GROUP.replace("arn:aws:", "arn:aws-us-gov:"), f"{GROUP}/{'a' * 26}", f"{GROUP}/a",
     GROUP.replace("us-east-1", "us-east"), GROUP.replace("group/", "groups/"),
     f"{GROUP}{'a' * 300}"],
)  # fmt: skip
def test_a_resource_group_is_what_botocore_takes_for_one(arn: str) -> None:
    """The ARN's form is that of AWS's own model."""
    model = botocore.session.get_session().get_service_model("resource-groups")
    pattern = model.shape_for("GroupArnV2").metadata["pattern"]
    assert bool(reservation.GROUP.fullmatch(arn)) == bool(re.fullmatch(pattern, arn))


def warnings_of(version: str = "1.35", **args: Any) -> list[str]:
    """Of a pool with these args in the train environment's cluster."""
    cluster = dataclasses.replace(read().cluster, version=version)
    return list(EksGpuNodeGroupArgs(**args).resolve("p", cluster).warnings)


def test_warns_where_a_newer_image_may_drop_the_gpu() -> None:
    """Volta's last driver is 580: images that choose at boot keep it beside 595, another newer
    Bottlerocket may not."""
    v100: Any = {"instance_types": ["p3dn.24xlarge"]}
    assert warnings_of("1.36", **v100) == []
    assert warnings_of("1.35", **v100, os="bottlerocket") == []
    assert warnings_of("1.36", **v100, os="bottlerocket") == [
        "gpuPools.p: the last driver for V100 32GB is of branch 580, and a newer Bottlerocket "
        "may carry another: use al2023, or create the pool with a releaseVersion whose driver is "
        "580, since EKS does not move an existing pool to an older one"
    ]
    assert warnings_of("1.36", **v100, os="bottlerocket", release_version="1.54.0-5a8d13d7") == []
    assert warnings_of("1.36", instance_types=["g4dn.xlarge"], os="bottlerocket") == []


def test_warns_where_sources_disagree_about_bottlerockets_driver() -> None:
    """Its release notes and its table of drivers do, for Kubernetes before 1.36."""
    g7: Any = {"instance_types": ["g7.2xlarge"], "os": "bottlerocket"}
    (line,) = warnings_of("1.34", **g7)
    assert line.startswith(
        "gpuPools.p.os: g7.2xlarge needs driver 595, which Bottlerocket's images"
    )
    assert warnings_of("1.37", **g7) == []
    assert warnings_of("1.34", instance_types=["g7.2xlarge"]) == []


@pytest.mark.parametrize(
    ("args", "refused"),
    [
        ({"release_version": "1.35.1-20251016"}, True),
        ({"release_version": "1.35.1-20251023"}, False),
        ({"release_version": "1.35.1-20251016", "device_plugin": "none"}, False),
        ({"release_version": "1.20.0-5a8d13d7", "os": "bottlerocket"}, False),
        ({"release_version": "1.35.6"}, False),
    ],
)
def test_an_image_with_an_old_nvidia_toolkit_is_refused(
    args: dict[str, Any], refused: bool
) -> None:
    """Its nvidia-ctk ends with an error for a hook in the device plugin's CDI files."""
    said = "^releaseVersion: '1.35.1-20251016' has an NVIDIA toolkit older than 1.18"
    with pytest.raises(ValueError, match=said) if refused else nullcontext():
        EksGpuNodeGroupArgs(instance_types=["g4dn.xlarge"], **args)


@pytest.mark.parametrize(
    ("stack", "change", "line"),
    [
        ("train", ["cluster", "addonVersions", {"eks-node-monitoring-agent": "v1.7.0-eksbuild.1"}],
            "cluster.addonVersions.eks-node-monitoring-agent: v1.7.0-eksbuild.1 reports DCGM"),
        ("train", ["cluster", "addonVersions", {"eks-node-monitoring-agent": "v1.7.1-eksbuild.1"}],
            None),
        ("train", ["cluster", "nodePolicies", [POLICY.format(n) for n in range(9)]],
            "cluster.nodePolicies: the role of the nodes has 11 policies, including this"),
        ("train", ["cluster", "nodePolicies", [POLICY.format(n) for n in range(8)]], None),
        ("on-eks", ["gpuPools", "train-gpu", "kubelet", {"maxPods": 110}],
            "gpuPools.train-gpu.kubelet.maxPods: 110 is above 29, the number of pods for which"),
        ("on-eks", ["gpuPools", "train-gpu", "kubelet", {"maxPods": 29}], None),
    ],
)  # fmt: skip
def test_warns_of_what_works_only_in_some_accounts_and_clusters(
    stack: str, change: list[Any], line: str | None
) -> None:
    """A cluster of others may assign prefixes to nodes, and AWS raises quotas."""
    first, *rest = change
    usual, given = (
        settings.from_config(changed(stack, changes)).own.warnings(Runs())
        for changes in ([], [[f"gpu-cluster:{first}", *rest]])
    )
    found = [text for text in given if text not in usual]
    assert [text.startswith(line or "-") for text in found] == [True] * (line is not None)


@pytest.mark.parametrize(("number", "warns"), [(4, False), (5, True)])
def test_warns_of_more_security_groups_than_the_default_quota(number: int, warns: bool) -> None:
    """The cluster's own is one of them."""
    groups = [f"sg-0aaaaaaaaaaaaaaa{position}" for position in range(number)]
    lines = warnings_of(instance_types=["g4dn.xlarge"], security_group_ids=groups)
    found = [line for line in lines if ".securityGroupIds: the nodes have 6 security" in line]
    assert len(found) == warns == len(lines)


def test_warns_of_a_pool_that_auto_scaling_would_even_out() -> None:
    """Several zones and more than one node: either alone is fine."""
    several = read([*POOL, "maxNodes", 4])
    assert several.pools["train-gpu"].warnings == [
        "gpuPools.train-gpu.zones: with several zones, Auto Scaling may terminate a node to "
        "balance them, whatever runs on it, and one zone without capacity stops the whole pool "
        "from growing; name one zone, and add a pool for each of the others"
    ]
    one = read([*POOL, "maxNodes", 4], [*POOL, "zones", ["us-east-1b"]])
    assert one.pools["train-gpu"].warnings == []
    assert read().pools["train-gpu"].warnings == []


def test_warns_of_scripts_that_run_in_the_warm_pool() -> None:
    """cloud-init runs them once, which is before the instance is a node; a NodeConfig is read at
    each boot."""
    node = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
    given: Any = {
        "instance_types": ["g4dn.xlarge"],
        "user_data": [node, "#!/bin/bash\n", "#cloud-config\n"],
    }
    assert warnings_of(**given) == []
    found = warnings_of(**given, warm_pool=EksWarmPoolArgs(max_group_prepared_capacity=1))
    assert [line.partition(": runs when")[0] for line in found] == [
        f"gpuPools.p.userData[{position}]" for position in (1, 2)
    ]
    assert all(line.endswith("do the work in a DaemonSet, or drop warmPool") for line in found)


def test_warns_where_pulumi_itself_could_not_reach_the_control_plane() -> None:
    """A private endpoint admits nodes and the networks that are named."""
    today = date(2026, 11, 21)
    private = ["gpu-cluster:cluster", "privateEndpoint", True]
    mine = ["gpu-cluster:cluster", "admins", ["arn:aws:iam::210987654321:role/deployer"]]
    alone = read(mine, private, ["gpu-cluster:cluster", "authorizedNetworks", "absent"]).cluster
    assert [line.partition(":")[0] for line in alone.warnings(today)] == ["privateEndpoint"]
    vpn = ["gpu-cluster:cluster", "authorizedNetworks", {"vpn": "10.20.0.0/16"}]
    assert read(mine, private, vpn).cluster.warnings(today) == []
    public = ["gpu-cluster:cluster", "authorizedNetworks", {"office": "8.8.8.0/24"}]
    (line,) = read(mine, private, public).cluster.warnings(today)
    assert line.startswith("authorizedNetworks.office: 8.8.8.0/24 is public, and with private")


def test_warns_of_an_admin_whom_nobody_has() -> None:
    """Accounts of AWS's documentation: EKS refuses the entry when the cluster is paid for."""
    mine, example = "arn:aws:iam::210987654321:user/me", "arn:aws:iam::111122223333:role/admin"
    admins = ["gpu-cluster:cluster", "admins", [mine, example]]
    offices = ["gpu-cluster:cluster", "authorizedNetworks", {"office": "198.18.0.0/24"}]
    assert read(admins, offices).cluster.warnings(date(2026, 11, 21)) == [
        f"admins[1]: {example} is in an example account of AWS's documentation, which EKS refuses "
        "once the cluster exists; give the ARN of the identity that runs Pulumi"
    ]
    lines = warnings(settings.from_config(changed("train", [admins, offices])))
    assert "gpu-cluster:cluster.admins[1]" in {line.partition(": ")[0] for line in lines}
    assert all(line.startswith(("gpu-cluster:", "aws:")) for line in lines)


@pytest.mark.parametrize(
    ("region", "kind", "reservation", "near"),
    [
        ("eu-west-3", "p5.48xlarge", {}, "eu-north-1, eu-west-2"),
        ("eu-west-3", "p5.48xlarge", {"capacityType": "reservation", "zones": ["eu-west-3a"],
                                      "reservation": "cr-0123456789abcdef0"}, None),
        ("eu-west-3", "g4dn.xlarge", {}, None),
        ("eu-west-2", "p5.48xlarge", {}, None),
        ("ca-west-1", "p4de.24xlarge", {},
         "ap-northeast-1, ap-southeast-1, eu-central-1, il-central-1, us-east-1, us-west-2"),
    ],
)  # fmt: skip
def test_warns_of_an_instance_type_that_the_region_did_not_have(
    region: str, kind: str, reservation: dict[str, Any], near: str | None
) -> None:
    """EKS refuses the node group when the control plane is paid for, and Karpenter finds no such
    node; the table is a snapshot."""
    pool = {"instanceTypes": [kind], "maxNodes": 1, **reservation}
    network = {"zones": [f"{region}a", f"{region}b"]}
    changes = [["aws:region", region], ["gpu-cluster:cluster", "network", network], [*POOL, pool]]
    karpenter = [["autoscaler", "absent"], ["scaler", "karpenter"]]
    for scaler, then in (([], "EKS refuses a pool of it"), (karpenter, "no such node starts")):
        given = read(*changes, *(["gpu-cluster:cluster", *change] for change in scaler))
        lines = [line for line in given.warnings(Runs()) if "EC2 had no" in line]
        assert [line.rpartition(" in ")[2] for line in lines] == ([near] if near else [])
        assert all(line.startswith("gpuPools.train-gpu.instanceTypes: on 2026-") for line in lines)
        assert all(f", and {then}; " in line for line in lines)


@pytest.mark.parametrize(
    ("zone", "region", "name", "identity"),
    [
        ("us-east-1a", "us-east-1", True, False),
        ("use1-az1", "us-east-1", False, True),
        ("apne1-az2", "ap-northeast-1", False, True),
        ("apse2-az1", "ap-southeast-2", False, True),
        ("usgw1-az1", "us-gov-west-1", False, True),
        ("euc1-az1", "eu-central-1", False, True),
        ("use1-az1", "us-east-2", False, False),
        ("us-east-1-bos-1a", "us-east-1", False, False),
    ],
)
def test_knows_the_zones_of_a_region(zone: str, region: str, name: bool, identity: bool) -> None:
    """A zone is known by its name or its ID; a local zone, or another region's, is neither."""
    assert (is_zone_name(zone, region), is_zone_id(zone, region)) == (name, identity)


def test_arns_follow_the_partition() -> None:
    """Policies of China's and the government's regions are in partitions of their own."""
    assert managed_policy("us-east-1", "P") == "arn:aws:iam::aws:policy/P"
    assert managed_policy("cn-north-1", "P") == "arn:aws-cn:iam::aws:policy/P"
    assert managed_policy("us-gov-west-1", "P") == "arn:aws-us-gov:iam::aws:policy/P"


def test_services_that_need_more_adapters_than_the_pool_has_are_a_warning() -> None:
    """Two pods with half of a node's GPUs and all of its adapters fit no single node."""

    def warned(adapters: int | str) -> list[str]:
        shape = {"instanceTypes": ["p4d.24xlarge"], "zones": ["us-east-1a"], "efa": True}
        chat = {"pool": "train-gpu", "gpus": 4, "image": "a:1", "port": 80, "replicas": 2}
        values = changed(
            "train", [[*POOL, shape], ["gpu-cluster:services", {"chat": chat | {"efa": adapters}}]]
        )
        return [line for line in warnings(settings.from_config(values)) if "never start" in line]

    assert not warned(2)
    (line,) = warned("all")
    assert "need 8 adapters of pool train-gpu, which has at most 4" in line


def test_a_reservation_outside_the_placement_group_is_a_warning() -> None:
    """The stack creates the group, and a reservation stays in the one that it was created in."""
    place = {"instanceTypes": ["p5.48xlarge"], "zones": ["us-east-1a"]}
    reserved = {"capacityType": "reservation", "reservation": "cr-0123456789abcdef0"}

    def warned(**more: Any) -> bool:
        lines = warnings(settings.from_config(changed("train", [[*POOL, place | more]])))
        return any(".placementGroup: EC2 may start fewer" in line for line in lines)

    assert warned(placementGroup="cluster", **reserved)
    assert not warned(placementGroup="cluster")
    assert not warned(**reserved)


def test_a_snapshot_that_makes_nodes_slower_is_a_warning() -> None:
    """Lazily read from S3, or removed because another snapshotter unpacked its images."""
    disk = {"os": "bottlerocket", "diskSnapshotId": "snap-0123456789abcdef0"}

    def warned(**more: Any) -> list[str]:
        pool = {"instanceTypes": ["g4dn.xlarge"], **disk, **more}
        lines = warnings(settings.from_config(changed("train", [[*POOL, pool]])))
        return [line.removeprefix("gpu-cluster:gpuPools.train-gpu.").partition(":")[0]
                for line in lines if "from S3" in line or "removes images" in line]  # fmt: skip

    assert warned() == ["diskSnapshotId"]
    assert warned(diskInitializationRate=300) == []
    pull = {"imagePull": "parallel", "diskThroughput": 600}
    assert warned(diskInitializationRate=300, **pull) == ["imagePull"]


def test_more_snapshots_copied_at_once_than_ebs_allows_are_a_warning() -> None:
    """Over all pools with a rate: 5000 MiB/s are 25 nodes at 200."""
    disk = {"os": "bottlerocket", "diskSnapshotId": "snap-0123456789abcdef0"}

    def warned(*nodes: int) -> list[str]:
        pools = {
            name: {"instanceTypes": ["g4dn.xlarge"], "maxNodes": most, **disk,
                   "diskInitializationRate": 200}
            for name, most in zip(("train-gpu", "more"), nodes, strict=False)
        }  # fmt: skip
        changes = [["gpu-cluster:gpuPools", name, pool] for name, pool in pools.items()]
        lines = warnings(settings.from_config(changed("train", changes)))
        return [line for line in lines if "MiB/s copied" in line]

    assert warned(25) == warned(15, 10) == []
    (line,) = warned(26)
    assert line.startswith("gpu-cluster:gpuPools.train-gpu.diskInitializationRate: ")
    (line,) = warned(15, 11)
    assert "all nodes of train-gpu and more at once have 5200 MiB/s copied" in line
