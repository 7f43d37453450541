"""Rules of the pack that protect others: what holds a team's members to them, whose jobs no preview
judges. `tests/rehearsal/test_teams.py` submits what is refused."""

from typing import Any

GPU = "nvidia.com/gpu"
TOLERATION = {"key": GPU, "operator": "Exists"}

REFUSED: dict[str, list[tuple[dict[str, Any], dict[str, Any], str]]] = {
    "gpu-limits": [
        ({"tolerations": [TOLERATION]}, {}, f"needs {GPU} in the limits"),
        ({"nodeSelector": {"gpu-cluster/pool": "train-gpu"}}, {}, f"needs {GPU} in the limits"),
        (
            {"tolerations": [TOLERATION]},
            {"resources": {"limits": {GPU: 0}}},
            f"needs {GPU} in the limits",
        ),
        ({"tolerations": [{"operator": "Exists"}]}, {}, "tolerates the taints of every node"),
        ({"nodeName": "node-1"}, {}, "bypasses the scheduler"),
    ],
    "gpu-all": [
        (
            {},
            {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "A"}]},
            "variables: drop NVIDIA_VISIBLE_DEVICES; variables that begin with NVIDIA_",
        ),
        (
            {},
            {"envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "mine"}}]},
            "envFrom cannot have a prefix",
        ),
    ],
}
"""Rule -> keys of a JobSet's pod, keys of its container, and a part of the API server's answer."""

ELSEWHERE = {
    "pod-security-baseline": "the namespace enforces it: test_batch.py, privileged_pod_in",
    "host-paths": "baseline admits no host paths",
    "namespace-enforces": "members create no namespaces: DENIED in test_teams.py",
    "rbac-too-broad": "members create no roles or bindings: DENIED in test_teams.py",
    "pod-security-restricted": "protects the pod itself; a namespace can enforce it by a label",
    "image-pinned": "protects the stack's own declarations",
    "explicit-provider": "is about the program's own provider",
    "kubeconfig-credentials": "is about the program's own kubeconfig",
}
"""Rule -> what protects others instead, or why it protects nobody else."""
