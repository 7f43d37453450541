"""Queues and training jobs in the config: complete, or refused in one line that names the key."""

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gpu_cluster.components.batch.batch_args import BatchArgs, QueueArgs
from gpu_cluster.components.cluster import AllAtOnce, Fabric
from gpu_cluster.components.schema.refusal import Refusal
from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.components.settings.validate import check_claimed, check_groups, warnings
from tests.program.environments import as_engine_config, values_of, with_changes, without_keys
from tests.unit.components.test_settings import refusal
from tests.unit.components.test_settings_sharing import KUBECONFIG

HERE = Path(__file__).parent
REFUSED = yaml.safe_load((HERE / "refused_batch.yaml").read_text())
QUEUES = yaml.safe_load((HERE.parents[1] / "rehearsal" / "queues.yaml").read_text())


def dev() -> dict[str, Any]:
    """Dev with a queue, a training job, and its own workload beside a queued one."""
    values = copy.deepcopy(values_of("dev"))
    values["gpu-cluster:batch"] = copy.deepcopy(QUEUES["gpu-cluster:batch"])
    values["gpu-cluster:trainingJobs"] = copy.deepcopy(QUEUES["gpu-cluster:trainingJobs"])
    sweep = copy.deepcopy(QUEUES["gpu-cluster:workloads"]["sweep"])
    values["gpu-cluster:workloads"]["sweep"] = sweep | {"nodeSelector": {}}
    return values


def of_workloads(values: dict[str, Any]) -> list[str]:
    """The warnings about workloads."""
    found = warnings(from_config(as_engine_config(values)))
    return sorted(line for line in found if line.startswith("gpu-cluster:workloads."))


@pytest.mark.parametrize(
    ("beside", "key", "reason"),
    [
        ({"fabric": Fabric(resource="mrdma.google.com", claimed=8)}, "gpuDirect",
         "Kueue then refuses jobs with claims for mrdma.google.com"),
        ({"all_at_once": AllAtOnce(provisioning_class="c"), "device_class": "gpu.nvidia.com"},
         "queued", "Kueue requests nodes by GPUs that pods request"),
    ],
)  # fmt: skip
def test_a_queue_of_claimed_gpus_has_no_pool_that_kueue_cannot_count(
    beside: dict[str, Any], key: str, reason: str
) -> None:
    """Whatever the platform accepts for the pool itself."""
    stack = from_config(as_engine_config(dev()))
    (resolved, *_) = stack.pools.values()
    plain = replace(resolved.pool, fabric=None, all_at_once=None, topology=None)
    claimed = replace(plain, name="claimed", device_class="gpu.nvidia.com")
    pools = {
        pool.name: replace(resolved, pool=pool)
        for pool in (claimed, replace(plain, name="other", **beside))
    }
    batch = BatchArgs(queues={"q": QueueArgs(pools=["claimed", "other"])})
    settings: Any = SimpleNamespace(pools=pools, batch=batch)
    with pytest.raises(Refusal, match=reason) as found:
        check_claimed(settings)
    assert found.value.path == ("gpu-cluster:gpuPools", "other", key)
    settings.batch = BatchArgs(queues={"q": QueueArgs(pools=["claimed"])})
    check_claimed(settings)


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: entry["says"].split(": ")[0])
def test_refuses_what_would_never_run(entry: dict[str, Any]) -> None:
    """A bad queue or training job is refused with exactly the line that the table has."""
    says = refusal(as_engine_config(with_changes(dev(), entry["change"]))) or "accepted"
    assert without_keys(says) == entry["says"]


def test_reads_queues_and_training_jobs() -> None:
    """What is left out has its default: namespace default, all GPUs of a node."""
    read = settings.from_config(as_engine_config(dev()))
    assert read.batch is not None
    assert read.batch.job_set is True
    queue = read.batch.queues["training"]
    pool = read.pools["train-gpu"].pool
    assert (queue.pools, queue.namespaces, queue.quota(pool)) == (("train-gpu",), ("default",), 3)
    job = read.running["trainingJobs"]["ddp"]
    assert (job.nodes, job.worker_gpus(pool), job.queue) == (2, 1, "training")


def test_a_quota_counts_shares() -> None:
    """A pool of two nodes with one GPU for four pods each gives its queue eight."""
    values = dev()
    pool = values["gpu-cluster:gpuPools"]["train-gpu"]
    pool.update(maxNodes=2, sharing={"strategy": "time-slicing", "replicas": 4})
    del values["gpu-cluster:trainingJobs"]
    read = settings.from_config(as_engine_config(values))
    assert read.batch is not None
    assert read.batch.queues["training"].quota(read.pools["train-gpu"].pool) == 8


