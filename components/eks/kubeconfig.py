"""The kubeconfig of an EKS cluster."""

from ..access.kubeconfig import document
from ..catalog.clouds import AWS
from .provider_args import AwsProviderArgs


def kubeconfig(name: str, provider: AwsProviderArgs, *, endpoint: str, ca_certificate: str) -> str:
    """A kubeconfig with `aws eks get-token`; `endpoint` is a URL, the CA is base64."""
    return document(
        AWS,
        name,
        {"server": endpoint, "certificate-authority-data": ca_certificate},
        args=[
            "--region", provider.region, "eks", "get-token", "--cluster-name", name,
            "--output", "json", *(["--role-arn", provider.role] if provider.role else []),
        ],
        env=[{"name": "AWS_PROFILE", "value": provider.profile}] if provider.profile else [],
    )  # fmt: skip
