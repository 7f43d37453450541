"""The adapters of a node that a pod claims, with NCCL's plugin for them, as GKE's DRANET has them.

The pod is that of container-engine-accelerators 2433eeed, gpudirect-rdma/
nccl-test-managed-rdma.yaml. It loads no SDK of Pulumi, which users who submit jobs do not have.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ..catalog import kubernetes as names
from ..cluster import Fabric

CLAIM = "network"
_SETUP = f"{names.GIB_MOUNT}/scripts/set_nccl_env.sh"
_READY = "/run/nccl-plugin-installed"


def claim_template(fabric: Fabric) -> dict[str, Any]:
    """The spec of a ResourceClaimTemplate for all adapters of a node."""
    devices = {
        "deviceClassName": fabric.resource,
        "allocationMode": "ExactCount",
        "count": fabric.claimed,
    }
    return {"spec": {"devices": {"requests": [{"name": CLAIM, "exactly": devices}]}}}


def claims(name: str) -> list[dict[str, str]]:
    """The `resourceClaims` of a pod; containers name them in `resources.claims`."""
    return [{"name": CLAIM, "resourceClaimTemplateName": name}]


def plugin(fabric: Fabric) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes and mounts of NCCL's plugin. A node's first pod may start before the installer
    has finished, and waits for the file that it writes last."""
    paths = {
        "nccl-plugin": (fabric.plugin, names.GIB_MOUNT, "Directory"),
        "nccl-plugin-installed": (
            f"{fabric.plugin}/{names.GIB_INSTALLED}", _READY, "File",
        ),
    }  # fmt: skip
    volumes = [
        {"name": name, "hostPath": {"path": host, "type": kind}}
        for name, (host, _, kind) in paths.items()
    ]
    mounts = [
        {"name": name, "mountPath": inside, "readOnly": True}
        for name, (_, inside, _) in paths.items()
    ]
    return volumes, mounts


def with_variables(command: Sequence[str], own: Iterable[str]) -> list[str]:
    """The command with the variables of Google's script, which depend on the plugin's version, and
    its libraries before the image's (docs.cloud.google.com/ai-hypercomputer/docs/nccl). Of those in
    `own`, the names of the pod's variables, NCCL's keep their values."""
    kept = [f"{name}=$({name})" for name in own if name.startswith("NCCL_")]
    path = f"{names.GIB_MOUNT}/lib64:${{LD_LIBRARY_PATH:-{names.DRIVER_SEARCH_PATH}}}"
    script = f'source {_SETUP}; LD_LIBRARY_PATH={path} exec env "$@"'
    return ["/bin/bash", "-c", script, "bash", *kept, *command]
