"""What `gpu-cluster new` writes declares a pool and a job on every platform."""

from typing import Any

import pytest
import yaml

from components.catalog import images
from stacks.environments.new_stack import Choices, text
from tests.components import recording
from tests.components.recording import record
from tests.components.test_eks_existing import FOUND as EKS
from tests.components.test_gke_existing import READ as GKE
from tests.program.environments import as_engine_config, run_program

EXISTING = {"gke": GKE, "eks": EKS}
"""What the data source has of a cluster that somebody else created, by platform."""


@pytest.mark.parametrize(
    ("platform", "existing"),
    [("gke", ""), ("gke-autopilot", ""), ("eks", ""), ("existing", ""),
     *((platform, "platform") for platform in EXISTING)],
)  # fmt: skip
def test_a_new_environment_is_previewed(
    monkeypatch: pytest.MonkeyPatch, platform: str, existing: str
) -> None:
    """With the pool and the job that the file has, and what the program adds."""
    if existing:
        answer: dict[Any, Any] = dict(EXISTING[platform])
        monkeypatch.setattr(recording.Answers, "call", lambda *_: answer)
    written = text("staging", Choices(platform=platform, existing=existing))
    config = yaml.safe_load(written)["config"]
    found = record(run_program, config=as_engine_config(config), preview=True)
    (job,) = (one for one in found.resources if one.type == "kubernetes:batch/v1:Job")
    (container,) = job.inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"] == images.CUDA_SAMPLE.reference
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
