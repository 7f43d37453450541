"""Claims on the real node: NVIDIA's DRA driver offers its GPUs, and pods claim them.

One after another: pods that request GPUs as they do of a device plugin, a GPU for each pod, one
claim for two pods, and time-slicing by a claim.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import yaml

from gpu_cluster.rehearsal.control_plane.api import Api
from gpu_cluster.rehearsal.control_plane.cluster_cache import ClusterCache
from gpu_cluster.rehearsal.control_plane.pods import condition, phase
from gpu_cluster.rehearsal.gpu_node import dra_driver
from gpu_cluster.rehearsal.gpu_node.dra_driver import DEVICE_CLASS, DRIVER
from gpu_cluster.rehearsal.gpu_node.machine import NAME, Machine
from gpu_cluster.rehearsal.gpu_node.overrides import AND_WAIT, SAMPLE
from gpu_cluster.rehearsal.real_node.status import View
from gpu_cluster.rehearsal.scenario import Failure

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
INTERVALS = {"Default": 0, "Long": 3}
"""Time slice of a claim -> the driver's number for `nvidia-smi compute-policy --set-timeslice`
(dra-driver-nvidia-gpu v0.4.1, api/nvidia.com/resource/v1beta1/sharing.go)."""


class Until(Protocol):
    """Waits for a condition, and else fails with a reason."""

    def __call__(self, true: Callable[[], bool], why: Callable[[], str], /) -> None: ...


class Claims:
    """The driver and the pods with claims, until they are withdrawn."""

    def __init__(
        self,
        machine: Machine,
        view: View,
        cache: ClusterCache,
        api: Api,
        until: Until,
        heard: Callable[[str], None],
    ) -> None:
        """`heard` records the whole output of a pod that runs."""
        self._machine, self._view, self._cache, self._api = machine, view, cache, api
        self._until, self._heard = until, heard
        self._pods: list[str] = []
        self._claims: list[str] = []
        self.published = ""
        """The driver's ResourceSlice, as YAML."""

    def offered(self) -> str:
        """Starts the driver and compares its ResourceSlice with the machine's GPUs."""
        for path, manifest in dra_driver.objects():
            self._api.create(path, manifest)
        self._start_driver()
        self._until(
            lambda: len(self._devices()) == len(self._machine.gpus),
            lambda: f"{len(self._devices())} GPUs are published: {self._driver_words()}",
        )
        (published,) = self._slices()
        published["metadata"].pop("managedFields", None)
        self.published = yaml.safe_dump(published, sort_keys=True)
        found = {
            device["attributes"]["uuid"]["string"]: (
                device["attributes"]["productName"]["string"], device["capacity"]["memory"]["value"]
            )
            for device in self._devices()
        }  # fmt: skip
        for gpu in self._machine.gpus:
            name, _ = found.get(gpu.uuid, ("", ""))
            if name != gpu.name:
                raise Failure(f"GPU {gpu.uuid} is {gpu.name}, but published as {name or 'nothing'}")
        return ", ".join(sorted({f"{name} with {memory}" for name, memory in found.values()}))

    def unchanged(self, sample: Mapping[str, Any]) -> str:
        """Two pods like this one, which had all GPUs of a device plugin: the scheduler makes a
        claim for the first, by the DeviceClass of the stack, and the second waits."""
        names = [f"{sample['metadata']['name']}-{number}" for number in (1, 2)]
        spec = {key: value for key, value in sample["spec"].items() if key != "nodeName"}
        for name in names:
            self._pods.append(name)
            metadata = {"name": name}
            manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            self._api.create(PODS, manifest)
        (running,) = self._run(names, 1)
        (waits,) = (name for name in names if name != running)
        self._until(lambda: "claims" in self._reason(waits), lambda: self._reason(waits))
        status = self._view.pod(running)["status"].get("extendedResourceClaimStatus") or {}
        claim = self._api.get(f"{CLAIMS}/{status.get('resourceClaimName')}")
        devices = claim["status"]["allocation"]["devices"]["results"]
        if len(devices) != len(self._machine.gpus):
            raise Failure(f"the claim of pod {running} has {len(devices)} GPUs")
        reason = self._reason(waits)
        self._end()
        return f"{running} has all GPUs by a claim that it does not name, {waits} waits: {reason}"

    def one_waits(self) -> str:
        """Of one pod more than GPUs, each with a claim for one, the last one waits."""
        names = [f"claim-{number}" for number in range(1, len(self._machine.gpus) + 2)]
        for name in names:
            self._claim(name)
            self._pod(name, name)
        running = self._run(names, len(names) - 1)
        (waits,) = (name for name in names if name not in running)
        message = self._reason(waits)
        if phase(self._view.pod(waits)) != "pending" or "allocate" not in message:
            raise Failure(f"pod {waits} does not wait for its claim: {message}")
        self._end()
        return f"{' and '.join(running)} with a GPU of its own, {waits} waits: {message}"

    def shared(self) -> str:
        """One claim for all GPUs serves two pods, which see the same ones."""
        self._claim("shared", count=len(self._machine.gpus))
        names = ["sharing-1", "sharing-2"]
        for name in names:
            self._pod(name, "shared")
        self._run(names, 2)
        seen = {self._view.log(name) for name in names}
        if len(seen) != 1:
            raise Failure(f"pods with one claim see different GPUs: {' and '.join(sorted(seen))}")
        self._end()
        return f"{' and '.join(names)} run with one claim"

    def time_sliced(self) -> str:
        """The driver refuses time-slicing by a claim without its feature gate; with it, it asks
        nvidia-smi for the interval, and for the default at the end."""
        parameters = {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "GpuConfig",
            "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
        }
        everything = len(self._machine.gpus)
        self._claim("refused", count=everything, parameters=parameters)
        self._pod("refused", "refused")
        self._until(
            lambda: dra_driver.TIME_SLICING in self._refusal("refused"),
            lambda: (
                "the driver prepares time-slicing without its feature gate: "
                f"{self._view.not_running(['refused'])}"
            ),
        )
        refusal = self._refusal("refused")
        # A kubelet tries again only after a minute or more (1.35, kuberuntime_manager.go).
        self._end()
        self._start_driver([dra_driver.TIME_SLICING])
        self._claim("sliced", count=everything, parameters=parameters)
        names = ["sliced-1", "sliced-2"]
        for name in names:
            self._pod(name, "sliced")
        self._run(names, 2)
        self._asked("Long")
        self._end()
        self._asked("Default")
        return f"refused without the feature gate ({refusal}); with it, {' and '.join(names)} run"

    def withdraw(self) -> None:
        """Deletes what the steps have created, also after a failure."""
        self._end()
        self._api.delete(f"{dra_driver.PODS}/{dra_driver.POD}", grace=1)
        for path, manifest in reversed(dra_driver.objects()):
            self._api.delete(f"{path}/{manifest['metadata']['name']}")

    def _start_driver(self, gates: Sequence[str] = ()) -> None:
        """Starts the driver's pod, in place of the one that runs."""
        self._api.delete(f"{dra_driver.PODS}/{dra_driver.POD}")
        self._until(lambda: not self._exists(dra_driver.POD), self._driver_words)
        self._api.create(dra_driver.PODS, dra_driver.pod(self._machine, gates))
        self._until(lambda: self._view.running([dra_driver.POD]) != [], self._driver_words)

    def _driver_words(self) -> str:
        if not self._exists(dra_driver.POD):
            return "the driver has no pod"
        log = self._view.log(dra_driver.POD, "kube-system").strip().splitlines()[-3:]
        return f"{self._view.not_running([dra_driver.POD])} {' | '.join(log)}"

    def _slices(self) -> list[dict[str, Any]]:
        return [
            item
            for item in self._api.items(dra_driver.SLICES)
            if item["spec"]["driver"] == DRIVER and item["spec"].get("nodeName") == NAME
        ]

    def _devices(self) -> list[dict[str, Any]]:
        return [device for item in self._slices() for device in item["spec"].get("devices") or []]

    def _claim(
        self, name: str, *, count: int = 1, parameters: Mapping[str, Any] | None = None
    ) -> None:
        exactly = {"deviceClassName": DEVICE_CLASS, "count": count}
        devices: dict[str, Any] = {"requests": [{"name": "gpu", "exactly": exactly}]}
        if parameters:
            devices["config"] = [{"opaque": {"driver": DRIVER, "parameters": dict(parameters)}}]
        manifest = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": devices},
        }
        self._claims.append(name)
        self._api.create(CLAIMS, manifest)

    def _pod(self, name: str, claim: str) -> None:
        self._pods.append(name)
        self._api.create(PODS, _sample(name, claim))

    def _run(self, names: Sequence[str], count: int) -> list[str]:
        """Waits until that many of these pods run, and records their output."""
        self._until(
            lambda: len(self._view.running(names)) >= count, lambda: self._view.not_running(names)
        )
        running = self._view.running(names)
        for name in running:
            self._heard(name)
        return running

    def _reason(self, name: str) -> str:
        """Why a pod waits, according to the scheduler."""
        return str(condition(self._view.pod(name), "PodScheduled").get("message", ""))

    def _refusal(self, name: str) -> str:
        """The kubelet's event about a pod's claim that the driver does not prepare."""
        for event in self._cache.all("Event"):
            failed = event.get("reason") == "FailedPrepareDynamicResources"
            if failed and event["involvedObject"]["name"] == name:
                return " ".join(str(event.get("message")).split()).rpartition(": ")[2]
        return ""

    def _asked(self, interval: str) -> None:
        """Waits until the driver has asked `nvidia-smi` for this interval on each GPU."""
        lines = {
            f"nvidia-smi compute-policy -i {gpu.uuid} --set-timeslice {INTERVALS[interval]}"
            for gpu in self._machine.gpus
        }
        self._until(
            lambda: lines <= set(self._view.log(dra_driver.POD, "kube-system").splitlines()),
            lambda: f"the driver did not ask for the time slice {interval}: {self._driver_words()}",
        )

    def _exists(self, name: str) -> bool:
        return any(pod["metadata"]["name"] == name for pod in self._cache.pods)

    def _end(self) -> None:
        """Deletes the pods and their claims, and waits until the kubelet has given the GPUs up."""
        for name in self._pods:
            self._api.delete(f"{PODS}/{name}", grace=1)
        pods = [name for name in self._pods if self._exists(name)]
        self._until(
            lambda: not any(map(self._exists, pods)), lambda: f"pods do not end: {', '.join(pods)}"
        )
        for name in self._claims:
            self._api.delete(f"{CLAIMS}/{name}")
        self._pods, self._claims = [], []


def _sample(name: str, claim: str) -> dict[str, Any]:
    """A pod on the real node that lists the GPUs of its claim."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": NAME},
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Never",
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
            "containers": [
                {
                    "name": name,
                    "image": SAMPLE,
                    "imagePullPolicy": "Never",
                    "command": ["/bin/sh", "-c"],
                    "args": [f"nvidia-smi -L; {AND_WAIT}"],
                    "resources": {"claims": [{"name": "gpu"}]},
                }
            ],
        },
    }
