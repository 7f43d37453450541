"""Shared GPUs, rehearsed on every platform: pods at once on one GPU, and one thing wrong at a time.

What a node offers is read from what configures it there: the device plugin's pod and ConfigMap, the
launch template's user data, GKE's own fields, a pod's selector on Autopilot.
"""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from gpu_cluster.rehearsal.control_plane.pods import allocatable_gpus
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.verify import stack_output_checks
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import (
    Rehearse,
    changed,
    configured,
    every_contract,
    patched,
    plain,
    said,
    up,
)
from tests.rehearsal.test_mutations_eks import gpus_promised

JOB, POD, DEPLOYMENT = (
    "kubernetes:batch/v1:Job",
    "kubernetes:core/v1:Pod",
    "kubernetes:apps/v1:Deployment",
)
CONFIG_MAP, DAEMON_SET = "kubernetes:core/v1:ConfigMap", "kubernetes:apps/v1:DaemonSet"
NODE_POOL, TEMPLATE = "gcp:container/nodePool:NodePool", "aws:ec2/launchTemplate:LaunchTemplate"

GPU = "nvidia.com/gpu"
TIME_SLICING = {"strategy": "time-slicing", "replicas": 4}
MPS = {"strategy": "mps", "replicas": 4}
A100 = {"machineType": "a2-highgpu-1g", "driver": "managed"}
NAME = "nvidia-device-plugin-on-train-gpu"
PLUGIN = f"DaemonSet kube-system/{NAME}"
TAG = f"pool train-gpu: tag k8s.io/cluster-autoscaler/node-template/resources/{GPU}"
TOO_MANY = (
    "a pod that asks for more than there is triggers unnecessary scale-ups, and too few nodes are "
    "started for many pods"
)
TOO_FEW = "the pool scales up too often, or never for a pod that asks for more than the tag says"
OUTPUT = "output gpuPools.train-gpu, pool train-gpu: "
REFUSED = "error creating NodePool: googleapi: Error 400: {}, badRequest"


def pool(name: str, values: Mapping[str, Any], **workload: Any) -> Mutation:
    """Other settings of a pool, None for none, and of the stack's workloads."""

    def change(config: dict[str, Any]) -> None:
        given = config["gpu-cluster:gpuPools"][name]
        given |= values
        for key in [key for key, value in given.items() if value is None]:
            del given[key]
        for each in config["gpu-cluster:workloads"].values():
            each.update(workload)

    return configured(change)


def copies(workload: str, count: int, **values: Any) -> Mutation:
    """The stack's only workloads: so many of this one, with other values."""

    def change(config: dict[str, Any]) -> None:
        one = {**config["gpu-cluster:workloads"][workload], **values}
        config["gpu-cluster:workloads"] = {f"{workload}-{n}": one for n in range(count)}

    return configured(change)


def eks(pods: int = 4, **values: Any) -> Mutation:
    """One T4, and a job of so many pods at a time."""
    given = {"sharing": TIME_SLICING, **values}
    return pool("train-gpu", given, parallelism=pods, completions=pods)


def gke(replicas: int = 4, **values: Any) -> Mutation:
    """A T4 for each node, and a deployment of so many pods."""
    return pool("train-gpu", {"sharing": TIME_SLICING, **values}, replicas=replicas)


def gke_a100(sharing: Mapping[str, Any], replicas: int = 4) -> Mutation:
    given = {**A100, "accelerator": None, "gpusPerNode": None, "sharing": sharing}
    return gke(replicas, **given)


def accelerator(code: str) -> Mutation:
    """Changes the GPU node pool's accelerator, which the code calls `GPU`."""
    gpu_model = 'GPU = props["node_config"]["guest_accelerators"][0]\n'
    return changed(NODE_POOL, gpu_model + code, name="train-gpu")


def plugin_config(before: str, after: str) -> Mutation:
    """Other words in the device plugin's config."""
    return changed(
        CONFIG_MAP,
        'text = props["data"]["config.yaml"]\n'
        f"assert {before!r} in text, text\n"
        f'props["data"]["config.yaml"] = text.replace({before!r}, {after!r})',
    )


