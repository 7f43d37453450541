"""The kubeconfig of a GKE cluster."""

from ..access.kubeconfig import document
from ..catalog.clouds import GOOGLE


def kubeconfig(*, name: str, endpoint: str, ca_certificate: str | None = None) -> str:
    """A kubeconfig with `gke-gcloud-auth-plugin`; `ca_certificate` is base64, as in the API, and
    None if the endpoint's certificate is issued by a public authority.

    The plugin authenticates like the Google provider, with Application Default Credentials. Without
    the argument it would use the account of `gcloud auth login`, which may be another one, or none
    (kubernetes/cloud-provider-gcp, cmd/gke-gcloud-auth-plugin/cred.go).
    """
    cluster = {"server": f"https://{endpoint}"}
    if ca_certificate is not None:
        cluster["certificate-authority-data"] = ca_certificate
    arguments = ["--use_application_default_credentials"]
    return document(GOOGLE, name, cluster, args=arguments, provideClusterInfo=True)
