"""Which simulators a stack's platform needs, and how they are served to the engine."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from components.settings.model import Settings
from plugins.faults import Faults
from rehearsal.control_plane.local_control_plane import LocalControlPlane
from rehearsal.existing import ExistingCluster, with_real_node
from simulators import inventory
from simulators.cloud import Cloud
from stacks.outcome import CheckError
from stacks.settings import config_in, settings_of

NOWHERE = json.dumps({
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {}}],
    "users": [{"name": "a", "user": {}}],
    "current-context": "a",
})  # fmt: skip
"""For settings that are read before the rehearsal's own cluster has a kubeconfig."""
PLATFORMS = ("gke", "gke-autopilot", "eks", "existing")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSimulator:
    """A cloud and what serves it."""

    cloud: Cloud
    ports: dict[str, int] = field(default_factory=dict)
    """Pulumi package -> port of its provider."""
    api: str | None = None
    """URL at which the cloud's own API answers checks; None where there is none."""
    stop: Callable[[], None] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)
    """What the engine's environment must have beyond the usual."""
    notes: tuple[str, ...] = ()
    """What was derived because nobody wrote it down, for the report."""


def platform_of(stack_file: Path) -> str:
    """The platform that a stack file names."""
    config = (yaml.safe_load(stack_file.read_text()) or {}).get("config") or {}
    cluster = config.get("gpu-cluster:cluster")
    platform = cluster.get("platform") if isinstance(cluster, dict) else None
    # The program itself refuses what is wrong with the file, on whatever sandbox.
    return platform if platform in PLATFORMS else "gke"


def settings_in(stack_file: Path, stack: str) -> Settings | None:
    """The settings in the copy of a stack's file; None where the program will refuse them."""
    try:
        config = config_in(stack_file.read_bytes(), stack_file.name)
        return settings_of(stack, config, kubeconfig=NOWHERE)
    except CheckError:
        return None


def serve(
    platform: str,
    stack: str,
    control_plane: LocalControlPlane,
    faults: Faults,
    folder: Path,
    settings: Settings | None,
    inventories: Path = inventory.INVENTORIES,
    here: Mapping[str, Any] | None = None,
) -> RunningSimulator:
    """Starts the platform's simulators. Each imports its SDK, so only the needed one is loaded.

    `settings`: what the stack asks for; None where the program will refuse that. `here`: what the
    machine with a real node has, on an existing cluster. Raises StackError for a wrong inventory.
    """
    ending = ExitStack()
    match platform:
        case "eks":
            from simulators import aws
            from simulators.aws.moto_answers import answer_caller, answer_quotas

            token = folder / "eks-token"

            def admit(granted: bool) -> None:
                known, written = control_plane.pki.token_file.read_text(), token.with_suffix(".new")
                written.touch(mode=0o600)
                written.write_text(known if granted else "of-nobody-that-is-known")
                written.replace(token)  # at once: somebody may just read it

            network, notes = inventory.network(stack, settings, inventories)
            amazon = aws.AwsCloud(
                control_plane=control_plane, faults=faults, existing=network, on_access=admit
            )
            ending.callback(amazon.close)
            server = aws.serve(amazon)
            ending.callback(server.stop)
            ending.callback(answer_quotas(faults))
            ending.callback(answer_caller(amazon.account))
            return RunningSimulator(
                cloud=amazon,
                ports={"aws": server.port},
                api=amazon.endpoint,
                stop=ending.close,
                environment={"REHEARSAL_TOKEN_FILE": str(token)},
                notes=tuple(notes),
            )
        case "existing":
            machines, notes = inventory.machines(stack, settings, inventories)
            if here is not None:
                machines = with_real_node(stack, machines, here)
            there = ExistingCluster(
                machines, lambda: control_plane.api, real=here["name"] if here else None
            )
            return RunningSimulator(
                cloud=there,
                environment={"KUBECONFIG": str(control_plane.kubeconfig)},
                notes=tuple(notes),
            )
        case _:
            from simulators import google as gcp
            from simulators.google.quota_api import QuotaApi

            signed_in = folder / "application_default_credentials.json"
            _sign_in(signed_in, control_plane.pki.token_file.read_text())
            google = gcp.GcpCloud(control_plane=control_plane, faults=faults)
            server = gcp.serve(google)
            ending.callback(server.stop)
            api = QuotaApi(google)
            ending.callback(api.stop)
            return RunningSimulator(
                cloud=google,
                ports={"gcp": server.port},
                api=api.endpoint,
                stop=ending.close,
                environment={
                    "GOOGLE_APPLICATION_CREDENTIALS": str(signed_in),
                    # Who signs a DNS endpoint's certificate is known to every machine.
                    "SSL_CERT_FILE": str(control_plane.pki.ca),
                },
            )


def _sign_in(file: Path, token: str) -> None:
    """Leaves what `gcloud auth application-default login` leaves: a refresh token, which the
    simulated credential plugin takes for the token of the rehearsal's API server."""
    document = {
        "type": "authorized_user",
        "client_id": "rehearsal",
        "client_secret": "none",
        "refresh_token": token,
    }
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        json.dump(document, opened)
