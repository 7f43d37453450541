"""A platform of one folder and one row is rehearsed: its simulator starts, its pods get GPUs."""

import json
from pathlib import Path

from tests.toy import python, tree

REHEARSE = """
import json, sys
from pathlib import Path

from rehearsal.sandbox import Sandbox
from rehearsal.scenario import Rehearsal

with Sandbox("toy", folder=Path(sys.argv[1])) as sandbox:
    run = Rehearsal(sandbox=sandbox, deadline=45)
    said = {"ready": run.run_until_ready(), "failures": run.failures}
    said["pools"] = sandbox.engine.outputs()["gpuPools"]
    said["offered"] = sorted(
        node["status"]["allocatable"].get("nvidia.com/gpu", "0")
        for node in sandbox.cluster_cache.nodes
    )
    said["destroyed"] = sandbox.engine.destroy().errors
    said["left"] = sandbox.cloud.list_resources()
print(json.dumps(said))
"""


def test_a_toy_platform_is_rehearsed(tmp_path: Path) -> None:
    """Up, its pod on a GPU of one of its two machines, a second up without a change, destroy."""
    copy, _ = tree(tmp_path)
    done = python(copy, "-c", REHEARSE, str(tmp_path / "sandbox"), seconds=150)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["failures"] == []
    assert said["ready"]
    assert said["pools"]["bricks"]["nodeSelector"] == {"gpu-cluster/pool": "bricks"}
    assert said["offered"] == ["0", "1", "1"]
    assert said["destroyed"] == said["left"] == []
