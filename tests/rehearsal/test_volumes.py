"""A job on GKE with a disk and a file system, with one thing wrong at a time with them.

What is right is in test_storage_and_operator.py. No kubelet mounts anything in a rehearsal: the
simulated cloud says whether a driver creates a volume, and whether the node can attach it and the
container use it.
"""

from typing import Any

import pytest

from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, changed, configured, said

CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"
CLUSTER = "gcp:container/cluster:Cluster"
JOB = "kubernetes:batch/v1:Job"
SERVICE = "gcp:projects/service:Service"
FILESTORE = "gpu-cluster-filestore"


def with_volumes(config: dict[str, Any], job: str = "train", pool: str = "train-gpu") -> None:
    """The job, like the one of train-gke, runs as user 1000 on a machine that attaches Hyperdisk
    only."""
    config["gpu-cluster:cluster"]["location"] = "us-central1-b"
    config["gpu-cluster:gpuPools"][pool] = {"machineType": "g4-standard-48"}
    config["gpu-cluster:volumeClaims"] = {
        "fast": {"size": "10Gi", "storageClass": "gpu-cluster-hyperdisk"},
        "shared": {"size": "1Ti", "storageClass": FILESTORE, "accessMode": "ReadWriteMany"},
    }
    config["gpu-cluster:workloads"][job] = {
        **config["gpu-cluster:workloads"]["train"],
        "pool": pool,
        "nodeSelector": {},
        "runAsUser": 1000,
        "volumes": {
            name: {"mountPath": f"/{name}", "claim": name, "readOnly": False}
            for name in ("fast", "shared")
        },
    }


MUTATIONS: dict[str, tuple[Mutation, str]] = {
    "the claim has the default class": (
        changed(CLAIM, 'props["spec"]["storage_class_name"] = "standard-rwo"', name="fast"),
        "pd-balanced disk type cannot be used by g4-standard-48 machine type., badRequest",
    ),
    "the class of Filestore names no network": (
        changed(CLASS, 'del props["parameters"]["network"]', name=FILESTORE),
        "of its claim shared: failed to provision volume with StorageClass "
        f'"{FILESTORE}": rpc error: code = InvalidArgument desc = googleapi: Error 400: network '
        "'default' does not exist., badRequest",
    ),
    "the API of Filestore is not enabled": (
        changed(SERVICE, 'props["service"] = "dns.googleapis.com"'),
        "Cloud Filestore API has not been used in project my-project before or it is disabled.",
    ),
    "the cluster has no driver of Filestore": (
        changed(CLUSTER, 'props["addons_config"] = None'),
        "the cluster has no gcpFilestoreCsiDriverConfig",
    ),
    "the volumes stay root's": (
        changed(JOB, 'del props["spec"]["template"]["spec"]["securityContext"]["fsGroup"]'),
        "Permission denied: the file system is root's, the container runs as user 1000",
    ),
}


@pytest.mark.prove(
    reason="test_google_attached has each refusal, test_storage_and_operator what works"
)
@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_is_named(rehearse: Rehearse, what: str) -> None:
    """In the words of the driver that refuses."""
    mutation, message = MUTATIONS[what]
    failures = said(rehearse(configured(with_volumes), mutation, stack="train-gke", deadline=60))
    assert any(message in failure for failure in failures), failures
