"""Kubeconfig documents with credentials from an exec plugin, never with a token."""

import json
from collections.abc import Mapping
from typing import Any

from ..catalog.clouds import Cloud

_EXEC_API = "client.authentication.k8s.io/v1beta1"


def document(cloud: Cloud, name: str, cluster: Mapping[str, Any], **plugin: Any) -> str:
    """The kubeconfig of a cluster in which the cloud's command signs in; `plugin`: its arguments
    and other fields of an `ExecConfig`."""
    run = {"apiVersion": _EXEC_API, "command": cloud.command, "installHint": cloud.install}
    user = {"exec": {**run, "interactiveMode": "Never", **plugin}}
    # JSON is valid YAML; sorted keys keep the text, and thus every preview, stable.
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        sort_keys=True,
    )