def user_data(before: str, after: str) -> Mutation:
    """Other words in the settings that a Bottlerocket node starts with."""
    return changed(
        TEMPLATE,
        "import base64\n"
        'text = base64.b64decode(props["user_data"]).decode()\n'
        f"assert {before!r} in text, text\n"
        f"text = text.replace({before!r}, {after!r})\n"
        'props["user_data"] = base64.b64encode(text.encode()).decode()',
        name="train-gpu",
    )


def two_shares(kind: str) -> Mutation:
    """Two are asked of what may be one GPU."""
    spec = 'props["spec"]' + ("" if kind == POD else '["template"]["spec"]')
    return changed(kind, f'{spec}["containers"][0]["resources"]["limits"]["{GPU}"] = "2"')


def at_once(rehearsal: Rehearsal) -> dict[str, int]:
    """GPU node -> the most pods that held a share of its GPUs at the same time."""
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    on: dict[str, str] = {}
    for event in rehearsal.sandbox.event_log.events:
        if event.kind != "pod" or not event.detail["gpus"]:
            continue
        if event.detail["node"] and event.what in ("bound", "running", "ready"):
            if event.subject not in on:
                on[event.subject] = event.detail["node"]
                running[event.detail["node"]] += 1
        elif event.subject in on and event.what in ("succeeded", "failed", "deleted"):
            running[on.pop(event.subject)] -= 1
        most |= running
    return dict(most)


def offered(rehearsal: Rehearsal) -> list[int]:
    """What each node that ever offered GPUs offers of `nvidia.com/gpu`."""
    return [allocatable_gpus(node) for node in rehearsal.sandbox.cluster_cache.gpu_nodes]


WAITS = (
    "pool train-gpu: Job default/sample-gpu-job waits for GPUs that never become allocatable on "
    "node NODE: "
)
UNSHARED = every_contract(allocatablePerNode="pool.gpus_per_node")
OTHER_NUMBER = plugin_config('"replicas": 4', '"replicas": 2')

