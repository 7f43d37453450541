"""The roles that accounts of Google's and of the nodes need in other projects; read-only.

Queries the IAM policies of the Cloud KMS key, its key ring and project, and of the Artifact
Registry repository.
"""

from collections.abc import Iterator

from gpu_cluster.components.gke.cluster_args import KMS_KEY, GkeControlPlaneArgs
from gpu_cluster.components.gke.node_account import account_id, foreign_repository, grant_command
from gpu_cluster.components.schema.outputs import text
from gpu_cluster.stacks.capacity.google_api import GoogleApi
from gpu_cluster.stacks.capacity.google_network import granted
from gpu_cluster.stacks.capacity.verdict import Finding, Unknown

_ENCRYPTER = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
_READER = "roles/artifactregistry.reader"


def grant_findings(
    cluster: GkeControlPlaneArgs, registry: str | None, *, project: str, api: GoogleApi
) -> Iterator[Finding]:
    """A finding for each grant that is missing or not known. `registry`: `images.registry`."""
    yield from _secrets_key(text(cluster.secrets_encryption_key or ""), project, api)
    yield from registry_findings(registry, project, account_id(cluster.name), api)


def _secrets_key(key: str, project: str, api: GoogleApi) -> Iterator[Finding]:
    """Without the role, GKE does not create the cluster (terraform-provider-google-beta,
    resource_container_cluster_test.go, grants it first)."""
    match = KMS_KEY.fullmatch(key)
    if match is None:
        return
    about = api.get("cloudresourcemanager", f"projects/{project}")
    if isinstance(about, Unknown):
        reason = f"it is not known whether GKE's service agent may use the key: {about.reason}"
        yield Finding.unknown("cluster.secretsEncryptionKey", reason)
        return
    agent = f"service-{about['projectNumber']}@container-engine-robot.iam.gserviceaccount.com"
    ring = key.partition("/cryptoKeys/")[0]
    policies = [
        api.policy("cloudkms", f"{key}:getIamPolicy"),
        api.policy("cloudkms", f"{ring}:getIamPolicy"),
        api.policy("cloudresourcemanager", f"projects/{match['project']}:getIamPolicy"),
    ]
    fix = (
        f"grant it: gcloud kms keys add-iam-policy-binding {key} --member serviceAccount:{agent} "
        f"--role {_ENCRYPTER}"
    )
    key_name = "cluster.secretsEncryptionKey"
    yield from granted(key_name, policies, _ENCRYPTER, agent, "the key, its ring or project", fix)


def registry_findings(
    registry: str | None, project: str, account: str, api: GoogleApi
) -> Iterator[Finding]:
    """Whether the nodes' service account may pull from a repository of another project."""
    if (repository := foreign_repository(registry, project)) is None:
        return
    location, owner, name = repository
    path = f"projects/{owner}/locations/{location}/repositories/{name}"
    policies = [
        api.policy("artifactregistry", f"{path}:getIamPolicy"),
        api.policy("cloudresourcemanager", f"projects/{owner}:getIamPolicy"),
    ]
    nodes = f"{account}@{project}.iam.gserviceaccount.com"
    fix = f"once the first update has created it: {grant_command(repository, nodes)}"
    yield from granted("images.registry", policies, _READER, nodes, f"{name} or {owner}", fix)
