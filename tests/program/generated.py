"""Configs that nobody wrote: made to be valid, for each platform, then with something broken."""

import copy
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.program.environments import STACKS, values_of

Values = dict[str, Any]

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,7}(-[a-z0-9]{1,7})?", fullmatch=True)
LABELS = st.dictionaries(
    st.sampled_from(["role", "team", "example.com/tier"]), st.sampled_from(["ml", "train", "x"])
)
TAINTS = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["team", "example.com/only"]), "value": st.just("ml")},
        optional={"effect": st.sampled_from(["NoSchedule", "NoExecute"])},
    ),
    max_size=1,
)
# A minimum is spread over the zones, of which a region has up to four.
NODES = {"minNodes": st.integers(0, 2), "maxNodes": st.integers(4, 9)}
SHARING = st.fixed_dictionaries(
    {"strategy": st.sampled_from(["time-slicing", "mps"]), "replicas": st.integers(2, 8)}
)
PARTS = {"labels": LABELS, "taints": TAINTS, "diskSizeGb": st.sampled_from([100, 200])}

MAINTENANCE = st.one_of(
    st.sampled_from([{"start": "00:00"}, {"start": "23:59"}]),
    st.fixed_dictionaries(
        {
            "start": st.just("2026-01-03T02:00:00Z"),
            "end": st.sampled_from(["2026-01-03T10:00:00Z", "2026-01-03T11:00:00+01:00"]),
            "recurrence": st.sampled_from(["FREQ=DAILY", "FREQ=WEEKLY;BYDAY=SA,SU"]),
            "exclusions": st.just(
                {"long-run": {"start": "2026-12-01T00:00:00Z", "end": "2026-12-30T00:00:00Z"}}
            ),
        }
    ),
)


def some(required: Mapping[str, Any], **optional: st.SearchStrategy[Any]) -> Any:
    """A map with all of `required` and any of `optional`."""
    fixed = {
        key: value if isinstance(value, st.SearchStrategy) else st.just(value)
        for key, value in required.items()
    }
    return st.fixed_dictionaries(fixed, optional=optional)


RESERVATIONS = st.sampled_from(["mine", "projects/owner-1/reservations/theirs",
                               "mine/reservationBlocks/block-1"])  # fmt: skip
RESERVED = "arn:aws:resource-groups:us-east-1:123456789012:group/gpus"
POOLS: Mapping[str, st.SearchStrategy[Values]] = {
    "dev": st.one_of(
        some(
            {"machineType": "n1-standard-8", "accelerator": "nvidia-tesla-t4", **NODES},
            **PARTS,
            gpusPerNode=st.sampled_from([1, 2]),
            capacityType=st.sampled_from(["on-demand", "spot"]),
            driver=st.sampled_from(["managed", "daemonset"]),
            osImage=st.sampled_from(["cos", "ubuntu"]),
            deleteBeforeReplace=st.just(False),
        ),
        some({"machineType": st.sampled_from(["g2-standard-4", "a2-highgpu-1g"]), **NODES},
             **PARTS, sharing=SHARING, devicePlugin=st.just("gke")),
        some({"machineType": "a2-highgpu-1g", "maxNodes": 4, "capacityType": "flex-start"},
             **PARTS, maxRunDurationSeconds=st.sampled_from([3600, 604800])),
        some({"machineType": "g2-standard-4", **NODES, "capacityType": "reservation",
              "reservation": RESERVATIONS}, **PARTS),
    ),
    "autopilot": some(
        {"accelerator": st.sampled_from(["nvidia-tesla-t4", "nvidia-l4"])},
        capacityType=st.sampled_from(["on-demand", "spot", "flex-start"]),
        gpusPerNode=st.sampled_from([1, 2]),
        sharing=st.fixed_dictionaries(
            {"strategy": st.just("time-slicing"), "replicas": st.integers(2, 8)}
        ),
    ) | some({"accelerator": "nvidia-l4", "capacityType": "reservation",
              "reservation": RESERVATIONS}),
    "train": some(
        {
            "instanceTypes": st.sampled_from(
                [["g4dn.xlarge"], ["g5.xlarge", "g5.2xlarge"], ["p3dn.24xlarge"], ["g6.12xlarge"]]
            ),
            **NODES,
        },
        **PARTS,
        capacityType=st.sampled_from(["on-demand", "spot"]),
        os=st.sampled_from(["al2023", "bottlerocket"]),
        diskThroughput=st.integers(125, 700),
        diskIops=st.integers(3000, 9000),
        maxUnavailable=st.integers(1, 3),
        forceUpdate=st.booleans(),
        nodeRepair=some(
            {},
            maxParallelNodesRepairedPercentage=st.integers(1, 100),
            maxUnhealthyNodeThresholdCount=st.integers(1, 9),
            overrides=st.just([{
                "nodeMonitoringCondition": "KernelReady", "nodeUnhealthyReason": "ForkFailedOOM",
                "minRepairWaitTimeMins": 5, "repairAction": "Reboot",
            }]),
        ),
        sharing=SHARING,
        zones=st.just(["us-east-1b"]),
    ) | some(
        {
            "instanceTypes": st.sampled_from([["p5.48xlarge"], ["p4d.24xlarge"]]),
            "capacityType": "capacity-block", "reservation": "cr-0123456789abcdef0",
            "maxNodes": st.integers(1, 2),
            # Of one zone, whichever way the network is given.
            "zones": st.sampled_from([["us-east-1b"], ["use1-az2"]]),
        },
        **PARTS,
    ) | some(
        {
            "instanceTypes": st.sampled_from([["g5.xlarge"], ["g6.xlarge"]]), **NODES,
            "capacityType": "reservation",
            "reservation": st.sampled_from(["cr-0fedcba9876543210", RESERVED]),
            "zones": st.sampled_from([["us-east-1b"], ["use1-az2"]]),
        },
        **PARTS,
    ),
    "onprem": some(
        {"nodeSelector": st.sampled_from([{"gpus": "true"}, {"gpus": "a", "rack": "1"}]),
         "gpusPerNode": st.integers(1, 9)},
        devicePlugin=st.sampled_from(["nvidia", "none"]),
        runtimeClass=st.just("nvidia"),
        sharing=SHARING,
        tolerations=st.just([{"key": "CriticalAddonsOnly"}]),
    ),
}  # fmt: skip
"""Environment, one per platform -> a pool there."""

