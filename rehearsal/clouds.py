"""Which stand-ins a stack's platform needs, and how they are served to the engine."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rehearsal.cloud import Cloud, Faults
from rehearsal.cluster.control_plane import LocalControlPlane
from rehearsal.existing import ExistingCluster

PLATFORMS = ("gke", "gke-autopilot", "eks", "existing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A cloud and what serves it."""

    cloud: Cloud
    ports: dict[str, int] = field(default_factory=dict)
    """Pulumi package -> port of its provider."""
    api: str | None = None
    """URL at which the cloud's own API answers checks; None where there is none."""
    stop: Callable[[], None] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)
    """What the engine's environment must have beyond the usual."""


def platform_of(stack_file: Path) -> str:
    """The platform that a stack file names."""
    config = (yaml.safe_load(stack_file.read_text()) or {}).get("config") or {}
    cluster = config.get("gpu-cluster:cluster")
    platform = cluster.get("platform") if isinstance(cluster, dict) else None
    # The program itself refuses what is wrong with the file, on whatever stage.
    return platform if platform in PLATFORMS else "gke"


def serve(
    platform: str,
    stack: str,
    control_plane: LocalControlPlane,
    faults: Faults,
    folder: Path,
    here: Mapping[str, Any] | None = None,
) -> Served:
    """Starts the platform's stand-ins. Each imports its SDK, so only the needed one is loaded.

    `here`: what the machine with a real node has, on an existing cluster.
    """
    ending = ExitStack()
    match platform:
        case "eks":
            from rehearsal import aws
            from rehearsal.aws.service_quotas import answer_quotas

            token = folder / "eks-token"

            def admit(granted: bool) -> None:
                known, written = control_plane.pki.token_file.read_text(), token.with_suffix(".new")
                written.write_text(known if granted else "of-nobody-that-is-known")
                written.replace(token)  # at once: somebody may just read it

            amazon = aws.AwsCloud(control_plane=control_plane, faults=faults, on_access=admit)
            ending.callback(amazon.close)
            server = aws.serve(amazon)
            ending.callback(server.stop)
            ending.callback(answer_quotas(faults))
            return Served(
                cloud=amazon,
                ports={"aws": server.port},
                api=amazon.endpoint,
                stop=ending.close,
                environment={"REHEARSAL_TOKEN_FILE": str(token)},
            )
        case "existing":
            there = ExistingCluster(stack, lambda: control_plane.api, here)
            return Served(cloud=there, environment={"KUBECONFIG": str(control_plane.kubeconfig)})
        case _:
            from rehearsal import gcp
            from rehearsal.gcp.quota_api import QuotaApi

            google = gcp.GcpCloud(control_plane=control_plane, faults=faults)
            server = gcp.serve(google)
            ending.callback(server.stop)
            api = QuotaApi(google)
            ending.callback(api.stop)
            return Served(
                cloud=google,
                ports={"gcp": server.port},
                api=api.endpoint,
                stop=ending.close,
            )
