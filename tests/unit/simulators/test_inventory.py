"""What a stack finds when it comes: written down, or derived from its settings and said so."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.settings.model import Settings
from gpu_cluster.rehearsal.engine.program_copy import prepared
from gpu_cluster.rehearsal.existing.cluster import ExistingCluster
from gpu_cluster.rehearsal.existing.inventory_file import from_nodes, partitioned, with_gpus
from gpu_cluster.rehearsal.simulators.google_inventory import networks, node_accounts
from gpu_cluster.rehearsal.simulators.inventory import (
    INVENTORIES,
    check_karpenter,
    checked_machines,
    controllers,
    eks_cluster,
    gpu_operator,
    inventory,
    machines,
    network,
    startup_taints,
)
from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.settings import config_in, settings_of
from quality.faults.changes import STACKS as MORE
from tests.unit.refusals import one_line

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""

STACKS = Path(__file__).parents[2] / "fixtures" / "stacks"
SUBNETS = [f"subnet-0aaaaaaaaaaaaaaa{number}" for number in (1, 2, 3)]
MACHINE = {"name": "a", "capacity": {"cpu": "8", "memory": "32Gi"}}


def settings(stack: str, **changes: Any) -> Settings:
    """A user's stack as the program reads it, with pools or workloads of another kind."""
    file = STACKS / f"Pulumi.{stack}.yaml"
    config = config_in(file.read_bytes(), file.name)
    for key, value in changes.items():
        config[f"gpu-cluster:{key}"] = value
    kubeconfig = json.dumps(
        {"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
         "clusters": [{"name": "a", "cluster": {}}], "users": [{"name": "a", "user": {}}],
         "current-context": "a"}
    )  # fmt: skip
    return settings_of(stack, config, kubeconfig=kubeconfig)


def test_machines_are_derived_from_the_pools(tmp_path: Path) -> None:
    """Without an inventory there are as many as what is declared needs, and a note says so."""
    found, notes = machines("lab", settings("lab"), tmp_path)
    assert [machine["name"] for machine in found] == [
        "control", "machines-1", "machines-2", "machines-3", "machines-4",
    ]  # fmt: skip
    assert found[1]["labels"] == {"gpu.example.com/model": "a6000"}
    assert found[1]["gpus"] == 4
    assert [taint["key"] for taint in found[1]["taints"]] == ["nvidia.com/gpu"]
    (note,) = notes
    assert note.startswith("these machines are simulated: control, machines-1, ")
    assert "gpu-cluster inventory lab writes inventories/lab.yaml" in note
    assert len(ExistingCluster(found, dict).node_groups()) == 5  # type: ignore[arg-type]


def test_derived_machines_have_room_for_every_workload(tmp_path: Path) -> None:
    """Three pods of three GPUs need three machines of four."""
    workload = {"kind": "deployment", "pool": "machines", "image": "a:1", "gpus": 3, "replicas": 3}
    given = settings("lab", workloads={"a": workload}, trainingJobs={})
    found, _ = machines("lab", given, tmp_path)
    assert len(found) == 1 + 3


def test_derived_machines_offer_what_their_pool_names(tmp_path: Path) -> None:
    """As a device plugin of the user's would."""
    pool = {"gpusPerNode": 4, "nodeSelector": {"a": "b"}, "extendedResources": {"rdma/hca": 8}}
    given = settings("lab", gpuPools={"machines": pool})
    (_, group, *_) = ExistingCluster(machines("lab", given, tmp_path)[0], dict).node_groups()  # type: ignore[arg-type]
    assert group.node.capacity["rdma/hca"] == "8"


