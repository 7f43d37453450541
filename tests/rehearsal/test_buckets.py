"""Jobs that read a bucket by their identity, with one thing wrong at a time with that.

What is right is in test_storage_and_operator.py.

No kubelet mounts anything in a rehearsal: what the driver on the node would say of each bucket is
asked of the simulated cloud, by what it holds.
"""

from typing import Any

import pytest

from gpu_cluster.rehearsal.scenario import Rehearsal
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import Rehearse, changed, configured, patched, said

GRANT = "gcp:storage/bucketIAMMember:BucketIAMMember"
CLUSTER = "gcp:container/cluster:Cluster"
JOB = "kubernetes:batch/v1:Job"
ADDON = "aws:eks/addon:Addon"
POLICY = "aws:iam/rolePolicy:RolePolicy"
VOLUME = "kubernetes:core/v1:PersistentVolume"
IDENTITY = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
ON = {"train-gke": "train", "train": "sample-gpu-job"}
"""Environment -> its job."""
MEMBER = "serviceAccount:my-project.svc.id.goog[default/trainer]"


def in_one_zone(config: dict[str, Any]) -> None:
    """The pool of `train` has only the zone of its claims' disks."""
    config["gpu-cluster:gpuPools"]["train-gpu"]["zones"] = ["us-east-1a"]


def with_bucket(stack: str) -> Mutation:
    """The environment's job reads `data` and writes to `out`, as the account `trainer`."""

    def change(config: dict[str, Any]) -> None:
        account: dict[str, Any] = {"buckets": {"data": "read", "out": "write"}}
        config["gpu-cluster:serviceAccounts"] = {"trainer": account}
        config.setdefault("gpu-cluster:volumeClaims", {})["results"] = {"size": "10Gi"}
        if stack == "train":
            in_one_zone(config)
            account["bucketKeys"] = ["arn:aws:kms:us-east-1:123456789012:key/data"]
        config["gpu-cluster:workloads"][ON[stack]] |= {
            "serviceAccount": "trainer",
            "volumes": {
                "data": {"mountPath": "/data", "bucket": "data"},
                "out": {"mountPath": "/out", "bucket": "out", "readOnly": False},
                "results": {"mountPath": "/results", "claim": "results", "readOnly": False},
                "code": {"mountPath": "/code", "files": ["requirements.txt"]},
            },
        }

    return configured(change)


