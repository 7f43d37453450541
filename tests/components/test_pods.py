"""Who pods are, and what they mount: the objects and grants that a stack then has."""

import copy
import json
from typing import Any

import pytest

from gpu_cluster.components.access.service_accounts import ServiceAccountArgs
from gpu_cluster.components.gke.warnings import shared_rights
from tests.components.recording import Recording, record
from tests.program.environments import ANSWERS, as_engine_config, run_program, values_of

MEMBER = "serviceAccount:my-project.svc.id.goog[default/trainer]"


def declared(stack: str, **blocks: Any) -> Recording:
    """The stack with a training job `ddp` on one node; `job` are more keys of it,
    `network` is the cluster's."""
    values = copy.deepcopy(values_of(stack))
    (pool, *_) = values["gpu-cluster:gpuPools"]
    job = {"pool": pool, "image": "example.com/a:1", "nodes": 1, "command": ["train.py"]}
    values["gpu-cluster:batch"] = {"jobSet": True}
    if network := blocks.pop("network", {}):
        values["gpu-cluster:cluster"]["network"] = network
    values["gpu-cluster:trainingJobs"] = {"ddp": {**job, **blocks.pop("job", {})}}
    values |= {f"gpu-cluster:{key}": value for key, value in blocks.items()}
    return record(run_program, config=as_engine_config(values), outputs=ANSWERS)


def pod(found: Recording) -> dict[str, Any]:
    """The pod template of the training job."""
    (job_set,) = [each for each in found.resources if each.name == "ddp" and "JobSet" in each.type]
    (replicated,) = job_set.inputs["spec"]["replicatedJobs"]
    template: dict[str, Any] = replicated["template"]["spec"]["template"]
    return template


ACCOUNT = {"trainer": {"buckets": {"data": "read", "out": "write"}}}
VOLUMES = {
    "data": {"mountPath": "/data", "bucket": "data"},
    "out": {"mountPath": "/out", "bucket": "out", "readOnly": False},
}


@pytest.mark.parametrize("stack", ["train-gke", "autopilot"])
def test_gke_grants_each_bucket_to_the_account_itself(stack: str) -> None:
    """No role on the project, no service account of Google Cloud, and never more than is asked; a
    volume that writes is not read-only. The rest is in `everything-gke.txt`."""
    found = declared(
        stack, serviceAccounts=ACCOUNT, job={"serviceAccount": "trainer", "volumes": VOLUMES}
    )
    grants = found.of("gcp:storage/bucketIAMMember:BucketIAMMember")
    assert {
        (grant.inputs["bucket"], grant.inputs["role"], grant.inputs["member"]) for grant in grants
    } == {
        ("data", "roles/storage.objectViewer", MEMBER),
        ("out", "roles/storage.objectUser", MEMBER),
    }
    template = pod(found)
    assert template["spec"]["serviceAccountName"] == "trainer"
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    assert volumes["data"]["csi"]["readOnly"] is True
    assert "readOnly" not in volumes["out"]["csi"]
    mounts = {mount["name"]: mount for mount in template["spec"]["containers"][0]["volumeMounts"]}
    assert mounts["out"] == {"name": "out", "mountPath": "/out"}


def test_a_job_waits_for_the_rights_of_its_account() -> None:
    """A pod that starts before has none, and fails."""
    found = declared(
        "train-gke", serviceAccounts=ACCOUNT, job={"serviceAccount": "trainer", "volumes": VOLUMES}
    )
    (job_set,) = [each for each in found.resources if each.name == "ddp" and "JobSet" in each.type]
    waited = " ".join(job_set.depends_on)
    assert "bucketIAMMember" in waited
    assert "ServiceAccount::trainer" in waited