@pytest.mark.parametrize("written", [None, False, True])
def test_a_pool_without_a_device_plugin_has_somebody_elses(
    tmp_path: Path, written: bool | None
) -> None:
    """Or its GPUs would never be allocatable: unless the inventory says that there is none."""
    pool = {"accelerator": "a6000", "gpusPerNode": 4, "devicePlugin": "none",
            "nodeSelector": {"gpu.example.com/model": "a6000"}}  # fmt: skip
    given = settings("lab", gpuPools={"machines": pool})
    if written is not None:
        row = MACHINE | {"labels": pool["nodeSelector"], "gpus": 4, "devicePlugin": written}
        (tmp_path / "lab.yaml").write_text(yaml.safe_dump([row]))
    found, notes = machines("lab", given, tmp_path)
    groups = ExistingCluster(found, dict).node_groups()  # type: ignore[arg-type]
    doers = {group.plugin for group in groups if group.gpus}
    assert doers == {"pod" if written is False else "cloud"}
    said = "devicePlugin of machines is none, so another device plugin than the stack's"
    assert any(note.startswith(said) for note in notes) is (written is None)


def test_what_is_written_down_is_taken_without_a_note() -> None:
    """An inventory is as somebody wrote it."""
    assert machines("onprem", None) == (inventory("onprem"), [])


def test_an_inventory_says_what_others_have_installed(tmp_path: Path) -> None:
    """Beside the machines; without the key, and in a list of machines, nothing."""
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump([MACHINE]))
    assert controllers("lab", tmp_path) == []
    described = {"machines": [MACHINE], "controllers": ["kueue"]}
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump(described))
    assert controllers("lab", tmp_path) == ["kueue"]
    assert machines("lab", None, tmp_path)[0] == [MACHINE]
    for wrong, says in (
        ({"controllers": ["volcano"]}, "is not a list of these: kueue, jobset"),
        ({"controller": []}, "controller: is not known; allowed: machines, controllers, gpuOp"),
    ):
        (tmp_path / "lab.yaml").write_text(yaml.safe_dump({"machines": [MACHINE], **wrong}))
        with pytest.raises(StackError, match=one_line(says)):
            controllers("lab", tmp_path)


@pytest.mark.parametrize("described", [{}, {"machines": [MACHINE | {"gpus": 4}]}])
def test_an_inventory_says_when_an_operator_is_installed(
    tmp_path: Path, described: dict[str, Any]
) -> None:
    """Then the plugin on machines of a pool that leaves it to others is the Operator's."""
    pool = {"gpusPerNode": 4, "devicePlugin": "none", "nodeSelector": {"a": "b"}}
    given = settings("lab", gpuPools={"machines": pool}, workloads={}, trainingJobs={})
    assert gpu_operator("lab", tmp_path) is None
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump({**described, "gpuOperator": "after"}))
    assert gpu_operator("lab", tmp_path) == "after"
    found, notes = machines("lab", given, tmp_path)
    assert len(found) == (1 if described else 2)
    assert not any("devicePlugin" in machine for machine in found)
    assert not any("is taken to run" in note for note in notes)
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump({**described, "gpuOperator": "soon"}))
    with pytest.raises(StackError, match="gpuOperator: 'soon' is not known; allowed: before, aft"):
        gpu_operator("lab", tmp_path)


def test_a_wrong_config_still_has_a_cluster_to_be_refused_in(tmp_path: Path) -> None:
    """The program refuses its settings itself, in one line; the sandbox goes up for it."""
    found, _ = machines("lab", None, tmp_path)
    assert [machine["name"] for machine in found] == ["control"]


@pytest.mark.parametrize(("found", "says"), TABLE["test_a_wrong_inventory_is_one_line"])
def test_a_wrong_inventory_is_one_line(found: Any, says: str) -> None:
    """The line names the file and what in it is wrong."""
    with pytest.raises(StackError, match=one_line(says, "inventories/lab.yaml")):
        checked_machines("lab", found)


def test_an_inventory_that_is_no_yaml_is_one_line(tmp_path: Path) -> None:
    """Neither a traceback nor three lines of a parser."""
    (tmp_path / "lab.yaml").write_text("- name: [")
    with pytest.raises(StackError, match=r"^inventories/lab.yaml cannot be read: .*\Z"):
        inventory("lab", tmp_path)


