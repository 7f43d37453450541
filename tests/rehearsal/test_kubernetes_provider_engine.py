"""The Kubernetes offline plugin under the real engine: one small stack from its first `up` to its
end.

Only the engine shows whether states, secrets, replacements and half-made objects hold together.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.plugins.kubernetes import KubernetesProviderServer
from tests.rehearsal.kubernetes_engine import kubeconfig
from tests.rehearsal.small_program import SmallStack

pytestmark = pytest.mark.xdist_group("plane")
PROGRAM = """
import os

import pulumi
import pulumi_kubernetes as kubernetes

value, image = os.environ["TEST_VALUE"], os.environ["TEST_IMAGE"]
provider = kubernetes.Provider(
    "cluster", kubeconfig=os.environ["TEST_KUBECONFIG"], cluster_identifier="test"
)
options = pulumi.ResourceOptions(provider=provider)
skip = {"pulumi.com/skipAwait": "true"}
pod = {"containers": [{"name": "c", "image": image, "resources": {"limits": {"cpu": "1000m"}}}]}
labels = {"app": "a"}
template = {"metadata": {"labels": labels}, "spec": pod}

space = kubernetes.core.v1.Namespace("space", metadata={"name": "space"}, opts=options)
within = {"namespace": space.metadata.name}
kubernetes.core.v1.ConfigMap("auto", metadata=within, data={"a": value}, opts=options)
kubernetes.core.v1.ConfigMap(
    "named", metadata={**within, "name": "named"}, data={"a": value}, opts=options
)
kubernetes.core.v1.Secret(
    "token", metadata=within, string_data={"t": pulumi.Output.secret("hush")}, opts=options
)
kubernetes.apps.v1.DaemonSet(
    "plugin",
    metadata={**within, "name": "plugin"},
    spec={"selector": {"match_labels": labels}, "template": template},
    opts=options,
)
kubernetes.apps.v1.Deployment(
    "web",
    metadata={
        **within,
        "annotations": {"pulumi.com/timeoutSeconds": "1"} if os.environ["TEST_WAIT"] else skip,
    },
    spec={"selector": {"match_labels": labels}, "template": template},
    opts=options,
)
kubernetes.batch.v1.Job(
    "job",
    metadata={**within, "annotations": skip},
    spec={"template": {"spec": {**pod, "restart_policy": "Never"}}},
    opts=options,
)
kubernetes.core.v1.Pod("pod", metadata={**within, "annotations": skip}, spec=pod, opts=options)
definition = kubernetes.apiextensions.v1.CustomResourceDefinition(
    "definition",
    metadata={"name": "widgets.example.com"},
    spec={
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"open_apiv3_schema": {
                "type": "object", "x_kubernetes_preserve_unknown_fields": True,
            }},
        }],
    },
    opts=options,
)
kubernetes.apiextensions.CustomResource(
    "widget", api_version="example.com/v1", kind="Widget", metadata=within, spec={"on": {}},
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[definition]),
)
"""


class Stack(SmallStack):
    """A stack of the program above."""

    def set(self, **inputs: str) -> None:
        """What the program makes of its objects from now on."""
        self.environment |= {f"TEST_{name.upper()}": value for name, value in inputs.items()}

    def up(self, *, fails: bool = False) -> str:
        return self.run("up", "--yes", "--skip-preview", fails=fails)

    def unchanged(self) -> None:
        self.run("preview", "--expect-no-changes")


@pytest.fixture
def stack(tmp_path: Path, plane: LocalControlPlane) -> Iterator[Stack]:
    server = KubernetesProviderServer(os.environ)
    server.start()
    config = kubeconfig(plane.endpoint, plane.ca_certificate, {"token": plane.pki.token})
    made = Stack(tmp_path, PROGRAM, f"kubernetes:{server.port}")
    made.set(kubeconfig=config, value="1", image="x:1", wait="")
    yield made
    server.stop()


def test_a_stack_from_its_first_up_to_its_end(stack: Stack, plane: LocalControlPlane) -> None:
    """A stack is created, left alone, updated, replaced, repaired after drift and half-made
    objects, and gone in the end."""
    assert "+ 12 created" in stack.up()
    stack.unchanged()
    first = stack.states()
    assert "hush" not in json.dumps(first["token"])
    assert "aHVzaA==" not in json.dumps(first["token"])

    stack.set(image="x:2", value="2")
    changed = stack.up()
    assert "~ 2 updated" in changed
    # Both ConfigMaps, the Job's template and the Pod's image cannot be changed in place.
    assert "+-4 replaced" in changed
    second = stack.states()
    assert second["named"]["id"] == first["named"]["id"] == "space/named"
    assert second["auto"]["id"] != first["auto"]["id"]

    path = "/api/v1/namespaces/space/configmaps/named"
    plane.api.patch(path, {"data": {"a": "somebody's"}})
    name = second["web"]["id"].removeprefix("space/")
    plane.api.delete(f"/apis/apps/v1/namespaces/space/deployments/{name}")
    stack.run("refresh", "--yes", "--skip-preview")
    repaired = stack.up()
    assert "+ 1 created" in repaired
    assert "+-1 replaced" in repaired
    assert plane.api.get(path)["data"] == {"a": "2"}

    stack.set(wait="yes")
    assert "timed out waiting to be Ready" in stack.up(fails=True)
    assert stack.states()["web"]["initErrors"]
    stack.set(wait="")
    assert "~ 1 updated" in stack.up()
    stack.unchanged()

    stack.run("destroy", "--yes", "--skip-preview")
    assert stack.states() == {}
    names = [item["metadata"]["name"] for item in plane.api.items("/api/v1/namespaces")]
    assert "space" not in names
