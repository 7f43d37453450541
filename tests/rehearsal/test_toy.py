"""A toy platform and a toy block of settings are rehearsed: pods get GPUs, and are scaled down."""

import json
from pathlib import Path

from tests.toy import BLOCK, PLATFORM, python, tree

REHEARSE = """
import json, sys
from pathlib import Path

import yaml

from gpu_cluster.rehearsal.sandbox import Sandbox
from gpu_cluster.rehearsal.scenario import Rehearsal

with Sandbox("serving", folder=Path(sys.argv[1])) as sandbox:
    run = Rehearsal(sandbox=sandbox, deadline=45)
    said = {"ready": run.run_until_ready(), "failures": [*run.failures]}
    said["pools"] = sandbox.engine.outputs()["gpuPools"]
    said["offered"] = sorted(
        node["status"]["allocatable"].get("nvidia.com/gpu", "0")
        for node in sandbox.cluster_cache.nodes
    )
    said["declared"] = sorted(map(str, run.workloads))
    run.teardown()
    said["leaks"] = run.failures[len(said["failures"]):]
    said["steps"] = {step.name: step.ok for step in run.steps}
    config = yaml.safe_load(sandbox.program.file.read_text())["config"]
    said["emptied"] = [config[f"gpu-cluster:{key}"] for key in ("workloads", "sites")]
    said["left"] = sandbox.cloud.list_resources()
print(json.dumps(said))
"""


def test_a_toy_platform_is_rehearsed_with_a_toy_block(tmp_path: Path) -> None:
    """Up, pods on the GPUs of both machines, a second up without a change, scale down, destroy."""
    copy = tree(tmp_path)
    PLATFORM.add(copy)
    BLOCK.add(copy)
    done = python(copy, "-c", REHEARSE, str(tmp_path / "sandbox"), seconds=150)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["failures"] == []
    assert said["ready"]
    assert said["pools"]["bricks"]["nodeSelector"] == {"gpu-cluster/pool": "bricks"}
    assert said["offered"] == ["0", "1", "1"]
    assert {"Deployment default/web", "Pod default/sample"} <= set(said["declared"])
    assert said["steps"]["scale down workloads"]
    assert said["steps"]["scale in to minimum"]
    assert said["steps"]["pulumi destroy"]
    # The toy cloud's cluster is not a resource of the stack, and the leak check sees it.
    assert said["leaks"] == ["the cluster's control plane still runs"]
    assert said["emptied"] == [{}, {}]
    assert said["left"] == []