GKE = "Job default/train starts no container: bucket "
EKS = "Job default/sample-gpu-job starts no container: bucket "
MUTATIONS: dict[str, tuple[str, list[Mutation], str]] = {
    "GKE: a role that does not read": ("train-gke",
        [changed(GRANT, 'props["role"] = "roles/storage.objectCreator"', name="trainer.data")],
        f"{GKE}data: googleapi: Error 403: {MEMBER} may not read it: it has none of "
        "roles/storage.objectViewer, "),
    "GKE: a role that does not write": ("train-gke",
        [changed(GRANT, 'props["role"] = "roles/storage.objectViewer"', name="trainer.out")],
        f"{GKE}out: googleapi: Error 403: {MEMBER} may not write to it: "),
    "GKE: the role is another account's": ("train-gke",
        [changed(GRANT, 'props["member"] = props["member"].replace("trainer", "train")')],
        f"{GKE}data: googleapi: Error 403: {MEMBER} may not read it: "),
    "GKE: the cluster has no driver": ("train-gke",
        [changed(CLUSTER, 'props["addons_config"] = None')],
        f"{GKE}data: the cluster has no Cloud Storage FUSE driver"),
    "GKE: the pod has no sidecar": ("train-gke",
        [changed(JOB, 'del props["spec"]["template"]["metadata"]["annotations"]'
            '["gke-gcsfuse/volumes"]')], f"{GKE}data: the pod has no sidecar to mount it"),
    "GKE: the pod runs as nobody": ("train-gke",
        [changed(JOB, 'del props["spec"]["template"]["spec"]["serviceAccountName"]')],
        f"{GKE}data: googleapi: Error 403: "
        "serviceAccount:my-project.svc.id.goog[default/default] may not read it: "),
    "the files of a volume are not there": (
        "train-gke",
        [changed(JOB, """
            for volume in props["spec"]["template"]["spec"]["volumes"]:
                if "configMap" in volume:
                    volume["configMap"]["name"] = "other"
         """)],
        'Job default/train starts no container: MountVolume.SetUp failed for volume "code" : '
        'configmap "other" not found',
    ),
    "EKS: the pod runs as nobody": ("train",
        [changed(JOB, 'del props["spec"]["template"]["spec"]["serviceAccountName"]')],
        f"{EKS}data: mount-s3: No signing credentials available: service account default/default "
        "has no Pod Identity association"),
    "EKS: the identity is another account's": ("train",
        [changed(IDENTITY, 'props["service_account"] = "train"', name="pods-trainer")],
        "does not let pods.eks.amazonaws.com take it"),
    "EKS: a policy without the right to list": ("train",
        [changed(POLICY, 'props["policy"] = props["policy"].replace("s3:ListBucket", '
            '"s3:GetBucketAcl")', name="k8s-ml-pods-trainer")], "may not do s3:ListBucket"),
    "EKS: a policy on another bucket": ("train",
        [changed(POLICY, 'props["policy"] = props["policy"].replace(":::out/*", ":::other/*")',
            name="k8s-ml-pods-trainer")],
        "may not do s3:GetObject, s3:PutObject, s3:AbortMultipartUpload, s3:DeleteObject"),
    "EKS: no right on the key of the bucket": ("train",
        [changed(POLICY, 'props["policy"] = props["policy"].replace("kms:Decrypt", '
            '"kms:DescribeKey")', name="k8s-ml-pods-trainer")], "may not do kms:Decrypt"),
    "EKS: the bucket is in another region": ("train",
        [changed(VOLUME, 'props["spec"]["mount_options"][0] = "region eu-west-1"',
            name="default.trainer.data")],
        f"{EKS}data: mount-s3: initial ListObjectsV2 failed for bucket data in region eu-west-1: "
        "PermanentRedirect"),
    "EKS: only Mountpoint's own user writes": ("train",
        [changed(VOLUME, 'props["spec"]["mount_options"].remove("file-mode=666")',
            name="default.trainer.out"), changed(JOB,
            'props["spec"]["template"]["spec"].pop("securityContext", None)')],
        f"{EKS}out: Permission denied for images whose user is not Mountpoint's"),
    "EKS: the driver does not come to GPU nodes": ("train",
        [changed(ADDON, 'props["configuration_values"] = None',
            name="k8s-ml-aws-mountpoint-s3-csi-driver")],
        f"{EKS}data: the driver does not run on the node: it does not tolerate nvidia.com/gpu"),
    "EKS: the cluster has no driver": ("train",
        [changed(ADDON, 'props |= {"addon_name": "snapshot-controller", '
            '"configuration_values": None}', name="k8s-ml-aws-mountpoint-s3-csi-driver")],
        f"{EKS}data: the cluster has no aws-mountpoint-s3-csi-driver addon"),
    "EKS: the volume takes the driver's rights": ("train",
        [changed(VOLUME, 'del props["spec"]["csi"]["volume_attributes"]["authenticationSource"]',
            name="default.trainer.data")],
        f"{EKS}data: mount-s3: No signing credentials available: the driver's own"),
    "EKS: the volume cannot be overwritten": ("train",
        [changed(VOLUME, 'props["spec"]["mount_options"].remove("allow-overwrite")',
            name="default.trainer.out")], f"{EKS}out: mounted without allow-overwrite"),
}  # fmt: skip


@pytest.mark.prove
@pytest.mark.parametrize("what", MUTATIONS)
def test_one_wrong_thing_is_named(rehearse: Rehearse, what: str) -> None:
    """The rehearsal fails with the job, the bucket, and who may not do what."""
    stack, mutations, message = MUTATIONS[what]
    failures = said(rehearse(with_bucket(stack), *mutations, stack=stack))
    assert any(message in failure for failure in failures), failures


@pytest.mark.prove(reason="the simulated cloud's rule is seen in every run")
@pytest.mark.parametrize("waits", [True, False])
def test_a_service_account_and_its_job_come_in_one_update(rehearse: Rehearse, waits: bool) -> None:
    """The job's pods are created when its association works; at once, they never get a role."""
    at_once = patched(
        "from gpu_cluster.components.eks import effective\neffective.EFFECTIVE_SECONDS = 0"
    )
    # With the zone from the start: while a node group is replaced, associations work at once.
    one_zone = configured(in_one_zone)
    rehearsal = rehearse(one_zone, *([] if waits else [at_once]), stack="train")
    assert rehearsal.failures == []
    (cluster,) = rehearsal.sandbox.cloud.account.clusters.values()  # type: ignore[attr-defined]
    cluster.grew -= 3600  # its node groups and associations have been there for long
    for account in cluster.identified:
        cluster.identified[account] -= 3600
    with_bucket("train")(rehearsal.sandbox.folder / "program")
    again = Rehearsal(sandbox=rehearsal.sandbox)
    again.run_up_only()
    late = [line for line in said(again) if "gets no credentials" in line]
    assert bool(late) is not waits
    if waits:
        assert said(again) == []
        return
    (line,) = late
    assert line.startswith("Job default/sample-gpu-job: pod default/sample-gpu-job-")
