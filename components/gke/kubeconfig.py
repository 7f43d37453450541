"""The kubeconfig of a GKE cluster."""

from ..catalog.clouds import GOOGLE
from ..kubeconfig import document


def kubeconfig(*, name: str, endpoint: str, ca_certificate: str | None = None) -> str:
    """A kubeconfig with `gke-gcloud-auth-plugin`; `ca_certificate` is base64, as in the API, and
    None if the endpoint's certificate is issued by a public authority.

    The plugin authenticates like the Google provider, with Application Default Credentials. Without
    the argument it would use the account of `gcloud auth login`, which may be another one, or none
    (kubernetes/cloud-provider-gcp, cmd/gke-gcloud-auth-plugin/cred.go).
    """
    certificate = (
        {"certificate-authority-data": ca_certificate} if ca_certificate is not None else {}
    )
    return document(
        GOOGLE,
        name,
        {"server": f"https://{endpoint}", **certificate},
        args=["--use_application_default_credentials"],
        provideClusterInfo=True,
    )
