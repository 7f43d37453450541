"""Accounts, claims and volumes in the config: complete, or refused in one line with the key."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.access.service_accounts import ServiceAccountArgs
from gpu_cluster.components.catalog.gke_machines import MACHINE_TYPES
from gpu_cluster.components.catalog.gke_volumes import HYPERDISK_CLASS
from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.gke.pool_args import GkeGpuNodePoolArgs, attachable_classes
from gpu_cluster.components.gke_autopilot.pool_args import GkeAutopilotPoolArgs
from gpu_cluster.components.gpu.pod_args import Auxiliary, PodArgs
from gpu_cluster.components.gpu.volume_args import VolumeArgs, VolumeClaimArgs
from gpu_cluster.components.settings import load as settings
from gpu_cluster.policy.pack import RULES
from tests.program.environments import as_engine_config, with_changes, without_keys
from tests.unit.components.test_settings import changed, refusal
from tests.unit.components.test_settings_batch import dev

REFUSED = yaml.safe_load(Path(__file__).with_name("refused_pods.yaml").read_text())


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: entry["says"].split(": ")[0])
def test_refuses_what_pods_could_not_have(entry: dict[str, Any]) -> None:
    """An account, claim or volume that is wrong is refused with the line that the table has."""
    says = refusal(as_engine_config(with_changes(dev(), entry["change"]))) or "accepted"
    assert without_keys(says) == entry["says"]


@pytest.mark.parametrize(
    ("setting", "key"), [("roles", "roles"), ("projectRoles", "roles"), ("policies", "policies")]
)
def test_settings_refuse_the_rights_that_the_policies_refuse(setting: str, key: str) -> None:
    """`pulumi up` without the policy pack accepts nothing that the pack's defaults refuse."""
    rule = next(rule for rule in RULES if rule.name == "permissions-too-broad")
    patterns = rule.schema[setting]["default"]
    assert patterns
    for pattern in patterns:
        right = pattern.replace("*", "x")
        name = right if key == "roles" else f"arn:aws:iam::aws:policy/{right}"
        account: dict[str, Any] = {key: [name]}
        with pytest.raises(
            ValueError, match=rf"^{key}\[0\]: {right} grants far more permissions than"
        ):
            ServiceAccountArgs(**account)


HYPERDISK_ONLY = sorted(
    row.name for row in MACHINE_TYPES.values() if row.features.attachable == ("hyperdisk-balanced",)
)


@pytest.mark.parametrize("machine", HYPERDISK_ONLY)
@pytest.mark.parametrize("given", ["", "standard", "standard-rwo", "premium-rwo", HYPERDISK_CLASS])
def test_machines_that_attach_hyperdisk_only_need_a_class_of_it(machine: str, given: str) -> None:
    """Every class of Persistent Disk, the default one among them, is refused."""
    claim = VolumeClaimArgs(size="10Gi", storage_class=given or None)
    pod = PodArgs(image="a:1", volumes={"out": VolumeArgs(mount_path="/out", claim="results")})
    row = MACHINE_TYPES[machine]
    pool = replace(
        GpuPool(name="big", accelerator="g", gpus_per_node=1, min_nodes=0, max_nodes=1),
        **attachable_classes(row),
    )

    def check() -> None:
        pod.check_auxiliary(Auxiliary(claims={"results": claim}), nodes=1, pool=pool)

    if given == HYPERDISK_CLASS:
        check()
        return
    words = f"{given or 'the default one'}; set volumeClaims.results.storageClass to "
    with pytest.raises(ValueError, match=words + HYPERDISK_CLASS):
        check()


@pytest.mark.parametrize(
    ("pool", "attachable"),
    [
        (GkeGpuNodePoolArgs(machine_type="g4-standard-48"), HYPERDISK_CLASS),
        (GkeGpuNodePoolArgs(machine_type="g2-standard-4"), None),
        (GkeAutopilotPoolArgs(accelerator="nvidia-rtx-pro-6000"), HYPERDISK_CLASS),
        (GkeAutopilotPoolArgs(accelerator="nvidia-l4"), None),
    ],
)
def test_pools_say_which_disks_their_nodes_attach(
    pool: GkeGpuNodePoolArgs | GkeAutopilotPoolArgs, attachable: str | None
) -> None:
    """By their machine, on Autopilot by the one that GKE would start."""
    found = pool.gpu_pool("big")
    assert found.attachable == attachable
    assert ("" in found.unattachable) is (attachable is not None)


