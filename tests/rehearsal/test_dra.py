"""Pools whose pods claim their GPUs from NVIDIA's DRA driver, and one mistake at a time."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.rehearsal.control_plane.pods import allocatable_gpus
from gpu_cluster.rehearsal.nodes.resource_slices import SLICES
from gpu_cluster.rehearsal.plugins.kubernetes.api_error import ApiError
from gpu_cluster.rehearsal.report.report import PodLife, pod_lives
from gpu_cluster.rehearsal.run import POLICIES
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox, SandboxOptions
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.verify.diagnosis import diagnose
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import (
    Rehearse,
    changed,
    configured,
    details,
    entered,
    found_by_its_words,
    nothing_stays,
    said,
    until,
    up,
    without_pods,
)

pytestmark = pytest.mark.prove(reason="rehearsals; test_dra_driver.py has what is declared")


def on_own_machines(config: dict[str, Any]) -> None:
    """One of the pools of onprem, with H100s; the other one keeps the device plugin."""
    config["gpu-cluster:gpuPools"]["gpus"]["devicePlugin"] = "dra"
    if config["gpu-cluster:workloads"]:
        select(product="H100 80GB", memory="70Gi", computeCapability="9.0")(config)


def select(**values: str) -> Callable[[dict[str, Any]], None]:
    """A change by which one of its pods accepts only some GPUs."""

    def change(config: dict[str, Any]) -> None:
        config["gpu-cluster:workloads"]["gpu-k8s"]["gpuSelector"] = values

    return change


def on_eks(config: dict[str, Any]) -> None:
    """The pool of train, which has a fixed number of nodes then."""
    pool = config["gpu-cluster:gpuPools"]["train-gpu"]
    pool |= {"devicePlugin": "dra", "minNodes": 1, "maxNodes": 1}


def every_kind(config: dict[str, Any]) -> None:
    """A training job on two machines and a service, besides the pods of the sample."""
    if "onprem" not in str(config["gpu-cluster:cluster"]):
        return
    config["gpu-cluster:batch"] = {"jobSet": True}
    image = "docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"
    config["gpu-cluster:trainingJobs"] = {
        "ddp": {"pool": "gpus", "gpus": 2, "nodes": 2, "image": image, "command": ["train.py"]}
    }
    chat = {"pool": "gpus", "image": image, "port": 8000, "replicas": 2, "sharedGpus": True}
    config["gpu-cluster:services"] = {"chat": chat}


STACKS: dict[str, Callable[[dict[str, Any]], None]] = {"onprem": on_own_machines, "train": on_eks}


def ends_as_it_began(rehearsal: Rehearsal, stack: str) -> None:
    """Its second up changed nothing, and after its destroy nothing is left."""
    rehearsal.teardown()
    assert rehearsal.failures == []
    if stack == "train":
        nothing_stays(rehearsal)
    steps = details(rehearsal)
    assert steps["idempotency"] == "no changes"
    assert steps["leak check"].startswith("nothing left in the state, nothing left in the")


@pytest.mark.parametrize("stack", STACKS)
def test_pods_run_with_the_gpus_that_they_claim(stack: str, tmp_path: Path) -> None:
    """A second up changes nothing, and nothing is left."""
    with entered(
        stack, tmp_path / "sandbox", configured(STACKS[stack]), configured(every_kind),
        options=SandboxOptions(job_seconds=2),
    ) as sandbox:  # fmt: skip
        rehearsal = Rehearsal(sandbox=sandbox, deadline=180)
        assert rehearsal.run_until_ready(), rehearsal.failures
        ends_as_it_began(rehearsal, stack)


def seeds_on_own_machines(config: dict[str, Any]) -> None:
    """The sample as it is, on two pools whose GPUs pods claim."""
    for pool in config["gpu-cluster:gpuPools"].values():
        pool["devicePlugin"] = "dra"


def seeds_on_eks(config: dict[str, Any]) -> None:
    """The same pods on two machines with four GPUs each."""
    on_eks(config)
    config["gpu-cluster:gpuPools"]["train-gpu"] |= {
        "instanceTypes": ["g4dn.12xlarge"], "minNodes": 2, "maxNodes": 2,
    }  # fmt: skip
    sample = yaml.safe_load((ROOT / "Pulumi.onprem.yaml").read_text())["config"]
    config["gpu-cluster:workloads"] = {
        name: {**pods, "pool": "train-gpu"}
        for name, pods in sample["gpu-cluster:workloads"].items()
    }


@pytest.mark.parametrize(
    ("stack", "change", "offered"),
    [("onprem", seeds_on_own_machines, [2, 9, 9]), ("train", seeds_on_eks, [4, 4])],
    ids=["onprem", "train"],
)
def test_the_pods_of_a_cluster_by_hand_claim_their_gpus(
    stack: str, change: Callable[[dict[str, Any]], None], offered: list[int], tmp_path: Path
) -> None:
    """The pod with ports and probes, two pods that run nvidia-smi and one without GPUs of its own:
    each claim has two GPUs that no other has. A second up changes nothing, and nothing is left."""
    with entered(stack, tmp_path / "sandbox", configured(change)) as sandbox:
        # The pack wants a stack with nodes that never leave to be listed in its config.
        pack = POLICIES if stack == "onprem" else None
        rehearsal = Rehearsal(sandbox=sandbox, deadline=180, policy_pack=pack)
        assert rehearsal.run_until_ready(), rehearsal.failures
        api = sandbox.control_plane.api
        nodes = map(allocatable_gpus, sandbox.cluster_cache.nodes)
        assert sorted(count for count in nodes if count) == offered
        claimed = {}
        for claim in api.items("/apis/resource.k8s.io/v1/resourceclaims"):
            (user,) = claim["status"]["reservedFor"]
            results = claim["status"]["allocation"]["devices"]["results"]
            claimed[user["name"]] = {(device["pool"], device["device"]) for device in results}
        assert sorted(claimed) == ["gpu-k8s", "gpu-k8s2", "gpu-pod-using-device-plugin"]
        assert [len(devices) for devices in claimed.values()] == [2] * 3
        assert len(set().union(*claimed.values())) == 6
        ends_as_it_began(rehearsal, stack)


def test_a_pool_gets_the_driver_after_the_plugin_has_left(tmp_path: Path) -> None:
    """While other pools keep the plugin. It may change the ResourceSlices of its node only."""

    def idle(config: dict[str, Any]) -> None:
        config["gpu-cluster:workloads"] = {}

    with entered("onprem", tmp_path / "sandbox", configured(idle)) as sandbox:
        assert Rehearsal(sandbox=sandbox, deadline=90).run_up_only()
        api = sandbox.control_plane.api

        def offered() -> list[tuple[str | None, int]]:
            """What each of the pool's nodes has of nvidia.com/gpu, and GPUs in all."""
            nodes = api.items("/api/v1/nodes")
            mine = [node for node in nodes if node["metadata"]["labels"].get("gpus") == "true"]
            amounts = [node["status"]["allocatable"].get("nvidia.com/gpu") for node in mine]
            return list(zip(amounts, map(allocatable_gpus, mine), strict=True))

        until(lambda: offered() == [("9", 9)] * 2, "the plugin offers the GPUs")
        up(sandbox, configured(on_own_machines))
        until(lambda: offered() == [(None, 9)] * 2, "the driver alone offers them")
        mine, other = (item["spec"]["nodeName"] for item in api.items(SLICES))
        driver = api.as_pod_of("kube-system:nvidia-dra-driver", other)
        with pytest.raises(ApiError, match="may only change the ResourceSlices of its own node"):
            driver.delete(f"{SLICES}/{mine}-gpu.nvidia.com")
        driver.delete(f"{SLICES}/{other}-gpu.nvidia.com")
        assert [item["spec"]["nodeName"] for item in api.items(SLICES)] == [mine]
        assert sandbox.event_log.findings == []


