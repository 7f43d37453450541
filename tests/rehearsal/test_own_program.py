"""`examples/own-program` with the wheel alone, on the cluster of a rehearsed stack."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpu_cluster.rehearsal.engine.engine import Engine
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox
from gpu_cluster.stacks.engine.state import resources
from gpu_cluster.stacks.engine.urn import Urn
from quality import release
from tests import packaged
from tests.rehearsal.conftest import Sandboxes
from tests.rehearsal.test_consumer import FROM_STAGE, engine_on

POOL = "train-gpu"
IN_ANY_LANGUAGE = """
import pulumi

config = pulumi.Config()
kubeconfig = config.require_secret("kubeconfig")
nodes = {key: config.require_object(key) for key in ("nodeSelector", "gpusPerNode")}
inputs = {
    "cluster": {"platform": "existing", "name": "shared", "kubeconfig": kubeconfig},
    "gpuPools": {"gpus": {**nodes, "devicePlugin": "none"}},
    "workloads": config.require_object("workloads"),
}
pulumi.ComponentResource("gpu-cluster:index:GpuStack", "gpus", inputs, remote=True)
"""
"""What `__main__.py` of the example says, without the class in Python."""
pytestmark = pytest.mark.xdist_group("running")


@pytest.fixture(scope="module")
def sandbox(running: Sandboxes) -> Sandbox:
    return running("dev")


@pytest.fixture(scope="module")
def engine(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("own")
    program = folder / "program"
    shutil.copytree(ROOT / "examples" / "own-program", program)
    packaged.environment(program / ".venv", release.wheel(folder))
    # It has its own interpreter.
    engine = engine_on(sandbox, program, {*FROM_STAGE} - {"GPU_CLUSTER_PYTHON"})
    file = program / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    outputs = sandbox.engine.outputs()
    gpus = outputs["gpuPools"][POOL]
    document["config"] |= {
        "own-program:nodeSelector": gpus["nodeSelector"],
        "own-program:gpusPerNode": gpus["gpusPerNode"],
    }
    file.write_text(yaml.safe_dump(document))
    engine.must("config", "set", "--secret", "kubeconfig", outputs["kubeconfig"])
    yield engine
    gone = engine.destroy()
    assert gone.ok, gone.errors


def test_a_job_runs_on_gpus_that_the_program_describes(engine: Engine) -> None:
    """A preview, an update that waits for the job, and a second one without changes; everything is
    below the component, and the kubeconfig is a secret. The component package declares the same."""
    planned = engine.preview()
    assert planned.ok, planned.errors
    done = engine.up()
    assert done.ok, done.errors
    rows = resources(engine.export())
    urns = [Urn.parse(row["urn"]) for row in rows]
    types = {"$".join((*urn.parents, urn.type)) for urn in urns}
    component = "gpu-cluster:index:GpuStack"
    assert f"{component}$gpu-cluster:gpu:Workload$kubernetes:batch/v1:Job" in types
    ours = {name for name in types if not name.startswith(("pulumi:pulumi", "pulumi:providers"))}
    assert all(name.startswith(component) for name in ours)
    assert "client-key-data" not in json.dumps(engine.outputs())
    again = engine.up()
    assert again.ok
    assert not again.changed
    through_the_package(engine.program)
    other = engine.preview()
    assert other.ok, other.errors
    assert not other.changed


def through_the_package(program: Path) -> None:
    """Declares the same as programs in other languages do it: the engine starts the package."""
    shutil.copytree(ROOT / "component-package", program / "package")
    packaged.as_a_plugin(program)
    (program / "__main__.py").write_text(IN_ANY_LANGUAGE)
