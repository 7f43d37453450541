"""A pod with the rights of the stack's DCGM exporter, which reads the GPUs through NVML.

The exporter itself cannot be built here: DCGM is not open source.
"""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.components.cluster import GpuPool
from gpu_cluster.components.gpu.dcgm_pod import Group, spec
from gpu_cluster.components.gpu.monitoring_args import MonitoringArgs
from gpu_cluster.components.schema.decode import camel
from gpu_cluster.rehearsal.gpu_node.machine import NAME

POD = "dcgm-exporter-rights"
PODS = "/api/v1/namespaces/default/pods"


def manifest(pool: GpuPool, image: str) -> dict[str, Any]:
    """The pod on the real node; `image` asks for all GPUs, as the exporter's does."""
    group = Group(
        runtime_class=pool.runtime_class,
        driver_directory=pool.driver_directory,
        gke_plugin=False,
        shared=False,
        pools=[pool],
    )
    template: Any = spec(group, MonitoringArgs(enabled=True), "")["template"]
    security = template["spec"]["containers"][0]["security_context"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD},
        "spec": {
            "nodeName": NAME,
            "restartPolicy": "Never",
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": POD,
                    "image": image,
                    "imagePullPolicy": "Never",
                    "securityContext": _camel(security),
                    "command": ["nvidia-smi"],
                    "args": [
                        "--query-gpu=gpu_name,uuid,temperature.gpu,power.draw,memory.used",
                        "--format=csv,noheader",
                    ],
                }
            ],
        },
    }


def _camel(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        camel(key): _camel(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
    }
