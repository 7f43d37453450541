"""The real program with queues and a training job, on every platform's training environment."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.components.recording import record
from tests.program.environments import as_engine_config, recorded, run_program, values_of

QUEUES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "rehearsal" / "queues.yaml").read_text()
)


@pytest.mark.parametrize("stack", ["train-gke", "train"])
def test_a_preview_shows_every_object_of_queues_and_controllers(stack: str) -> None:
    """Definitions, rights, webhooks, queues and jobs: known without any cloud, each once."""
    values = copy.deepcopy(values_of(stack)) | copy.deepcopy(QUEUES)
    values["gpu-cluster:gpuPools"]["train-gpu"]["maxNodes"] = 2
    preview = record(run_program, config=as_engine_config(values), preview=True)
    update = recorded(values)
    assert sorted(r.urn for r in preview.resources) == sorted(r.urn for r in update.resources)
    assert len({r.urn for r in preview.resources}) == len(preview.resources)
    kinds = [resource.type.rpartition(":")[2] for resource in preview.resources]
    assert kinds.count("CustomResourceDefinition") == 12
    assert {"JobSet", "ClusterQueue", "LocalQueue", "ResourceFlavor"} <= set(kinds)
