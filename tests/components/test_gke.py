"""GKE Standard: what the components ask of Google Cloud."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from gpu_cluster.components.gke.cluster_args import GkeClusterArgs, GkeSystemPoolArgs
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs
from quality.docs.support_matrix import drivers
from tests.components.declaring import declared
from tests.components.recording import Recording, Registration, record

NODE_POOL = "gcp:container/nodePool:NodePool"
CLUSTER = "gcp:container/cluster:Cluster"
T4 = GkeGpuNodePoolArgs(machine_type="n1-standard-4", accelerator="nvidia-tesla-t4", max_nodes=3)


def declare(pools: Mapping[str, GkeGpuNodePoolArgs] | None = None, **cluster: Any) -> Recording:
    """Records a cluster at us-central1-a with these pools."""

    def program() -> None:
        given = {
            "name": "gpu-dev",
            "location": "us-central1-a",
            "authorized_networks": {"office": "203.0.113.0/24"},
        }
        declared(
            "gke",
            GkeClusterArgs(**{**given, **cluster}),
            pools if pools is not None else {"train-gpu": T4},
        )

    email = "nodes@my-project.iam.gserviceaccount.com"
    return record(program, outputs={"gcp:serviceaccount/account:Account": {"email": email}})


@pytest.mark.parametrize(
    ("machine", "disk"),
    [("e2-standard-2", "pd-balanced"), ("c3-standard-4", "pd-balanced"),
     ("n4-standard-2", "hyperdisk-balanced"), ("c4-standard-4", "hyperdisk-balanced")],
)  # fmt: skip
def test_system_nodes_have_a_boot_disk_that_their_machine_takes(machine: str, disk: str) -> None:
    """The newest families take only Hyperdisk, and refuse others once the cluster stands."""
    pool = GkeSystemPoolArgs(machine_type=machine)
    (system,) = declare({}, system_pool=pool).of(NODE_POOL)
    assert system.inputs["nodeConfig"]["diskType"] == disk


def pool_of(args: GkeGpuNodePoolArgs) -> Registration:
    """The node pool that these args become."""
    return declare({"pool": args}).one(NODE_POOL, "pool")


@pytest.mark.parametrize(
    ("change", "version", "node_label"),
    [
        ({}, "DEFAULT", None),
        ({"driver_version": "latest"}, "LATEST", None),
        ({"driver": "daemonset"}, "INSTALLATION_DISABLED", None),
        ({"driver": "none"}, "INSTALLATION_DISABLED", None),
        ({"driver": "daemonset", "device_plugin": "nvidia"}, "INSTALLATION_DISABLED", "true"),
        ({"os_image": "ubuntu"}, "DEFAULT", None),
        ({"os_image": "ubuntu", "driver": "daemonset"}, "INSTALLATION_DISABLED", None),
        ({"driver": "daemonset", "device_plugin": "none"}, "INSTALLATION_DISABLED", "true"),
        # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html
        ({"os_image": "ubuntu", "driver": "none", "device_plugin": "none"}, "INSTALLATION_DISABLED",
            "true"),
        ({"os_image": "ubuntu", "driver": "daemonset", "device_plugin": "nvidia"},
            "INSTALLATION_DISABLED", "true"),
    ],
)  # fmt: skip
def test_one_driver_and_one_plugin_for_every_choice(
    change: dict[str, Any], version: str, node_label: str | None
) -> None:
    """Each choice becomes GKE's driver setting and its opt-out label, both always explicit."""
    config = pool_of(GkeGpuNodePoolArgs(
        machine_type="n1-standard-4", accelerator="nvidia-tesla-t4", **change
    )).inputs["nodeConfig"]  # fmt: skip
    (accelerator,) = config["guestAccelerators"]
    assert accelerator["gpuDriverInstallationConfig"] == {"gpuDriverVersion": version}
    assert config["labels"].get("gke-no-default-nvidia-gpu-device-plugin") == node_label


@pytest.mark.parametrize(
    "change",
    [{"driver": "daemonset", "installer_image": "example.com/installer:1"}, {"driver": "none"}],
)
def test_a_driver_of_one_s_own_turns_secure_boot_off(change: dict[str, Any]) -> None:
    """A kernel module that Google did not sign cannot load under secure boot."""
    own = GkeGpuNodePoolArgs(machine_type="n1-standard-4", accelerator="nvidia-tesla-t4", **change)
    shielded = pool_of(own).inputs["nodeConfig"]["shieldedInstanceConfig"]
    assert shielded["enableSecureBoot"] is False


def test_a_regional_pool_takes_the_zones_that_have_the_card() -> None:
    """Without zones of its own, a pool spans the zones of the region that offer its machine."""
    pool = declare({"pool": T4}, location="europe-west1").one(NODE_POOL, "pool")
    assert pool.inputs["nodeLocations"] == ["europe-west1-b", "europe-west1-c", "europe-west1-d"]


def test_the_first_nodes_are_counted_per_zone() -> None:
    """The initial count is per zone, so the minimum is spread and rounded up."""
    args = GkeGpuNodePoolArgs(
        machine_type="n1-standard-4", accelerator="nvidia-tesla-t4", min_nodes=4, max_nodes=6
    )
    pool = declare({"pool": args}, location="europe-west1").one(NODE_POOL, "pool")
    assert pool.inputs["initialNodeCount"] == 2


def test_the_support_matrix_has_every_driver_and_plugin() -> None:
    """Whatever pool the settings take, with this image, driver and plugin, has a row."""
    rows = [given for platform, _, _, _, given in drivers() if platform == "gke"]
    for image, driver, plugin in itertools.product(
        ("cos", "ubuntu"), ("managed", "daemonset", "none"), ("gke", "nvidia", "none")
    ):
        if driver == "managed" and plugin != "gke":
            continue  # refused
        GkeGpuNodePoolArgs(
            machine_type="n1-standard-4",
            accelerator="nvidia-tesla-t4",
            os_image=image,  # type: ignore[arg-type]
            driver=driver,  # type: ignore[arg-type]
            device_plugin=plugin,  # type: ignore[arg-type]
        )
        assert any(
            row.get("osImage", "cos") == image
            and row.get("devicePlugin", "gke") == plugin
            and row.get("driver", "managed") == driver
            for row in rows
        ), (image, driver, plugin)