NAMED = {"vpc": "shared", "subnetwork": "gke", "podsRange": "p", "servicesRange": "s"}
EXISTING_NETWORK = st.sampled_from([NAMED, {**NAMED, "hostProject": "company-net"}])

CLUSTERS: Mapping[str, st.SearchStrategy[Values]] = {
    "dev": some(
        {},
        location=st.sampled_from(["us-central1-a", "us-central1", "europe-west4"]),
        releaseChannel=st.sampled_from(["rapid", "stable"]),
        labels=st.just({"team": "ml"}),
        network=st.one_of(st.just({"flowLogs": True}), EXISTING_NETWORK),
        systemPool=some({}, maxNodes=st.integers(1, 5), spot=st.booleans()),
        deletionProtection=st.booleans(),
        privateEndpoint=st.just(True),
        dnsEndpoint=st.booleans(),
        maintenance=MAINTENANCE,
    ),
    "autopilot": some(
        {},
        location=st.sampled_from(["us-central1", "europe-west4"]),
        labels=st.just({"a": "b"}),
        network=EXISTING_NETWORK,
        dnsEndpoint=st.booleans(),
        maintenance=MAINTENANCE,
    ),
    "train": some(
        {},
        version=st.sampled_from(["1.34", "1.35"]),
        network=st.one_of(
            some(
                {
                    "zones": st.sampled_from(
                        [["us-east-1a", "us-east-1b"], ["use1-az1", "use1-az2"]]
                    )
                },
                nat=st.sampled_from(["single", "per-zone"]),
            ),
            st.just({"subnetIds": [f"subnet-0aaaaaaaaaaaaaaa{number}" for number in (1, 2, 3)]}),
        ),
        authorizedNetworks=st.sampled_from(
            [{"vpn": "10.200.0.0/16"}, {"vpn": "10.200.0.0/16", "office": "203.0.113.0/24"}]
        ),
        privateEndpoint=st.booleans(),
        secretsEncryptionKey=st.just("arn:aws:kms:us-east-1:123456789012:key/00000000"),
        tags=st.just({"team": "ml"}),
        addonVersions=st.just({"coredns": "v1.12.1-eksbuild.2"}),
        autoscaler=st.just({"scaleDownUnneededTime": "5m", "image": "example.com/autoscaler:1"}),
    ),
    "onprem": some({}, name=NAMES),
}

