"""What `gpu-cluster new` writes declares a pool and a job on every platform."""

import pytest
import yaml

from components.catalog import images
from stacks.environments.new_stack import Choices, text
from tests.components.recording import record
from tests.program.environments import as_engine_config, run_program


@pytest.mark.parametrize("platform", ["gke", "gke-autopilot", "eks", "existing"])
def test_a_new_environment_is_previewed(platform: str) -> None:
    """With the pool and the job that the file has, and what the program adds."""
    config = yaml.safe_load(text("staging", Choices(platform=platform)))["config"]
    found = record(run_program, config=as_engine_config(config), preview=True)
    (job,) = (one for one in found.resources if one.type == "kubernetes:batch/v1:Job")
    (container,) = job.inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"] == images.CUDA_SAMPLE.reference
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
