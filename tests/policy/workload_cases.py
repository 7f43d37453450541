"""Cases of the rules on pods."""

import json
from dataclasses import replace
from typing import Any

from tests.policy.cases import DROP, Rows, cases_of, changed
from tests.policy.resources import DEPLOYMENT, POD, daemon_set, installer, resource

CONTAINER = ("spec", "template", "spec", "containers", 0)
DIGEST = "@sha256:" + "0" * 64
PINNED = changed(DEPLOYMENT, (*CONTAINER, "image"), f"docker.io/nvidia/cuda{DIGEST}")
PLAIN = changed(DEPLOYMENT, CONTAINER, {"name": "main", "image": "docker.io/busybox:1.37"})
UNTOLERANT = changed(PLAIN, ("spec", "template", "spec", "tolerations"), [])
TAKES_NONE = changed(
    changed(POD, ("spec", "containers", 0, "resources"), {}),
    ("spec", "containers", 0, "env"),
    [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}],
)
TOLERANT = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
EXPORTER = daemon_set("exporter", {}, tolerations=TOLERANT, containers=[{"name": "exporter"}])
CLAIMS = changed(
    changed(POD, ("spec", "containers", 0, "resources"), {}),
    ("spec", "resourceClaims"),
    [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
)
OTHER_ENV = changed(POD, ("spec", "containers", 0, "env"), [{"name": "LEVEL", "value": "info"}])
CRON_JOB = resource(
    "kubernetes:batch/v1:CronJob",
    "nightly",
    {
        "metadata": {"name": "nightly"},
        "spec": {
            "jobTemplate": {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "main", "image": "docker.io/busybox:1.37"}]
                        }
                    }
                }
            }
        },
    },
    provider="gpu",
)
JOB_SET = resource(
    "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet",
    "ring",
    {
        "metadata": {"name": "ring"},
        "spec": {
            "replicatedJobs": [
                {
                    "template": {
                        "spec": {
                            "template": {
                                "spec": {
                                    "containers": [
                                        {"name": "main", "image": "docker.io/busybox:1.37"}
                                    ]
                                }
                            }
                        }
                    }
                }
            ]
        },
    },
)
ASKS_FOR_ONE = changed(
    POD, ("spec", "containers", 0, "resources", "requests"), {"nvidia.com/gpu": "1"}
)


def signing_in_by(user: dict[str, Any]) -> str:
    return json.dumps({"users": [{"name": "me", "user": user}]})


PROVIDER = resource(
    "pulumi:providers:kubernetes", "lab", {"kubeconfig": signing_in_by({"token": "t"})}
)

ROWS: Rows = {
    "image-pinned": [
        ((PINNED, DEPLOYMENT), (*CONTAINER, "image"), "registry.example:5000/cuda",
         "deployment sample: container main runs registry.example:5000/cuda, which has no tag; pin "
         "a version or a digest"),
        ((POD,), ("spec", "containers", 0, "image"), "docker.io/nvidia/cuda:latest",
         "pod sample: container main runs docker.io/nvidia/cuda:latest, which has the tag latest; "
         "pin a version or a digest"),
        ((CRON_JOB,), ("spec", "jobTemplate", "spec", "template", "spec", "containers", 0, "image"),
         "busybox",
         "cronjob nightly: container main runs busybox, which has no tag; pin a version or a "
         "digest"),
        ((JOB_SET,), ("spec", "replicatedJobs", 0, "template", *CONTAINER, "image"), "busybox",
         "jobset ring: container main runs busybox, which has no tag; pin a version or a digest"),
        ((installer({}), PINNED), (*CONTAINER, "image"), "docker.io/nvidia/cuda:12.6.3",
         "deployment sample: container main runs docker.io/nvidia/cuda:12.6.3 by its tag, and "
         "stack dev pins digests; append @sha256:...", {"stacks": ["dev"]}),
    ],
    "gpu-limits": [
        ((EXPORTER, CLAIMS, OTHER_ENV), ("spec", "containers", 0, "resources"), {},
         "pod sample tolerates nvidia.com/gpu and asks for none, so it occupies GPU nodes, and "
         "their runtime may expose the GPUs of other pods to it; put nvidia.com/gpu in its limits"),
        ((UNTOLERANT, TAKES_NONE, DEPLOYMENT), (*CONTAINER, "resources"), DROP,
         "deployment sample tolerates nvidia.com/gpu and asks for none, so it occupies GPU "
         "nodes, and their runtime may expose the GPUs of other pods to it; put nvidia.com/gpu "
         "in its limits"),
        ((ASKS_FOR_ONE,),
         ("spec", "containers", 0, "resources", "requests", "nvidia.com/gpu"), "2",
         "pod sample: container main requests 2 nvidia.com/gpu and has 1 in its limits; put the "
         "same number in its limits"),
    ],
    "gpu-all": [
        ((TAKES_NONE,), ("spec", "containers", 0, "env", 0),
         {"name": "DP_DISABLE_HEALTHCHECKS", "value": "xids"},
         "pod sample sets DP_DISABLE_HEALTHCHECKS and has no GPU in its limits: it sees every "
         "GPU of its node, including those of other pods; give it limits, or accept that they "
         "share GPUs"),
        ((changed(daemon_set("dcgm", {}), ("spec", "template", "spec", "containers"),
                  [{"name": "x", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]),
          TAKES_NONE),
         ("spec", "containers", 0, "env", 0, "value"), "all",
         "pod sample: container main sets NVIDIA_VISIBLE_DEVICES=all and sees every GPU of its "
         "node, including those of other pods; drop it, or accept that they share GPUs"),
    ],
    "kubeconfig-credentials": [
        ((PROVIDER,), ("kubeconfig",), signing_in_by({"exec": {"command": "/bin/sh"}}),
         "the kubeconfig of provider lab runs '/bin/sh' to sign in; allowed, by name and without a "
         "path: aws, aws-iam-authenticator, gke-gcloud-auth-plugin, kubelogin, tsh"),
        ((replace(PROVIDER, props={"kubeconfig": signing_in_by({"exec": {"command": "vault"}})}),),
         ("kubeconfig",), signing_in_by({"auth-provider": {"name": "gcp"}}),
         "the kubeconfig of provider lab has auth-provider, which may run a command on every "
         "machine that uses it; remove it", {"commands": ["vault"]}),
    ],
    "explicit-provider": [
        ((replace(POD, provider=None), POD), ("@provider",), "default_4_34_2",
         "Pod sample is created in whatever cluster the machine's kubeconfig names; give it the "
         "cluster's provider"),
    ],
}  # fmt: skip

CASES = cases_of(ROWS)
