"""Cases of the rules on pods."""

from dataclasses import replace

from tests.policy.cases import DROP, Case, changed
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

CASES = [
    Case(
        rule="image-pinned",
        good=(PINNED, DEPLOYMENT),
        path=(*CONTAINER, "image"),
        bad="registry.example:5000/cuda",
        message="deployment sample: container main runs registry.example:5000/cuda, which has no "
        "tag; pin a version or a digest",
    ),
    Case(
        rule="image-pinned",
        good=(POD,),
        path=("spec", "containers", 0, "image"),
        bad="docker.io/nvidia/cuda:latest",
        message="pod sample: container main runs docker.io/nvidia/cuda:latest, which has the tag "
        "latest; pin a version or a digest",
    ),
    Case(
        rule="image-pinned",
        good=(CRON_JOB,),
        path=("spec", "jobTemplate", "spec", "template", "spec", "containers", 0, "image"),
        bad="busybox",
        message="cronjob nightly: container main runs busybox, which has no tag; pin a version or "
        "a digest",
    ),
    Case(
        rule="image-pinned",
        good=(JOB_SET,),
        path=(
            "spec",
            "replicatedJobs",
            0,
            "template",
            "spec",
            "template",
            "spec",
            "containers",
            0,
            "image",
        ),
        bad="busybox",
        message="jobset ring: container main runs busybox, which has no tag; pin a version or a "
        "digest",
    ),
    Case(
        rule="image-pinned",
        good=(installer({}), PINNED),
        path=(*CONTAINER, "image"),
        bad="docker.io/nvidia/cuda:12.6.3",
        message="deployment sample: container main runs docker.io/nvidia/cuda:12.6.3 by its tag, "
        "and stack dev pins digests; append @sha256:...",
        config={"stacks": ["dev"]},
    ),
    Case(
        rule="gpu-limits",
        good=(EXPORTER, CLAIMS, OTHER_ENV),
        path=("spec", "containers", 0, "resources"),
        bad={},
        message="pod sample tolerates nvidia.com/gpu and asks for none, so it takes a place on GPU "
        "nodes, and their runtime may show it the GPUs of others; put nvidia.com/gpu in its limits",
    ),
    Case(
        rule="gpu-limits",
        good=(UNTOLERANT, TAKES_NONE, DEPLOYMENT),
        path=(*CONTAINER, "resources"),
        bad=DROP,
        message="deployment sample tolerates nvidia.com/gpu and asks for none, so it takes a place "
        "on GPU nodes, and their runtime may show it the GPUs of others; put nvidia.com/gpu in its "
        "limits",
    ),
    Case(
        rule="gpu-limits",
        good=(
            changed(
                POD, ("spec", "containers", 0, "resources", "requests"), {"nvidia.com/gpu": "1"}
            ),
        ),
        path=("spec", "containers", 0, "resources", "requests", "nvidia.com/gpu"),
        bad="2",
        message="pod sample: container main requests 2 nvidia.com/gpu and has 1 in its limits; put "
        "the number in its limits",
    ),
    Case(
        rule="gpu-all",
        good=(TAKES_NONE,),
        path=("spec", "containers", 0, "env", 0),
        bad={"name": "DP_DISABLE_HEALTHCHECKS", "value": "xids"},
        message="pod sample sets DP_DISABLE_HEALTHCHECKS and has no GPU in its limits: it sees "
        "every GPU of its node, also those that other pods were given; give it limits, or accept "
        "that they share",
    ),
    Case(
        rule="gpu-all",
        good=(
            changed(
                daemon_set("dcgm", {}),
                ("spec", "template", "spec", "containers"),
                [{"name": "x", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}],
            ),
            TAKES_NONE,
        ),
        path=("spec", "containers", 0, "env", 0, "value"),
        bad="all",
        message="pod sample: container main sets NVIDIA_VISIBLE_DEVICES=all and sees every GPU of "
        "its node, also those that other pods were given; drop it, or accept that they share",
    ),
    Case(
        rule="explicit-provider",
        good=(replace(POD, provider=None), POD),
        path=("@provider",),
        bad="default_4_34_2",
        message="Pod sample goes to whatever cluster the machine's kubeconfig names; give it the "
        "cluster's provider",
    ),
]