def test_without_the_keys_there_is_nothing_of_it() -> None:
    """Every committed environment is without controllers and queues."""
    read = settings.from_config(as_engine_config(values_of("dev")))
    assert (read.batch, dict(read.running["trainingJobs"])) == (None, {})


def test_a_pool_without_maximum_needs_a_number() -> None:
    """On somebody else's cluster nobody but the user knows how many GPUs there are."""
    values = copy.deepcopy(values_of("onprem"))
    values["gpu-cluster:batch"] = {"queues": {"q": {"pools": ["gpus"]}}}
    values["gpu-cluster:cluster"]["kubeconfig"] = KUBECONFIG
    assert refusal(as_engine_config(values)) == (
        "gpu-cluster:batch.queues.q.nominalQuota.gpus: is missing, and cannot be derived because "
        "the pool has no maxNodes; set how many GPUs the queue may hand out"
    )


def existing_with_groups(namespace: str, namespaces: dict[str, Any]) -> dict[str, str]:
    """The environment on an existing cluster, with a queue whose group submits jobs there."""
    values = values_of("onprem")
    (pool, *_) = values["gpu-cluster:gpuPools"]
    queue = {
        "pools": [pool],
        "nominalQuota": {pool: 1},
        "namespaces": [namespace],
        "groups": ["researchers"],
    }
    batch = {"jobSet": True, "queues": {"training": queue}}
    more = {"gpu-cluster:batch": batch, "gpu-cluster:namespaces": namespaces}
    return as_engine_config({**values, **more})


@pytest.mark.parametrize(
    ("namespace", "existing"),
    [
        ("team", {}),
        ("team", {"team": {"existing": True}}),
        ("ml-system", {}),
        ("ml-system", {"ml-system": {"existing": True}}),
    ],
)
def test_groups_in_a_namespace_of_others_are_a_warning_on_an_existing_cluster(
    namespace: str, existing: dict[str, Any]
) -> None:
    """Nobody here knows which Pod Security Standard it enforces; of the stack's own it is known."""
    (warning,) = check_groups(from_config(existing_with_groups(namespace, existing)))
    assert warning.startswith(
        "gpu-cluster:batch.queues.training.namespaces: the groups of the queue can run privileged "
        f"pods in {namespace} unless "
    )
    assert check_groups(from_config(existing_with_groups("team", {"team": {}}))) == []


@pytest.mark.parametrize(
    ("namespace", "namespaces", "reason"),
    [
        ("default", {}, "is not one of this stack's"),
        ("kube-system", {}, "is not one of this stack's"),
        ("kube-flannel", {}, "is not one of this stack's"),
        ("team", {"team": {"podSecurity": "privileged"}}, "enforces only privileged"),
    ],
)
def test_groups_are_refused_where_the_node_is_open_on_an_existing_cluster(
    namespace: str, namespaces: dict[str, Any], reason: str
) -> None:
    """A member could run a privileged pod, which is root on its node."""
    with pytest.raises(ValueError, match=r"^gpu-cluster:batch\.queues\.training\.namespaces\[0\]: "
                       f"the namespace '{namespace}' {reason}, "):  # fmt: skip
        from_config(existing_with_groups(namespace, namespaces))


def test_a_job_past_the_queue_of_its_pool_is_a_warning() -> None:
    """It takes GPUs that the queue hands out to others, unless the quota leaves them to it."""
    values = with_changes(
        dev(),
        [
            ["gpu-cluster:workloads", "sweep", "queue", "absent"],
            ["gpu-cluster:workloads", "sample-gpu-pod", "absent"],
            ["gpu-cluster:trainingJobs", "ddp", "absent"],
        ],
    )
    found = {}
    for quota in (1, 2, 3):
        queue = values["gpu-cluster:batch"]["queues"]["training"]
        queue["nominalQuota"] = {"train-gpu": quota}
        found[quota] = of_workloads(values)
    past = (
        "gpu-cluster:workloads.sweep.queue: is missing, and pool train-gpu belongs to queue "
        "training: the job does not wait in the queue, so a job that the queue has started may "
        "have to wait for its GPUs; set queue: training, or "
        "batch.queues.training.nominalQuota.train-gpu to at most 1"
    )
    assert found == {1: [], 2: [past], 3: [past]}


