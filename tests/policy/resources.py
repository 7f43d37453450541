"""Resources that keep every rule, small enough to read."""

import json
from dataclasses import replace
from typing import Any

from policy.reading import Resource


def resource(type_token: str, name: str, props: dict[str, Any], **more: Any) -> Resource:
    """A resource of the stack `dev`."""
    urn = f"urn:pulumi:dev::gpu-cluster::{type_token}::{name}"
    return Resource(type=type_token, name=name, props=props, **{"urn": urn, **more})


def in_stack(one: Resource, stack: str) -> Resource:
    """The same in another stack."""
    return replace(one, urn=one.urn.replace(":dev:", f":{stack}:"))


GKE_CLUSTER = resource(
    "gcp:container/cluster:Cluster",
    "gpu",
    {
        "privateClusterConfig": {"enablePrivateNodes": True, "enablePrivateEndpoint": False},
        "masterAuthorizedNetworksConfig": {
            "cidrBlocks": [{"displayName": "office", "cidrBlock": "203.0.113.0/24"}],
            "gcpPublicCidrsAccessEnabled": False,
        },
        "releaseChannel": {"channel": "REGULAR"},
        "databaseEncryption": {"state": "ENCRYPTED", "keyName": "a-key"},
        "masterAuth": {"clientCertificateConfig": {"issueClientCertificate": False}},
        "workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"},
        "deletionProtection": True,
        "nodeConfig": {"serviceAccount": "nodes@p.iam.gserviceaccount.com"},
    },
    protect=True,
)
AUTOPILOT = resource(
    "gcp:container/cluster:Cluster",
    "auto",
    {
        "enableAutopilot": True,
        "clusterAutoscaling": {
            "autoProvisioningDefaults": {"serviceAccount": "nodes@p.iam.gserviceaccount.com"}
        },
    },
)
T4_POOL = resource(
    "gcp:container/nodePool:NodePool",
    "t4",
    {
        "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 3},
        "initialNodeCount": 0,
        "management": {"autoRepair": True, "autoUpgrade": True},
        "nodeConfig": {
            "machineType": "n1-standard-4",
            "serviceAccount": "nodes@p.iam.gserviceaccount.com",
            "labels": {"gpu-cluster/pool": "t4", "role": "train"},
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
            "guestAccelerators": [
                {
                    "type": "nvidia-tesla-t4",
                    "count": 1,
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
                }
            ],
            "shieldedInstanceConfig": {"enableSecureBoot": True, "enableIntegrityMonitoring": True},
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
            "metadata": {"disable-legacy-endpoints": "true"},
        },
    },
    ignore_changes=("initialNodeCount",),
)
EKS_CLUSTER = resource(
    "aws:eks/cluster:Cluster",
    "gpu",
    {
        "vpcConfig": {"endpointPublicAccess": True, "publicAccessCidrs": ["203.0.113.0/24"]},
        "accessConfig": {
            "authenticationMode": "API",
            "bootstrapClusterCreatorAdminPermissions": False,
        },
        "encryptionConfig": {"provider": {"keyArn": "arn"}, "resources": ["secrets"]},
        "enabledClusterLogTypes": ["api", "audit", "authenticator"],
        "upgradePolicy": {"supportType": "STANDARD"},
        "deletionProtection": True,
    },
    protect=True,
)
V100_GROUP = resource(
    "aws:eks/nodeGroup:NodeGroup",
    "v100",
    {
        "amiType": "AL2023_x86_64_NVIDIA",
        "instanceTypes": ["p3.2xlarge"],
        "launchTemplate": {"id": "lt-1", "version": "1"},
        "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0},
        "labels": {"role": "train"},
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
        "resources": [{"autoscalingGroups": [{"name": "eks-v100"}]}],
    },
    ignore_changes=("scalingConfig.desiredSize",),
)
WARM_GROUP = replace(
    V100_GROUP,
    props={
        **V100_GROUP.props,
        "scalingConfig": {"minSize": 0, "maxSize": 2, "desiredSize": 0},
        "warmPoolConfig": {"maxGroupPreparedCapacity": 2, "minSize": 1, "poolState": "STOPPED"},
    },
)
_TEMPLATE = "k8s.io/cluster-autoscaler/node-template"


def tag(key: str, value: str, **more: Any) -> Resource:
    """A tag on the Auto Scaling group of `V100_GROUP`, joined as in a preview: by dependency."""
    return resource(
        "aws:autoscaling/tag:Tag",
        f"v100-{key}",
        {"tag": {"key": f"{_TEMPLATE}/{key}", "value": value, "propagateAtLaunch": False}},
        **{"uses": {"autoscalingGroupName": [V100_GROUP.urn]}, **more},
    )


LABEL_TAG = tag("label/role", "train")
TAINT_TAG = tag("taint/nvidia.com/gpu", "present:NoSchedule")
LAUNCH_TEMPLATE = resource(
    "aws:ec2/launchTemplate:LaunchTemplate",
    "v100",
    {
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "true"}}],
        "networkInterfaces": [{"associatePublicIpAddress": "false"}],
    },
)


def role_policy(*statements: dict[str, Any]) -> Resource:
    """An inline policy of a role."""
    return resource(
        "aws:iam/rolePolicy:RolePolicy", "autoscaler", {"policy": document(*statements)}
    )


def document(*statements: dict[str, Any]) -> str:
    """A policy document."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def pod_spec(**container: Any) -> dict[str, Any]:
    """A pod that asks for one GPU and reaches the pools above."""
    return {
        "nodeSelector": {"role": "train"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "main",
                "image": "docker.io/nvidia/cuda:12.6.3-base-ubuntu24.04",
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
                **container,
            }
        ],
    }


DEPLOYMENT = resource(
    "kubernetes:apps/v1:Deployment",
    "sample",
    {
        "metadata": {"name": "sample", "namespace": "default"},
        "spec": {"template": {"spec": pod_spec()}},
    },
    provider="gpu",
)
POD = resource(
    "kubernetes:core/v1:Pod",
    "sample",
    {"metadata": {"name": "sample", "namespace": "default"}, "spec": pod_spec()},
    provider="gpu",
)


def daemon_set(name: str, selector: dict[str, str], **spec: Any) -> Resource:
    """A DaemonSet in kube-system on the nodes that the selector picks."""
    return resource(
        "kubernetes:apps/v1:DaemonSet",
        name,
        {
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"template": {"spec": {"nodeSelector": selector, **spec}}},
        },
        provider="gpu",
    )


def installer(selector: dict[str, str], name: str = "installer") -> Resource:
    """NVIDIA's driver installer as Google has it."""
    return daemon_set(
        name,
        selector,
        initContainers=[
            {
                "name": "nvidia-driver-installer",
                "image": "cos-nvidia-installer:fixed",
                "imagePullPolicy": "Never",
                "securityContext": {"privileged": True},
            }
        ],
    )


def plugin(selector: dict[str, str], name: str = "plugin") -> Resource:
    """NVIDIA's device plugin."""
    return daemon_set(
        name,
        selector,
        containers=[{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}],
        volumes=[{"name": "sockets", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
    )
