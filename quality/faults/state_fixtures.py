"""Each environment's state, as a tagged version creates it.

Stored in `tests/fixtures`, they show that later versions can update what it created: a preview with
them may replace neither a cluster nor a GPU pool. All of their content is from a rehearsal.
"""

import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kubernetes.dynamic
import yaml

from gpu_cluster.rehearsal.control_plane.local_control_plane import LocalControlPlane
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox
from gpu_cluster.rehearsal.simulators.google.container.cluster_defaults import MANAGED_PROMETHEUS
from gpu_cluster.stacks.definition.files import SAMPLES
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.engine.state import resources
from gpu_cluster.stacks.outcome import ExitCode

FIXTURES = ROOT / "tests" / "fixtures"
ENDPOINT, CERTIFICATE, FOLDER = "ENDPOINT", "Q0VSVElGSUNBVEU=", "FOLDER"
"""Placeholders for the control plane's address and certificate (base64), and the folder."""
PLACES = ("sourcePosition", "stackTrace")


def write_states(tag: str, stacks: Sequence[str]) -> ExitCode:
    """Writes the states of these stacks, by default of every sample, as the tag creates them.

    Raises StackError if there is no such tag; a failing update is a finding.
    """
    FIXTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        _git("worktree", "add", "--detach", str(source), tag)
        try:
            (source / ".venv").symlink_to(ROOT / ".venv")
            for stack in stacks or SAMPLES:
                with Sandbox(stack, source=source, folder=Path(folder) / "sandbox") as sandbox:
                    outcome = sandbox.engine.up()
                    if not outcome.ok:
                        print("\n".join(outcome.errors), file=sys.stderr)
                        return ExitCode.FINDING
                    for older in FIXTURES.glob(f"state-{stack}-[0-9]*.json"):
                        older.unlink()
                    file = FIXTURES / f"state-{stack}-{tag.removeprefix('v')}.json"
                    file.write_text(portable(exported(sandbox), sandbox))
                    print(file)
        finally:
            if source.is_dir():
                _git("worktree", "remove", "--force", str(source))
    return ExitCode.OK


def exported(sandbox: Sandbox) -> str:
    """The sandbox's current state, with secrets in plain text."""
    return sandbox.engine.must("stack", "export", "--show-secrets")


def portable(state: str, sandbox: Sandbox) -> str:
    """A state without the sandbox's own values."""
    for value, placeholder in _own(sandbox).items():
        state = state.replace(value, placeholder)
    return by_resource(_without(json.loads(state)))


def by_resource(state: dict[str, Any]) -> str:
    """A state as JSON with one line for each resource, so that the file is short."""
    deployment = state["deployment"]
    lines = ",\n".join(json.dumps(resource) for resource in deployment["resources"])
    whole = json.dumps({**state, "deployment": {**deployment, "resources": []}})
    return whole.replace('"resources": []', f'"resources": [\n{lines}\n]') + "\n"


def _without(value: Any) -> Any:
    """The value without the source positions at which resources were registered."""
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if key not in PLACES}
        return {key: _without(item) for key, item in kept.items()}
    return [_without(part) for part in value] if isinstance(value, list) else value


def restored(file: Path, sandbox: Sandbox) -> None:
    """Loads a stored state into the sandbox, and creates its objects in the control plane.

    Its cloud resources exist only in the state.
    """
    state = file.read_text()
    for value, placeholder in _own(sandbox).items():
        state = state.replace(placeholder, value)
    deployment = json.loads(state)
    sandbox.engine.load(deployment)
    objects = [row for row in resources(deployment) if row["type"].startswith("kubernetes:")]
    _stand(objects, sandbox.control_plane)


def _stand(rows: Sequence[Mapping[str, Any]], plane: LocalControlPlane) -> None:
    """Applies the objects like the provider, in the order in which they were created."""
    plane.ensure_started()
    if any(row["inputs"]["apiVersion"].startswith("monitoring.googleapis.com/") for row in rows):
        plane.define(yaml.safe_load(MANAGED_PROMETHEUS.read_text()))
    with plane.client() as client:
        cluster = kubernetes.dynamic.DynamicClient(client)
        for row in rows:
            made = row["inputs"]
            kind = cluster.resources.get(api_version=made["apiVersion"], kind=made["kind"])
            kind.server_side_apply(made, field_manager=row["outputs"]["__fieldManager"])


def _own(sandbox: Sandbox) -> dict[str, str]:
    plane = sandbox.control_plane
    return {
        plane.endpoint: ENDPOINT,
        base64.b64encode(plane.ca_certificate).decode(): CERTIFICATE,
        str(sandbox.folder): FOLDER,
    }


def _git(*command: str) -> None:
    done = subprocess.run(["git", "-C", ROOT, *command], capture_output=True, text=True)
    if done.returncode:
        raise StackError(f"git {command[0]} {command[1]}: {done.stderr.strip().splitlines()[-1]}")
