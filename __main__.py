"""GPUs on Kubernetes, as one stack: settings, cluster, GPU layer, workloads, outputs."""

import gc
from pathlib import Path

import pulumi

from gpu_cluster.components import stack
from gpu_cluster.components.settings import load as settings
from gpu_cluster.components.settings import owners

# The objects created here live until the end: looking for garbage as often as Python does by
# itself takes a fifth of a preview, and of each further pool more than the last.
gc.set_threshold(100_000, 50, 100)
read = settings.load()
owners.warn_of_shared(Path(__file__).parent)
for name, value in stack.exports(stack.declare(read)).items():
    pulumi.export(name, value)