@pytest.mark.parametrize("kind", ["deployment", "pod"])
def test_what_has_no_queue_and_bypasses_that_of_its_pool_is_a_warning(kind: str) -> None:
    """It holds GPUs that the queue hands out as well; a quota below leaves them to it, and to
    others like it."""
    whole = dev()
    whole["gpu-cluster:workloads"]["sample-gpu-pod"] = {
        "kind": kind, "pool": "train-gpu", "image": "example.com/a:1"
    }  # fmt: skip
    says = (
        "gpu-cluster:workloads.{}.pool: train-gpu belongs to queue training, and a {} has no "
        "queue: it does not wait in the queue, so a job that the queue has started may have to "
        "wait for its GPUs; {}"
    )
    key = "batch.queues.training.nominalQuota.train-gpu"
    assert of_workloads(whole) == [says.format("sample-gpu-pod", kind, f"set {key} to at most 2")]
    below = copy.deepcopy(whole)
    below["gpu-cluster:batch"]["queues"]["training"]["nominalQuota"] = {"train-gpu": 2}
    assert of_workloads(below) == []
    another = {"kind": kind, "pool": "train-gpu", "image": "example.com/a:1"}
    below["gpu-cluster:workloads"]["other"] = another
    set_to = f"set {key} to at most 1"
    assert of_workloads(below) == [
        says.format(name, kind, set_to) for name in ("other", "sample-gpu-pod")
    ]
    whole["gpu-cluster:gpuPools"]["train-gpu"]["maxNodes"] = 1
    del whole["gpu-cluster:trainingJobs"], whole["gpu-cluster:workloads"]["sweep"]
    assert of_workloads(whole) == [says.format("sample-gpu-pod", kind, "choose another pool")]


def test_a_job_of_a_whole_pool_has_only_the_queue() -> None:
    """No quota leaves it enough."""
    values = with_changes(
        dev(),
        [
            ["gpu-cluster:workloads", "sweep", "queue", "absent"],
            ["gpu-cluster:gpuPools", "train-gpu", "maxNodes", 2],
            ["gpu-cluster:workloads", "sample-gpu-pod", "absent"],
        ],
    )
    (line,) = of_workloads(values)
    assert line.endswith("may have to wait for its GPUs; set queue: training")
    del values["gpu-cluster:trainingJobs"]
    values["gpu-cluster:namespaces"] = {"research": {}}
    values["gpu-cluster:batch"]["queues"]["training"]["namespaces"] = ["research"]
    (line,) = of_workloads(values)
    assert line.endswith("; set queue: training and namespace: research")
    values["gpu-cluster:workloads"]["sweep"] |= {"queue": "training", "namespace": "research"}
    assert of_workloads(values) == []


@pytest.mark.parametrize(("kind", "key"), [("deployment", "replicas"), ("job", "parallelism")])
def test_a_workload_without_pods_is_a_warning(kind: str, key: str) -> None:
    """Nothing of it runs, which may be intended."""
    idle = {"kind": kind, "pool": "train-gpu", "image": "example.com/job:1", key: 0}
    values = with_changes(values_of("dev"), [["gpu-cluster:workloads", "idle", idle]])
    assert of_workloads(values) == [
        f"gpu-cluster:workloads.idle.{key}: is 0, so that none of its pods run; raise it unless "
        "that is intended"
    ]


@pytest.mark.parametrize("minutes", [14, 15])
def test_a_time_in_which_no_node_starts_is_a_warning(minutes: int) -> None:
    """Each attempt pays for the nodes that did start."""
    values = dev()
    values["gpu-cluster:batch"]["podsReadyMinutes"] = minutes
    found = [line for line in warnings(from_config(as_engine_config(values))) if "Ready" in line]
    assert [line.partition(" may be ")[0] for line in found] == (
        ["gpu-cluster:batch.podsReadyMinutes: 14"] if minutes < 15 else []
    )


@pytest.mark.parametrize("pools", [["train-gpu"], ["other"]])
def test_a_pool_that_only_queues_use_is_a_warning_without_one(pools: list[str]) -> None:
    """Nothing ever starts the nodes of a queued pool, or places pods by where nodes are."""
    values = copy.deepcopy(values_of("dev"))
    pool = {"machineType": "a3-megagpu-8g", "maxNodes": 1}
    only = {"capacityType": "flex-start", "queued": True, "topologyAware": True}
    values["gpu-cluster:gpuPools"] = {"train-gpu": {**pool, **only}, "other": pool}
    values["gpu-cluster:workloads"] = {}
    values["gpu-cluster:batch"] = {"queues": {"a": {"pools": pools}}}
    found = [line for line in warnings(from_config(as_engine_config(values))) if "queue" in line]
    assert [line.partition(": ")[0] for line in found] == (
        [f"gpu-cluster:gpuPools.train-gpu.{key}" for key in ("queued", "topologyAware")]
        if pools == ["other"]
        else []
    )
