"""A stack declared through the component package, as programs in other languages do it."""

import shutil
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.sandbox import ROOT
from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.engine.urn import Urn
from quality import release
from tests import packaged
from tests.rehearsal.conftest import Mutation, entered

pytestmark = pytest.mark.prove
COMPONENT = "gpu-cluster:index:GpuStack"
OUTPUTS = (
    "platform", "clusterName", "kubeconfig", "gpuPools", "endpoint", "certificateAuthority",
)  # fmt: skip
PROGRAM = f"""
from pathlib import Path

import pulumi
import yaml

document = yaml.safe_load(Path(f"Pulumi.{{pulumi.get_stack()}}.yaml").read_text())
inputs = {{
    key.removeprefix("gpu-cluster:"): value
    for key, value in document["config"].items()
    if key.startswith("gpu-cluster:")
}}


class GpuStack(pulumi.ComponentResource):
    platform: pulumi.Output[str]
    clusterName: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    gpuPools: pulumi.Output[dict]
    endpoint: pulumi.Output[str]
    certificateAuthority: pulumi.Output[str]


outputs = dict.fromkeys({OUTPUTS!r})
stack = GpuStack("{COMPONENT}", "gpus", {{**outputs, **inputs}}, remote=True)
for name in outputs:
    pulumi.export(name, getattr(stack, name))
"""
"""A generated SDK has such a class, and nothing else that counts here."""


def through_the_package(wheel: Path) -> Mutation:
    """Replaces the program by one that knows the package only as a plugin."""

    def mutate(program: Path) -> None:
        shutil.copytree(ROOT / "component-package", program / "package")
        packaged.environment(program / "package" / ".venv", wheel)
        packaged.as_a_plugin(program)
        (program / "__main__.py").write_text(PROGRAM)

    return mutate


@pytest.mark.parametrize("stack", ["dev", "on-eks"])
def test_a_stack_lives_through_the_package(stack: str, tmp_path: Path) -> None:
    """Up until its workloads run on GPUs from zero, a second update without changes, destroyed to
    nothing: as the repository's own program, with everything below the one component."""
    wheel = release.wheel(tmp_path)
    with entered(stack, tmp_path / "sandbox", through_the_package(wheel)) as sandbox:
        # Each of the two has its own interpreter.
        del sandbox.engine.environment["GPU_CLUSTER_PYTHON"]
        run = Rehearsal(sandbox=sandbox, deadline=120)
        assert run.run_until_ready(), run.failures
        urns = [Urn.parse(row["urn"]) for row in sandbox.engine.resources()]
        ours = [urn for urn in urns if not urn.type.startswith("pulumi:") or urn.parents]
        assert len(ours) > 10
        assert {(*urn.parents, urn.type)[0] for urn in ours} == {COMPONENT}
        assert sandbox.engine.outputs().keys() >= {*OUTPUTS}
        assert run.teardown(), run.failures
        assert [step.name for step in run.steps if not step.ok] == []
        assert sandbox.cloud.list_resources() == []
