"""The real program with one thing wrong for each rule: the real engine refuses it in the preview.

Only the engine shows that the pack loads, gets a rule's configuration, and sees the inputs of
Kubernetes objects whose cluster does not exist yet. Previews alone, so no cluster is started.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpu_cluster.components.cluster import GPU_TAINT
from gpu_cluster.policy.pack import POLICIES
from gpu_cluster.rehearsal.engine.engine import Outcome
from gpu_cluster.rehearsal.run import POLICIES as PACK
from gpu_cluster.rehearsal.sandbox import ROOT, Sandbox, SandboxOptions
from gpu_cluster.stacks.definition.files import EXAMPLES
from gpu_cluster.stacks.definition.program import Mutation
from tests.rehearsal.conftest import as_it_was, changed, configured, pools

CLUSTER, POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
EKS = "aws:eks/cluster:Cluster"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
POD = 'pod = props["spec"]["template"]["spec"]\nmain = pod["containers"][0]\n'


@dataclass(frozen=True)
class Break:
    """One thing wrong in the program, and what its rule says."""

    rule: str
    mutation: Mutation
    message: str
    advisory: bool = False

    def __str__(self) -> str:
        return self.rule


def added(code: str) -> Mutation:
    """A resource that somebody adds at the end of the program."""

    def mutate(program: Path) -> None:
        main = program / "__main__.py"
        main.write_text(f"{main.read_text()}\nimport pulumi_kubernetes as kubernetes\n{code}\n")

    return mutate


ON_GKE = [
    Break("gpu-pool-taint", changed(POOL, 'props["node_config"]["taints"] = []', name="train-gpu"),
          "GPU pool train-gpu has no taint nvidia.com/gpu with effect NoSchedule"),
    Break("gpu-pool-minimum", pools(minNodes=1),
          "GPU pool train-gpu keeps 1 node running in stack staging"),
    Break("autoscaler-owns-size", changed(POOL, "args.opts.ignore_changes = None",
              name="gpu-dev-system"),
          "pool gpu-dev-system is autoscaled from 1 to 3 nodes and does not ignore "
          "changes", advisory=True),
    Break("secure-boot", changed(POOL,
              'props["node_config"] = {**props["node_config"], "shielded_instance_config": {}}',
              name="gpu-dev-system"),
          "pool gpu-dev-system boots without Secure Boot"),
    Break("kubeconfig-credentials", changed("pulumi:providers:kubernetes",
              """props["kubeconfig"] = '{"users": [{"user": {"tokenFile": "/x"}}]}'"""),
          "the kubeconfig of provider gpu-dev has tokenFile"),
    Break("mig-profile", changed(POOL,
              'props["node_config"]["guest_accelerators"][0]["gpu_partition_size"] = "1g.5gb"',
              name="train-gpu"),
          "pool train-gpu requests MIG partition 1g.5gb of nvidia-tesla-t4"),
    Break("instance-metadata", changed(POOL,
              'props["node_config"]["workload_metadata_config"] = {"mode": "GCE_METADATA"}',
              name="train-gpu"),
          "pool train-gpu exposes the node's credentials to pods"),
    Break("control-plane-open", changed(CLUSTER, 'props["master_authorized_networks_config"] = '
              '{"cidr_blocks": [{"cidr_block": "0.0.0.0/0"}]}'),
          "cluster gpu-dev lets 0.0.0.0/0 reach its control plane"),
    Break("nodes-private", changed(CLUSTER,
              'props["private_cluster_config"]["enable_private_nodes"] = False'),
          "cluster gpu-dev gives its nodes public addresses"),
    Break("firewall-open", added("import pulumi_gcp as gcp\n"
              'gcp.compute.Firewall("ssh", network="default", source_ranges=["0.0.0.0/0"], '
              'allows=[{"protocol": "tcp", "ports": ["22"]}])'),
          "ssh lets 0.0.0.0/0 in"),
    Break("old-credentials", changed(CLUSTER, 'props["enable_legacy_abac"] = True'),
          "cluster gpu-dev has legacy ABAC"),
    Break("upgrades", changed(CLUSTER, 'props["release_channel"] = {"channel": "UNSPECIFIED"}'),
          "cluster gpu-dev has no release channel"),
    Break("node-identity", changed(POOL, 'del props["node_config"]["service_account"]',
              name="train-gpu"),
          "pool train-gpu runs its nodes as the project's default account"),
    Break("permissions-too-broad", changed("gcp:projects/iAMMember:IAMMember",
              'props["role"] = "roles/editor"'),
          "gpu-dev-artifactregistry.reader: roles/editor grants far more permissions"),
    Break("image-pinned", changed(DEPLOYMENT, POD + 'main["image"] = "docker.io/nvidia/cuda"'),
          "container sample-gpu-pod runs docker.io/nvidia/cuda, which has no tag"),
    Break("gpu-limits", added("kubernetes.core.v1.Pod('greedy', metadata={'name': 'greedy'}, spec={"
              "'tolerations': [{'key': 'nvidia.com/gpu', 'operator': 'Exists'}], "
              "'containers': [{'name': 'main', 'image': 'docker.io/busybox:1.37'}]}, "
              "opts=pulumi.ResourceOptions(provider=cluster.provider))"),
          "pod greedy tolerates nvidia.com/gpu and asks for none"),
    Break("gpu-all", changed(DEPLOYMENT, POD +
              'main["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]'),
          "sees every GPU of its node, including those of other pods", advisory=True),
    Break("pod-security-baseline", changed(DEPLOYMENT, POD +
              'main["security_context"] = {"privileged": True}'),
          "deployment sample-gpu-pod in namespace default: container sample-gpu-pod: "
          "securityContext.privileged is true"),
    Break("host-paths", configured(lambda config:
              config["gpu-cluster:workloads"]["sample-gpu-pod"].update(driverLibraries="/run/containerd")),
          "deployment sample-gpu-pod in namespace default mounts /run/containerd of its node"),
    Break("namespace-enforces",
              added("kubernetes.core.v1.Namespace('team', metadata={'name': 'team'}, "
              "opts=pulumi.ResourceOptions(provider=cluster.provider))"),
          "Namespace team has no level of the Pod Security Standards that the cluster enforces"),
    Break("rbac-too-broad",
              added("kubernetes.rbac.v1.ClusterRoleBinding('ops', role_ref={'api_group': "
              "'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'cluster-admin'}, "
              "subjects=[{'kind': 'Group', 'name': 'ops'}], "
              "opts=pulumi.ResourceOptions(provider=cluster.provider))"),
          "ClusterRoleBinding ops gives cluster-admin, which has all permissions"),
    Break("explicit-provider", added("kubernetes.core.v1.Namespace('elsewhere')"),
          "Namespace elsewhere is created in whatever cluster the machine's kubeconfig names"),
    Break("monthly-ceiling", pools(maxNodes=100), "the machines of all pools cost $39,"),
]  # fmt: skip
"""All of these at once, in a stack `staging` that is like dev."""

ON_GKE_TOGETHER = [
    Break("gpu-toleration", changed(DEPLOYMENT, POD + 'pod["tolerations"] = []'),
          f"deployment sample-gpu-pod does not tolerate {GPU_TAINT} of pool "
          "train-gpu"),
    Break("one-driver", added("from gpu_cluster.components.daemon_set import daemon_set\n"
              "from gpu_cluster.components.gpu.driver import _pod\n"
              "daemon_set('second', _pod([cluster.pools['train-gpu']]), "
              "pulumi.ResourceOptions(provider=cluster.provider))"),
          "GPU pool train-gpu gets its driver from daemonset nvidia-driver-installer-cos and from "
          "daemonset second"),
    Break("one-device-plugin",
              added("kubernetes.apps.v1.DaemonSet('plugin', metadata={'name': 'plugin', "
              "'namespace': 'kube-system'}, spec={'selector': {'match_labels': {'a': 'b'}}, "
              "'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': {"
              "'node_selector': dict(cluster.pools['train-gpu'].node_selector), "
              "'containers': [{'name': 'p', 'image': 'nvcr.io/nvidia/k8s-device-plugin:v0.20.0'}], "
              "'volumes': [{'name': 'd', 'host_path': {'path': '/var/lib/kubelet/device-plugins'}}]"
              "}}}, opts=pulumi.ResourceOptions(provider=cluster.provider))"),
          "GPU pool train-gpu has its device plugin from GKE and from daemonset plugin"),
    Break("gpu-software", changed(POOL,
              'accelerator = props["node_config"]["guest_accelerators"][0]\n'
              'accelerator["gpu_driver_installation_config"] = '
              '{"gpu_driver_version": "INSTALLATION_DISABLED"}', name="bare"),
          "nothing in this stack gives GPU pool bare its driver", advisory=True),
    Break("extended-channel",
          changed(CLUSTER, 'props["release_channel"] = {"channel": "EXTENDED"}'),
          "cluster gpu-dev is on channel EXTENDED", advisory=True),
    Break("price-known", configured(lambda config:
              config["gpu-cluster:gpuPools"].update(
                  bare={"machineType": "a4-highgpu-8g", "capacityType": "spot",
                        "zones": ["us-central1-b"]})),
          "pool bare has nodes whose price is unknown", advisory=True),
]  # fmt: skip
"""Rules over the whole stack, in a second preview of `staging`."""

ON_EKS = [
    Break("disks-encrypted", changed(TEMPLATE,
              'props["block_device_mappings"][0]["ebs"]["encrypted"] = "false"'),
          "launch template train-gpu: volume /dev/xvda is not encrypted"),
    Break("instance-metadata", changed(TEMPLATE,
              'props["metadata_options"] = {"http_tokens": "optional"}', name="train-gpu"),
          "launch template train-gpu allows IMDSv1"),
    Break("secrets-encrypted", changed(EKS, 'del props["encryption_config"]'),
          "cluster k8s-ml does not encrypt Kubernetes secrets with a KMS key"),
    Break("audit-log", changed(EKS, 'props["enabled_cluster_log_types"] = ["api"]'),
          "cluster k8s-ml keeps no audit log"),
    Break("deletion-protection", configured(lambda config:
              config["gpu-cluster:cluster"].update(deletionProtection=False)),
          "cluster k8s-ml has deletionProtection off, which stack prod must have on"),
    Break("permissions-too-broad", changed("aws:iam/rolePolicyAttachment:RolePolicyAttachment",
              'props["policy_arn"] = "arn:aws:iam::aws:policy/AdministratorAccess"',
              name="k8s-ml-nodes-AmazonEKSWorkerNodePolicy"),
          "k8s-ml-nodes-AmazonEKSWorkerNodePolicy: AdministratorAccess grants far more "
          "permissions"),
    # tests/policy/config.json asks the next one of this stack.
    Break("pod-security-restricted", lambda program: None,
          "in namespace default: container sample-gpu-job: securityContext.runAsNonRoot is not "
          "set"),
    Break("autoscaler-tags", changed("aws:autoscaling/tag:Tag", 'props["tag"]["value"] = "other"',
              name="train-gpu-label-role"),
          "node group train-gpu has label role=train-gpu, and the tag of its Auto Scaling group "
          "says other"),
    Break("known-bad-release", configured(lambda config:
              config["gpu-cluster:gpuPools"]["train-gpu"].update(releaseVersion="1.35.6-20260818")),
          "train-gpu: 1.35.6-20260818 has NVIDIA's toolkit 1.20.0", advisory=True),
    # There it confirms a ceiling for `staging`, and none for this stack.
    Break("ceiling-confirmed", pools(maxNodes=100), "No ceiling is confirmed for stack prod: set",
          advisory=True),
]  # fmt: skip
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
            stack, source=source, folder=folder / "sandbox", options=SandboxOptions(prestart=False)
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
    for name in (
        "Pulumi.yaml",
        "__main__.py",
        "requirements.txt",
        "components",
        "gpu_cluster",
        ".venv",
    ):
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
