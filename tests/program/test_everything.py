"""Rules over what the program declares for each scaler, with all that it can do."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from importlib import import_module
from typing import Any

import pytest

from gpu_cluster.components.platforms import PLATFORMS, platform_in
from gpu_cluster.components.scalers import SCALERS, Scaler, scaler_of
from gpu_cluster.components.settings import load as settings
from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.definition.validation import refusals
from gpu_cluster.stacks.engine.plan import Change
from gpu_cluster.stacks.engine.urn import Urn
from gpu_cluster.stacks.images import pulled as listed
from gpu_cluster.stacks.live.leftovers import Objects, leftovers
from gpu_cluster.stacks.recovery import google
from gpu_cluster.stacks.recovery.aws_resources import Aws
from gpu_cluster.tools.sections import DOCS
from quality.docs import scaler_table
from tests.components.recording import Registration
from tests.program.environments import as_engine_config, recorded
from tests.program.everything import EVERYTHING, config_of
from tests.program.test_images import pulled


@pytest.fixture(params=EVERYTHING)
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    return config_of(request.param)


def scaler(config: Mapping[str, Any]) -> Scaler:
    cluster = config["gpu-cluster:cluster"]
    read = settings.from_config(as_engine_config(config)).own.cluster
    return scaler_of(platform_in(cluster), getattr(read, "scaler", ""))


def objects(config: Mapping[str, Any], kind: str) -> list[Registration]:
    """The Kubernetes objects of a kind."""
    found = recorded(config).resources
    return [each for each in found if each.type.startswith("kubernetes:") and
            each.type.endswith(f":{kind}")]  # fmt: skip


def within(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every mapping in a value."""
    if isinstance(value, Mapping):
        yield value
    for each in value.values() if isinstance(value, Mapping) else value:
        if isinstance(each, Mapping | list):
            yield from within(each)


def test_every_scaler_has_a_stack() -> None:
    """On each of its platforms, of the stack and existing."""
    assert {
        (platform_in(config_of(stack)["gpu-cluster:cluster"]), scaler(config_of(stack)).title)
        for stack in EVERYTHING
    } == {(platform, row.title) for row in SCALERS.values() for platform in row.platforms}


def test_the_images_are_those_of_the_pods(config: dict[str, Any]) -> None:
    """Of `gpu-cluster images`, and no other."""
    assert {*listed(settings.from_config(as_engine_config(config)))} == pulled(config)


def test_every_driver_exists(config: dict[str, Any]) -> None:
    """Of the disks of claims and classes, and of buckets: what the scaler's nodes have, and what
    the stack installs."""
    row = scaler(config)
    drivers = {
        *(each.inputs["spec"]["csi"]["driver"] for each in objects(config, "PersistentVolume")),
        *(each.inputs["provisioner"] for each in objects(config, "StorageClass")),
    }
    installed = {
        "aws-mountpoint-s3-csi-driver": "s3.csi.aws.com",
        "aws-ebs-csi-driver": "ebs.csi.aws.com",
    }
    addons = {
        each.inputs["addonName"] for each in recorded(config).of("aws:eks/addon:Addon")
    }  # fmt: skip
    present = {driver for addon, driver in installed.items() if addon in addons}
    if existing(config):
        present |= {*installed.values()}  # `capacity` asks for them
    if row is SCALERS["auto-mode"]:
        present = present - {"ebs.csi.aws.com"} | {"ebs.csi.eks.amazonaws.com"}
    if config["gpu-cluster:cluster"]["platform"].startswith("gke"):
        present |= {"pd.csi.storage.gke.io", "filestore.csi.storage.gke.io"}
    assert drivers <= present
    assert row.disks is None or row.disks in present