def test_subnets_are_derived_from_their_ids(tmp_path: Path) -> None:
    """Each is private, in the next zone, with a way out; a note says that nobody described them."""
    found, (note,) = network("prod", settings("prod"), tmp_path)
    assert found is not None
    assert list(found.subnets) == SUBNETS
    assert [s.zone for s in found.subnets.values()] == ["us-east-1a", "us-east-1b", "us-east-1c"]
    assert {(s.public, s.out) for s in found.subnets.values()} == {(False, "nat")}
    assert note.startswith(f"these subnets are simulated: {', '.join(SUBNETS)}; no inventory")


def test_an_existing_cluster_is_in_two_zones(tmp_path: Path) -> None:
    """Also if the stack's nodes are in one, as with a single subnet; a description that has only
    one zone is refused."""
    (subnet, *_) = SUBNETS
    existing = {"platform": "eks", "existing": "platform", "version": "1.35"}
    pools = {"gpus": {"instanceTypes": ["g4dn.xlarge"]}}
    one = settings(
        "prod", cluster={**existing, "network": {"subnetIds": [subnet]}}, gpuPools=pools,
        workloads={},
    )  # fmt: skip
    cluster, _ = eks_cluster("prod", one, tmp_path)
    assert cluster is not None
    assert len(cluster.subnets) == 2
    row = {"zone": "us-east-1a", "cidr": "10.20.0.0/19"}
    (tmp_path / "prod.yaml").write_text(
        yaml.safe_dump({"vpc": "10.20.0.0/16", "subnets": {subnet: row}})
    )
    with pytest.raises(StackError, match="are in one zone, and EKS creates no such cluster"):
        eks_cluster("prod", one, tmp_path)


def test_an_inventory_has_the_security_groups_that_the_stack_names(tmp_path: Path) -> None:
    """As with the subnets, a copied inventory with those of an example is refused at once."""
    network_ = {"subnetIds": SUBNETS, "securityGroupIds": ["sg-0123456789abcdef0"]}
    existing = {"platform": "eks", "existing": "platform", "version": "1.35", "network": network_}
    pools = {"gpus": {"instanceTypes": ["g4dn.xlarge"]}}
    one = settings("prod", cluster=existing, gpuPools=pools, workloads={})
    described = row() | {"cluster": {"securityGroups": ["sg-0aaaaaaaaaaaaaaa1"]}}
    (tmp_path / "prod.yaml").write_text(yaml.safe_dump(described))
    says = "cluster.securityGroups: does not describe sg-0123456789abcdef0 of cluster.network."
    with pytest.raises(StackError, match=one_line(says)):
        eks_cluster("prod", one, tmp_path)
    described["cluster"] = {"securityGroups": ["sg-0123456789abcdef0"]}
    (tmp_path / "prod.yaml").write_text(yaml.safe_dump(described))
    cluster, _ = eks_cluster("prod", one, tmp_path)
    assert cluster is not None
    assert cluster.security_groups == ["sg-0123456789abcdef0"]


def test_an_inventory_describes_a_vpc() -> None:
    """Zone, CIDR, public or private, and the way out, as somebody wrote them."""
    found, notes = network("prod", settings("prod"), STACKS / "inventories")
    assert found is not None
    assert notes == []
    assert str(found.subnets[SUBNETS[1]].cidr) == "10.20.32.0/19"


def test_a_stack_with_a_vpc_of_its_own_needs_none(tmp_path: Path) -> None:
    """Nothing is there before a stack that makes its network."""
    assert network("lab", settings("lab"), tmp_path) == (None, [])
    assert network("prod", None, tmp_path) == (None, [])


