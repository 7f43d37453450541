"""GPUs on Kubernetes, as one stack, which its file `Pulumi.STACK.yaml` describes."""

from pathlib import Path

import pulumi

from gpu_cluster.components import stack

cluster = stack.from_file(Path(__file__).parent)
for name, value in stack.exports(cluster).items():
    pulumi.export(name, value)
