"""The Deployment of a controller of `gpu_cluster.components.batch`, and its configuration file."""

import hashlib
import json
from typing import Any

from pulumi_kubernetes.apps.v1 import DeploymentSpecArgsDict

from .controller_args import WEBHOOK_PORT, ControllerArgs

_HEALTH_PORT = 8081
_CONFIG = "/controller_manager_config.yaml"
_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"


def labels(args: ControllerArgs) -> dict[str, str]:
    """The labels of its objects, and the additional ones of its pods."""
    return {"app.kubernetes.io/name": args.source, "control-plane": "controller-manager"}


def configuration(args: ControllerArgs) -> str:
    """The controller's configuration file, as JSON, which is valid YAML."""
    prefix = args.source
    document = {
        **args.config,
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f":{_HEALTH_PORT}"},
        # Nothing in this stack reads the metrics, and clients must be authenticated by the API
        # server.
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": WEBHOOK_PORT},
        "leaderElection": {
            "leaderElect": True,
            "resourceName": args.lease,
            "resourceNamespace": f"{prefix}-system",
        },
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": f"{prefix}-webhook-service",
            "webhookSecretName": f"{prefix}-webhook-server-cert",
        },
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def deployment(args: ControllerArgs, name: str) -> DeploymentSpecArgsDict:
    """The Deployment's spec; the pods restart when the controller's configuration changes."""
    return {
        "replicas": 1,
        # Both are ready once they have certificates and listen; their webhooks are served a moment
        # later (`setupControllers` in each main.go): a job that is created in between is refused.
        "min_ready_seconds": 5,
        "selector": {"match_labels": labels(args)},
        "template": {
            "metadata": {
                "labels": labels(args),
                # The controller reads its configuration only at startup.
                "annotations": {
                    "gpu-cluster/config": hashlib.sha256(configuration(args).encode()).hexdigest()
                },
            },
            "spec": {
                "service_account_name": name,
                "security_context": {
                    "run_as_non_root": True,
                    "seccomp_profile": {"type": "RuntimeDefault"},
                },
                "termination_grace_period_seconds": 10,
                "containers": [
                    {
                        "name": "manager",
                        "image": args.image.reference,
                        "command": ["/manager"],
                        "args": [f"--config={_CONFIG}", "--zap-log-level=2"],
                        "ports": [{"name": "webhook", "container_port": WEBHOOK_PORT}],
                        "liveness_probe": _probe("/healthz", delay=15, period=20),
                        "readiness_probe": _probe("/readyz", delay=5, period=10),
                        "resources": {
                            "requests": {"cpu": "500m", "memory": args.memory},
                            "limits": {"memory": args.memory},
                        },
                        "security_context": {
                            "allow_privilege_escalation": False,
                            "read_only_root_filesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "volume_mounts": [
                            {
                                "name": "config",
                                "mount_path": _CONFIG,
                                "sub_path": _CONFIG.strip("/"),
                                "read_only": True,
                            },
                            {
                                "name": "certificates",
                                "mount_path": _CERTIFICATES,
                                "read_only": True,
                            },
                        ],
                    }
                ],
                "volumes": [
                    {"name": "config", "config_map": {"name": f"{args.source}-manager-config"}},
                    {
                        "name": "certificates",
                        "secret": {"secret_name": f"{args.source}-webhook-server-cert"},
                    },
                ],
            },
        },
    }


def _probe(path: str, *, delay: int, period: int) -> Any:
    return {
        "http_get": {"path": path, "port": _HEALTH_PORT},
        "initial_delay_seconds": delay,
        "period_seconds": period,
    }