def row(**changes: Any) -> dict[str, Any]:
    subnets = {
        subnet: {"zone": f"us-east-1{zone}", "cidr": f"10.20.{32 * number}.0/19"}
        for number, (subnet, zone) in enumerate(zip(SUBNETS, "abc", strict=True))
    }
    return {"vpc": "10.20.0.0/16", "subnets": {**subnets, SUBNETS[0]: {**subnets[SUBNETS[0]],
                                                                      **changes}}}  # fmt: skip


@pytest.mark.parametrize(("found", "says"), TABLE["test_a_wrong_description_of_a_vpc_is_one_line"])
def test_a_wrong_description_of_a_vpc_is_one_line(tmp_path: Path, found: Any, says: str) -> None:
    """The line names the file, the subnet and the key."""
    (tmp_path / "prod.yaml").write_text(yaml.safe_dump(found))
    with pytest.raises(StackError, match=one_line(says, "inventories/prod.yaml")):
        network("prod", settings("prod"), tmp_path)


SHARED = {
    "project": "company-net", "vpc": "shared", "name": "gke", "region": "us-central1",
    "cidr": "10.10.0.0/20", "ranges": {"pods": "10.64.0.0/14", "services": "10.10.16.0/20"},
}  # fmt: skip


def shared(stack: str = "shared") -> Settings:
    """The stack that is kept for changes of an existing network."""
    file = MORE / f"Pulumi.{stack}.yaml"
    return settings_of(stack, config_in(file.read_bytes(), file.name))


@pytest.mark.parametrize("stack", ["shared", "shared-autopilot"])
def test_a_subnetwork_is_derived_from_the_settings(stack: str, tmp_path: Path) -> None:
    """It is as the cluster wants it, with a way out; a note says that nobody described it."""
    found, (note,) = networks(stack, shared(stack), tmp_path)
    assert found is not None
    (one,) = found.subnetworks
    assert (found.service_project, one.project, one.vpc, one.name) == (
        "ml-team", "company-net", "shared", "gke",
    )  # fmt: skip
    assert (one.region, sorted(one.ranges), one.out) == ("us-central1", ["pods", "services"], "nat")
    assert found.missing == frozenset()
    assert note.startswith("this subnetwork is simulated: gke; no inventory describes it, so it")
    assert networks("lab", settings("lab"), tmp_path) == (None, [])
    assert networks("shared", None, tmp_path) == (None, [])


def test_an_inventory_describes_subnetworks_and_what_is_missing(tmp_path: Path) -> None:
    """Ways out and grants as somebody wrote them."""
    found, notes = networks("shared", shared(), MORE / "inventories")
    assert found is not None
    assert [one.name for one in found.subnetworks] == ["gke", "gke-second", "gke-other", "gke"]
    assert notes == []
    written = {"subnetworks": [SHARED | {"out": "none"}], "missing": ["networkUser"]}
    (tmp_path / "shared.yaml").write_text(yaml.safe_dump(written))
    found, _ = networks("shared", shared(), tmp_path)
    assert found is not None
    assert (found.subnetworks[0].out, found.missing) == ("none", {"networkUser"})


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([], ": is not a list of subnetworks; write it as { subnetworks: [{ project: "),
        ({"subnetworks": [SHARED], "lacks": []}, ": is not a list of subnetworks; write it as"),
        ({"subnetworks": [SHARED], "missing": ["nat"]},
         " missing: 'nat'; allowed: attachment, hostServiceAgentUser, networkUser"),
        ({"subnetworks": [SHARED | {"zone": "a"}]},
         " subnetworks[0]: is not a subnetwork; allowed: project, vpc, name, region, cidr, ranges"),
        ({"subnetworks": [SHARED | {"vpc": None}]}, " subnetworks[0].vpc: null is not a name"),
        ({"subnetworks": [SHARED | {"cidr": "10"}]}, "[0].cidr: '10' is not a network such as"),
        ({"subnetworks": [SHARED | {"ranges": {"pods": 1.5}}]}, ".ranges.pods: 1.5 is not a netw"),
        ({"subnetworks": [SHARED | {"ranges": ["pods"]}]}, ".ranges: is not a map of names to"),
        ({"subnetworks": [SHARED | {"out": "vpn"}]},
         ".out: 'vpn'; allowed: nat, google, firewall, none"),
    ],
)  # fmt: skip
def test_a_wrong_description_of_subnetworks_is_one_line(
    tmp_path: Path, found: Any, says: str
) -> None:
    """The line names the file, the subnetwork and the key."""
    (tmp_path / "shared.yaml").write_text(yaml.safe_dump(found))
    with pytest.raises(StackError, match=one_line(says, "inventories/shared.yaml")):
        networks("shared", shared(), tmp_path)