MUTATIONS: dict[str, tuple[str, list[Mutation], list[str]]] = {
    "the plugin shares, the tags promise whole GPUs": ("train", [eks(), *gpus_promised("1")],
        [f"{TAG} says 1, the nodes have 4 of {GPU}: {TOO_FEW}"]),
    "the tags promise shares, the plugin has no config": ("train",
        [eks(), patched("from gpu_cluster.components.gpu import device_plugin\n"
            "device_plugin.plugin_config = lambda sharing: None")],
        [f"{TAG} says 4, the nodes have 1 of {GPU}: {TOO_MANY}",
            f"{OUTPUT}allocatablePerNode says 4 {GPU}, but node NODE has 1 allocatable"]),
    "the ConfigMap says another number than the tags": ("train", [eks(), OTHER_NUMBER],
        [f"{TAG} says 4, the nodes have 2 of {GPU}: {TOO_MANY}",
            f"{OUTPUT}allocatablePerNode says 4 {GPU}, but node NODE has 2 allocatable"]),
    "the ConfigMap is in another namespace": ("train",
        [eks(), changed(CONFIG_MAP, 'props["metadata"]["namespace"] = "default"', name=NAME)],
        [f"{WAITS}{PLUGIN} mounts ConfigMap kube-system/{NAME}, which does not exist"]),
    "the plugin takes one replica": ("train",
        [eks(), plugin_config('"replicas": 4', '"replicas": 1')],
        [f"{WAITS}{PLUGIN} does not start with ConfigMap kube-system/{NAME}: sharing.timeSlicing "
         "has 1 replicas, but needs at least 2"]),
    "the plugin renames what it shares": (
        "train",
        [eks(), plugin_config('"renameByDefault": false', '"renameByDefault": true')],
        [f"{WAITS}{PLUGIN} advertises shared GPUs as {GPU}.shared (renameByDefault), and no {GPU}"],
    ),
    "the pool's own plugin selects a label that its nodes lack": ("train",
        [eks(), changed(DAEMON_SET, 'pod = props["spec"]["template"]["spec"]\n'
            'pod["affinity"] = None\npod["nodeSelector"] = {"shared": "yes"}', name=NAME)],
        [f"{WAITS}{PLUGIN} does not select it: it selects label shared=yes, a node there has no "
         "label shared"]),
    "the MPS daemon does not tolerate the GPU taint": ("train",
        [eks(sharing=MPS), changed(DAEMON_SET, 'props["spec"]["template"]["spec"]["tolerations"] '
            "= []", name="nvidia-mps-control-daemon-on-train-gpu")],
        [f"{WAITS}{PLUGIN} waits for an MPS control daemon, but none is ready on the node"]),
    "the job asks for two shares": (
        "train",
        [eks(2), two_shares(JOB)],
        [f"pool train-gpu: Job default/sample-gpu-job requests 2 {GPU} in one container, but the "
         "device plugin of node NODE, where 4 pods share a GPU, allows at most 1: the kubelet "
         "fails the pod with UnexpectedAdmissionError"],
    ),
    "the output says the number of unshared GPUs": ("train", [eks(), UNSHARED],
        [f"{OUTPUT}allocatablePerNode says 1 {GPU}, but node NODE has 4 allocatable"]),
    "the output lets a pod ask for two shares": ("train",
        [eks(), every_contract(gpusPerPod="[1, 2]")],
        [f"{OUTPUT}gpusPerPod says that a pod may request 2 {GPU}, but the device plugin of node "
         "NODE gives a container at most 1"]),
    "Bottlerocket has no user data": ("train",
        [eks(os="bottlerocket"), changed(TEMPLATE, 'props["user_data"] = None', name="train-gpu")],
        [f"{TAG} says 4, the nodes have 1 of {GPU}: {TOO_MANY}"]),
    "Bottlerocket's settings say another number": ("train",
        [eks(os="bottlerocket"), user_data("replicas = 4", "replicas = 2")],
        [f"{TAG} says 4, the nodes have 2 of {GPU}: {TOO_MANY}"]),
    "Bottlerocket renames what it shares, as it does by default": ("train",
        [eks(os="bottlerocket", sharing=MPS), user_data("rename-by-default = false\n", "")],
        [f"{WAITS}Bottlerocket's device plugin advertises shared GPUs as {GPU}.shared "
            f"(renameByDefault), and no {GPU}"]),
    "GKE is given another number of clients": ("dev",
        [gke(), accelerator('GPU["gpu_sharing_config"]["max_shared_clients_per_gpu"] = 2')],
        [f"{OUTPUT}allocatablePerNode says 4 {GPU}, but node NODE has 2 allocatable"]),
    "GKE is given more clients than it takes": (
        "dev",
        [gke(), accelerator('GPU["gpu_sharing_config"]["max_shared_clients_per_gpu"] = 49')],
        [f"{NODE_POOL} train-gpu: "
         + REFUSED.format("maxSharedClientsPerGpu 49 is not within 2 to 48")],
    ),
    "a partition that the GPU does not have": (
        "dev",
        [gke(), accelerator('GPU["gpu_partition_size"] = "1g.5gb"')],
        [f"{NODE_POOL} train-gpu: "
         + REFUSED.format("'nvidia-tesla-t4' has no gpuPartitionSize '1g.5gb': it has none")],
    ),
    "MPS on partitions": (
        "dev",
        [gke_a100(MPS), accelerator('GPU["gpu_partition_size"] = "1g.5gb"')],
        [f"{NODE_POOL} train-gpu: "
         + REFUSED.format("gpuSharingStrategy MPS does not run on partitions (here 1g.5gb)")],
    ),
    "another partition than the output tells": ("dev",
        [gke_a100({"strategy": "mig", "partition": "1g.5gb"}),
            accelerator('GPU["gpu_partition_size"] = "2g.10gb"')],
        [f"{OUTPUT}allocatablePerNode says 7 {GPU}, but node NODE has 3 allocatable"]),
    "the deployment asks for two shares": ("dev", [gke(2), two_shares(DEPLOYMENT)],
        [f"pool train-gpu: Deployment default/sample-gpu-pod requests 2 {GPU} in one container, "
         "but the device plugin of node NODE, where 4 pods share a GPU, allows at most 1: the "
         "kubelet fails the pod with UnexpectedAdmissionError"]),
    "GKE's MPS without the host's IPC": ("dev",
        [gke(sharing=MPS), changed(DEPLOYMENT,
            'props["spec"]["template"]["spec"]["host_ipc"] = None', name="sample-gpu-pod")],
        ["pool train-gpu: Deployment default/sample-gpu-pod has no hostIPC: true, without which "
         "it cannot reach the MPS daemon of node NODE"]),
    "the strategy is spelt as GKE's API has it": (
        "autopilot",
        [pool("t4", {"sharing": TIME_SLICING}),
         changed(POD, 'selector = props["spec"]["node_selector"]\n'
                 'selector["cloud.google.com/gke-gpu-sharing-strategy"] = "TIME_SHARING"')],
        ["pool autopilot-nvidia-tesla-t4-1: Pod default/my-gpu-pod cannot be scheduled: it selects "
         "label cloud.google.com/gke-gpu-sharing-strategy=TIME_SHARING, a node there has no label "
         "cloud.google.com/gke-gpu-sharing-strategy; it selects label "
         "cloud.google.com/gke-max-shared-clients-per-gpu=4, a node there has no label "
         "cloud.google.com/gke-max-shared-clients-per-gpu"],
    ),
    "the output says the number of unshared GPUs on Autopilot": ("autopilot",
        [pool("t4", {"sharing": TIME_SLICING}), UNSHARED],
        [f"output gpuPools.t4, pool autopilot-nvidia-tesla-t4-1-shared-4: allocatablePerNode says "
            f"4 {GPU} on 4 GPUs, but node NODE has 4 allocatable on 1"]),
    "the ConfigMap says another number than the output": ("onprem",
        [pool("workstations", {"sharing": TIME_SLICING}, gpus=1), OTHER_NUMBER],
        [f"output gpuPools.workstations, pool workstation: allocatablePerNode says 8 {GPU}, but "
            "a node has 4 allocatable"]),
}  # fmt: skip