def test_pods_share_a_gpu_by_one_claim(tmp_path: Path) -> None:
    """A pod of another workload waits for it, and gets it after them."""

    def shared(config: dict[str, Any]) -> None:
        config["gpu-cluster:gpuPools"]["workstations"]["devicePlugin"] = "dra"
        image = config["gpu-cluster:workloads"]["gpu-all"]["image"]
        entry = {"kind": "deployment", "pool": "workstations", "gpus": 2, "image": image}
        config["gpu-cluster:workloads"] = {
            "both": {**entry, "replicas": 2, "sharedGpus": True},
        }

    def another(config: dict[str, Any]) -> None:
        pods = config["gpu-cluster:workloads"]
        pods["third"] = {**pods["both"], "gpus": 1, "replicas": 1, "sharedGpus": False}

    def alone(config: dict[str, Any]) -> None:
        del config["gpu-cluster:workloads"]["both"]

    with entered("onprem", tmp_path / "sandbox", configured(shared)) as sandbox:
        up(sandbox)

        def pods() -> list[tuple[str, str]]:
            items = sandbox.control_plane.api.items("/api/v1/namespaces/default/pods")
            return sorted(
                (pod["metadata"]["labels"]["app"], pod["status"]["phase"])
                for pod in items
                if "deletionTimestamp" not in pod["metadata"]
            )

        together = [("both", "Running")] * 2
        until(lambda: pods() == together, "both pods run")
        up(sandbox, configured(another))
        until(lambda: "third" in str(failing(sandbox)), "the scheduler has no GPU for the third")
        assert pods() == [*together, ("third", "Pending")]
        up(sandbox, configured(alone))
        until(lambda: pods() == [("third", "Running")], "the third pod has its GPU")
        assert sandbox.event_log.findings == []


