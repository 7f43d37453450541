"""One thing wrong at a time on GKE Autopilot: each fails the rehearsal, in words.

Nodes come for pods there, so a wrong word in a pod means no node, or another one than was meant.
"""

import pytest

from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, changed, configured, every_pool, said

WHO = "Pod default/my-gpu-pod"
T4 = "pool autopilot-nvidia-tesla-t4"
SELECTOR = "cloud.google.com/gke-accelerator"
POD = 'pod = props["spec"]\n'


def sample(code: str) -> Mutation:
    """Changes the sample, whose spec the code calls `pod`."""
    return changed("kubernetes:core/v1:Pod", POD + code)


def on(pool: str) -> Mutation:
    """The sample, on this pool."""
    return configured(lambda c: c["gpu-cluster:workloads"]["my-gpu-pod"].update(pool=pool))


def asks(resources: str) -> Mutation:
    return sample(f'pod["containers"][0]["resources"] = {resources}')


SPOT = "cloud.google.com/gke-spot"

MUTATIONS: dict[str, tuple[list[Mutation], str]] = {
    "the accelerator is spelt as GCP's quota has it": (
        [sample(f'pod["node_selector"]["{SELECTOR}"] = "nvidia-t4"')],
        f"{T4}-1: {WHO} cannot be scheduled: it selects label {SELECTOR}=nvidia-t4, a node there "
        f"has {SELECTOR}=nvidia-tesla-t4",
    ),
    "an accelerator that Autopilot does not have": (
        [sample(f'pod["node_selector"]["{SELECTOR}"] = "nvidia-tesla-p100"')],
        f"{T4}-1: {WHO} cannot be scheduled: it selects label {SELECTOR}=nvidia-tesla-p100, a node "
        f"there has {SELECTOR}=nvidia-tesla-t4",
    ),
    "a count that no machine has": ([sample(f'pod["node_selector"]["{SELECTOR}-count"] = "3"')],
        f"{T4}-1: {WHO} cannot be scheduled: it selects label {SELECTOR}-count=3, a node there has "
        f"{SELECTOR}-count=1"),
    "more GPUs than any machine has": ([asks('{"limits": {"nvidia.com/gpu": "8"}}')],
        f"{T4}-1: {WHO} cannot be scheduled: it requests 8 nvidia.com/gpu, and a node there has 1"),
    "the region has no T4": (
        [configured(lambda c: c["gpu-cluster:cluster"].update(location="europe-north1"))],
        f"pool autopilot-nvidia-rtx-pro-6000-1: {WHO} cannot be scheduled: it selects label "
        f"{SELECTOR}=nvidia-tesla-t4, a node there has {SELECTOR}=nvidia-rtx-pro-6000",
    ),
    "a toleration is dropped": ([sample('pod["tolerations"] = []')],
        f"{T4}-1: {WHO} cannot be scheduled: it does not tolerate the taint "
        "nvidia.com/gpu=present:NoSchedule"),
    "more memory than a machine with one GPU has": (
        [
            configured(lambda c: c["gpu-cluster:gpuPools"]["t4"].update(accelerator="nvidia-l4")),
            asks(
                '{"limits": {"nvidia.com/gpu": "1"}, '
                '"requests": {"cpu": "8", "memory": "150Gi"}}'
            ),
        ],
        "default/my-gpu-pod runs on node NODE of pool autopilot-nvidia-l4-4, but GKE Autopilot "
        "refuses it: total memory requested by containers is higher than the Autopilot maximum of "
        "128Gi",
    ),
    "no limit": ([asks("{}")],
        f"default/my-gpu-pod runs on node NODE of {T4}-1, but requests no nvidia.com/gpu: GKE "
        "Autopilot refuses a pod that selects an accelerator without a limit"),
    "Spot, without selecting it": ([on("t4-spot"), sample(f'del pod["node_selector"]["{SPOT}"]')],
        f"default/my-gpu-pod tolerates {SPOT} and runs on node NODE of {T4}-1, which is not a Spot "
        f"node: it does not select {SPOT}"),
    "Spot, without tolerating it": (
        [
            on("t4-spot"),
            sample('pod["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]'),
        ],
        f"{T4}-1-spot: {WHO} cannot be scheduled: it does not tolerate the taint "
        f"{SPOT}=true:NoSchedule",
    ),
    "a device plugin beside Google's": ([every_pool(device_plugin=True)],
        f"{T4}-1: node NODE has two device plugins: kube-system/nvidia-device-plugin-POD and the "
        "cloud"),
    "more CPU than the machine has": (
        [asks('{"requests": {"cpu": "1000"}, "limits": {"nvidia.com/gpu": "1"}}')],
        f"{T4}-1: {WHO} cannot be scheduled: it requests 1000 cpu, and a node there has ",
    ),
    "a runtime that is not there": ([sample('pod["runtime_class_name"] = "nvidia"')],
        'RuntimeClass "nvidia" not found'),
}  # fmt: skip


@pytest.mark.prove
@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_in_the_program_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails with the pool, the workload and the mismatch in one line."""
    mutations, message = MUTATIONS[what]
    failures = said(rehearse(*mutations, stack="autopilot"))
    assert any(message in failure for failure in failures), failures


@pytest.mark.prove
def test_a_quota_of_zero_is_passed_on_in_the_clouds_words(rehearse: Rehearse) -> None:
    """No node pool refuses earlier: the node that the pod needs does not start."""
    rehearsal = rehearse(stack="autopilot", faults=Faults(quota={"NVIDIA_T4_GPUS": 0}))
    failure = said(rehearsal)[0]
    assert f"{WHO} cannot be scheduled: the cloud refuses another node: GCE quota" in failure
    assert "Quota 'NVIDIA_T4_GPUS' exceeded" in failure


@pytest.mark.parametrize(
    ("pool", "shape"),
    [
        ("t4", "autopilot-nvidia-tesla-t4-1"),
        pytest.param("t4-spot", "autopilot-nvidia-tesla-t4-1-spot", marks=pytest.mark.prove),
    ],
)
def test_a_pod_with_one_gpu_gets_the_smallest_node(
    rehearse: Rehearse, pool: str, shape: str
) -> None:
    """Of the shapes with one, two and four T4s that all fit, the one with one comes up."""
    rehearsal = rehearse(on(pool), stack="autopilot")
    assert rehearsal.failures == []
    events = rehearsal.sandbox.event_log.events
    groups = [event.detail["group"] for event in events if event.what == "member"]
    assert [group for group in groups if "nvidia" in group] == [shape]
