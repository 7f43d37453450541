"""Config keys that had another name in 0.1.0, or have another on other platforms or in other tools.

An old name is refused with the new one. A state of 0.1.0 is compared under the new names.
"""

from collections.abc import Mapping
from typing import Final

RENAMED: Final[Mapping[str, str]] = {
    "capacity": "capacityType",
    "gpuCheck": "gpuTest",
    "gpus": "nominalQuota",
    "host": "pcie",
    "matrix": "matmul",
    "replaceOrder": "deleteBeforeReplace",
    "round": "generation",
    "secretsKey": "secretsEncryptionKey",
}
"""Old key -> new key, unless the old key is still valid."""


COUNTERPARTS: Final[Mapping[str, tuple[str, ...]]] = {
    key: tuple(names.split())
    for keys, names in {
        "accelerator": "instanceTypes machineType",
        "acceleratorCount gpuCount": "gpusPerNode gpus",
        "acceleratorType guestAccelerator guestAccelerators": "accelerator instanceTypes",
        "activeDeadlineSeconds": "maxRunDurationSeconds",
        "ami": "amiId osImage",
        "amiFamily": "os osImage",
        "amiType": "osImage",
        "availabilityZones nodeLocations": "zones",
        "capacityReservation reservationAffinity": "reservation",
        "capacityType": "spot",
        "cidr": "nodesCidr",
        "clusterVersion kubernetesVersion": "version",
        "configMap": "files",
        "desiredCapacity desiredSize initialNodeCount nodeCount numNodes": "desiredNodes minNodes",
        "desiredNodes": "minNodes",
        "diskSize volumeSize": "diskSizeGb",
        "emptyDir": "disk memory",
        "ephemeral-storage": "ephemeralStorage",
        "enableSecureBoot shieldedInstanceConfig": "secureBoot",
        "flexStart preemptible provisioningModel": "capacityType spot",
        "gcfsConfig": "imageStreaming",
        "gpu": "gpus gpusPerNode",
        "gpuDriverInstallationConfig": "driver driverVersion",
        "gpuSharingConfig timeSlicing": "sharing",
        "gpus": "gpusPerNode",
        "hostPath": "hostFile",
        "imageType": "osImage os",
        "instanceType": "instanceTypes machineType accelerator",
        "instanceTypes": "machineType accelerator",
        "iops volumeIOPS volumeIops": "diskIops",
        "kubeletConfig kubeletConfiguration kubeletExtraConfig": "kubelet",
        "labels": "tags",
        "linuxNodeConfig": "linux",
        "machineType": "instanceTypes accelerator",
        "masterAuthorizedNetworks publicAccessCidrs": "authorizedNetworks",
        "maxCount maxNodeCount maxSize": "maxNodes",
        "maxRunDuration": "maxRunDurationSeconds",
        "maxUnavailable": "upgrade",
        "minCount minNodeCount minSize": "minNodes",
        "networkTags": "securityGroupIds",
        "nodeLabel nodeLabels": "labels",
        "nodeRepairConfig": "nodeRepair",
        "nodeTaint nodeTaints taint": "taints",
        "nodesCidr": "cidr",
        "numWorkers workers": "nodes",
        "os": "osImage",
        "osImage": "os",
        "persistentVolumeClaim": "claim",
        "placementPolicy": "compactPlacement",
        "priorityClassName": "priority",
        "queueName": "queue",
        "queuedProvisioning": "queued",
        "region": "location",
        "replicaCount": "replicas",
        "resourceLabels": "labels",
        "resources": "requests",
        "restarts": "backoffLimit maxRestarts",
        "runtimeClassName": "runtimeClass",
        "secretRef": "secret envFrom",
        "securityContext": "runAsUser",
        "securityGroupIds": "networkTags",
        "securityGroups": "securityGroupIds",
        "serviceAccountName": "serviceAccount",
        "shmSize": "sharedMemory",
        "spot": "capacityType",
        "subPath": "mountPath",
        "subnetIds": "subnetwork",
        "subnets": "subnetIds subnetwork",
        "subnetwork": "subnetIds",
        "tags": "labels",
        "updateConfig": "maxUnavailable upgrade",
        "upgrade": "maxUnavailable",
        "upgradeSettings": "upgrade maxUnavailable",
        "volumeMounts": "volumes",
        "volumeThroughput": "diskThroughput",
        "volumeType": "diskType",
        "warmPoolConfig": "warmPool",
    }.items()
    for key in keys.split()
}
"""Key of one platform, of a cloud's own API, a pod, eksctl or Terraform -> its names here, the best
match first."""
_NOT_INCLUDED = "docs/how-to/not-included.md says what to do instead"
ELSEWHERE: Final[Mapping[str, str]] = {
    "affinity": "pool says on which nodes the pods run; drop it",
    "containers": "a pod has one container; move image, command and the others one level up",
    "efa": f"EFA is not included; {_NOT_INCLUDED}",
    "efaEnabled": f"EFA is not included; {_NOT_INCLUDED}",
    "gpudirectStrategy": f"GPUDirect is not included; {_NOT_INCLUDED}",
    "initContainers": "a pod has one container; do it in its command, or create the pod yourself",
    "gpu": "write gpus, beside requests and limits",
    "nvidia.com/gpu": "write gpus, beside requests and limits",
    "placement": f"placement groups are not included; {_NOT_INCLUDED}",
    "placementGroup": f"placement groups are not included; {_NOT_INCLUDED}",
    "restartPolicy": "it follows from kind; drop it",
    "runtimeClassName": "set runtimeClass of the pool, on platform existing; others need none",
    "template": "the keys of the pod belong one level up; move them",
    "tolerations": "pods tolerate the taints of their pool; drop it",
    "topologySpreadConstraints": "pool says on which nodes the pods run; drop it",
}
"""Key of a pod, eksctl or Terraform without a counterpart in the same block -> what to do."""


def present(path: str) -> str:
    """A setting's path, such as `cluster.secretsKey`, with its key's current name."""
    head, dot, key = path.rpartition(".")
    return f"{head}{dot}{RENAMED.get(key, key)}"