def test_every_network_policy_is_enforced(config: dict[str, Any]) -> None:
    """Google: by Dataplane V2, which Autopilot always has
    (cloud.google.com/kubernetes-engine/docs/concepts/dataplane-v2). AWS: by the CNI addon with its
    switch (docs.aws.amazon.com/eks/latest/userguide/cni-network-policy.html); in Auto Mode by
    the ConfigMap of auto-net-pol.html, on nodes whose class says so."""
    assert objects(config, "NetworkPolicy")
    if existing(config):
        return
    if (row := scaler(config)) is SCALERS["auto-mode"]:
        data = [
            each.inputs["data"]
            for each in objects(config, "ConfigMap")
            if each.inputs["metadata"].get("namespace") == "kube-system"
            and each.inputs["metadata"]["name"] == "amazon-vpc-cni"
        ]
        assert data == [{"enable-network-policy-controller": "true"}]
        classes = objects(config, "NodeClass")
        assert {each.inputs["spec"]["networkPolicy"] for each in classes} == {"DefaultAllow"}
    elif "eks" in row.platforms:
        (cni,) = [
            json.loads(each.inputs["configurationValues"])
            for each in recorded(config).of("aws:eks/addon:Addon")
            if each.inputs["addonName"] == "vpc-cni"
        ]
        assert cni["enableNetworkPolicy"] == "true"
    elif not row.serves_system:
        (cluster,) = recorded(config).of("gcp:container/cluster:Cluster")
        assert cluster.inputs["datapathProvider"] == "ADVANCED_DATAPATH"


def test_every_toleration_meets_a_taint(config: dict[str, Any]) -> None:
    """Of the stack's pools, or of what it runs for them."""
    read = settings.from_config(as_engine_config(config))
    taints = {taint.key for pool in read.pools.values() for taint in pool.pool.taints}
    for pool in read.pools.values():
        taints |= {each.key for each in getattr(pool.args, "startup_taints", ())}
        taints |= {each.key for each in getattr(pool.args, "tolerations", ())}
    keys = {
        toleration["key"]
        for kind in ("Deployment", "DaemonSet", "Job", "JobSet", "Pod")
        for each in objects(config, kind)
        for mapping in within(dict(each.inputs))
        for toleration in mapping.get("tolerations") or ()
        if toleration.get("key")
    }
    # GKE's own, on its managed components' nodes and on those of queued pools.
    system = {
        "CriticalAddonsOnly",
        "gpu_cluster.components.gke.io/gke-managed-components",
        "cloud.google.com/gke-queued",
    }
    assert keys - system <= taints


def test_no_zone_is_a_subnet(config: dict[str, Any]) -> None:
    """Also where the network is the owner's, and pools are placed by subnets."""
    zones = [
        value
        for resource in recorded(config).resources
        for mapping in within(dict(resource.inputs))
        for key, value in mapping.items()
        if key.lower().endswith(("zone", "zones")) and isinstance(value, str | list)
    ]
    zones += [
        value
        for each in objects(config, "PersistentVolume")
        for mapping in within(dict(each.inputs))
        if mapping.get("key") == "topology.kubernetes.io/zone"
        for value in mapping["values"]
    ]
    assert not [zone for zone in zones if "subnet" in str(zone)]


def existing(config: Mapping[str, Any]) -> bool:
    """Whether the cluster, and what runs in it, are somebody else's."""
    return "existing" in platform_in(config["gpu-cluster:cluster"])


OF_A_CLUSTER = re.compile(r"gcp:(compute|container/cluster)|aws:(eks/(cluster|addon):|kms|vpc)|"
                          r"aws:ec2/(?!launchTemplate:)")  # fmt: skip


def test_nothing_of_an_owners_cluster_is_declared(config: dict[str, Any]) -> None:
    """No control plane, network or addon, whatever runs there; and nothing is left to the deletion
    of the cluster, which outlives the stack: only tags go with their node group."""
    if existing(config):
        found = recorded(config).resources
        assert not [each.key for each in found if OF_A_CLUSTER.match(each.type)]
        groups = {Urn.parse(each.deleted_with).type for each in found if each.deleted_with}
        assert groups <= {"aws:eks/nodeGroup:NodeGroup"}


FEATURES: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "`fallback`": lambda config: within_pools(config, "fallback"),
    "Spot": lambda config: "spot" in str(config["gpu-cluster:gpuPools"]),
    "a reservation": lambda config: within_pools(config, "reservation"),
    "`queued`": lambda config: within_pools(config, "queued"),
    "`startupTaints`": lambda config: within_pools(config, "startupTaints"),
    "time-slicing": lambda config: "time-slicing" in str(config["gpu-cluster:gpuPools"]),
    "pools without GPUs": lambda config: config["gpu-cluster:cluster"].get("cpuPools"),
    "claims": lambda config: config.get("gpu-cluster:volumeClaims"),
    "buckets": lambda config: "buckets" in str(config["gpu-cluster:serviceAccounts"]),
    "queues": lambda config: config["gpu-cluster:batch"].get("queues"),
    "training jobs": lambda config: config.get("gpu-cluster:trainingJobs"),
    "teams": lambda config: config.get("gpu-cluster:teams"),
    "services": lambda config: config.get("gpu-cluster:services"),
    "monitoring": lambda config: config.get("gpu-cluster:monitoring"),
}
"""Feature of the support matrix -> whether a stack uses it."""


