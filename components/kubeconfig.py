"""Kubeconfig documents with credentials from an exec plugin, never with a token."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_EXEC_API = "client.authentication.k8s.io/v1beta1"


def gke(*, name: str, endpoint: str, ca_certificate: str | None = None) -> str:
    """A kubeconfig for GKE, with `gke-gcloud-auth-plugin`; `ca_certificate` is base64, as in the
    API, and None if the endpoint's certificate is issued by a public authority.

    The plugin authenticates like the Google provider, with Application Default Credentials. Without
    the argument it would use the account of `gcloud auth login`, which may be another one, or none
    (kubernetes/cloud-provider-gcp, cmd/gke-gcloud-auth-plugin/cred.go).
    """
    return _document(
        name,
        {
            "server": f"https://{endpoint}",
            **({} if ca_certificate is None else {"certificate-authority-data": ca_certificate}),
        },
        {
            "apiVersion": _EXEC_API,
            "command": "gke-gcloud-auth-plugin",
            "args": ["--use_application_default_credentials"],
            "installHint": "install it with: gcloud components install gke-gcloud-auth-plugin",
            "provideClusterInfo": True,
            "interactiveMode": "Never",
        },
    )


def eks(
    *,
    name: str,
    endpoint: str,
    ca_certificate: str,
    region: str,
    profile: str | None = None,
    role: str | None = None,
) -> str:
    """A kubeconfig for EKS with `aws eks get-token`; `endpoint` is a URL, the CA is base64."""
    arguments: Sequence[str] = [
        "--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json",
        *(["--role-arn", role] if role else []),
    ]  # fmt: skip
    return _document(
        name,
        {"server": endpoint, "certificate-authority-data": ca_certificate},
        {
            "apiVersion": _EXEC_API,
            "command": "aws",
            "args": arguments,
            "env": [{"name": "AWS_PROFILE", "value": profile}] if profile else [],
            "installHint": "install the AWS CLI, version 2",
            "interactiveMode": "Never",
        },
    )


def _document(name: str, cluster: Mapping[str, Any], plugin: Mapping[str, Any]) -> str:
    # JSON is valid YAML; sorted keys keep the text, and thus every preview, stable.
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"exec": plugin}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        sort_keys=True,
    )