def create_pod(sandbox: Sandbox, name: str, gpus: int, selector: dict[str, str]) -> None:
    """A pod of one's own, as for a device plugin."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    spec = {
        "nodeSelector": selector,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": name, "image": "example.com/a:1", "resources": resources}],
    }
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    sandbox.control_plane.api.create("/api/v1/namespaces/default/pods", manifest)


def test_pods_of_ones_own_request_the_gpus_of_the_driver(tmp_path: Path) -> None:
    """Once the stack says that all is Kubernetes 1.36, by a change of the DeviceClass in place:
    until then they wait, and the reason is known. The scheduler gives a GPU to one pod only, and
    pods on the other pool keep the device plugin."""

    def alone(config: dict[str, Any]) -> None:
        config["gpu-cluster:gpuPools"]["workstations"]["devicePlugin"] = "dra"
        config["gpu-cluster:workloads"] = {}

    def newer(config: dict[str, Any]) -> None:
        config["gpu-cluster:cluster"]["version"] = "1.36"

    with entered("onprem", tmp_path / "sandbox", configured(alone)) as sandbox:
        up(sandbox)
        api, pods = sandbox.control_plane.api, "/api/v1/namespaces/default/pods"

        def phases() -> dict[str, str]:
            return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in api.items(pods)}

        def why(name: str) -> str:
            pod = next(p for p in sandbox.cluster_cache.pods if p["metadata"]["name"] == name)
            return diagnose(pod, sandbox.snapshot()).message

        workstation = {"node-type": "gpu"}
        create_pod(sandbox, "plugin", 9, {"gpus": "true"})
        create_pod(sandbox, "first", 2, workstation)
        until(lambda: phases() == {"plugin": "Running", "first": "Pending"}, "one pod waits")
        until(lambda: "no DeviceClass has the extendedResourceName" in why("first"), "its reason")
        path = "/apis/resource.k8s.io/v1/deviceclasses/gpu.nvidia.com"
        before = api.get(path)
        up(sandbox, configured(newer))
        after = api.get(path)
        assert before["metadata"]["uid"] == after["metadata"]["uid"]
        assert "extendedResourceName" not in before["spec"]
        assert after["spec"]["extendedResourceName"] == "nvidia.com/gpu"
        until(lambda: phases()["first"] == "Running", "the pod has its GPUs")
        create_pod(sandbox, "second", 1, workstation)
        until(lambda: "second" in failing(sandbox), "the scheduler has no GPU for the second")
        assert "none has 1 unclaimed GPUs, used by Pod default/first (claim " in why("second")
        (claim,) = api.items("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims")
        status = api.get(f"{pods}/first")["status"]["extendedResourceClaimStatus"]
        assert claim["metadata"]["name"] == status["resourceClaimName"]
        assert len(claim["status"]["allocation"]["devices"]["results"]) == 2
        assert "extendedResourceClaimStatus" not in api.get(f"{pods}/plugin")["status"]
        api.delete(f"{pods}/first")
        until(lambda: phases().get("second") == "Running", "the second pod has a GPU")
        for name in ("second", "plugin"):
            api.delete(f"{pods}/{name}")
        assert sandbox.event_log.findings == []


def test_a_drain_moves_pods_that_share_a_gpu(tmp_path: Path) -> None:
    """All leave the node before the first starts on another one: their claim belongs to it."""

    def shared(config: dict[str, Any]) -> None:
        config["gpu-cluster:gpuPools"]["gpus"]["devicePlugin"] = "dra"
        image = config["gpu-cluster:workloads"]["gpu-all"]["image"]
        chat = {"pool": "gpus", "image": image, "port": 80, "replicas": 2, "sharedGpus": True}
        config["gpu-cluster:workloads"] = {}
        config["gpu-cluster:services"] = {"chat": chat}

    with entered("onprem", tmp_path / "sandbox", configured(shared)) as sandbox:
        up(sandbox)
        api = sandbox.control_plane.api

        def ready() -> list[tuple[str, str]]:
            """Node and name of the pods that may be evicted one at a time."""
            return sorted(
                (pod["spec"]["nodeName"], pod["metadata"]["name"])
                for pod in api.items("/api/v1/namespaces/default/pods")
                if "deletionTimestamp" not in pod["metadata"]
                and {"type": "Ready", "status": "True"}.items()
                <= {k: v for c in pod["status"].get("conditions", ()) if c["type"] == "Ready"
                    for k, v in c.items()}.items()
            )  # fmt: skip

        first, second = until(lambda: len(found := ready()) == 2 and found, "both pods are ready")
        assert first[0] == second[0]
        api.patch(f"/api/v1/nodes/{first[0]}", {"spec": {"unschedulable": True}})

        def moved() -> bool:
            found = ready()
            for node, name in found:
                if node == first[0]:
                    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
                    with suppress(ApiError):
                        api.create(path, {"apiVersion": "policy/v1", "kind": "Eviction",
                                          "metadata": {"name": name}})  # fmt: skip
            return len(found) == 2 and first[0] not in dict(found)

        until(moved, "both pods are ready on another node")
        assert sandbox.event_log.findings == []


@pytest.mark.parametrize("version", [None, "1.36"])
def test_queues_and_teams_count_claimed_gpus(version: str | None, tmp_path: Path) -> None:
    """The real Kueue starts one of two jobs that claim what their queue has, although the nodes
    have more, and the API server refuses a team's claims beyond its quota, also if pods may request
    the same GPUs."""

    def queued(config: dict[str, Any]) -> None:
        if version:
            config["gpu-cluster:cluster"]["version"] = version
        for pool in config["gpu-cluster:gpuPools"].values():
            pool["devicePlugin"] = "dra"
        job = {
            "kind": "job", "pool": "gpus", "gpus": 2, "queue": "training",
            "image": config["gpu-cluster:workloads"]["gpu-all"]["image"],
        }  # fmt: skip
        config["gpu-cluster:workloads"] = {"first": job, "second": job}
        training = {"pools": ["gpus"], "nominalQuota": {"gpus": 3}}
        config["gpu-cluster:batch"] = {"jobSet": True, "queues": {"training": training}}
        team = {"members": ["user:ada@example.com"], "gpus": {"workstations": 2}}
        config["gpu-cluster:teams"] = {"research": team}
        config["gpu-cluster:trainingJobs"] = {
            "ddp": {
                "pool": "workstations", "nodes": 1, "image": job["image"], "command": ["train.py"],
                "namespace": "research", "queue": "research",
            }
        }  # fmt: skip

    options = SandboxOptions(job_seconds=3)
    with entered("onprem", tmp_path / "sandbox", configured(queued), options=options) as sandbox:
        rehearsal = Rehearsal(sandbox=sandbox, deadline=180)
        assert rehearsal.run_until_ready(), rehearsal.failures

        def lives() -> list[PodLife]:
            jobs = {"Job default/first", "Job default/second"}
            pods = pod_lives(sandbox.event_log.events)
            return sorted((p for p in pods if p.workload in jobs), key=lambda pod: pod.created)

        until(lambda: [pod.done is not None for pod in lives()] == [True] * 2, "both jobs end")
        first, second = lives()
        assert second.created >= (first.done or 0)
        gpu, gpus, slice_of_one, nic = (
            {"deviceClassName": device_class, "count": count}
            for device_class, count in (
                ("gpu.nvidia.com", 1), ("gpu.nvidia.com", 3), ("mig.nvidia.com", 1),
                ("nic.example.com", 1),
            )
        )  # fmt: skip
        of_a_team = "a claim of a team"
        for kind, asked, refusal in (
            ("ResourceClaim", [{"exactly": gpus}], "exceeded quota.*gpu.nvidia.com.deviceclass"),
            ("ResourceClaim", [{"exactly": slice_of_one}], f"{of_a_team} requests"),
            ("ResourceClaim", [], of_a_team),
            ("ResourceClaimTemplate", [], of_a_team),
            ("ResourceClaimTemplate", [{"exactly": gpu}, {"exactly": nic}], of_a_team),
            ("ResourceClaimTemplate", [{"firstAvailable": [{"name": "a", **nic}]}], of_a_team),
            ("ResourceClaimTemplate", [{"exactly": gpu}], ""),
        ):
            requests = [{"name": f"r{i}", **request} for i, request in enumerate(asked)]
            spec = {"devices": {"requests": requests}}
            manifest = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": "of-a-member", "namespace": "research"},
                "spec": {"spec": spec} if kind.endswith("Template") else spec,
            }
            with pytest.raises(ApiError, match=refusal) if refusal else nullcontext():
                sandbox.control_plane.api.create(
                    f"/apis/resource.k8s.io/v1/namespaces/research/{kind.lower()}s", manifest
                )
        rehearsal.teardown()
        assert rehearsal.failures == []
        assert details(rehearsal)["idempotency"] == "no changes"


def failing(sandbox: Sandbox) -> list[str]:
    """The pods for which the scheduler found no node."""
    events = sandbox.control_plane.api.items("/api/v1/namespaces/default/events")
    return [e["involvedObject"]["name"] for e in events if e["reason"] == "FailedScheduling"]


@pytest.mark.parametrize("moved", [False, True])
def test_a_pool_is_removed_together_with_its_pods(moved: bool, tmp_path: Path) -> None:
    """Its driver outlives those, also if they move to the other pool with claims."""

    def both(config: dict[str, Any]) -> None:
        for pool in config["gpu-cluster:gpuPools"].values():
            pool["devicePlugin"] = "dra"
        pods = config["gpu-cluster:workloads"]
        pods["gpu-k8s"]["kind"] = "deployment"
        if moved:
            del pods["gpu-pod-using-device-plugin"]

    def fewer(config: dict[str, Any]) -> None:
        del config["gpu-cluster:gpuPools"]["gpus"]
        pods = config["gpu-cluster:workloads"]
        del pods["gpu-k8s2"], pods["gpu-all"]
        if moved:
            pods["gpu-k8s"]["pool"] = "workstations"
        else:
            del pods["gpu-k8s"]

    with entered("onprem", tmp_path / "sandbox", configured(both)) as sandbox:
        assert Rehearsal(sandbox=sandbox, deadline=120).run_up_only()
        rehearsal = Rehearsal(sandbox=sandbox, deadline=60)
        configured(fewer)(sandbox.folder / "program")
        assert rehearsal.run_up_only(), rehearsal.failures
        up(sandbox)
        publishing = {item["spec"]["nodeName"] for item in sandbox.control_plane.api.items(SLICES)}
        until(lambda: len(publishing) == 1, "only the other pool's node publishes its GPUs")


TEMPLATE = "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
DRIVER = "nvidia-dra-driver-on-gpus"
_REQUEST = 'props["spec"]["spec"]["devices"]["requests"][0]["exactly"]'
_NO_RIGHTS = 'props["rules"] = [rule for rule in props["rules"] if "create" not in rule["verbs"]]'
MISTAKES: dict[str, tuple[str, Mutation, str]] = {
    "a wrong DeviceClass": (
        "onprem",
        changed(TEMPLATE, f'{_REQUEST}["deviceClassName"] = "gpu.example.com"'),
        "its claim names the DeviceClass gpu.example.com, which does not exist",
    ),
    "no DeviceClass": (
        "onprem",
        changed(
            "kubernetes:resource.k8s.io/v1:DeviceClass",
            'props["metadata"] = {"name": "gpu"}', name="gpu.nvidia.com",
        ),
        "its claim names the DeviceClass gpu.nvidia.com, which does not exist",
    ),
    "a selector that nothing meets": (
        "onprem",
        changed(
            TEMPLATE,
            f'{_REQUEST}["selectors"] = [{{"cel": {{"expression": '
            '"device.capacity[\'gpu.nvidia.com\'].memory.isGreaterThan(quantity(\'999Gi\'))"}}]',
        ),
        "no free device of its nodes meets device.capacity",
    ),
    "a product that no GPU has": (
        "onprem",
        configured(select(product="B300")),
        "no free device of its nodes meets device.attributes",
    ),
    "more memory than a GPU has": (
        "onprem",
        configured(select(memory="80Gi")),
        "no free device of its nodes meets device.capacity",
    ),
    "a newer compute capability": (
        "onprem",
        configured(select(computeCapability="10.0")),
        "no free device of its nodes meets device.attributes",
    ),
    "no driver on the nodes": (
        "onprem",
        without_pods(DRIVER),
        f"DaemonSet kube-system/{DRIVER} does not select it",
    ),
    "driver and device plugin": (
        "onprem",
        changed(
            DAEMON_SET, 'props["spec"]["template"]["spec"]["affinity"] = None',
            name="nvidia-device-plugin",
        ),
        "has two owners of its GPUs, which would give one to two pods",
    ),
    "no rights": (
        "onprem",
        changed(
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", _NO_RIGHTS,
            name="nvidia-dra-driver",
        ),
        "cannot publish the GPUs of node",
    ),
    "no variable with the node's name": (
        "onprem",
        changed(
            DAEMON_SET,
            'container = props["spec"]["template"]["spec"]["containers"][0]\n'
            'container["env"] = [v for v in container["env"] if v["name"] != "NODE_NAME"]',
            name=DRIVER,
        ),
        "which ends at once: it needs NODE_NAME",
    ),
    "an EKS pool without nodes": (
        "train",
        changed(
            "aws:eks/nodeGroup:NodeGroup",
            'if "train-gpu" in args.name:\n'
            '    props["scaling_config"] = {"min_size": 0, "desired_size": 0, "max_size": 1}',
        ),
        "offers no devices that pods could claim",
    ),
}  # fmt: skip


_ALTERNATIVES = """
for request in props["spec"]["spec"]["devices"]["requests"]:
    wanted = request.pop("exactly")
    none = [{"cel": {"expression": "false"}}]
    request["firstAvailable"] = [
        {**wanted, "name": "better", "selectors": none}, {**wanted, "name": "any"}
    ]
"""


def test_pods_run_with_the_second_alternative_of_their_claims(rehearse: Rehearse) -> None:
    """Where no device is as the first one asks."""
    mutation = changed(TEMPLATE, _ALTERNATIVES)
    rehearsal = rehearse(configured(on_own_machines), mutation, stack="onprem", deadline=120)
    assert said(rehearsal) == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_wrong_thing_about_claims_is_named(rehearse: Rehearse, mistake: str) -> None:
    """Each by its own words."""
    stack, *_ = mistaken = MISTAKES[mistake]
    found_by_its_words(rehearse, STACKS[stack], mistaken[1:], stack=stack, deadline=60)
