"""Pods whose files nobody made, which a cluster without a kubelet runs as any other."""

from typing import Any

import pytest

from gpu_cluster.rehearsal.verify.volumes import unbound, unmounted, unpulled, without_files
from tests.unit.rehearsal.rehearsed import pod

SAID = (
    'Job default/train starts no container: MountVolume.SetUp failed for volume "code" : '
    'configmap "train-code" not found'
)


def config_map(name: str, namespace: str = "default") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}}


@pytest.mark.parametrize(
    ("source", "there", "said"),
    [
        ({"configMap": {"name": "train-code"}}, [config_map("train-code")], []),
        ({"configMap": {"name": "train-code"}}, [], [SAID]),
        ({"configMap": {"name": "train-code"}}, [config_map("train-code", "team")], [SAID]),
        ({"configMap": {"name": "train-code", "optional": True}}, [], []),
        ({"secret": {"secretName": "token"}}, [], []),
    ],
)
def test_files_that_nobody_made_are_named(
    source: dict[str, Any], there: list[dict[str, Any]], said: list[str]
) -> None:
    """Once for all pods of a workload; a ConfigMap of another namespace is another one."""
    pods = [pod(f"train-{number}", owner=("Job", "train"), on="a") for number in range(2)]
    for one in pods:
        one["spec"]["volumes"] = [{"name": "code", **source}]
    assert without_files(pods, there) == said


class Registry:
    """A cloud in which nodes read one repository only."""

    def why_not_pulled(self, image: str) -> str:
        return "" if image.startswith("mine/") else f"403 for {image}"


def test_images_that_the_nodes_may_not_read_are_named() -> None:
    """Once for all pods of a workload, those of containers that run first too."""
    pods = [pod(f"train-{number}", owner=("Job", "train"), on="a") for number in range(2)]
    for one in pods:
        one["spec"]["initContainers"] = [{"name": "data", "image": "theirs/copy:1"}]
        one["spec"]["containers"] = [{"name": "train", "image": "mine/train:1"}]
    cloud: Any = Registry()
    assert unpulled(cloud, pods) == ["Job default/train starts no container: 403 for theirs/copy:1"]


class Mounts:
    """A cloud whose nodes mount one volume."""

    def why_not_mounted(self, mount: Any) -> str:
        return f"{mount.volume} after {', '.join(mount.mounted)}" if mount.mounted else ""


@pytest.mark.parametrize(("phase", "full"), [("Running", "ab"), ("Succeeded", "a")])
def test_a_driver_knows_what_its_node_has_mounted(phase: str, full: str) -> None:
    """By pods that have not ended; the same volume of another node is another one."""
    pods = [
        pod(name, owner=("Job", name), on=node)
        for name, node in (("first", "n"), ("second", "n"), ("third", "m"))
    ]
    pods[0]["status"]["phase"] = phase
    for item, names in zip(pods, ("ab", "c", "d"), strict=True):
        item["spec"]["volumes"] = [{"name": n, "csi": {"driver": "d"}} for n in names]
    cloud: Any = Mounts()
    second = ["Job default/second starts no container: c after a, b"] if full == "ab" else []
    assert unmounted(cloud, pods, [], [], []) == [
        "Job default/first starts no container: b after a", *second
    ]  # fmt: skip


def test_a_claim_that_is_not_bound_to_its_volume_is_named() -> None:
    """One that names no volume may wait for its first pod."""
    claims: list[dict[str, Any]] = [
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"volumeName": volume} if volume else {},
            "status": {"phase": phase},
        }
        for name, volume, phase in (
            ("a", "default.a", "Pending"), ("b", "default.b", "Bound"), ("c", "", "Pending"),
        )
    ]  # fmt: skip
    assert unbound(claims) == [
        "PersistentVolumeClaim default/a is Pending, not Bound: PersistentVolume default.a does "
        "not exist or is not free for it"
    ]
