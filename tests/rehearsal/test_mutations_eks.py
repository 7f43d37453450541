"""One thing wrong at a time on EKS, in the program or in AWS: each fails the rehearsal, in words.

Only the engine, a real scheduler and a real autoscaler show that a pool never grows, or in vain.
"""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.rehearsal.nodes.node_registration import karpenters
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.simulators.aws import eks, node_groups
from gpu_cluster.rehearsal.simulators.aws.account import Account
from gpu_cluster.rehearsal.simulators.aws.rows import Group
from gpu_cluster.rehearsal.verify.diagnosis import diagnose
from gpu_cluster.stacks.definition.program import Mutation
from gpu_cluster.stacks.engine.urn import Urn
from tests.rehearsal.conftest import (
    Rehearse,
    as_it_was,
    changed,
    configured,
    every_pool,
    patched,
    plain,
    pools,
    said,
    until,
    up,
)

JOB, DAEMON_SET = "kubernetes:batch/v1:Job", "kubernetes:apps/v1:DaemonSet"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
GROUP, TAG = "aws:eks/nodeGroup:NodeGroup", "aws:autoscaling/tag:Tag"
ROLE_POLICY, ATTACHMENT = (
    "aws:iam/rolePolicy:RolePolicy",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
)

WHO = "Job default/sample-gpu-job"
PLUGIN = "DaemonSet kube-system/nvidia-device-plugin"
AUTOSCALER = "Cluster Autoscaler kube-system/cluster-autoscaler"
REFUSED = f"pool train-gpu: {WHO} cannot be scheduled: "
WAITS = f"pool train-gpu: {WHO} waits for GPUs that never become allocatable on node NODE: "
ALONE = f"{REFUSED}the pool has no node, and no node is added: "
FROM_ZERO = f"{REFUSED}the pool cannot scale up from zero for it: to the autoscaler, "
TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
PROMISE = f"pool train-gpu: tag {TEMPLATE}"
FOR_NOTHING = "pool train-gpu: unnecessary scale-up: 1 node started on which no pod ever ran"
TAINT = str(GPU_TAINT)
NO_NODES = (
    f"{GROUP} {{}}: waiting for EKS Node Group (k8s-ml:{{}}) create: unexpected state "
    "'CREATE_FAILED', wanted target 'ACTIVE'. last error: NodeCreationFailure: Instances failed to "
    "join the kubernetes cluster: "
)

POD = 'pod = props["spec"]["template"]["spec"]\n'


def sample(code: str) -> Mutation:
    """Changes the job's pod template, which `code` calls `pod`."""
    return changed(JOB, POD + code)


def plugin(code: str) -> Mutation:
    """Changes the device plugin's pod template, which `code` calls `pod`."""
    return changed(DAEMON_SET, POD + code)


def node_group(code: str) -> Mutation:
    """Changes the GPU node group's properties, which the code calls `props`."""
    return changed(GROUP, code, name="train-gpu")


def tag(name: str, code: str) -> Mutation:
    """Changes one tag of the GPU pool's Auto Scaling group, which the code calls `tag`."""
    return changed(TAG, 'tag = props["tag"]\n' + code, name=f"train-gpu-{name}")


def gpus_promised(count: str) -> list[Mutation]:
    """Another number of GPUs in the `resources` tags, of the Auto Scaling group and the node
    group: the second wins."""
    return [
        tag("resource-nvidia.com/gpu", f'tag["value"] = "{count}"'),
        node_group(f'props["tags"]["{TEMPLATE}/resources/nvidia.com/gpu"] = "{count}"'),
    ]


def permissions(before: str, after: str) -> Mutation:
    """Other words in the policy of the autoscaler's role."""
    return changed(
        ROLE_POLICY,
        f'props["policy"] = props["policy"].replace({before!r}, {after!r})',
        name="k8s-ml-autoscaler",
    )


def other_policy(attachment: str) -> Mutation:
    """A role gets a policy of no use to it."""
    return changed(
        ATTACHMENT,
        'props["policy_arn"] = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"',
        name=f"k8s-ml-{attachment}",
    )


def addon(name: str, code: str) -> Mutation:
    """Changes one of EKS' addons."""
    return changed("aws:eks/addon:Addon", code, name=f"k8s-ml-{name}")


