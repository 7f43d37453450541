"""GKE Standard and Autopilot, with a simulated Google Cloud."""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from gpu_cluster.components.catalog.gke import MACHINE_TYPES
from gpu_cluster.components.gke.fallback_args import Capacity
from gpu_cluster.rehearsal.platforms.simulator import Rehearsed, RunningSimulator
from gpu_cluster.rehearsal.plugins import gcp
from gpu_cluster.rehearsal.plugins.cloud.server import ProviderServer
from gpu_cluster.rehearsal.simulators import google
from gpu_cluster.rehearsal.simulators.blocks import sizes
from gpu_cluster.rehearsal.simulators.google_inventory import (
    buckets,
    gke_cluster,
    networks,
    node_accounts,
    not_granted,
)
from gpu_cluster.rehearsal.simulators.reservations import reservations
from gpu_cluster.rehearsal.simulators.stock import machine_types, stock


def serve(of: Rehearsed) -> RunningSimulator:
    """Implements `rehearsal.platforms.simulator.Simulator`."""
    ending = ExitStack()
    signed_in = of.folder / "application_default_credentials.json"
    _sign_in(signed_in, of.control_plane.pki.token_file.read_text())
    existing, notes = networks(of.stack, of.settings, of.inventories)
    foreign, described = gke_cluster(of.stack, of.settings, of.inventories)
    reserved, more = reservations(of.stack, of.settings, folder=of.inventories)
    accounts = node_accounts(of.settings)
    cloud = google.GoogleCloud(
        control_plane=of.control_plane,
        faults=of.faults,
        existing=google.Existing(
            networks=existing,
            reservations=reserved,
            buckets=buckets(of.stack, of.inventories),
            not_granted=not_granted(of.stack, of.inventories),
            accounts=accounts,
            stock=stock(
                of.stack,
                of.inventories,
                ways=get_args(Capacity),
                machines=machine_types(of.settings.own if of.settings and not foreign else None),
            ),
            blocks=sizes(
                of.stack,
                of.inventories,
                located=[row.name for row in MACHINE_TYPES.values() if row.located],
                machine="machineType",
            ),
        ),
        quota_suffices=True,
    )
    if foreign is not None:
        cloud.open(foreign)
    apis = google.serve_api(cloud)
    ending.callback(apis.stop)
    server = ProviderServer(
        gcp.settings_for(apis.environment, faults=of.faults, changed=cloud.notify)
    )
    ending.callback(server.stop)
    return RunningSimulator(
        cloud=cloud,
        ports={"gcp": server.port},
        api=apis.endpoint,
        points=apis.environment,
        stop=ending.close,
        environment={
            "GOOGLE_APPLICATION_CREDENTIALS": str(signed_in),
            # A DNS endpoint's certificate is signed by a CA that every machine trusts.
            "SSL_CERT_FILE": str(of.control_plane.pki.ca),
        },
        notes=(
            *notes,
            *described,
            *more,
            *(f"this service account is simulated: {email}" for email in sorted(accounts)),
        ),
    )


def _sign_in(file: Path, token: str) -> None:
    """Writes the file that `gcloud auth application-default login` would write: its refresh token
    is the token that the simulated credential plugin returns for the rehearsal's API server."""
    document = {
        "type": "authorized_user",
        "client_id": "rehearsal",
        "client_secret": "none",
        "refresh_token": token,
    }
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        json.dump(document, opened)
