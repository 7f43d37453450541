"""Accounts, claims and volumes in the config: complete, or refused in one line with the key."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.access import ServiceAccountArgs
from components.gpu.volume_args import VolumeArgs
from components.settings import load as settings
from policy.pack import RULES
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
        with pytest.raises(ValueError, match=rf"^{key}\[0\]: {right} has far more rights than"):
            ServiceAccountArgs(**account)


@pytest.mark.parametrize(
    ("stack", "account", "says"),
    [
        (
            "train",
            {"roles": ["roles/bigquery.jobUser"]},
            "trainer.roles: platform eks has none; it has policies",
        ),
        (
            "autopilot",
            {"policies": ["arn:aws:iam::123456789012:policy/p"]},
            "trainer.policies: platform gke-autopilot has none; it has roles",
        ),
        (
            "train",
            {"buckets": {"my_data": "read"}},
            "trainer.buckets.my_data: on platform eks a bucket's name must be lowercase letters, "
            "digits, hyphens and dots, with a letter or digit at both ends of each part",
        ),
        (
            "onprem",
            {"buckets": {"data": "read"}},
            "trainer.buckets: platform existing mounts none; take volumes with existingClaim",
        ),
        (
            "onprem",
            {"roles": ["roles/bigquery.jobUser"]},
            "trainer.roles: platform existing has none; give rights there yourself",
        ),
    ],
)
def test_each_platform_gives_rights_in_its_own_way(
    stack: str, account: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another platform has is refused, with what this one has."""
    monkeypatch.setenv("KUBECONFIG", "tests/program/kubeconfig.yaml")
    config = changed(stack, [["gpu-cluster:serviceAccounts", {"trainer": account}]])
    assert refusal(config) == f"gpu-cluster:serviceAccounts.{says}"


def test_autopilot_mounts_no_file_of_the_host() -> None:
    """GKE's admission would refuse the pod."""
    config = changed(
        "autopilot",
        [["gpu-cluster:workloads", "gpu-workload",
          {"kind": "deployment", "pool": "t4", "gpus": 2, "image": "example.com/a:1",
           "volumes": {"conf": {"mountPath": "/conf", "hostFile": "/etc/nccl.conf"}}}]],
    )  # fmt: skip
    assert refusal(config) == (
        "gpu-cluster:workloads.gpu-workload.volumes.conf.hostFile: the platform admits nothing of "
        "the host; drop the volume"
    )


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
        with pytest.raises(ValueError, match="is a link that leads out of"):
            VolumeArgs(mount_path="/a", files=[file]).contents(root)


def test_files_are_text_and_fit_a_config_map(tmp_path: Path) -> None:
    """The API server would refuse others, after everything else is there."""
    (tmp_path / "weights.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.txt").write_text("a" * 1_000_001)
    with pytest.raises(ValueError, match="is no text"):
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
    assert read.training_jobs["ddp"].volumes["code"].contents(tmp_path) == {
        "train.py": "print('hello')\n"
    }