def instance_type(name: str, **values: object) -> Mutation:
    """The program believes something else of an instance type than EC2."""
    changes = [f"object.__setattr__(row, {key!r}, {value!r})" for key, value in values.items()]
    table = "from gpu_cluster.components.catalog.eks_instances import INSTANCE_TYPES"
    return patched("\n".join([table, f"row = INSTANCE_TYPES[{name!r}]", *changes]))


TOO_LARGE = {"cpu": ("4", "3920m"), "memory": ("16384Mi", "14891Mi")}
SELECTS_TIER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "selects-tier"},
    "spec": {"nodeSelector": {"tier": "b"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [{"name": "c", "image": "example.com/training:1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}  # fmt: skip
TOLERATES_NOTHING = sample('pod["tolerations"] = []')
ASKS_FOR_FOUR = sample('pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "4"')
NO_LABEL_TAG = tag("label-role", 'tag["key"] = "something-else"')
NO_TAINT_TAG = tag("taint-nvidia.com/gpu", 'tag["key"] = "something-else"')
ONLY_LOOKS = permissions("cluster-autoscaler/k8s-ml", "cluster-autoscaler/another")

MUTATIONS: dict[str, tuple[list[Mutation], list[str]]] = {
    "a toleration is dropped": ([TOLERATES_NOTHING],
        [REFUSED + f"it does not tolerate the taint {TAINT}"]),
    "more GPUs are asked than a node has": ([ASKS_FOR_FOUR],
        [REFUSED + "it requests 4 nvidia.com/gpu, and a node there has 1"]),
    "the job selects another role": ([sample('pod["node_selector"]["role"] = "serve"')],
        [REFUSED + "it selects label role=serve, a node there has role=train-gpu"]),
    "a label's tag has another value": ([tag("label-role", 'tag["value"] = "serve"')],
        [FROM_ZERO + "it selects label role=train-gpu, a node there has role=serve",
            PROMISE + "/label/role says serve, the nodes have role=train-gpu: a pod that selects "
            "train-gpu never triggers a scale-up, one that selects serve triggers an unnecessary "
            "one"]),
    "the taint's tag is in EKS's own spelling": (
        [tag("taint-nvidia.com/gpu", f'tag["value"] = "{GPU_TAINT.value}:NO_SCHEDULE"')],
        [
            PROMISE + f"/taint/nvidia.com/gpu does not say {GPU_TAINT.value}:NoSchedule, the nodes "
            f"have {TAINT}: a pod that does not tolerate it triggers an unnecessary scale-up"
        ],
    ),
    "the node group's taint has no value": (
        [node_group('props["taints"] = [dict(key="nvidia.com/gpu", effect="NO_SCHEDULE")]')],
        [
            PROMISE + "/taint/nvidia.com/gpu does not say :NoSchedule, the nodes have "
            "nvidia.com/gpu=:NoSchedule: a pod that does not tolerate it triggers an unnecessary "
            "scale-up",
            PROMISE + f"/taint/nvidia.com/gpu says {GPU_TAINT.value}:NoSchedule, the nodes have no "
            "such taint: a pod that does not tolerate it never triggers a scale-up, though it "
            "could run there",
        ],
    ),
    "the tags promise no GPU": (
        gpus_promised("0"),
        [
            FROM_ZERO + "it requests 1 nvidia.com/gpu, and a node there has 0",
            PROMISE + "/resources/nvidia.com/gpu says 0, the nodes have 1 of nvidia.com/gpu: "
            "the pool scales up too often, or never for a pod that asks for more than the tag says",
        ],
    ),
    "the tags promise more GPUs than a node has": ([ASKS_FOR_FOUR, *gpus_promised("4")],
        [REFUSED + "it requests 4 nvidia.com/gpu, and a node there has 1",
            PROMISE + "/resources/nvidia.com/gpu says 4, the nodes have 1 of nvidia.com/gpu: a "
            "pod that asks for more than there is triggers unnecessary scale-ups, and too few "
            "nodes are started for many pods", FOR_NOTHING]),
    "the device plugin selects another node": (
        [plugin('pod["affinity"] = None\npod["nodeSelector"] = {"gpus": "true"}')],
        [WAITS + f"{PLUGIN} does not select it: it selects label gpus=true, a node there has no "
                 "label gpus"],
    ),
    "the device plugin does not tolerate the GPU taint": ([plugin('pod["tolerations"] = []')],
        [WAITS + f"{PLUGIN} does not select it: it does not tolerate the taint {TAINT}"]),
    "there is no device plugin": ([every_pool(device_plugin=False)],
        [WAITS + "the cloud does not install a device plugin there, and the stack has no device "
                 "plugin DaemonSet"]),
    "the device plugin runs where the host runs one": (
        [pools(os="bottlerocket"), every_pool(device_plugin=True)],
        ["pool train-gpu: node NODE has two device plugins: "
         "kube-system/nvidia-device-plugin-POD and the cloud"],
    ),
    "the device plugin runs on every node": ([plugin('pod["affinity"] = None')],
        ["kube-system/nvidia-device-plugin-POD runs on node system-NODE of pool system, which has "
            "no GPU"]),
    "the image has no NVIDIA driver": ([node_group('props["ami_type"] = "AL2023_x86_64_STANDARD"')],
        [REFUSED + "it requests 1 nvidia.com/gpu, and a node there has none",
            PROMISE + "/resources/nvidia.com/gpu says 1, the nodes have none of nvidia.com/gpu:"
            " a pod that asks for more than there is triggers unnecessary scale-ups, and too few "
            "nodes are started for many pods", FOR_NOTHING]),
    "the autoscaler may not look": (
        [permissions("autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribePolicies")],
        [ALONE + f"the {AUTOSCALER} with its role k8s-ml-autoscaler may not do "
         "autoscaling:DescribeAutoScalingGroups on eks-train-gpu"],
    ),
    "the autoscaler may not see what EC2 refuses": (
        [permissions("autoscaling:DescribeScalingActivities", "autoscaling:DescribePolicies")],
        [f"pool train-gpu: the {AUTOSCALER} with its role k8s-ml-autoscaler may not do "
         "autoscaling:DescribeScalingActivities on eks-train-gpu: where EC2 has no such instance "
         "left, it goes on waiting for one and tries no other pool for --max-node-provision-time, "
         "15 minutes by default"],
    ),
    "the autoscaler discovers another cluster's groups": (
        [changed(
            DEPLOYMENT,
            'args_ = props["spec"]["template"]["spec"]["containers"][0]["args"]\n'
            'args_[:] = [word.replace("k8s-ml", "another") for word in args_]',
        )],
        [ALONE + f"the {AUTOSCALER} discovers groups by k8s.io/cluster-autoscaler/enabled, "
         "k8s.io/cluster-autoscaler/another, and this one has no such tag"],
    ),
    "no pod of the autoscaler runs": ([changed(DEPLOYMENT, 'props["spec"]["replicas"] = 0')],
        [ALONE + "no Cluster Autoscaler runs in the cluster"]),
    "the autoscaler's pods have another service account": (
        [changed(DEPLOYMENT, POD + 'pod["service_account_name"] = "default"')],
        [ALONE + "the Cluster Autoscaler kube-system/default has no role: there is no pod identity "
         "association for it"],
    ),
    "the node role may not join nodes": ([other_policy("nodes-AmazonEKSWorkerNodePolicy")],
        [NO_NODES.format("train-gpu", "train-gpu") + "the node role k8s-ml-nodes may not "
            "eks-auth:AssumeRoleForPodIdentity: attach AmazonEKSWorkerNodePolicy before the node "
            "group is created"]),
    "the CNI may not have addresses": ([other_policy("vpc-cni-AmazonEKS_CNI_Policy")],
        [NO_NODES.format("train-gpu", "train-gpu") + "the vpc-cni's role k8s-ml-vpc-cni may not "
            "ec2:AssignPrivateIpAddresses: attach AmazonEKS_CNI_Policy"]),
    "the catalog forgot that EC2 retired the instance type": (
        [
            instance_type("p3.2xlarge", retired=None),
            pools(instanceTypes=["p3.2xlarge"]),
        ],
        [f"{GROUP} train-gpu: CreateNodegroup: InvalidParameterException: The following supplied "
         "instance types do not exist: [p3.2xlarge]"],
    ),
    "one of the zones does not have the instance type": (
        [pools(instanceTypes=["g7e.2xlarge"])],
        [f"{GROUP} train-gpu: CreateNodegroup: InvalidRequestException: Your requested instance "
         "type (g7e.2xlarge) is not supported in your requested Availability Zone (us-east-1b). "
         "Please retry your request by not specifying an Availability Zone or choosing us-east-1a, "
         "us-east-1c."],
    ),
    "the image is older than the driver that the GPU needs": (
        [
            instance_type("g7.2xlarge", first_driver=None),
            pools(instanceTypes=["g7.2xlarge"], releaseVersion="1.35.6-20260714"),
        ],
        [
            PROMISE + "/resources/nvidia.com/gpu says 1, the nodes have none of nvidia.com/gpu:"
            " a pod that asks for more than there is triggers unnecessary scale-ups, and too few "
            "nodes are started for many pods",
            FOR_NOTHING,
        ],
    ),
    "the image's NVIDIA toolkit does not know a hook of the device plugin": (
        [
            patched("from gpu_cluster.components.catalog import eks\neks.TOOLKIT_SINCE = ''"),
            pools(releaseVersion="1.35.6-20251016"),
        ],
        ["pool train-gpu: kube-system/nvidia-device-plugin-POD, whose CDI files name the hook "
         "disable-device-node-modification, which the node's nvidia-ctk 1.17.8 does not know: no "
         "GPU container starts: fails on node NODE"],
    ),
    "the monitoring agent's DCGM server stays off the GPU nodes": (
        [addon("eks-node-monitoring-agent", 'props["configuration_values"] = None')],
        ["pool train-gpu: node auto repair sees no finding of DCGM: the "
         "eks-node-monitoring-agent's dcgmAgent.tolerations leave the taint nvidia.com/gpu out"],
    ),
    "nobody watches the GPUs that node auto repair is to repair": (
        [addon("eks-node-monitoring-agent",
               'props |= {"addon_name": "snapshot-controller", "configuration_values": None}')],
        ["pool train-gpu: node auto repair sees no fault of a GPU: the cluster has no "
         "eks-node-monitoring-agent addon, and the kubelet knows of none; add it (aws eks "
         "create-addon --region us-east-1 --cluster-name k8s-ml --addon-name "
         "eks-node-monitoring-agent), or disable nodeRepairConfig (nodeRepair: { enabled: false } "
         "of the pool)"],
    ),
    "the tags say nothing of cpu and memory": (
        [
            *(tag(f"resource-{name}", 'tag["key"] = "something-else"') for name in TOO_LARGE),
            node_group(
                'props["tags"] = {k: v for k, v in props["tags"].items()'
                ' if k.rpartition("/")[2] not in ("cpu", "memory")}'
            ),
        ],
        [
            f"{PROMISE}/resources/{name} says {said}, the nodes have {has} of {name}: a pod that "
            "asks for more than there is triggers unnecessary scale-ups, and too few nodes are "
            "started for many pods"
            for name, (said, has) in TOO_LARGE.items()
        ],
    ),
    "a startup taint that nobody takes off": (
        [pools(startupTaints=[{"key": "s3.csi.aws.com/agent-not-ready", "value": "true"}])],
        [REFUSED + "it does not tolerate the taint s3.csi.aws.com/agent-not-ready=true:NoSchedule"],
    ),
    "the autoscaler is not told that a startup taint goes away": (
        [
            pools(startupTaints=[{"key": "ebs.csi.aws.com/agent-not-ready", "value": "true"}]),
            changed(
                DEPLOYMENT,
                'args_ = props["spec"]["template"]["spec"]["containers"][0]["args"]\n'
                'args_[:] = [word for word in args_ if "startup-taint" not in word]',
            ),
        ],
        [
            FROM_ZERO + "it does not tolerate the taint "
            "ebs.csi.aws.com/agent-not-ready=true:NoSchedule"
        ],
    ),
    "no override says what EKS does about a DCGM server that starts late": (
        [node_group('props["node_repair_config"] = {"enabled": True}')],
        ["pool train-gpu: node auto repair replaces healthy nodes: eks-node-monitoring-agent "
         "reports DCGMError on a node whose DCGM server starts after it, and keeps reporting it; "
         "no override says what EKS does then"],
    ),
    "a node group is made before the CNI": (
        [patched("from gpu_cluster.components.catalog.eks_addons import ADDONS\n"
                 "(cni,) = [each for each in ADDONS if each.name == 'vpc-cni']\n"
                 "object.__setattr__(cni, 'before_nodes', False)")],
        [NO_NODES.format("train-gpu", "train-gpu") + "container runtime network not ready: cni "
         "plugin not initialized: the cluster has no vpc-cni addon"],
    ),
}  # fmt: skip


@pytest.mark.prove
@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_in_the_program_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails with the pool, the workload and the mismatch or tag in one line.

    If no node joins at all, the group that fails first stops the update, and may be the system's.
    """
    mutations, messages = MUTATIONS[what]
    failures = said(rehearse(*mutations, stack="train"))
    system = NO_NODES.format("k8s-ml-system", "system"), NO_NODES.format("train-gpu", "train-gpu")
    failures += [failure.replace(*system) for failure in failures]
    assert [message for message in messages if message not in failures] == [], failures


def gpu_nodes(rehearsal: Rehearsal) -> int:
    """How many nodes the autoscaler made come up for the GPU pool."""
    return sum(
        1
        for event in rehearsal.sandbox.event_log.events
        if event.kind == "node" and event.what == "member" and event.detail["added"]
    )


def test_without_its_labels_tag_a_pool_never_grows(rehearse: Rehearse) -> None:
    """The nodes would have the label, but at zero only the tags count."""
    rehearsal = rehearse(NO_LABEL_TAG, stack="train")
    assert said(rehearsal) == [
        FROM_ZERO + "it selects label role=train-gpu, a node there has no label role",
        PROMISE + "/label/role is missing, the nodes have role=train-gpu: a pod that selects role "
        "never triggers a scale-up",
    ]
    assert gpu_nodes(rehearsal) == 0


@pytest.mark.prove(reason="what a wrong tag does is seen in every run with the label's")
def test_without_the_taints_tag_a_pool_grows_for_a_pod_that_cannot_run_there(
    rehearse: Rehearse,
) -> None:
    """The autoscaler takes the pod to fit, and the node that comes up has the taint."""
    rehearsal = rehearse(TOLERATES_NOTHING, NO_TAINT_TAG, stack="train")
    assert said(rehearsal) == [
        REFUSED + f"it does not tolerate the taint {TAINT}",
        PROMISE
        + f"/taint/nvidia.com/gpu does not say {GPU_TAINT.value}:NoSchedule, the nodes have "
        f"{TAINT}: a pod that does not tolerate it triggers an unnecessary scale-up",
        FOR_NOTHING,
    ]
    assert gpu_nodes(rehearsal) >= 1


@pytest.mark.prove
def test_with_too_few_gpus_promised_a_pool_grows_too_often(rehearse: Rehearse) -> None:
    """Four pods would share a node of four GPUs; at one GPU a node, four nodes come up."""
    four = configured(
        lambda c: c["gpu-cluster:workloads"]["sample-gpu-job"].update(parallelism=4, completions=4)
    )
    big = pools(instanceTypes=["g4dn.12xlarge"], maxNodes=4)
    rehearsal = rehearse(four, big, *gpus_promised("1"), stack="train")
    (failure, *rest) = said(rehearsal)
    assert failure == (
        PROMISE
        + "/resources/nvidia.com/gpu says 1, the nodes have 4 of nvidia.com/gpu: the pool scales "
        "up too often, or never for a pod that asks for more than the tag says"
    )
    assert all("unnecessary scale-up" in line for line in rest)
    assert gpu_nodes(rehearsal) > 1


@pytest.mark.prove(reason="test_simulated_aws has the permissions, without pods")
def test_an_autoscaler_without_permission_on_the_group_leaves_it_at_zero(
    rehearse: Rehearse,
) -> None:
    """Its policy's condition names another cluster's tag: it may look, and change nothing."""
    rehearsal = rehearse(ONLY_LOOKS, stack="train")
    assert said(rehearsal) == [
        ALONE + f"the {AUTOSCALER} with its role k8s-ml-autoscaler may not do "
        "autoscaling:SetDesiredCapacity, autoscaling:TerminateInstanceInAutoScalingGroup on "
        "eks-train-gpu"
    ]
    assert gpu_nodes(rehearsal) == 0


@pytest.mark.prove
def test_without_an_autoscaler_nothing_grows(rehearse: Rehearse) -> None:
    """Tags and permissions are of no use where nobody reads them."""
    none = patched(
        "from gpu_cluster.components.eks import platform\n"
        "platform.ClusterAutoscaler = lambda *_, **__: None"
    )
    rehearsal = rehearse(none, stack="train")
    assert said(rehearsal) == [ALONE + "no Cluster Autoscaler runs in the cluster"]


def with_claim(**pool: object) -> Mutation:
    """The job writes to a claim of the stack, on a pool with these settings."""

    def change(config: dict[str, Any]) -> None:
        volumes = {"out": {"mountPath": "/out", "claim": "results", "readOnly": False}}
        config["gpu-cluster:volumeClaims"] = {"results": {"size": "10Gi"}}
        config["gpu-cluster:workloads"]["sample-gpu-job"]["volumes"] = volumes
        config["gpu-cluster:gpuPools"]["train-gpu"] |= {"zones": ["us-east-1a"], **pool}

    return configured(change)


DRIVERS_OWN = patched(
    """
    from types import SimpleNamespace

    from gpu_cluster.components.eks import platform

    platform.EksDisks = lambda *_, **__: SimpleNamespace(volumes={})
    """
)
"""The disks of claims are the driver's, which makes one for the first pod."""
ANY_ZONE = patched(
    "from gpu_cluster.components.settings import load\n"
    "load.check_disk_zones = lambda *_, **__: None"
)


@pytest.mark.prove(reason="test_simulated_aws has the driver's rights and the time that it takes")
def test_a_disk_of_the_drivers_own_outlives_a_destroy(rehearse: Rehearse) -> None:
    """The stack deletes what the driver needs seconds after the claim: the disk stays."""
    rehearsal = rehearse(with_claim(), DRIVERS_OWN, stack="train")
    assert rehearsal.failures == []
    rehearsal.teardown()
    (failure,) = said(rehearsal)
    assert failure.startswith("the cloud still holds EBS volume vol-")
    assert failure.endswith("(of the claim results)")


DISKS: dict[str, tuple[list[Mutation], list[str]]] = {
    "the disk is in another zone than the pool": (
        [with_claim(), changed("aws:ebs/volume:Volume",
                               'props["availability_zone"] = "us-east-1b"')],
        [f"pool train-gpu: {WHO} waits for a node; the scheduler says: "],
    ),
    "the volume names another zone than its disk's": (
        [with_claim(), changed("aws:ebs/volume:Volume",
                               'props["availability_zone"] = "us-east-1b"'),
         changed("kubernetes:core/v1:PersistentVolume", 'del props["spec"]["node_affinity"]')],
        ["Job default/sample-gpu-job starts no container: AttachVolume.Attach failed for volume "
         '"default.results" : rpc error: code = Internal desc = Could not attach volume '],
    ),
    "the pool is in two zones": (
        [with_claim(zones=["us-east-1a", "us-east-1b"]), ANY_ZONE],
        ["InvalidVolume.ZoneMismatch: The volume is in us-east-1a, and nodes of the node group can "
         "start in us-east-1b"],
    ),
}  # fmt: skip


@pytest.mark.prove
@pytest.mark.parametrize("what", DISKS)
def test_one_wrong_thing_about_a_disk_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails with the job and the driver's or the scheduler's words."""
    mutations, messages = DISKS[what]
    failures = said(rehearse(*mutations, stack="train"))
    assert [one for one in messages if not any(one in line for line in failures)] == [], failures


@pytest.mark.prove
def test_an_admin_whom_the_account_does_not_have_is_refused(rehearse: Rehearse) -> None:
    """Those whom the stack's file names are there, nobody else is."""
    somebody_else = changed(
        "aws:eks/accessEntry:AccessEntry",
        'props["principal_arn"] = "arn:aws:iam::123456789012:role/somebody-else"',
    )
    rehearsal = rehearse(somebody_else, stack="train")
    assert rehearsal.steps[-1].name == "pulumi up"
    words = "The specified principalArn is invalid: invalid principal."
    assert any(words in failure for failure in rehearsal.failures), rehearsal.failures


@pytest.mark.prove
def test_a_provider_that_is_configured_at_once_finds_nobody_admitted(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An access policy takes seconds to work, and the Kubernetes provider looks once: what it
    could not reach then, it cannot reach until the update ends."""
    # A node group ends the wait. In AWS it takes minutes; here until the provider has looked.
    ended, log = node_groups._end_creation, tmp_path / "sandbox" / "logs" / "kube-apiserver.log"

    def end_later(account: Account, group: Group, wrong: Any) -> None:
        (cluster,) = account.clusters.values()
        cluster.grew = float("-inf")

        def end() -> None:
            until = time.monotonic() + 300
            while "Unable to authenticate" not in log.read_text() and time.monotonic() < until:
                time.sleep(0.2)
            with account.lock:
                cluster.grew = time.monotonic()
                ended(account, group, wrong)

        threading.Thread(target=end, daemon=True).start()

    monkeypatch.setattr(eks, "LATE_SECONDS", 3600.0)
    monkeypatch.setattr(node_groups, "_end_creation", end_later)
    early = patched(
        """
        from gpu_cluster.components.eks import cluster as eks

        _late = eks.EksCluster._kubeconfig

        def _early(self, *arguments):
            access = eks.aws.eks.AccessPolicyAssociation
            self.reachable = [each for each in self.reachable if isinstance(each, access)]
            return _late(self, *arguments)

        eks.EksCluster._kubeconfig = _early
        """
    )
    rehearsal = rehearse(early, stack="train")
    assert rehearsal.steps[-1].name == "pulumi up"
    words = (
        ": configured Kubernetes cluster is unreachable: unable to load schema information from "
        "the API server: Unauthorized"
    )
    # As many as the engine had begun.
    assert {failure.endswith(words) for failure in said(rehearsal)} == {True}


@pytest.mark.prove
def test_an_addons_role_is_its_own_service_accounts(rehearse: Rehearse) -> None:
    """The role's trust policy names the service account, and EKS asks it."""
    another = 'props["pod_identity_associations"][0]["service_account"] = "ebs-csi-node-sa"'
    (failure,) = said(rehearse(addon("aws-ebs-csi-driver", another), stack="train"))
    assert failure.startswith(
        "aws:eks/addon:Addon k8s-ml-aws-ebs-csi-driver: CreateAddon: InvalidParameterException: "
        "The trust policy of the role arn:aws:iam::123456789012:role/k8s-ml-aws-ebs-csi-driver-"
    )
    assert "aws:RequestTag/kubernetes-service-account=ebs-csi-node-sa" in failure


@pytest.mark.prove
def test_a_quota_of_zero_is_passed_on_in_the_clouds_words(rehearse: Rehearse) -> None:
    """The node group is made, as in life, and its first node refused."""
    rehearsal = rehearse(stack="train", faults=Faults(quota={"G_VT": 0}))
    (failure,) = said(rehearsal)
    assert failure.startswith(REFUSED + "the cloud refuses another node: AsgInstanceLaunchFailures")
    assert "VcpuLimitExceeded" in failure


@pytest.mark.prove
def test_a_startup_taint_that_a_driver_takes_off_and_a_user_are_in_order(
    rehearse: Rehearse,
) -> None:
    """The pool grows from zero, and nodes take the job once the driver is there."""
    taint = {"key": "ebs.csi.aws.com/agent-not-ready", "value": "true", "effect": "NoExecute"}
    user = {
        "principals": ["arn:aws:iam::123456789012:role/researchers"],
        "access": "edit",
        "namespaces": ["team-a"],
    }
    baseline = {"podSecurity": "baseline"}

    def with_users(config: dict[str, Any]) -> None:
        config["gpu-cluster:cluster"]["users"] = {"ml": user}
        config["gpu-cluster:namespaces"] = {"team-a": baseline, "team-b": baseline}

    users = configured(with_users)
    rehearsal = rehearse(pools(startupTaints=[taint]), users, stack="train")
    assert rehearsal.failures == []
    user["namespaces"] = ["team-b"]
    up(rehearsal.sandbox, users)
    (cluster,) = rehearsal.sandbox.cloud.account.clusters.values()  # type: ignore[attr-defined]
    principal = user["principals"][0]
    assert cluster.entries[principal]["kubernetesGroups"] == ["ml"]
    (policy,) = cluster.policies[principal].values()
    assert policy["accessScope"] == {"type": "namespace", "namespaces": ["team-b"]}


@pytest.mark.prove
@pytest.mark.parametrize("expires", [True, False])
def test_a_label_that_is_added_to_an_empty_pool_is_seen(rehearse: Rehearse, expires: bool) -> None:
    """By default Cluster Autoscaler keeps the last node of the pool as its template for ten years:
    a pod that selects the new label waits for ever, and the rehearsal names the pool."""
    for_ever = changed(
        DEPLOYMENT,
        'args_ = props["spec"]["template"]["spec"]["containers"][0]["args"]\n'
        'args_[:] = [word for word in args_ if "expire-time" not in word]',
    )
    rehearsal = rehearse(*([] if expires else [for_ever]), stack="train")
    assert rehearsal.failures == []
    sandbox = rehearsal.sandbox

    def scaled() -> bool:
        return any(map(karpenters, sandbox.cluster_cache.nodes))

    until(lambda: not scaled(), "the job's node is gone")
    up(sandbox, pools(labels={"role": "train-gpu", "tier": "b"}))
    sandbox.control_plane.api.create("/api/v1/namespaces/default/pods", SELECTS_TIER)
    if expires:
        until(scaled, "a node with the label is there")
        assert sandbox.event_log.findings == []
        return
    until(lambda: sandbox.event_log.findings, "the rehearsal names the pool")
    assert [plain(line) for line in sandbox.event_log.findings] == [
        "pool train-gpu: Cluster Autoscaler keeps the template of its last node for 87600h "
        "(--node-info-cache-expire-time) and ignores the current tags: label tier is b, was not "
        "there"
    ]

    def pending() -> list[Any]:
        return [
            pod for pod in sandbox.cluster_cache.pods if pod["metadata"]["name"] == "selects-tier"
        ]

    (pod,) = until(pending, "the pod is there")
    diagnosis = diagnose(pod, sandbox.snapshot())
    assert "the pool cannot scale up from zero for it: to the autoscaler" in diagnosis.message
    assert "a node there has no label tier" in diagnosis.message
    assert not scaled()


@pytest.mark.prove
def test_node_groups_go_before_what_they_need(rehearse: Rehearse) -> None:
    """AWS's own order: a policy of running nodes cannot go, by itself or in a destroy; the program
    takes the node groups away first, and waits for nothing else."""
    rehearsal = rehearse(stack="train")
    assert rehearsal.failures == []
    engine = rehearsal.sandbox.engine
    with as_it_was(rehearsal.sandbox) as program:
        other_policy("nodes-AmazonEKSWorkerNodePolicy")(program)
        refused = engine.up()
    assert not refused.ok
    assert any(
        error.startswith(f"{ATTACHMENT} k8s-ml-nodes-AmazonEKSWorkerNodePolicy: ")
        and "still needs it and could not be deleted afterwards" in error
        for error in refused.errors
    ), refused.errors
    destroyed = engine.destroy()
    assert destroyed.ok, destroyed.errors
    kinds = [Urn.parse(urn).type for what, urn in destroyed.resources]
    last = max(place for place, kind in enumerate(kinds) if kind == GROUP)
    needed = {ATTACHMENT, "aws:iam/role:Role", "aws:ec2/subnet:Subnet", "aws:ec2/route:Route"}
    assert needed & set(kinds[:last]) == set()
    assert needed <= set(kinds[last:])
    assert rehearsal.sandbox.cloud.list_resources() == []


@pytest.mark.prove
def test_the_minimum_rises_above_the_running_size_in_one_update(rehearse: Rehearse) -> None:
    """With desiredNodes, one `up` raises both, and the nodes come."""
    rehearsal = rehearse(stack="train")
    assert rehearsal.failures == []
    sandbox = rehearsal.sandbox
    pools(minNodes=2, maxNodes=2, desiredNodes=2)(sandbox.folder / "program")
    outcome = sandbox.engine.up(refresh=True)
    assert outcome.ok, outcome.errors
    (group,) = [one for one in sandbox.cloud.node_groups() if one.name.startswith("train-gpu")]
    assert group.min_nodes == 2
    until(lambda: len(sandbox.snapshot().of(group)) >= 2, "the nodes are there", 30)
