"""The real program with one thing wrong for each rule: the real engine refuses it in the preview.

Only the engine shows that the pack loads, gets a rule's configuration, and sees the inputs of
Kubernetes objects whose cluster does not exist yet. Previews alone, so no cluster is started.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.pack import POLICIES
from rehearsal.engine import Outcome
from rehearsal.run import POLICIES as PACK
from rehearsal.sandbox import ROOT, Sandbox
from stacks.files import EXAMPLES
from stacks.program import Mutation
from tests.rehearsal.conftest import as_it_was, changed, configured

CLUSTER, POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
EKS = "aws:eks/cluster:Cluster"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
POD = 'pod = props["spec"]["template"]["spec"]\nmain = pod["containers"][0]\n'


@dataclass(frozen=True, kw_only=True)
class Break:
    """One thing wrong in the program, and what its rule says."""

    rule: str
    mutation: Mutation
    message: str
    advisory: bool = False

    def __str__(self) -> str:
        return self.rule


def pools(**values: Any) -> Mutation:
    """Other settings of the GPU pool, which the program accepts."""
    return configured(lambda config: config["gpu-cluster:gpuPools"]["train-gpu"].update(values))


def added(code: str) -> Mutation:
    """A resource that somebody adds at the end of the program."""

    def mutate(program: Path) -> None:
        main = program / "__main__.py"
        main.write_text(f"{main.read_text()}\nimport pulumi_kubernetes as kubernetes\n{code}\n")

    return mutate


ON_GKE = [
    Break(
        rule="gpu-pool-taint",
        mutation=changed(POOL, 'props["node_config"]["taints"] = []', name="train-gpu"),
        message="GPU pool train-gpu has no taint nvidia.com/gpu with effect NoSchedule",
    ),
    Break(
        rule="gpu-pool-minimum",
        mutation=pools(minNodes=1),
        message="GPU pool train-gpu keeps 1 node running in stack staging",
    ),
    Break(
        rule="autoscaler-owns-size",
        mutation=changed(POOL, "args.opts.ignore_changes = None", name="gpu-dev-system"),
        message="pool gpu-dev-system is autoscaled from 1 to 3 nodes and does not ignore changes",
        advisory=True,
    ),
    Break(
        rule="secure-boot",
        mutation=changed(
            POOL,
            'props["node_config"] = {**props["node_config"], "shielded_instance_config": {}}',
            name="gpu-dev-system",
        ),
        message="pool gpu-dev-system boots without Secure Boot",
    ),
    Break(
        rule="instance-metadata",
        mutation=changed(
            POOL,
            'props["node_config"]["workload_metadata_config"] = {"mode": "GCE_METADATA"}',
            name="train-gpu",
        ),
        message="pool train-gpu gives pods the node's credentials",
    ),
    Break(
        rule="control-plane-open",
        mutation=changed(
            CLUSTER,
            'props["master_authorized_networks_config"] = '
            '{"cidr_blocks": [{"cidr_block": "0.0.0.0/0"}]}',
        ),
        message="cluster gpu-dev lets 0.0.0.0/0 reach its control plane",
    ),
    Break(
        rule="nodes-private",
        mutation=changed(
            CLUSTER, 'props["private_cluster_config"]["enable_private_nodes"] = False'
        ),
        message="cluster gpu-dev gives its nodes public addresses",
    ),
    Break(
        rule="firewall-open",
        mutation=added(
            "import pulumi_gcp as gcp\n"
            'gcp.compute.Firewall("ssh", network="default", source_ranges=["0.0.0.0/0"], '
            'allows=[{"protocol": "tcp", "ports": ["22"]}])'
        ),
        message="ssh lets 0.0.0.0/0 in",
    ),
    Break(
        rule="old-credentials",
        mutation=changed(CLUSTER, 'props["enable_legacy_abac"] = True'),
        message="cluster gpu-dev has legacy ABAC",
    ),
    Break(
        rule="upgrades",
        mutation=changed(CLUSTER, 'props["release_channel"] = {"channel": "UNSPECIFIED"}'),
        message="cluster gpu-dev is on no release channel",
    ),
    Break(
        rule="node-identity",
        mutation=changed(POOL, 'del props["node_config"]["service_account"]', name="train-gpu"),
        message="pool train-gpu runs its nodes as the project's default account",
    ),
    Break(
        rule="permissions-too-broad",
        mutation=changed("gcp:projects/iAMMember:IAMMember", 'props["role"] = "roles/editor"'),
        message="gpu-dev-artifactregistry.reader grants roles/editor",
    ),
    Break(
        rule="image-pinned",
        mutation=changed(DEPLOYMENT, POD + 'main["image"] = "docker.io/nvidia/cuda"'),
        message="container sample-gpu-pod runs docker.io/nvidia/cuda, which has no tag",
    ),
    Break(
        rule="gpu-limits",
        mutation=added(
            "kubernetes.core.v1.Pod('greedy', metadata={'name': 'greedy'}, spec={"
            "'tolerations': [{'key': 'nvidia.com/gpu', 'operator': 'Exists'}], "
            "'containers': [{'name': 'main', 'image': 'docker.io/busybox:1.37'}]}, "
            "opts=pulumi.ResourceOptions(provider=cluster.provider))"
        ),
        message="pod greedy tolerates nvidia.com/gpu and asks for none",
    ),
    Break(
        rule="gpu-all",
        mutation=changed(
            DEPLOYMENT, POD + 'main["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]'
        ),
        message="sees every GPU of its node, also those that other pods were given",
        advisory=True,
    ),
    Break(
        rule="pod-security-baseline",
        mutation=changed(DEPLOYMENT, POD + 'main["security_context"] = {"privileged": True}'),
        message="deployment sample-gpu-pod in namespace default: container sample-gpu-pod: "
        "securityContext.privileged is true",
    ),
    Break(
        rule="host-paths",
        mutation=configured(
            lambda config: config["gpu-cluster:workloads"]["sample-gpu-pod"].update(
                driverLibraries="/run/containerd"
            )
        ),
        message="deployment sample-gpu-pod in namespace default mounts /run/containerd of its node",
    ),
    Break(
        rule="namespace-enforces",
        mutation=added(
            "kubernetes.core.v1.Namespace('team', metadata={'name': 'team'}, "
            "opts=pulumi.ResourceOptions(provider=cluster.provider))"
        ),
        message="Namespace team has no level of the Pod Security Standards that the cluster "
        "enforces",
    ),
    Break(
        rule="rbac-too-broad",
        mutation=added(
            "kubernetes.rbac.v1.ClusterRoleBinding('ops', role_ref={'api_group': "
            "'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'cluster-admin'}, "
            "subjects=[{'kind': 'Group', 'name': 'ops'}], "
            "opts=pulumi.ResourceOptions(provider=cluster.provider))"
        ),
        message="ClusterRoleBinding ops gives cluster-admin, which may do everything",
    ),
    Break(
        rule="explicit-provider",
        mutation=added("kubernetes.core.v1.Namespace('elsewhere')"),
        message="Namespace elsewhere goes to whatever cluster the machine's kubeconfig names",
    ),
    Break(
        rule="monthly-ceiling",
        mutation=pools(maxNodes=100),
        message="all pools at their maximum cost $39,",
    ),
]
"""All of these at once, in a stack `staging` that is like dev."""

ON_GKE_TOGETHER = [
    Break(
        rule="gpu-toleration",
        mutation=changed(DEPLOYMENT, POD + 'pod["tolerations"] = []'),
        message="deployment sample-gpu-pod does not tolerate nvidia.com/gpu=present:NoSchedule of "
        "pool train-gpu",
    ),
    Break(
        rule="one-driver",
        mutation=added(
            "from components.gpu.driver import _spec\n"
            "pool = cluster.pools['train-gpu']\n"
            "kubernetes.apps.v1.DaemonSet('second', metadata={'name': 'second', "
            "'namespace': 'kube-system'}, spec=_spec('second', [pool]), "
            "opts=pulumi.ResourceOptions(provider=cluster.provider))"
        ),
        message="GPU pool train-gpu gets its driver from daemonset nvidia-driver-installer-cos and "
        "from daemonset second",
    ),
    Break(
        rule="one-device-plugin",
        mutation=added(
            "kubernetes.apps.v1.DaemonSet('plugin', metadata={'name': 'plugin', "
            "'namespace': 'kube-system'}, spec={'selector': {'match_labels': {'a': 'b'}}, "
            "'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': {"
            "'node_selector': dict(cluster.pools['train-gpu'].node_selector), "
            "'containers': [{'name': 'p', 'image': 'nvcr.io/nvidia/k8s-device-plugin:v0.20.0'}], "
            "'volumes': [{'name': 'd', 'host_path': {'path': '/var/lib/kubelet/device-plugins'}}]"
            "}}}, opts=pulumi.ResourceOptions(provider=cluster.provider))"
        ),
        message="GPU pool train-gpu has its device plugin from GKE and from daemonset plugin",
    ),
    Break(
        rule="gpu-software",
        mutation=changed(
            POOL,
            'accelerator = props["node_config"]["guest_accelerators"][0]\n'
            'accelerator["gpu_driver_installation_config"] = '
            '{"gpu_driver_version": "INSTALLATION_DISABLED"}',
            name="bare",
        ),
        message="nobody in this stack gives GPU pool bare its driver",
        advisory=True,
    ),
    Break(
        rule="price-known",
        mutation=configured(
            lambda config: config["gpu-cluster:gpuPools"].update(
                bare={"machineType": "a3-highgpu-8g-nolssd"}
            )
        ),
        message="pool bare has nodes whose price is not known here",
        advisory=True,
    ),
]
"""Rules over the whole stack, in a second preview of `staging`."""

ON_EKS = [
    Break(
        rule="disks-encrypted",
        mutation=changed(
            TEMPLATE, 'props["block_device_mappings"][0]["ebs"]["encrypted"] = "false"'
        ),
        message="launch template train-gpu: volume /dev/xvda is not encrypted",
    ),
    Break(
        rule="instance-metadata",
        mutation=changed(
            TEMPLATE, 'props["metadata_options"] = {"http_tokens": "optional"}', name="train-gpu"
        ),
        message="launch template train-gpu allows IMDSv1",
    ),
    Break(
        rule="secrets-encrypted",
        mutation=changed(EKS, 'del props["encryption_config"]'),
        message="cluster k8s-ml does not encrypt Kubernetes secrets with a KMS key",
    ),
    Break(
        rule="audit-log",
        mutation=changed(EKS, 'props["enabled_cluster_log_types"] = ["api"]'),
        message="cluster k8s-ml keeps no audit log",
    ),
    Break(
        rule="deletion-protection",
        mutation=configured(
            lambda config: config["gpu-cluster:cluster"].update(deletionProtection=False)
        ),
        message="cluster k8s-ml has deletionProtection off, which stack prod must have on",
    ),
    Break(
        rule="permissions-too-broad",
        mutation=changed(
            "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
            'props["policy_arn"] = "arn:aws:iam::aws:policy/AdministratorAccess"',
            name="k8s-ml-nodes-AmazonEKSWorkerNodePolicy",
        ),
        message="k8s-ml-nodes-AmazonEKSWorkerNodePolicy attaches AdministratorAccess",
    ),
    Break(
        rule="pod-security-restricted",  # which tests/policy/config.json asks of this stack
        mutation=lambda program: None,
        message="in namespace default: container sample-gpu-job: securityContext.runAsNonRoot is "
        "not set",
    ),
    Break(
        rule="autoscaler-tags",
        mutation=changed(
            "aws:autoscaling/tag:Tag",
            'props["tag"]["value"] = "other"',
            name="train-gpu-label-role",
        ),
        message="node group train-gpu has label role=train-gpu, and the tag of its Auto Scaling "
        "group says other",
    ),
]
"""All of these at once, in a stack `prod` that is like train."""

GROUPS = {
    "gke": ON_GKE,
    "gke-together": ON_GKE_TOGETHER,
    "eks": ON_EKS,
}


@pytest.fixture(scope="module")
def previews(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The engine's answer to each group of breaks."""
    outcomes: dict[str, Outcome] = {}
    for groups, stack, like in (
        (("gke", "gke-together"), "staging", "dev"),
        (("eks",), "prod", "train"),
    ):
        folder = tmp_path_factory.mktemp(stack)
        source = _source(folder / "source", stack, like)
        with Sandbox(
            stack, source=source, folder=folder / "sandbox", prestart=False, preload_sdks=True
        ) as sandbox:
            for group in groups:
                with as_it_was(sandbox) as program:
                    for one in GROUPS[group]:
                        one.mutation(program)
                    outcomes[group] = sandbox.engine.preview(PACK)
    return outcomes