def within_pools(config: Mapping[str, Any], key: str) -> bool:
    return any(key in pool for pool in config["gpu-cluster:gpuPools"].values())


def test_the_support_matrix_is_what_the_listings_have() -> None:
    """A stack with all that its scaler can do uses each feature that the page says it can, and
    none that is refused."""
    stacks = {scaler(config_of(stack)).title: config_of(stack) for stack in reversed(EVERYTHING)}
    wrong = [
        (feature, title, cell)
        for feature, *cells in scaler_table.supported()
        for title, cell in zip(scaler_table.TITLES[1:], cells, strict=True)
        # Pools of a fixed size, and warm ones, are in other listings.
        if feature in FEATURES and (cell == "yes") != bool(FEATURES[feature](stacks[title]))
    ]
    assert wrong == []


def test_the_support_matrix_says_what_an_owners_karpenter_lacks() -> None:
    """What it refuses, and a Karpenter of the stack on the same cluster does not."""
    lacks = set()
    for feature, change in scaler_table.features("eks").items():
        pool = {key.partition(".")[2]: value for key, value in change.items()}
        if all(key.startswith("gpuPools.") for key in change):
            refused = []
            for stack in ("eks-existing-karpenter", "eks-existing-owners-karpenter"):
                config = config_of(stack)
                config["gpu-cluster:gpuPools"]["shared"] |= pool
                refused.append(bool([*refusals(config)]))
            if refused == [False, True]:
                lacks.add(feature)
    page = " ".join((DOCS / "reference/support-matrix.md").read_text().split())
    (names,) = re.findall(r"owner [(]`karpenterNodeRole`[)], (.*?) are refused", page)
    assert set(names.split(" and ")) == lacks


def settings_and_capacity(config: dict[str, Any]) -> tuple[Any, Any]:
    """The stack's settings, and the module that compares its pools with the cloud's quotas."""
    read = settings.from_config(as_engine_config(config))
    platform = PLATFORMS[read.platform]
    return read, import_module(platform.capacity) if platform.cloud else None


def priced(config: dict[str, Any]) -> bool:
    read, _ = settings_and_capacity(config)
    if PLATFORMS[read.platform].cloud is None:
        return False
    bill = import_module(PLATFORMS[read.platform].cost).bill(read, date(2026, 11, 28))
    pools = [item for item in bill.items if item.pod_gpu]
    assert pools
    return any(part.on_demand for item in pools for part in item.parts if part.name == "machine")


def quotas(config: dict[str, Any]) -> bool:
    read, module = settings_and_capacity(config)
    if module is None:
        return False
    own = read.own
    if read.platform.startswith("eks"):
        return bool(module.needs(own.pools, {}, region=own.region)[0])
    gpus = (
        module.filled_gpus(own.pools, read.pod_groups)
        if read.platform == "gke-autopilot"
        else module.pool_gpus(own.pools)
    )
    region = module.region_of(own.cluster.location)
    return bool(module.needs(own.pools, gpus, project=own.project, region=region)[0])


def lost(config: dict[str, Any]) -> set[str]:
    """The types of pools, whose deletion a preview's comment begins with."""
    kinds = {resource.type for resource in recorded(config).resources
             if resource.type.endswith((":NodePool", ":NodeGroup", ":ComputeClass"))
             and not resource.type.startswith("gpu-cluster:")}  # fmt: skip
    for kind in kinds:
        assert Change(urn=f"urn:pulumi:s::p::{kind}::pool", verb="delete").loss
    return kinds


def found_again(config: dict[str, Any]) -> bool:
    """Whether `recover` finds each type of pool, by its ID or in the account."""
    inputs = {
        "project": "p",
        "location": "l",
        "cluster": "c",
        "name": "n",
        "metadata": {"name": "n"},
    }
    return bool(pools := lost(config)) and all(
        Aws(lambda service: None).knows(kind)
        or google.identity(kind, defaultdict(str, inputs)) is not None
        or (kind.startswith("kubernetes:") and google.kubernetes_identity(inputs) is not None)
        for kind in pools
    )


