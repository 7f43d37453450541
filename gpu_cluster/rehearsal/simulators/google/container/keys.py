"""Cloud KMS keys of other projects: whether GKE may encrypt a cluster's secrets with one.

An inventory lists the keys on which GKE's service agent has no role. Any other key exists, and the
agent has the role on it.
"""

from collections.abc import Mapping
from typing import Any

from gpu_cluster.rehearsal.simulators.google import policies
from gpu_cluster.rehearsal.simulators.google.api.call import Call
from gpu_cluster.rehearsal.simulators.google.container.shared_vpc import GKE_AGENT
from gpu_cluster.rehearsal.simulators.google.errors import bad_request
from gpu_cluster.rehearsal.simulators.google.state import CloudState

_ENCRYPTER = "roles/cloudkms.cryptoKeyEncrypterDecrypter"


def check_key(cloud: CloudState, state: Mapping[str, Any]) -> None:
    """Raises ApiError if GKE may not use the key of this `Cluster`.

    The message is that of Cloud KMS, as Compute Engine passes it on (kubernetes-sigs/
    gcp-compute-persistent-disk-csi-driver pull request 590, 2020-08-24). GKE's own is not
    published; for an existing cluster, its API has the condition CLOUD_KMS_KEY_ERROR.
    """
    if not (key := (state.get("databaseEncryption") or {}).get("keyName")):
        return
    if key in cloud.not_granted:
        raise bad_request(
            f"Cloud KMS error when using key {key}: Permission "
            f"'cloudkms.cryptoKeyVersions.useToEncrypt' denied on resource '{key}' (or it may not "
            "exist)."
        )
    cloud.assume(
        f"GKE's service agent has {_ENCRYPTER} on {key}; gpu-cluster capacity asks whether it has"
    )


def _get_policy(call: Call) -> dict[str, Any]:
    if call.name not in call.cloud.not_granted and "/cryptoKeys/" in call.name:
        binding = {"role": _ENCRYPTER, "members": [GKE_AGENT]}
        return policies.get(call) | {"bindings": [binding]}
    return policies.get(call)


_PREFIX = "cloudkms.projects.locations.keyRings."
METHODS = {f"{_PREFIX}getIamPolicy": _get_policy, f"{_PREFIX}cryptoKeys.getIamPolicy": _get_policy}