@pytest.mark.parametrize("stack", ["train-gke", "autopilot"])
def test_jobs_that_mount_a_bucket_do_not_run_again_for_its_annotations(stack: str) -> None:
    """A version that sets other annotations for the sidecar replaces no job that exists."""
    (pool, *_) = values_of(stack)["gpu-cluster:gpuPools"]
    job = {"serviceAccount": "trainer", "volumes": VOLUMES}
    workload = {"kind": "job", "pool": pool, "image": "example.com/a:1", **job}
    found = declared(stack, serviceAccounts=ACCOUNT, job=job, workloads={"web": workload})
    (job_set,) = [each for each in found.resources if each.name == "ddp" and "JobSet" in each.type]
    paths = {
        "spec.replicatedJobs[0].template.spec.template": (job_set, pod(found)),
        "spec.template": (
            web := found.one("kubernetes:batch/v1:Job", "web"),
            web.inputs["spec"]["template"],
        ),
    }
    for path, (resource, template) in paths.items():
        annotations = template["metadata"]["annotations"]
        assert "gke-gcsfuse/memory-limit" in annotations
        for annotation in annotations:
            assert f'{path}.metadata.annotations["{annotation}"]' in resource.ignore_changes


def test_eks_gives_the_account_a_role_with_these_buckets_alone() -> None:
    """One that is only read gets no right to write."""
    found = declared("train", serviceAccounts=ACCOUNT)
    policy = found.one("aws:iam/rolePolicy:RolePolicy", "k8s-ml-pods-trainer").inputs["policy"]
    assert json.loads(policy)["Statement"] == [
        {"Effect": "Allow", "Action": "s3:ListBucket",
         "Resource": ["arn:aws:s3:::data", "arn:aws:s3:::out"]},
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::data/*"]},
        {"Effect": "Allow",
         "Action": ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"],
         "Resource": ["arn:aws:s3:::out/*"]},
    ]  # fmt: skip


@pytest.mark.parametrize(("right", "used"), [
    ("read", ["kms:Decrypt"]), ("write", ["kms:Decrypt", "kms:GenerateDataKey"]),
])  # fmt: skip
def test_eks_gives_the_rights_on_the_key_of_a_bucket(right: str, used: list[str]) -> None:
    """Reading an object that is encrypted with a key of one's own needs the key, writing more."""
    key = "arn:aws:kms:us-east-1:123456789012:key/1"
    account = {"trainer": {"buckets": {"data": right}, "bucketKeys": [key]}}
    found = declared("train", serviceAccounts=account)
    policy = found.one("aws:iam/rolePolicy:RolePolicy", "k8s-ml-pods-trainer").inputs["policy"]
    assert {"Effect": "Allow", "Action": used, "Resource": [key]} in json.loads(policy)["Statement"]


def test_eks_mounts_a_bucket_read_only_unless_the_account_writes() -> None:
    """By a volume and its claim, which pods name."""
    found = declared(
        "train", serviceAccounts=ACCOUNT, job={"serviceAccount": "trainer", "volumes": VOLUMES}
    )
    volumes = {
        each.inputs["metadata"]["name"]: each.inputs["spec"]
        for each in found.of("kubernetes:core/v1:PersistentVolume")
    }
    data, out = volumes["default.trainer.data"], volumes["default.trainer.out"]
    assert data["mountOptions"] == ["region us-east-1", "allow-other", "read-only"]
    assert out["mountOptions"] == [
        "region us-east-1", "allow-other", "allow-delete", "allow-overwrite",
        "file-mode=666", "dir-mode=777",
    ]  # fmt: skip
    assert (data["accessModes"], out["accessModes"]) == (["ReadOnlyMany"], ["ReadWriteMany"])
    named = {volume["name"]: volume for volume in pod(found)["spec"]["volumes"]}
    assert named["data"]["persistentVolumeClaim"] == {"claimName": "trainer.data"}


ALIKE = {
    "a": {"buckets": {"b-data": "read"}, "namespace": "team"},
    "a-b": {"buckets": {"data": "read"}, "namespace": "team"},
    "b": {"buckets": {"data": "read"}, "namespace": "team-a"},
}
"""With hyphens between them, namespace, account and bucket would be the same words."""


@pytest.mark.parametrize("stack", ["train-gke", "train"])
def test_no_two_accounts_meet_in_one_name(stack: str) -> None:
    """Neither to the engine nor to the cluster; nor does a claim of the stack meet a bucket's."""
    claims = {"a-b-data": {"size": "1Gi", "namespace": "team"}}
    teams: dict[str, dict[str, str]] = {"team": {}, "team-a": {}}
    found = declared(stack, serviceAccounts=ALIKE, volumeClaims=claims, namespaces=teams)
    urns = [resource.urn for resource in found.resources]
    assert len(urns) == len(set(urns))
    assert len(found.of("gcp:storage/bucketIAMMember:BucketIAMMember")) in (0, 3)
    for kind, made in (("PersistentVolume", 3), ("PersistentVolumeClaim", 4)):
        objects = [each.inputs["metadata"] for each in found.of(f"kubernetes:core/v1:{kind}")]
        # On EKS the claim of the stack has a volume of the stack too.
        disks = 1 if kind == "PersistentVolume" else 0
        assert len(objects) == (made + disks if stack == "train" else made - 3)
        assert len({(each.get("namespace"), each["name"]) for each in objects}) == len(objects)


def test_without_buckets_no_driver_comes() -> None:
    """The addon is there for those who mount something."""
    roles = {"trainer": {"roles": ["roles/bigquery.jobUser"]}}
    google = declared("train-gke", serviceAccounts=roles)
    assert "addonsConfig" not in google.one("gcp:container/cluster:Cluster").inputs
    found = declared("train", serviceAccounts={"trainer": {}})
    names = [each.inputs["addonName"] for each in found.of("aws:eks/addon:Addon")]
    assert "aws-mountpoint-s3-csi-driver" not in names
    assert found.of("kubernetes:core/v1:PersistentVolume") == []


def test_a_claim_is_the_stacks_and_not_the_jobs() -> None:
    """What a job wrote is there after it is replaced; a class of Filestore brings its driver."""
    claims = {
        "checkpoints": {
            "size": "1Ti", "storageClass": "gpu-cluster-filestore", "accessMode": "ReadWriteMany",
        }
    }  # fmt: skip
    volumes = {"out": {"mountPath": "/out", "claim": "checkpoints", "readOnly": False}}
    found = declared("train-gke", volumeClaims=claims, job={"volumes": volumes})
    claim = found.one("kubernetes:core/v1:PersistentVolumeClaim", "checkpoints")
    assert "Training" not in claim.parent
    assert claim.inputs["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Ti"}},
        "storageClassName": "gpu-cluster-filestore",
    }
    cluster = found.one("gcp:container/cluster:Cluster")
    assert cluster.inputs["addonsConfig"] == {"gcpFilestoreCsiDriverConfig": {"enabled": True}}


@pytest.mark.parametrize("stack", ["train-gke", "autopilot"])
def test_rights_can_be_confined_to_the_cluster(stack: str) -> None:
    """By an IAM condition on every grant, whose title is of the stack; left out, there is none."""
    account = {"buckets": {"data": "read"}, "roles": ["roles/bigquery.jobUser"]}
    both = [account, account | {"thisClusterOnly": True}]
    plain, confined = (declared(stack, serviceAccounts={"trainer": each}) for each in both)
    for kind in ("storage/bucketIAMMember:BucketIAMMember", "projects/iAMMember:IAMMember"):
        without = [each for each in plain.of(f"gcp:{kind}") if "trainer" in each.name]
        (grant,) = [each for each in confined.of(f"gcp:{kind}") if "trainer" in each.name]
        assert [each.inputs.get("condition") for each in without] == [None]
        condition = grant.inputs["condition"]
        assert condition["title"] == "stack gpu-cluster/test"
        (cluster,) = confined.of("gcp:container/cluster:Cluster")
        path = f"locations/{cluster.inputs['location']}/clusters/{cluster.inputs['name']}"
        assert condition["expression"] == (
            "request.auth.claims.google.providerId == "
            f'"https://container.googleapis.com/v1/projects/my-project/{path}"'
        )


def test_rights_that_other_clusters_share_are_a_warning() -> None:
    """In the namespace that every cluster has, without a condition; of which nobody knows whether
    Google ever takes it for true."""
    read = {"buckets": {"data": "read"}}  # type: dict[str, Any]
    accounts = {
        "shared": ServiceAccountArgs(**read),
        "own": ServiceAccountArgs(**read, namespace="team"),
        "confined": ServiceAccountArgs(**read, this_cluster_only=True),
        "nothing": ServiceAccountArgs(),
    }
    shared, confined = shared_rights(accounts, "p")
    assert shared.startswith("serviceAccounts.shared.namespace: default/shared is one identity")
    assert confined.startswith("serviceAccounts.confined.thisClusterOnly: it is not known")


@pytest.mark.parametrize("user", [None, 1000])
def test_volumes_belong_to_the_user_that_the_containers_run_as(user: int | None) -> None:
    """In a training job and in a workload; where nobody names a user, the image decides."""
    given = {"runAsUser": user} if user else {}
    workload = {"kind": "job", "pool": "train-gpu", "image": "a:1", **given}
    found = declared("train-gke", workloads={"one": workload}, job=given)
    (job,) = found.of("kubernetes:batch/v1:Job")
    both = {"runAsUser": user, "fsGroup": user} if user else {}
    for spec in (pod(found)["spec"], job.inputs["spec"]["template"]["spec"]):
        assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, **both}


SHARED = {"vpc": "shared", "subnetwork": "gke", "podsRange": "pods", "servicesRange": "services"}
STORAGE_CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"


@pytest.mark.parametrize("stack", ["train-gke", "autopilot"])
@pytest.mark.parametrize(
    ("network", "parameters"),
    [
        (SHARED, {"network": "shared"}),
        (SHARED | {"hostProject": "company-net"},
            {"network": "projects/company-net/global/networks/shared",
                "connect-mode": "PRIVATE_SERVICE_ACCESS"}),
    ],
)  # fmt: skip
def test_a_class_of_filestore_names_the_clusters_network(
    stack: str, network: dict[str, str], parameters: dict[str, str]
) -> None:
    """Its driver would take the network `default`; of a Shared VPC with private services access.
    The API that the driver calls is enabled before."""
    claims = {"all": {"size": "1Ti", "storageClass": "gpu-cluster-filestore-zonal",
                      "accessMode": "ReadWriteMany"}}  # fmt: skip
    found = declared(stack, volumeClaims=claims, network=network)
    its = found.one(STORAGE_CLASS)
    assert its.inputs["provisioner"] == "filestore.csi.storage.gke.io"
    assert its.inputs["parameters"] == {"tier": "zonal", **parameters}
    service = found.one("gcp:projects/service:Service")
    assert service.inputs["service"] == "file.googleapis.com"
    assert any(urn.endswith("::file.googleapis.com") for urn in its.depends_on)


def test_a_class_of_filestore_names_the_stacks_own_network() -> None:
    """By its physical name, which the engine makes."""
    claims = {"all": {"size": "1Ti", "storageClass": "gpu-cluster-filestore",
                      "accessMode": "ReadWriteMany"}}  # fmt: skip
    found = declared("train-gke", volumeClaims=claims)
    network = found.one("gcp:compute/network:Network")
    given = found.one(STORAGE_CLASS).inputs["parameters"]["network"]
    assert given == f"{network.name}-id"


def test_hyperdisk_has_a_class_of_the_stacks_where_a_claim_names_it() -> None:
    """GKE brings none; no API and no driver has to be turned on for it."""
    claims = {"big": {"size": "10Gi", "storageClass": "gpu-cluster-hyperdisk"}}
    found = declared("train-gke", volumeClaims=claims)
    its = found.one(STORAGE_CLASS)
    assert (its.inputs["provisioner"], its.inputs["parameters"]) == (
        "pd.csi.storage.gke.io", {"type": "hyperdisk-balanced"},
    )  # fmt: skip
    assert found.of("gcp:projects/service:Service") == []
    assert declared("train-gke", volumeClaims={"a": {"size": "1Gi"}}).of(STORAGE_CLASS) == []


@pytest.mark.parametrize("stack", ["train-gke", "train", "autopilot"])
def test_a_claim_and_who_mounts_it_are_deleted_themselves(stack: str) -> None:
    """The disk goes when the claim is deleted, not with the cluster, and the claim once no pod
    mounts it; everything else in a cluster needs no deletion of its own."""
    volumes = {"out": {"mountPath": "/out", "claim": "checkpoints", "readOnly": False}}
    claims = {"checkpoints": {"size": "1Gi"}}
    pools = copy.deepcopy(values_of(stack)["gpu-cluster:gpuPools"])
    if stack == "train":
        pools["train-gpu"]["zones"] = ["us-east-1a"]
    found = declared(stack, volumeClaims=claims, gpuPools=pools, job={"volumes": volumes})
    kept = [resource for resource in found.resources if resource.type.startswith("kubernetes:")]
    themselves = {each.type for each in kept if not each.deleted_with}
    assert themselves - {"kubernetes:core/v1:PersistentVolume"} == {
        "kubernetes:core/v1:PersistentVolumeClaim", "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet",
    }  # fmt: skip
    assert ("kubernetes:core/v1:PersistentVolume" in themselves) == (stack == "train")


def test_on_eks_the_disk_of_a_claim_has_the_tags_of_the_stack() -> None:
    """In the zone that the claim names, where its volume is too; its size is in whole GiB. The rest
    is in `everything-eks.txt`."""
    values = values_of("train")
    cluster = {**values["gpu-cluster:cluster"], "tags": {"team": "ml"}}
    claims = {"checkpoints": {"size": "1.5Ti", "zone": "us-east-1b"}}
    found = declared("train", cluster=cluster, volumeClaims=claims)
    disk = found.one("aws:ebs/volume:Volume")
    assert (disk.inputs["availabilityZone"], disk.inputs["size"]) == ("us-east-1b", 1536)
    assert disk.inputs["tags"]["team"] == "ml"
    spec = found.one("kubernetes:core/v1:PersistentVolume").inputs["spec"]
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["us-east-1b"]


def test_a_changed_file_is_another_config_map(tmp_path: Any, monkeypatch: Any) -> None:
    """A JobSet that runs keeps the files that it began with."""
    values = {"code": {"mountPath": "/code", "files": ["train.py"]}}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("")
    monkeypatch.chdir(tmp_path)
    names = []
    for text in ("print(1)", "print(2)"):
        (tmp_path / "train.py").write_text(text)
        found = declared("train-gke", job={"volumes": values})
        (made,) = [
            each
            for each in found.of("kubernetes:core/v1:ConfigMap")
            if each.name.startswith("ddp-code-")
        ]
        assert made.inputs["data"] == {"train.py": text}
        assert made.inputs["immutable"] is True
        (volume,) = [each for each in pod(found)["spec"]["volumes"] if each["name"] == "code"]
        assert volume["configMap"] == {"name": made.inputs["metadata"]["name"]}
        names.append(made.inputs["metadata"]["name"])
    assert len(set(names)) == 2


def test_a_pod_requests_the_devices_that_the_user_names() -> None:
    """As limits, for which Kubernetes needs no request; in a training job and in a workload. A
    queue does not count them."""
    values = copy.deepcopy(values_of("onprem"))
    devices = {"rdma/hca": 8, "vpc.amazonaws.com/efa": 4}
    values["gpu-cluster:gpuPools"]["gpus"]["extendedResources"] = devices
    workload = values["gpu-cluster:workloads"]["gpu-k8s"] | {"extendedResources": {"rdma/hca": 1}}
    found = declared(
        "onprem",
        gpuPools=values["gpu-cluster:gpuPools"],
        workloads={"gpu-k8s": workload},
        batch={
            "jobSet": True,
            "queues": {"all": {"pools": ["gpus"], "nominalQuota": {"gpus": 9}}},
        },
        job={"queue": "all", "extendedResources": {"vpc.amazonaws.com/efa": 4}},
    )
    (worker,) = pod(found)["spec"]["containers"]
    assert worker["resources"]["limits"] == {"nvidia.com/gpu": "9", "vpc.amazonaws.com/efa": "4"}
    assert not [row for row in worker["env"] if row["name"] == "FI_PROVIDER"]
    spec = found.one("kubernetes:core/v1:Pod", "gpu-k8s").inputs["spec"]
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2", "rdma/hca": "1"}
    maps = found.of("kubernetes:core/v1:ConfigMap")
    (kueue,) = [item for item in maps if "excludeResourcePrefixes" in str(item.inputs)]
    assert all(name in str(kueue.inputs) for name in devices)