def test_gkes_classes_of_filestore_are_for_the_network_default() -> None:
    """Only there do the nodes of a cluster reach what they make."""
    inside = {
        "subnetwork": "gke", "podsRange": "pods", "servicesRange": "services", "vpc": "default",
    }  # fmt: skip
    claim = {"size": "1Ti", "storageClass": "standard-rwx", "accessMode": "ReadWriteMany"}
    config = changed(
        "dev",
        [["gpu-cluster:cluster", "network", inside], ["gpu-cluster:volumeClaims", {"all": claim}]],
    )
    assert settings.from_config(config).runs.storage_classes == {"standard-rwx"}


def test_mounts_are_read_only_unless_said() -> None:
    """Except of memory, which would stay empty."""
    assert not VolumeArgs(mount_path="/a", claim="c").writable
    assert VolumeArgs(mount_path="/a", claim="c", read_only=False).writable
    assert VolumeArgs(mount_path="/a", memory="1Gi").writable
    assert not VolumeArgs(mount_path="/a", files=["a.py"]).writable


def test_a_private_key_is_no_file_of_a_config_map(tmp_path: Path) -> None:
    """Nothing secret goes into a ConfigMap: the line says where it belongs."""
    (tmp_path / "key.pem").write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    with pytest.raises(ValueError, match="holds a private key"):
        VolumeArgs(mount_path="/a", files=["key.pem"]).contents(tmp_path)


def test_a_link_does_not_lead_out_of_the_repository(tmp_path: Path) -> None:
    """Neither a link to a file nor a folder that is one; within the repository both may be."""
    root = tmp_path / "program"
    (root / "real").mkdir(parents=True)
    (root / "real" / "a.py").write_text("text")
    (root / "folder").symlink_to("real")
    assert VolumeArgs(mount_path="/a", files=["folder/a.py"]).contents(root) == {"a.py": "text"}
    (tmp_path / "credentials.json").write_text("{}")
    (root / "data.json").symlink_to(tmp_path / "credentials.json")
    (root / "home").symlink_to(tmp_path)
    for file in ("data.json", "home/credentials.json"):
        with pytest.raises(ValueError, match="is a link to a file outside"):
            VolumeArgs(mount_path="/a", files=[file]).contents(root)


def test_files_are_text_and_fit_a_config_map(tmp_path: Path) -> None:
    """The API server would refuse others, after everything else is there."""
    (tmp_path / "weights.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.txt").write_text("a" * 1_000_001)
    with pytest.raises(ValueError, match="is not a text file"):
        VolumeArgs(mount_path="/a", files=["weights.bin"]).contents(tmp_path)
    with pytest.raises(ValueError, match="have 1,000,001 bytes together"):
        VolumeArgs(mount_path="/a", files=["large.txt"]).contents(tmp_path)


def test_files_are_read_below_the_root(tmp_path: Path) -> None:
    """Wherever the process runs: a rehearsal's program is a copy."""
    values = dev()
    files = {"code": {"mountPath": "/code", "files": ["train.py"]}}
    values["gpu-cluster:trainingJobs"]["ddp"]["volumes"] = files
    (tmp_path / "train.py").write_text("print('hello')\n")
    read = settings.from_config(as_engine_config(values), tmp_path)
    assert read.running["trainingJobs"]["ddp"].volumes["code"].contents(tmp_path) == {
        "train.py": "print('hello')\n"
    }


@pytest.mark.parametrize("name", ["ml-system", "kube-system", "gmp-public"])
def test_a_reserved_namespace_that_exists_may_be_named(name: str) -> None:
    """The stack creates nothing there but what names it."""
    values = dev() | {"gpu-cluster:namespaces": {name: {"existing": True}}}
    values["gpu-cluster:workloads"]["sample-gpu-pod"]["namespace"] = name
    read = settings.from_config(as_engine_config(values))
    assert read.running["workloads"]["sample-gpu-pod"].namespace == name