@pytest.mark.prove(
    reason="test_assertions, test_stack_output_checks and test_gpu_sharing have each"
)
@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_about_sharing_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails with the pool, the workload or the tag, and the mismatch in one line."""
    stack, mutations, messages = MUTATIONS[what]
    failures = said(rehearse(*mutations, stack=stack))
    assert [message for message in messages if message not in failures] == [], failures


BOTTLEROCKET = {"os": "bottlerocket"}


@pytest.mark.prove(
    reason="on premises a ConfigMap does the same in every run; tests/unit/rehearsal/"
    "test_gpu_sharing.py reads each platform's own settings"
)
@pytest.mark.parametrize(
    ("sharing", "values"),
    [(TIME_SLICING, {}), (MPS, {}), (TIME_SLICING, BOTTLEROCKET), (MPS, BOTTLEROCKET)],
)
def test_on_eks_four_pods_share_a_gpu_and_the_fifth_waits(
    rehearse: Rehearse, sharing: dict[str, Any], values: dict[str, Any]
) -> None:
    """With the device plugin's ConfigMap (AL2023) as with Bottlerocket's settings, a pool of one
    node runs four at once; the fifth gets its turn when one is done."""
    rehearsal = rehearse(eks(5, sharing=sharing, **values), stack="train")
    assert rehearsal.failures == []
    assert offered(rehearsal) == [4]
    assert list(at_once(rehearsal).values()) == [4]


@pytest.mark.prove
def test_on_eks_the_fifth_pod_makes_the_pool_grow(rehearse: Rehearse) -> None:
    """The autoscaler knows from the tags that a node has four shares: two nodes, not five."""
    rehearsal = rehearse(eks(8, maxNodes=5), stack="train")
    assert rehearsal.failures == []
    assert offered(rehearsal) == [4, 4]
    assert max(at_once(rehearsal).values()) == 4


@pytest.mark.prove
@pytest.mark.parametrize(
    ("mutation", "shares"),
    [
        (gke(8), 4),
        (gke(8, sharing=MPS), 4),
        (gke_a100({"strategy": "mig", "partition": "1g.5gb"}, 14), 7),
        (gke_a100({"strategy": "time-slicing", "replicas": 2, "partition": "3g.20gb"}, 8), 4),
    ],
    ids=["time-slicing", "mps", "mig", "time-sliced partitions"],
)
def test_on_gke_twice_as_many_pods_as_shares_need_two_nodes(
    rehearse: Rehearse, mutation: Mutation, shares: int
) -> None:
    """GKE's own fields say how often a GPU or a partition of it is offered; all of it is used."""
    rehearsal = rehearse(mutation)
    assert rehearsal.failures == []
    assert offered(rehearsal) == [shares, shares]
    assert list(at_once(rehearsal).values()) == [shares, shares]


