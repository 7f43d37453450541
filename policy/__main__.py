"""Serves the policy pack to the engine: `pulumi preview --policy-pack policy`."""

import sys
from pathlib import Path

# In a checkout, the package is next to this folder, which the engine runs as a program.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpu_cluster.policy import pack

pack.serve(Path(__file__).with_name("config.json"))
