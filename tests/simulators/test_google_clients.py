"""The simulated Google Cloud through the libraries that Google writes for Python, whose answers
are typed: what they do not know of an answer is an error or is lost."""

import subprocess
import sys

from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.simulators.google import GoogleCloud, serve_api
from tests.unit.plugins.offline_engine import Plane


def test_the_cloud_answers_in_googles_types() -> None:
    """Lives of networks, firewall rules and routers; of a cluster, a pool of GPUs and its size."""
    cloud = GoogleCloud(control_plane=Plane())
    cloud.faults = Faults(quota={"NVIDIA_T4_GPUS": 4})
    api = serve_api(cloud)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulators.google_clients", api.endpoint],
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        api.stop()
    assert done.returncode == 0, done.stderr
