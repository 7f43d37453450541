"""What `gpu-cluster new` writes declares a pool and a job on every platform."""

from typing import Any

import pytest
import yaml

from gpu_cluster.components.catalog import images
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.components.scalers import scalers
from gpu_cluster.stacks.definition.validation import refusals
from gpu_cluster.stacks.environments.new_stack import Choices, stack_text
from tests.components import recording
from tests.components.recording import record
from tests.components.test_eks_existing import FOUND as EKS
from tests.components.test_gke_existing import READ as GKE
from tests.program.environments import as_engine_config, run_program

EXISTING = {"gke": GKE, "eks": EKS}
"""What the data source has of a cluster that somebody else created, by platform."""


@pytest.mark.parametrize(
    ("platform", "existing", "scaler"),
    [(platform.removesuffix("-existing"), "platform" if row.added else "", scaler)
     for platform, row in PLATFORMS.items() if row.environment
     for scaler in ("", *scalers(row.settings.CLUSTER))],
)  # fmt: skip
def test_a_new_environment_is_previewed(
    monkeypatch: pytest.MonkeyPatch, platform: str, existing: str, scaler: str
) -> None:
    """With the pool and the job that the file has, and what the program adds; every scaler of the
    platform can be chosen."""
    if existing:
        of_aws = {
            "vpcConfig": {"clusterSecurityGroupId": "sg-0a1b2c"},
            "computeConfigs": [{"enabled": scaler == "auto-mode"}],
        }
        answer: dict[Any, Any] = {**EXISTING[platform], **of_aws}
        monkeypatch.setattr(recording.Answers, "call", lambda *_: answer)
    written = stack_text("staging", Choices(platform=platform, existing=existing, scaler=scaler))
    config = yaml.safe_load(written)["config"]
    assert list(refusals(config)) == []
    found = record(run_program, config=as_engine_config(config), preview=True)
    (job,) = (one for one in found.resources if one.type == "kubernetes:batch/v1:Job")
    (container,) = job.inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"] == images.CUDA_SAMPLE.reference
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