def test_a_rehearsal_reaches_no_other_cluster(tmp_path: Path) -> None:
    """The copy of the stack's file names no kubeconfig any more, nor an environment of Pulumi ESC;
    the report says what it did."""
    file = tmp_path / "Pulumi.lab.yaml"
    file.write_text(f"environment: [team/gpus]\n{(STACKS / file.name).read_text()}")
    copy = prepared("lab", tmp_path)
    assert copy.notes == (
        "environment left out: a rehearsal reads no values from Pulumi ESC",
        "cluster.kubeconfigFile, cluster.context left out: a rehearsal has its own cluster",
    )
    assert copy.settings is not None
    cluster = yaml.safe_load(file.read_text())["config"]["gpu-cluster:cluster"]
    assert cluster == {"platform": "existing", "name": "lab"}
    assert prepared("lab", tmp_path).notes == ()
    file.write_text("environment: [team/gpus]\n")
    with pytest.raises(StackError, match=r"^Pulumi\.lab\.yaml: environment: its values are in Pul"):
        prepared("lab", tmp_path)


@pytest.mark.parametrize(
    ("described", "says"),
    [
        ({}, None),
        ({"controllers": []}, "controllers: platform has no Karpenter here, which cluster."),
        ({"cluster": {"karpenterNodeRole": "Other"}}, "karpenterNodeRole: is Other, and cluster."),
    ],
)
def test_the_owner_of_a_cluster_runs_the_karpenter_that_the_stack_expects(
    described: dict[str, Any], says: str | None, tmp_path: Path
) -> None:
    """Otherwise the first NodePool of the stack would be of an unknown kind."""
    file = ROOT / "examples" / "existing" / "Pulumi.on-eks-karpenter.yaml"
    given = settings_of("on-eks-karpenter", config_in(file.read_bytes(), file.name))
    there = yaml.safe_load((INVENTORIES / "on-eks-karpenter.yaml").read_text())
    (tmp_path / "on-eks-karpenter.yaml").write_text(yaml.safe_dump({**there, **described}))
    if says is None:
        cluster, notes = eks_cluster("on-eks-karpenter", given, tmp_path)
        check_karpenter("on-eks-karpenter", cluster, tmp_path)
        assert cluster is not None
        assert (cluster.karpenter_node_role, notes) == ("KarpenterNodeRole-platform", [])
        return
    with pytest.raises(StackError, match=one_line(says)):
        check_karpenter(
            "on-eks-karpenter", eks_cluster("on-eks-karpenter", given, tmp_path)[0], tmp_path
        )


