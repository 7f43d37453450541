"""The kubeconfig of an EKS cluster."""

from ..catalog.clouds import AWS
from ..kubeconfig import document


def kubeconfig(
    *,
    name: str,
    endpoint: str,
    ca_certificate: str,
    region: str,
    profile: str | None = None,
    role: str | None = None,
) -> str:
    """A kubeconfig with `aws eks get-token`; `endpoint` is a URL, the CA is base64."""
    return document(
        AWS,
        name,
        {"server": endpoint, "certificate-authority-data": ca_certificate},
        args=[
            "--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json",
            *(["--role-arn", role] if role else []),
        ],
        env=[{"name": "AWS_PROFILE", "value": profile}] if profile else [],
    )  # fmt: skip
