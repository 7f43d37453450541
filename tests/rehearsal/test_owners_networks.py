"""GPUDirect over TCP on a GKE cluster whose owner made the networks: jobs use them by name."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.policy import settings
from gpu_cluster.rehearsal.run import POLICIES
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.rehearsal.simulators.inventory import INVENTORIES
from tests.rehearsal.conftest import with_inventory
from tests.rehearsal.own_stacks import folder_of

pytestmark = pytest.mark.prove(reason="rehearsals; test_gke_tcpxo.py has what the program declares")
STACK = "on-gke-tcpxo"
EXAMPLES = ROOT / "examples" / "existing"


def google_objects(*, plugin: str) -> list[dict[str, Any]]:
    """What an owner applies: Google's installer of this release, and its device injector."""
    kind = "tcpxo" if plugin.startswith("v1.") else "tcpx"
    prepare = "modprobe import-helper; mkdir /dev/aperture_devices; " * (kind == "tcpxo")
    host = [("library-dir-host", "/home/kubernetes/bin"), ("var-lib", "/var/lib")]
    injected = [("dev", "/dev"), ("nri", "/var/run/nri")]
    return [
        daemon_set(f"nccl-{kind}-installer", host,
                   f"e.example/nccl-plugin-gpudirecttcpx-dev:{plugin}",
                   f"{prepare}cp -r /var/lib/{kind}/lib64/. /usr/local/nvidia/lib64"),
        daemon_set("device-injector", injected, "e.example/nri-device-injector:1"),
    ]  # fmt: skip


def daemon_set(
    name: str, paths: list[tuple[str, str]], image: str, install: str = ""
) -> dict[str, Any]:
    labels = {"k8s-app": name}
    container = {"name": name, "image": image, "command": ["/bin/sh", "-c"], "args": [install]}
    pause = {"name": "pause", "image": "registry.k8s.io/pause:3.10"}
    pod: dict[str, Any] = {
        "hostNetwork": True, "hostPID": True, "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{
                "key": "cloud.google.com/gke-accelerator", "operator": "In",
                "values": ["nvidia-h100-mega-80gb", "nvidia-h100-80gb"],
            }]}]
        }}},
        "volumes": [{"name": key, "hostPath": {"path": path}} for key, path in paths],
        "containers": [pause if install else container],
        **({"initContainers": [container]} if install else {}),
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {"selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": pod}},
    }  # fmt: skip


def inventory(*, objects: list[dict[str, Any]], several: bool = True) -> dict[str, Any]:
    """The example's cluster, or the same without several networks, with more objects."""
    document: dict[str, Any] = yaml.safe_load((INVENTORIES / f"{STACK}.yaml").read_text())
    document["cluster"]["multiNetworking"] = several
    document["objects"] = [*(document["objects"] if several else []), *objects]
    return document


@contextmanager
def rehearsed(
    folder: Path, document: dict[str, Any], pool: Mapping[str, str] | None = None, **cluster: Any
) -> Iterator[Rehearsal]:
    """The example's job, on its pool so changed, on the cluster that `document` describes."""
    stack = yaml.safe_load((EXAMPLES / f"Pulumi.{STACK}.yaml").read_text())
    stack["config"]["gpu-cluster:gpuPools"]["train-gpu"] |= pool or {}
    stack["config"]["gpu-cluster:cluster"] |= cluster
    source = folder_of(STACK, folder, yaml.safe_dump(stack))
    options = with_inventory(folder, STACK, document, job_seconds=2)
    with Sandbox(STACK, source=source, folder=folder / "sandbox", options=options) as sandbox:
        yield Rehearsal(sandbox=sandbox, policy_pack=POLICIES, deadline=180)


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the policies, which the first lines of the example have."""
    text = (EXAMPLES / f"Pulumi.{STACK}.yaml").read_text()
    given = "".join(re.findall(r'^#   (".*)$', text, re.MULTILINE))
    file = tmp_path / "config.json"
    file.write_text(f"{{{given}}}")
    monkeypatch.setenv(settings.ELSEWHERE, str(file))


OWNER = {"ncclPlugin": "owner", "gpuDirectDaemon": "v1.0.22"}


@pytest.mark.parametrize(
    ("pool", "cluster", "objects"),
    [
        ({}, {}, []), ({}, OWNER, google_objects(plugin="v1.0.16")),
        ({"machineType": "a3-highgpu-8g", "gpuDirect": "tcpx"},
         {"gpuNetworks": [f"gpu-nic-{number}" for number in range(4)], "ncclPlugin": "owner",
          "gpuDirectDaemon": "v2.0.12"}, google_objects(plugin="v3.1.9")),
    ],
    ids=["stack", "owner", "tcpx"],
)  # fmt: skip
def test_a_job_joins_the_owners_networks(
    tmp_path: Path, pool: dict[str, str], cluster: dict[str, Any], objects: list[dict[str, Any]]
) -> None:
    """From no node to two and back; a second up changes nothing, and the cluster is as it was."""
    with rehearsed(tmp_path, inventory(objects=objects), pool, **cluster) as rehearsal:
        assert rehearsal.run_until_ready(), rehearsal.failures
        rehearsal.teardown()
        assert rehearsal.failures == []
        assert rehearsal.sandbox.disturbed() == []


@pytest.mark.parametrize(
    ("number", "field", "value", "says"),
    [
        (3, ("metadata", "name"), "other", "resource 'gpu-nic-3' does not exist"),
        (5, ("spec", "type"), "L3", "gpu-nic-5 is a Network of type L3"),
    ],
    ids=["missing", "for other pods"],
)
def test_a_network_that_does_not_fit_ends_the_preview(
    tmp_path: Path, number: int, field: tuple[str, str], value: str, says: str
) -> None:
    """By its name; nothing has been created. A preview ends at the first one that it finds."""
    document = inventory(objects=[])
    found = {(item["kind"], item["metadata"]["name"]): item for item in document["objects"]}
    part, key = field
    found["Network", f"gpu-nic-{number}"][part][key] = value
    with rehearsed(tmp_path, document) as rehearsal:
        outcome = rehearsal.sandbox.engine.preview(None)
        assert not outcome.ok
        assert any(says in line for line in outcome.errors), outcome.errors
        assert rehearsal.sandbox.cloud.list_resources() == []


def test_a_cluster_with_one_network_ends_the_preview(tmp_path: Path) -> None:
    """Before its objects are asked for."""
    with rehearsed(tmp_path, inventory(objects=[], several=False)) as rehearsal:
        outcome = rehearsal.sandbox.engine.preview(None)
        assert any(
            "gpuPools.train-gpu.gpuDirect: 'tcpxo' needs a cluster whose nodes can have several "
            "networks, and platform was created without --enable-multi-networking" in line
            for line in outcome.errors
        ), outcome.errors