def test_nodes_become_an_inventory() -> None:
    """Labels that a pool selects by, taints, GPUs and other devices, and size; nothing else."""
    node = {
        "metadata": {"name": "gpu-1.example.com",
                     "labels": {"gpus": "true", "kubernetes.io/hostname": "gpu-1", "x": "y"}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"},
                            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]},
        "status": {"capacity": {"cpu": "64", "memory": "263856484Ki", "nvidia.com/gpu": "4",
                                "rdma/hca": "8", "example.com/gone": "0", "hugepages-2Mi": "0",
                                "nvidia.com/mig-1g.10gb": "7"}},
    }  # fmt: skip
    found = from_nodes(json.dumps({"items": [node]}), {"gpus"})
    assert found == [
        {
            "name": "gpu-1.example.com",
            "labels": {"gpus": "true"},
            "taints": [{"key": "nvidia.com/gpu", "value": "", "effect": "NoSchedule"}],
            "gpus": 4,
            "capacity": {"cpu": "64", "memory": "263856484Ki", "rdma/hca": "8"},
        }
    ]
    assert checked_machines("lab", found) == found


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"items": [{}]}', '{"items": 3}'])
def test_what_is_no_list_of_nodes_is_one_line(text: str) -> None:
    with pytest.raises(StackError, match=r"^that is not a list of nodes; give the output of"):
        from_nodes(text, set())


def test_the_accounts_that_pools_name_for_their_nodes_exist() -> None:
    """The stack creates none of them; its own account is not among them."""
    dev = EXAMPLES / "Pulumi.dev.yaml"
    config = config_in(dev.read_bytes(), dev.name)
    assert node_accounts(settings_of("dev", config)) == frozenset()
    email = "nodes@my-project.iam.gserviceaccount.com"
    (pool,) = config["gpu-cluster:gpuPools"].values()
    pool["serviceAccount"] = email
    assert node_accounts(settings_of("dev", config)) == {email}
    assert node_accounts(settings("lab")) == frozenset()


@pytest.mark.parametrize(
    ("machine", "plugin", "gpus", "assumed"),
    [
        ({"labels": {"gpus": "true"}}, "nvidia", 4, True),
        ({"labels": {"gpus": "true", "nvidia.com/gpu.count": "8"}}, "nvidia", 8, True),
        ({"labels": {"gpus": "true"}, "gpus": 2}, "nvidia", 2, False),
        ({"labels": {"gpus": "true"}}, "none", None, False),
        ({"labels": {"role": "cpu"}}, "nvidia", None, False),
    ],
)
def test_a_machine_without_a_device_plugin_has_the_gpus_of_its_pool(
    machine: dict[str, Any], plugin: str, gpus: int | None, assumed: bool
) -> None:
    """Before the first `up`, no node reports any: the stack brings the plugin."""
    pool = {"nodeSelector": {"gpus": "true"}, "gpusPerNode": 4, "devicePlugin": plugin}
    given = settings("lab", gpuPools={"machines": pool}, workloads={}, trainingJobs={})
    ((found,), notes) = with_gpus([{"name": "m", **machine}], given.pools)
    assert found.get("gpus") == gpus
    assert [f"m has {gpus}" in note for note in notes] == [True] * assumed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("startupTaints: [node.cilium.io/agent-not-ready]", {"node.cilium.io/agent-not-ready"}),
        ("stock: []", set()),
        ("startupTaints: cilium", None),
        ("startupTaints: ['not a key']", None),
    ],
)
def test_an_inventory_says_which_taints_somebody_removes(
    text: str, found: set[str] | None, tmp_path: Path
) -> None:
    """Such as the agent of a network of one's own."""
    (tmp_path / "prod.yaml").write_text(text)
    if found is None:
        with pytest.raises(StackError, match=r"startupTaints: .* is not a list of keys of taints"):
            startup_taints("prod", tmp_path)
        return
    assert startup_taints("prod", tmp_path) == found


def test_a_node_with_partitions_is_named() -> None:
    """Of an inventory of machines, whose pools have whole GPUs."""
    offered = {"whole": {"nvidia.com/gpu": "8"}, "mig": {"nvidia.com/mig-1g.10gb": "56"}}
    nodes = [
        {"metadata": {"name": name}, "status": {"capacity": capacity}}
        for name, capacity in offered.items()
    ]
    (line,) = partitioned(json.dumps({"items": nodes}))
    assert line.startswith("node mig offers nvidia.com/mig-1g.10gb: the stack's pods request whole")
