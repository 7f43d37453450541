"""Services in the config: complete, or refused in one line that names the key."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.gpu.workload_args import GpuPodArgs
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.components.settings.validate import warnings
from tests.program.environments import as_engine_config, values_of, with_changes, without_keys
from tests.unit.components.test_settings import refusal

REFUSED = yaml.safe_load(Path(__file__).with_name("refused_services.yaml").read_text())
CHAT: dict[str, Any] = {
    "pool": "train-gpu",
    "image": "example.com/server:1",
    "port": 8000,
    "scaling": {
        "minReplicas": 0,
        "maxReplicas": 2,
        "prometheus": {"serverAddress": "http://prometheus:9090", "query": "up", "threshold": 5},
    },
}

FIXED = {key: value for key, value in CHAT.items() if key != "scaling"}


def dev() -> dict[str, Any]:
    """Dev with a service that KEDA scales from zero."""
    return {**copy.deepcopy(values_of("dev")), "gpu-cluster:services": {"chat": CHAT}}


def warned(values: dict[str, Any]) -> set[str]:
    """The keys that are warned of."""
    return {line.partition(": ")[0] for line in warnings(from_config(as_engine_config(values)))}


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: entry["says"].split(": ")[0])
def test_refuses_what_would_never_serve(entry: dict[str, Any]) -> None:
    """A bad service is refused with exactly the line that the table has."""
    says = refusal(as_engine_config(with_changes(dev(), entry["change"])))
    assert without_keys(says) == entry["says"]


def test_kubernetes_1_37_scales_to_zero_by_an_external_metric() -> None:
    """Its feature gate HPAScaleToZero is on."""
    change: list[list[Any]] = [["gpu-cluster:services", "chat", "scaling", "prometheus", "absent"]]
    metric = {"name": "waiting", "averageValue": "5", "type": "External"}
    change.append(["gpu-cluster:services", "chat", "scaling", "metric", metric])
    for version, accepted in (("1.36", False), ("1.37", True), ("1.37.1-gke.1", True)):
        values = with_changes(dev(), [*change, ["gpu-cluster:cluster", "version", version]])
        if accepted:
            from_config(as_engine_config(values))
        else:
            assert "minReplicas" in refusal(as_engine_config(values))


def test_a_service_counts_the_most_pods_that_it_can_have() -> None:
    """What counts GPUs and machines goes by `maxReplicas`, and by `replicas` without scaling."""
    (own,) = from_config(as_engine_config(dev())).pod_groups_of("services")
    assert (own.path, own.pool, own.count, own.gpus) == (
        "gpu-cluster:services.chat", "train-gpu", 2, 1,
    )  # fmt: skip
    fixed = with_changes(dev(), [["gpu-cluster:services", "chat", "scaling", "absent"]])
    (own,) = from_config(as_engine_config(fixed)).pod_groups_of("services")
    assert own.count == 1


def test_a_service_that_keda_scales_is_warned_of() -> None:
    """KEDA is not this stack's; a HorizontalPodAutoscaler is Kubernetes' own."""
    assert "gpu-cluster:services.chat.scaling.prometheus" in warned(dev())
    metric = {"maxReplicas": 2, "metric": {"name": "waiting", "averageValue": "5"}}
    other = with_changes(dev(), [["gpu-cluster:services", "chat", "scaling", metric]])
    assert "gpu-cluster:services.chat.scaling.prometheus" not in warned(other)


def test_a_service_on_the_pool_of_a_queue_is_warned_of() -> None:
    """It takes GPUs that the queue hands out."""
    values = {**dev(), "gpu-cluster:batch": {"queues": {"training": {"pools": ["train-gpu"]}}}}
    assert "gpu-cluster:services.chat.pool" in warned(values)


def test_pods_that_run_all_the_time_and_do_not_all_fit_are_a_warning() -> None:
    """Dev's pool has three GPUs and a deployment on one. What scales from zero counts with nothing,
    and what waits in a queue ends."""
    values = dev()
    values["gpu-cluster:services"]["more"] = {**FIXED, "replicas": 2}
    assert "gpu-cluster:services.more" not in warned(values)
    values["gpu-cluster:services"]["last"] = FIXED
    (line,) = (
        line for line in warnings(from_config(as_engine_config(values))) if "never start" in line
    )
    assert line == (
        "gpu-cluster:services.last: some of its pods never start: together with the entries "
        "above, the pods that run all the time need 4 GPUs of pool train-gpu, which has at most "
        "3; lower replicas, or raise its maxNodes"
    )


def test_a_service_without_pods_is_a_warning() -> None:
    """As a deployment without any is."""
    values = dev()
    values["gpu-cluster:services"]["chat"] = {**FIXED, "replicas": 0}
    assert "gpu-cluster:services.chat.replicas" in warned(values)


def test_a_new_kind_of_pods_gets_the_warnings_of_a_service() -> None:
    """Its args class adds nothing for that; one whose pods end says so."""
    args = GpuPodArgs(pool="train-gpu", image="example.com/i:1")
    pools = from_config(as_engine_config(dev())).pools
    found = {name: resolved.pool for name, resolved in pools.items()}
    (pods,) = args.pod_groups("gpu-cluster:sites.x", found)
    assert (pods.kind, pods.long_running, pods.least) == ("workload", True, 1)