def left(config: dict[str, Any]) -> bool:
    """Whether a disk of the scaler's driver is named that a claim of somebody else has."""
    read, _ = settings_and_capacity(config)
    if not (cloud := PLATFORMS[read.platform].cloud):
        return False
    claim = {"metadata": {"name": "c", "namespace": "d"}, "spec": {}, "status": {}}
    csi = {"driver": scaler(config).disks, "volumeHandle": "v"}
    volume = {
        "metadata": {
            "name": "v",
            "annotations": {"pv.kubernetes.io/provisioned-by": csi["driver"]},
        },
        "spec": {
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": csi,
            "claimRef": {"namespace": "d", "name": "c"},
        },
    }
    return bool(leftovers(cloud, Objects(claims=[claim], volumes=[volume])))


DOES: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "`images`": lambda config: listed(settings_and_capacity(config)[0]),
    "`cost`: price of a GPU pool": priced,
    "`capacity`: GPU quotas": quotas,
    "`ci preview-comment`: a pool is deleted": lost,
    "`recover`: a pool whose creation was interrupted": found_again,
    "`leftovers`: disks of claims": left,
}
"""Row of the table of commands -> whether the command does so for a stack; what an update of nodes
is warned of is in `tests/unit/components/test_recycling.py`."""


def test_commands_know_the_pools_as_the_page_says(config: dict[str, Any]) -> None:
    """Of each scaler, own and existing."""
    title = scaler(config).title
    wrong = [
        (name, cell)
        for name, *cells in scaler_table.commands()
        for column, cell in zip(scaler_table.TITLES[1:], cells, strict=True)
        if column == title and name in DOES and (cell == "yes") != bool(DOES[name](config))
    ]
    assert wrong == []


@pytest.mark.parametrize("test", scaler_table.CHANGED.values())
def test_a_change_of_nodes_is_rehearsed(test: str) -> None:
    """With the scalers of which the page says so."""
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (ROOT / "tests/rehearsal" / file).read_text()