def _source(folder: Path, stack: str, like: str) -> Path:
    """The project with one stack, under another name, whose default providers are not disabled."""
    folder.mkdir()
    for name in ("Pulumi.yaml", "__main__.py", "requirements.txt", "components", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    document = yaml.safe_load((EXAMPLES / f"Pulumi.{like}.yaml").read_text())
    del document["config"]["pulumi:disable-default-providers"]
    document["config"]["gpu-cluster:cluster"]["deletionProtection"] = True
    (folder / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))
    return folder


@pytest.mark.parametrize(
    ("group", "one"),
    [(group, one) for group, breaks in GROUPS.items() for one in breaks],
    ids=str,
)
def test_the_engine_refuses_the_program(
    previews: dict[str, Outcome], group: str, one: Break
) -> None:
    """The preview fails, names the rule and says what is wrong; an advisory rule only warns."""
    outcome = previews[group]
    said = outcome.warnings if one.advisory else outcome.errors
    assert any(f"policy {one.rule}: " in line and one.message in line for line in said), said
    assert not outcome.ok


def test_every_rule_is_seen_at_work() -> None:
    """No policy of the pack is without a break of the real program."""
    seen = {one.rule for breaks in GROUPS.values() for one in breaks}
    assert seen == {policy.name for policy in POLICIES}
