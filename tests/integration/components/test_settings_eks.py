"""EKS settings are complete and frozen, or refused in one line that names the key."""

import subprocess
import sys
from pathlib import Path


def test_reading_settings_loads_no_cloud_sdk() -> None:
    """Config is checked without importing any cloud's SDK."""
    code = (
        "import sys; from gpu_cluster.components.settings import load as settings; "
        "from tests.program.environments import config_of; "
        "settings.from_config(config_of('train')); "
        "print([m for m in sys.modules if m in ('pulumi_aws', 'pulumi_gcp')])"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