def user_pods(config: dict[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The specs of the pods of workloads, services and training jobs."""
    read = settings.from_config(as_engine_config(config))
    names = {*read.running["workloads"], *read.running["trainingJobs"], *read.running["services"]}
    for kind in ("Pod", "Deployment", "Job", "JobSet"):
        for each in objects(config, kind):
            if each.inputs["metadata"].get("name") in names:
                yield from (part for part in within(each.inputs) if "containers" in part)


def job_pods(config: dict[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The metadata and the spec of the pods of Jobs and training jobs."""
    read = settings.from_config(as_engine_config(config))
    for kind, key in (("Job", "workloads"), ("JobSet", "trainingJobs")):
        for each in objects(config, kind):
            if each.inputs["metadata"].get("name") in read.running[key]:
                for template in within(each.inputs):
                    if "containers" in template.get("spec", {}):
                        yield template.get("metadata", {}), template["spec"]


def job_is_kept(config: dict[str, Any]) -> bool:
    """Autopilot does not take the annotation of Spot pods."""
    read = settings.from_config(as_engine_config(config))
    spot = {name for name, pool in read.pools.items() if pool.pool.spot}
    pods = [*job_pods(config)]
    assert pods
    kept = ("cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt")
    return all(
        {*kept} & {*metadata.get("annotations", {})} or (spot and not scaler(config).spot_stays)
        for metadata, _ in pods
    )


def teams(config: dict[str, Any]) -> set[str]:
    """The namespaces of teams."""
    return {
        namespace
        for name, team in config["gpu-cluster:teams"].items()
        for namespace in team.get("namespaces", [name])
    }


def namespaced(config: dict[str, Any], kind: str, name: str) -> set[str]:
    """The namespaces that have an object of this kind and name."""
    metadata = [each.inputs["metadata"] for each in objects(config, kind)]
    return {each["namespace"] for each in metadata if each["name"] == name}


def admission(config: dict[str, Any]) -> set[str]:
    return {
        each.inputs["metadata"]["name"] for each in objects(config, "ValidatingAdmissionPolicy")
    }


def baseline(config: dict[str, Any]) -> set[str]:
    label = "pod-security.kubernetes.io/enforce"
    return {
        each.inputs["metadata"]["name"]
        for each in objects(config, "Namespace")
        if each.inputs["metadata"].get("labels", {}).get(label) == "baseline"
    }


GUARANTEES: Mapping[tuple[str, str], Callable[[dict[str, Any]], bool]] = {
    ("reference/security.md", "program: its workloads mount no token"): lambda config: all(
        spec["automountServiceAccountToken"] is False for spec in user_pods(config)
    ),
    ("reference/security.md", "program: its workloads set it to false"): lambda config: all(
        container["securityContext"]["allowPrivilegeEscalation"] is False
        for spec in user_pods(config)
        for container in spec["containers"]
    ),
    ("reference/security.md", "RuntimeDefault | program: its workloads"): lambda config: all(
        spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for spec in user_pods(config)
    ),
    ("reference/security.md", "program: one for each training job"): lambda config: (
        {*config["gpu-cluster:trainingJobs"]}
        <= {each.inputs["metadata"]["name"] for each in objects(config, "NetworkPolicy")}
    ),
    ("explanation/jobs.md", "of training jobs therefore carry"): job_is_kept,
    ("explanation/jobs.md", "`podFailurePolicy` on `DisruptionTarget`"): lambda config: all(
        "DisruptionTarget" in json.dumps(each.inputs["spec"]["podFailurePolicy"])
        for each in objects(config, "Job")
        if each.inputs["metadata"].get("name") in config.get("gpu-cluster:workloads", {})
    ),
    ("explanation/jobs.md", "JobSet's failure policy"): lambda config: all(
        each.inputs["spec"]["failurePolicy"]["rules"] for each in objects(config, "JobSet")
    ),
    ("explanation/jobs.md", "are spread with `minDomains`"): lambda config: all(
        [rule for rule in spec["topologySpreadConstraints"] if rule["minDomains"] > 1]
        for each in objects(config, "JobSet")
        for spec in (part for part in within(each.inputs) if "containers" in part)
    ),
    ("explanation/jobs.md", "get a memory volume there"): lambda config: all(
        [volume for volume in spec["volumes"] if volume.get("emptyDir", {}).get("medium")]
        for each in objects(config, "JobSet")
        for spec in (part for part in within(each.inputs) if "containers" in part)
    ),
    ("explanation/jobs.md", "on all ports, because NCCL"): lambda config: all(
        rule["from"] and "ports" not in rule
        for each in objects(config, "NetworkPolicy")
        if each.inputs["metadata"]["name"] in config["gpu-cluster:trainingJobs"]
        for rule in each.inputs["spec"]["ingress"]
    ),
    ("how-to/teams.md", "enforce the Pod Security Standard `baseline`"): lambda config: (
        teams(config) <= baseline(config)
    ),
    ("how-to/teams.md", "their default service account to mount no token"): lambda config: (
        teams(config) <= namespaced(config, "ServiceAccountPatch", "default")
    ),
    ("how-to/teams.md", "a LocalQueue and a ResourceQuota in each namespace"): lambda config: (
        teams(config) <= namespaced(config, "ResourceQuota", "team")
    ),
    ("how-to/teams.md", "a LimitRange: default requests"): lambda config: (
        teams(config) <= namespaced(config, "LimitRange", "team")
    ),
    ("how-to/teams.md", "ValidatingAdmissionPolicies of each team refuse"): lambda config: (
        {f"team-{name}-{what}" for name in config["gpu-cluster:teams"] for what in POLICIES}
        <= admission(config)
    ),
}
"""(Page, a sentence that promises it) -> whether what is declared keeps it, with every scaler, of
the stack's own clusters and of existing ones."""
POLICIES = ("queue", "variables")


@pytest.mark.parametrize("promise", GUARANTEES, ids=lambda promise: promise[1][:40])
def test_what_the_pages_promise_is_declared(promise: tuple[str, str]) -> None:
    """For each scaler, own and existing."""
    page, sentence = promise
    assert sentence in (DOCS / page).read_text()
    configs = {stack: config_of(stack) for stack in EVERYTHING}
    assert all(any(True for _ in user_pods(config)) for config in configs.values())
    broken = [stack for stack, config in configs.items() if not GUARANTEES[promise](config)]
    assert broken == []
