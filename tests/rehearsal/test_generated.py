"""Whatever the settings accept, the rehearsal's real preview accepts: configs that nobody wrote.

The simulated clouds are strict, and refuse what they do not know: here they are asked more than the
five samples ask.
"""

import pytest
import yaml

from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.stacks.definition.files import ROOT
from tests.program.generated import PLATFORM_OF, PLATFORM_STACKS, config
from tests.rehearsal.conftest import Sandboxes, as_it_was

FEW, MANY = 1, 30
"""Examples of each platform; one takes some two seconds on two idle cores."""


OWN = [stack for stack in PLATFORM_STACKS if not PLATFORMS[PLATFORM_OF[stack]].added]


@pytest.mark.xdist_group("previews")
@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.prove)])
@pytest.mark.parametrize("stack", OWN)
def test_a_preview_accepts_what_the_settings_accept(
    previewing: Sandboxes, stack: str, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No accepted config fails in the preview, on any platform. With `cluster.existing` one does
    that is of another cluster, name or version than the rehearsal's."""
    sandbox = previewing(stack)
    # The pools name it, and an existing cluster has it.
    if sandbox.program.platform == "existing":
        body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia"}
        at = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
        sandbox.control_plane.api.apply(at, body | {"metadata": {"name": "nvidia"}})
    # What the settings of a cluster that is there are read with here, as in the sandbox.
    monkeypatch.setenv("KUBECONFIG", str(sandbox.control_plane.kubeconfig))
    with as_it_was(sandbox) as program:
        for seed in range(examples):
            values = config(stack, seed)
            if file := values["gpu-cluster:cluster"].get("kubeconfigFile"):  # relative to the root
                values["gpu-cluster:cluster"]["kubeconfigFile"] = str(ROOT / file)
            (program / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": values}))
            outcome = sandbox.engine.preview()
            assert outcome.ok, (outcome.errors, values)