@pytest.mark.prove
def test_on_autopilot_pods_get_the_shared_gpu_that_they_select(rehearse: Rehearse) -> None:
    """A node with one GPU comes for four pods, and another for the next four."""
    rehearsal = rehearse(
        pool("t4", {"sharing": TIME_SLICING}), copies("my-gpu-pod", 8), stack="autopilot"
    )
    assert rehearsal.failures == []
    assert offered(rehearsal) == [4, 4]
    assert list(at_once(rehearsal).values()) == [4, 4]


def test_on_premises_the_fifth_pod_waits_for_ever(rehearse: Rehearse) -> None:
    """Two GPUs of a machine are four shares, all taken at once; nobody adds a machine."""
    rehearsal = rehearse(
        pool("workstations", {"sharing": {"strategy": "time-slicing", "replicas": 2}}),
        copies("gpu-k8s", 5, pool="workstations", gpus=1),
        stack="onprem",
    )
    (failure,) = said(rehearsal)
    assert failure.startswith("pool workstation: Pod default/gpu-k8s-")
    assert f"the pool has 1 node, no autoscaling, and none has 1 {GPU} free, used by " in failure
    assert max(at_once(rehearsal).values()) == 4


@pytest.mark.prove
@pytest.mark.parametrize("checksum", [True, False], ids=["as it is", "without the pods' checksum"])
def test_another_number_of_replicas_reaches_nodes_by_new_plugin_pods(
    rehearse: Rehearse, checksum: bool
) -> None:
    """The plugin reads its config once: a ConfigMap alone changes nothing on a running node."""
    metadata = 'props["spec"]["template"]["metadata"]'
    forgotten = changed(DAEMON_SET, f'{metadata}["annotations"] = None')
    rehearsal = rehearse(
        pool("workstations", {"sharing": TIME_SLICING}, gpus=1),
        *([] if checksum else [forgotten]),
        stack="onprem",
    )
    assert rehearsal.failures == []
    sandbox = rehearsal.sandbox
    eight = pool("workstations", {"sharing": {"strategy": "time-slicing", "replicas": 8}})
    up(sandbox, eight)
    pools = stack_output_checks.exported(sandbox.engine.resources())
    deadline = time.monotonic() + 15
    while wrong := stack_output_checks.broken(
        pools, sandbox.snapshot(), sandbox.cluster_cache, sandbox.cluster_cache.gpu_nodes
    ):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    stale = (
        f"output gpuPools.workstations, pool workstation: allocatablePerNode says 16 {GPU}, but "
        "node workstation has 8 allocatable"
    )
    assert [plain(line) for line in wrong] == ([] if checksum else [stale])
