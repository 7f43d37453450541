"""One thing wrong at a time on a cluster that is already there: each fails the rehearsal, in words.

Nothing scales here: what counts is whether driver, plugin, labels and pods fit the machines.
"""

import pytest

from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import (
    Rehearse,
    all_pools,
    changed,
    configured,
    every_pool,
    patched,
    said,
)

DAEMON_SET, POD = "kubernetes:apps/v1:DaemonSet", "kubernetes:core/v1:Pod"
PLUGIN = "DaemonSet kube-system/nvidia-device-plugin"
WHO = "Pod default/gpu-k8s"
REFUSED = f"pool dgx-a: {WHO} cannot be scheduled: "
WAITS = f"pool dgx-a: {WHO} waits for GPUs that never become allocatable on node dgx-a: "
TAINT = str(GPU_TAINT)


def sample(code: str, name: str = "gpu-k8s") -> Mutation:
    """Changes a sample, whose spec the code calls `pod`."""
    return changed(POD, f'pod = props["spec"]\n{code}', name=name)


def plugin(code: str) -> Mutation:
    """Changes the device plugin's pod template, which `code` calls `pod`."""
    return changed(DAEMON_SET, f'pod = props["spec"]["template"]["spec"]\n{code}')


def workload(name: str, **values: object) -> Mutation:
    return configured(lambda config: config["gpu-cluster:workloads"][name].update(values))


TWICE = patched(
    """
    from gpu_cluster.components.gpu.device_plugin import DevicePlugin

    _once = DevicePlugin._daemon_set

    def _twice(self, name, *rest):
        _once(self, f"another-{name}", *rest)
        return _once(self, name, *rest)

    DevicePlugin._daemon_set = _twice
    """
)
"""A second DaemonSet of each."""

MUTATIONS: dict[str, tuple[list[Mutation], str]] = {
    "more GPUs than the machine has": (
        [sample('pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "10"')],
        REFUSED + "it requests 10 nvidia.com/gpu, and a node there has 9",
    ),
    "more memory than the machine has": (
        [workload("gpu-pod-using-device-plugin", requests={"memory": "100Gi"}, limits={})],
        "pool workstation: Pod default/gpu-pod-using-device-plugin cannot be scheduled: it "
        "requests 100 Gi of memory, and a node there has 64Gi",
    ),
    "a label that no machine has": ([sample('pod["node_selector"] = {"gpus": "yes"}')],
        REFUSED + "it selects label gpus=yes, a node there has gpus=true"),
    "the pool's label is not the machines'": (
        [configured(lambda c: c["gpu-cluster:gpuPools"]["workstations"].update(
            nodeSelector={"node-type": "gpus"}
        ))],
        "pool workstation: Pod default/gpu-pod-using-device-plugin cannot be scheduled: it selects "
        "label node-type=gpus, a node there has node-type=gpu",
    ),
    "the GPUs are all in use": (
        [workload("gpu-k8s", gpus=9), workload("gpu-k8s2", gpus=9),
         configured(lambda c: c["gpu-cluster:workloads"].update(
             one_more_of(c["gpu-cluster:workloads"])
         ))],
        "cannot be scheduled: the pool has 1 node, no autoscaling, and none has 9 nvidia.com/gpu "
        "free, used by Pod default/gpu-k8s",
    ),
    "the device plugin selects no machine": (
        [plugin('pod["affinity"] = None\npod["nodeSelector"] = {"gpus": "yes"}')],
        WAITS + f"{PLUGIN} does not select it: it selects label gpus=yes, a node there has "
                "gpus=true",
    ),
    "the device plugin does not tolerate the GPU taint": ([plugin('pod["tolerations"] = []')],
        f"pool dgx-b: node dgx-b has none of its GPUs allocatable: {PLUGIN} selects it, but it "
        f"does not tolerate the taint {TAINT}"),
    "the machines' taint is not the pool's": ([all_pools(taints=[{"key": "gpu", "value": "yes"}])],
        f"output gpuPools.gpus, pool dgx-b: tolerations do not tolerate {TAINT}"),
    "nobody runs a device plugin": ([every_pool(device_plugin=False)],
        WAITS + "the cloud does not install a device plugin there, and the stack has no device "
                "plugin DaemonSet"),
    "a second device plugin": ([TWICE], "pool dgx-a: node dgx-a has two device plugins: "
        "kube-system/another-nvidia-device-plugin-POD and kube-system/nvidia-device-plugin-POD"),
    "the device plugin runs on every machine": ([plugin('pod["affinity"] = None')],
        "kube-system/nvidia-device-plugin-POD runs on node control of pool control, which has no "
        "GPU"),
    # One that the settings name is there: a rehearsal takes the cluster to be as they say.
    "a runtime that is not there": ([sample('pod["runtime_class_name"] = "nvidia"')],
        'RuntimeClass "nvidia" not found'),
}  # fmt: skip


def one_more_of(workloads: dict) -> dict:
    """A third sample like the first: whichever of the three comes last waits for the same."""
    return {"gpu-k8s3": dict(workloads["gpu-k8s"])}


@pytest.mark.prove
@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_in_the_program_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails with the machine, the workload and the mismatch in one line."""
    mutations, message = MUTATIONS[what]
    failures = said(rehearse(*mutations, stack="onprem"))
    assert any(message in failure for failure in failures), failures


@pytest.mark.prove(reason="test_inventory shows who runs a device plugin on the machines")
def test_a_device_plugin_of_somebody_else_offers_the_gpus(rehearse: Rehearse) -> None:
    """With `devicePlugin: none` the stack installs none, and its pods run."""
    rehearsal = rehearse(all_pools(devicePlugin="none"), stack="onprem")
    assert rehearsal.failures == []
    assert rehearsal.sandbox.cluster_cache.all("DaemonSet") == []


@pytest.mark.prove(reason="test_mutations_sharing has pods on shares in every run")
def test_shared_gpus_are_offered_once_for_each_share(rehearse: Rehearse) -> None:
    """The device plugin's config says how often a GPU is offered: nine GPUs are thirty-six."""
    shared = all_pools(sharing={"strategy": "time-slicing", "replicas": 4})
    one_each = configured(
        lambda c: [
            each.update(gpus=min(each["gpus"], 1)) for each in c["gpu-cluster:workloads"].values()
        ]
    )
    rehearsal = rehearse(shared, one_each, stack="onprem")
    assert rehearsal.failures == []
    offered = {
        node["metadata"]["labels"]["kubernetes.io/hostname"].rpartition("-")[0]: node["status"][
            "allocatable"
        ].get("nvidia.com/gpu", "0")
        for node in rehearsal.sandbox.cluster_cache.nodes
    }
    assert offered == {
        "dgx-a": "36", "dgx-b": "36", "workstation": "8", "forgotten": "0", "control": "0",
    }  # fmt: skip