WORKLOAD = some(
    {
        "kind": st.sampled_from(["deployment", "pod", "job"]),
        "image": st.just("docker.io/nvidia/cuda:12.6.3-base-ubuntu24.04"),
    },
    gpus=st.sampled_from([0, 1, 1, 2]),
    env=st.just({"A": "b"}),
    ports=st.just({"http": 80}),
    limits=st.just({"cpu": "1", "memory": "1Gi"}),
    sharedMemory=st.sampled_from(["0", "256Mi", "1Gi"]),
    wait=st.booleans(),
    driverLibraries=st.just("/usr/lib/nvidia"),
    envFrom=st.just([{"secret": "token"}]),
    imagePullSecrets=st.just(["registry"]),
    runAsUser=st.just(1000),
    volumes=st.just(
        {
            "scratch": {"mountPath": "/scratch", "memory": "1Gi"},
            "code": {"mountPath": "/code", "files": ["requirements.txt"]},
            "token": {"mountPath": "/token", "secret": "token"},
        }
    ),
)
IMAGE = "docker.io/pytorch/pytorch:2.8.0-cuda12.6-cudnn9-runtime"
TRAINING = some(
    {"image": IMAGE, "command": ["train.py"], "nodes": st.integers(1, 2)},
    env=st.just({"NCCL_DEBUG": "INFO"}),
    limits=st.just({"cpu": "1", "memory": "1Gi"}),
    maxRestarts=st.integers(0, 3),
    wait=st.booleans(),
)
GPU_TEST = some(
    {"image": IMAGE},
    generation=st.integers(1, 3),
    thresholds=st.just({"matmul": 0.5}),
    requests=st.just({"cpu": "1", "memory": "8Gi"}),
    wait=st.booleans(),
)
JUNK = st.sampled_from([None, True, -1, 3.5, "", "no such thing", "a\nb", [], {}, [{}], {"x": 1}])


@st.composite
def configs(draw: st.DrawFn, stack: str) -> Values:
    """An environment's config with another cluster, other pools and other workloads."""
    values = copy.deepcopy(values_of(stack))
    values["gpu-cluster:cluster"] |= draw(CLUSTERS[stack])
    pools = draw(st.dictionaries(NAMES, POOLS[stack], min_size=1, max_size=3))
    values["gpu-cluster:gpuPools"] = pools
    workloads = draw(st.dictionaries(NAMES, WORKLOAD, max_size=2))
    for workload in workloads.values():
        workload["pool"] = draw(st.sampled_from(sorted(pools)))
        if stack == "autopilot":  # it admits no directory of the host
            workload.pop("driverLibraries", None)
    for pool in pools.values():
        if (
            "reservation" in pool
            and "zones" in pool
            and (subnets := values["gpu-cluster:cluster"].get("network", {}).get("subnetIds"))
        ):
            del pool["zones"]
            pool["subnetIds"] = subnets[:1]
    whole = sorted(name for name, pool in pools.items() if "sharing" not in pool)
    if whole and draw(st.booleans()):
        values |= draw(jobs(st.sampled_from(whole)))
    if whole and draw(st.booleans()):
        tested = st.lists(st.sampled_from(whole), min_size=1, unique=True)
        values["gpu-cluster:gpuTest"] = {"pools": draw(tested), **draw(GPU_TEST)}
    values["gpu-cluster:workloads"] = workloads | values.pop("queued", {})
    monitoring = draw(some({"enabled": st.booleans()}, intervalSeconds=st.just(60)))
    if draw(st.booleans()):
        values["gpu-cluster:monitoring"] = monitoring
    return copy.deepcopy(values)  # what is drawn twice is one object, and `broken` changes it


@st.composite
def jobs(draw: st.DrawFn, pools: st.SearchStrategy[str]) -> Values:
    """A queue with a training job in it, one without, and a workload that waits its turn."""
    pool = draw(pools)
    queue = {"pools": [pool], "nominalQuota": {pool: draw(st.sampled_from([2, 8, 16]))}}
    queued = {"kind": "job", "pool": pool, "image": IMAGE, "queue": "research", "gpus": 1}
    training = {"ddp": {"pool": pool, "queue": "research", **draw(TRAINING)}}
    if draw(st.booleans()):
        training["second"] = {"pool": draw(pools), **draw(TRAINING)}
    return {
        "gpu-cluster:batch": {"jobSet": True, "queues": {"research": queue}},
        "gpu-cluster:trainingJobs": training,
        "queued": {"queued": queued},
    }


@st.composite
def broken(draw: st.DrawFn, stack: str) -> Values:
    """Such a config with one value, at any depth, replaced by something else or removed."""
    # What `st.just` gives is the same object every time, and is not to be changed.
    values = copy.deepcopy(draw(configs(stack)))
    path = draw(st.sampled_from(list(_paths({k: v for k, v in values.items() if "gpu-" in k}))))
    place: Any = values
    for step in path[:-1]:
        place = place[step]
    if isinstance(place, dict) and draw(st.booleans()):
        del place[path[-1]]
    else:
        place[path[-1]] = draw(JUNK)
    return values


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        found += _paths(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]
    return found


PLATFORM_STACKS = tuple(stack for stack in STACKS if stack in POOLS)
