"""Serves the policy pack to the engine: `pulumi preview --policy-pack policy`."""

import sys
from pathlib import Path

# The engine runs this folder as a program; the package and the catalog are next to it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pulumi_policy import PolicyPack

from gpu_cluster.policy import settings
from gpu_cluster.policy.pack import RULES, policies

try:
    given = settings.read(RULES)
except ValueError as error:
    sys.exit(f"policy: {error}")
PolicyPack(name="gpu-cluster", policies=policies(given))
