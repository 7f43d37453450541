"""Controllers, queues and training jobs, on pools of any platform."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.batch import training
from gpu_cluster.components.batch.batch_args import BatchArgs, QueueArgs
from gpu_cluster.components.batch.declare import declare_batch
from gpu_cluster.components.batch.team_args import TeamArgs, team_queues
from gpu_cluster.components.batch.training_args import TrainingArgs
from gpu_cluster.components.catalog import images
from gpu_cluster.components.catalog.kubernetes import BATCH_DEFINITIONS
from gpu_cluster.components.cluster import GPU_TAINT, AllAtOnce, Cluster, GpuPool, Sharing, Taint
from gpu_cluster.components.gpu.pod_args import EnvFromArgs
from gpu_cluster.components.gpu.prerequisites import Prerequisites
from gpu_cluster.components.gpu.resources_args import ResourcesArgs
from gpu_cluster.components.gpu.workload import GpuWorkload
from gpu_cluster.components.gpu.workload_args import WorkloadArgs
from gpu_cluster.stacks.engine.urn import Urn
from tests.components.recording import DEFINITION, Recording, Registration, record
from tests.components.test_gpu_layer import cluster, pool

KUEUE = "kubernetes:kueue.x-k8s.io/v1beta2"
JOB_SET = "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet"
TRAIN = pool(
    gpus_per_node=8,
    taints=[
        GPU_TAINT,
        Taint(key="team", value="a"),
        Taint(key="p", value="b", effect="PreferNoSchedule"),
    ],
)
SHARED = pool("shared", sharing=Sharing(strategy="time-slicing", replicas=4))
TRAINING = TrainingArgs(
    pool="train", image="example.com/i:1", nodes=3, command=["train.py", "--epochs", "3"], queue="q"
)


def declared(args: BatchArgs, jobs: Mapping[str, TrainingArgs], target: Cluster) -> None:
    """Controllers and queues, then the jobs."""
    queues = declare_batch(args, cluster=target)
    training.declare(jobs, Prerequisites(cluster=target, queues=queues))


def batch(**changes: Any) -> Recording:
    """A queue over both pools, for two namespaces, and a training job in it."""
    queue = QueueArgs(pools=["train", "shared"], namespaces=["default", "team"])
    given = {"job_set": True, "queues": {"q": queue}}
    args = BatchArgs(**{**given, **changes})
    jobs = {"ddp": TRAINING} if args.job_set else {}
    return record(lambda: declared(args, jobs, cluster([TRAIN, SHARED])))


def of(recording: Recording, kind: str, name: str) -> Registration:
    """The Kubernetes object of this kind and name."""
    (found,) = [
        resource
        for resource in recording.resources
        if resource.type.endswith(f":{kind}") and resource.inputs["metadata"]["name"] == name
    ]
    return found


def job_set(recording: Recording) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The training job's Job template and its pod's spec."""
    (workers,) = recording.one(JOB_SET).inputs["spec"]["replicatedJobs"]
    template = workers["template"]["spec"]
    return template, template["template"]["spec"]


def test_a_flavor_is_what_brings_a_pod_to_the_pool() -> None:
    """Labels, taints and tolerations are the pool's; a taint that only prefers keeps nobody out."""
    spec = of(batch(), "ResourceFlavor", "train").inputs["spec"]
    assert spec["nodeLabels"] == {"pool": "train"}
    assert spec["nodeTaints"] == [
        {"key": "nvidia.com/gpu", "value": GPU_TAINT.value, "effect": "NoSchedule"},
        {"key": "team", "value": "a", "effect": "NoSchedule"},
    ]


def test_a_flavor_tolerates_to_the_letter_what_a_workload_does() -> None:
    """Kueue adds a toleration that a job lacks; here none, or the job would look changed."""
    _, pod = job_set(batch())
    job = record(
        lambda: GpuWorkload(
            "w",
            WorkloadArgs(kind="job", pool="train", image="example.com/i:1"),
            Prerequisites(cluster=cluster([TRAIN])),
        )
    ).one("kubernetes:batch/v1:Job")
    flavor = of(batch(), "ResourceFlavor", "train").inputs["spec"]["tolerations"]
    assert flavor == pod["tolerations"] == job.inputs["spec"]["template"]["spec"]["tolerations"]


def test_a_job_without_all_of_its_pods_returns_to_its_queue() -> None:
    """After so many minutes; by default it keeps what it got."""

    def configured(**changes: Any) -> Any:
        data = of(batch(**changes), "ConfigMap", "kueue-manager-config").inputs["data"]
        return json.loads(data["controller_manager_config.yaml"]).get("waitForPodsReady")

    assert configured(pods_ready_minutes=30) == {
        "timeout": "30m",
        "recoveryTimeout": "0s",
    }
    assert configured() is None


def test_a_job_of_a_queued_pool_waits_for_all_of_its_nodes() -> None:
    """Its check is for that pool's jobs only, and leaves after the queue that names it; what it
    says is in `everything-gke.txt`."""
    args = BatchArgs(queues={"q": QueueArgs(pools=["waits", "train"])})
    pools = [pool("waits", all_at_once=AllAtOnce(provisioning_class="c")), TRAIN]
    queue = of(record(lambda: declared(args, {}, cluster(pools))), "ClusterQueue", "q")
    assert queue.inputs["spec"]["admissionChecksStrategy"] == {
        "admissionChecks": [{"name": "waits", "onFlavors": ["waits"]}]
    }
    assert any(urn.endswith("::check-waits") for urn in queue.depends_on)
    assert "admissionChecksStrategy" not in of(batch(), "ClusterQueue", "q").inputs["spec"]


def test_a_job_of_a_queued_pool_says_the_parameters_of_its_request() -> None:
    """A job that waits for its end says that too."""
    asks = AllAtOnce(provisioning_class="c", parameters={"seconds": "600"})
    said = {"provreq.kueue.x-k8s.io/seconds": "600"}

    def program() -> None:
        target = cluster([pool(gpus_per_node=8, all_at_once=asks)])
        args = BatchArgs(job_set=True, queues={"q": QueueArgs(pools=["train"])})
        declared(args, {"ddp": dataclasses.replace(TRAINING, wait=True)}, target)
        job = WorkloadArgs(kind="job", pool="train", image="example.com/i:1", queue="q")
        GpuWorkload("w", job, Prerequisites(cluster=target))

    recording = record(program)
    annotations = recording.one(JOB_SET).inputs["metadata"]["annotations"]
    assert said.items() < annotations.items()
    assert "pulumi.com/waitFor" in annotations
    job = recording.one("kubernetes:batch/v1:Job").inputs["metadata"]["annotations"]
    assert said.items() < job.items()


LEVELS = ("example.com/block", "example.com/rack")
NEAR = pool(gpus_per_node=8, topology=LEVELS)


def near(of_pool: GpuPool = NEAR, **changes: Any) -> Recording:
    """A queue over a topology-aware pool, a training job and a job in it."""

    def program() -> None:
        target = cluster([of_pool])
        args = BatchArgs(job_set=True, queues={"q": QueueArgs(pools=["train"])})
        declared(args, {"ddp": dataclasses.replace(TRAINING, **changes)}, target)
        job = WorkloadArgs(kind="job", pool="train", image="example.com/i:1", queue="q")
        GpuWorkload("w", job, Prerequisites(cluster=target))

    return record(program)


def test_a_topology_aware_pool_has_its_levels_and_a_flavor_that_names_them() -> None:
    """A flavor with a topology is immutable: one with other taints has another name, and the queue
    names it."""
    recording = near()
    topology = recording.one(f"{KUEUE}:Topology")
    assert topology.inputs["metadata"]["name"] == "train"
    assert [level["nodeLabel"] for level in topology.inputs["spec"]["levels"]] == [
        *LEVELS,
        "kubernetes.io/hostname",
    ]
    flavor = recording.one(f"{KUEUE}:ResourceFlavor")
    assert flavor.inputs["spec"]["topologyName"] == "train"
    assert any(urn.endswith("::topology-train") for urn in flavor.depends_on)
    changed = near(dataclasses.replace(NEAR, taints=[Taint(key="team", value="a")]))
    names = set()
    for each in (recording, changed):
        name = each.one(f"{KUEUE}:ResourceFlavor").inputs["metadata"]["name"]
        queue = each.one(f"{KUEUE}:ClusterQueue").inputs["spec"]
        assert queue["resourceGroups"][0]["flavors"][0]["name"] == name
        names.add(name)
    assert len(names) == 2


def test_kueue_places_pods_only_for_a_topology_aware_pool() -> None:
    """Otherwise it has neither the feature nor the right to change pods."""

    def placing(recording: Recording) -> tuple[bool, bool]:
        data = of(recording, "ConfigMap", "kueue-manager-config").inputs["data"]
        gates = json.loads(data["controller_manager_config.yaml"])["featureGates"]
        rules = of(recording, "ClusterRole", "kueue-controller-manager").inputs["rules"]
        changes = any("pods" in rule["resources"] and "patch" in rule["verbs"] for rule in rules)
        return gates["TopologyAwareScheduling"], changes

    assert placing(near()) == (True, True)
    assert placing(batch()) == (False, False)


CLAIMED = dataclasses.replace(TRAIN, device_class="gpu.nvidia.com", device_plugin=False)


def claiming(pools: list[str], *, mapped: bool = False, **queues: QueueArgs) -> Recording:
    """A queue over these of two pools, of which pods of `train` claim their GPUs. `mapped`: whether
    pods may also request them."""
    args = BatchArgs(job_set=True, queues={"q": QueueArgs(pools=pools)} if pools else queues)
    pools_ = [CLAIMED, dataclasses.replace(SHARED, sharing=None)]
    return record(lambda: declared(args, {}, dataclasses.replace(cluster(pools_), mapped=mapped)))


@pytest.mark.parametrize("pools", [["train", "shared"], ["shared"]])
def test_kueue_counts_claimed_gpus_for_a_queue_of_such_a_pool(pools: list[str]) -> None:
    """As units of the resource for which the queue has a quota; otherwise its alpha gate is off."""
    recording = claiming(pools)
    data = of(recording, "ConfigMap", "kueue-manager-config").inputs["data"]
    config = json.loads(data["controller_manager_config.yaml"])
    rules = of(recording, "ClusterRole", "kueue-controller-manager").inputs["rules"]
    reads = {
        resource for rule in rules if "watch" in rule["verbs"] for resource in rule["resources"]
    }
    needed = {"resourceclaims", "resourceclaimtemplates"}
    (group,) = recording.one(f"{KUEUE}:ClusterQueue").inputs["spec"]["resourceGroups"]
    mappings = config["resources"].get("deviceClassMappings")
    if "train" in pools:
        assert config["featureGates"]["DynamicResourceAllocation"] is True
        assert mappings == [{"name": "nvidia.com/gpu", "deviceClassNames": ["gpu.nvidia.com"]}]
        assert group["coveredResources"] == [mappings[0]["name"]]
        assert needed <= reads
    else:
        assert "DynamicResourceAllocation" not in config["featureGates"]
        assert mappings is None
        assert not needed & reads


@pytest.mark.parametrize(
    ("gpus", "requested", "claimed"),
    [({"train": 8}, "0", "8"), ({"train": 8, "shared": 4}, "4", "8"), ({"shared": 4}, "4", "0")],
)
def test_a_team_claims_no_more_than_its_gpus(
    gpus: dict[str, int], requested: str, claimed: str
) -> None:
    """Of its own pools, and no partitions; its pods may be on GPU nodes with a claim if it has any
    of these GPUs. Claims without GPUs are refused then."""
    teams = {"a": TeamArgs(members=["user:ada"], gpus=gpus)}
    recording = claiming([], **team_queues(teams, {"a": ((), ("ada",))}))
    assert recording.one("kubernetes:core/v1:ResourceQuota").inputs["spec"]["hard"] == {
        "requests.nvidia.com/gpu": requested,
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": claimed,
        "mig.nvidia.com.deviceclass.resource.k8s.io/devices": "0",
    }
    policy = of(recording, "ValidatingAdmissionPolicy", "team-a-queue").inputs["spec"]
    (rule,) = (one for one in policy["validations"] if "selects or tolerates" in one["message"])
    own = claimed != "0"
    assert ("size(pod.?resourceClaims.orValue([])) > 0" in rule["expression"]) == own
    assert ("or a ResourceClaim" in rule["message"]) == own
    policies = recording.of("kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy")
    assert ("team-a-claims" in {policy.name for policy in policies}) == own


@pytest.mark.parametrize(
    ("gpus", "requested"), [({"train": 8}, "8"), ({"train": 8, "shared": 4}, "12")]
)
def test_claims_of_a_team_also_count_as_requests_if_pods_may_request_them(
    gpus: dict[str, int], requested: str
) -> None:
    """Otherwise Kubernetes 1.36 would refuse them: the DeviceClass serves these requests too."""
    teams = {"a": TeamArgs(members=["user:ada"], gpus=gpus)}
    recording = claiming([], mapped=True, **team_queues(teams, {"a": ((), ("ada",))}))
    hard = recording.one("kubernetes:core/v1:ResourceQuota").inputs["spec"]["hard"]
    assert hard["requests.nvidia.com/gpu"] == requested
    assert hard["gpu.nvidia.com.deviceclass.resource.k8s.io/devices"] == "8"


@pytest.mark.parametrize("topology", [False, True])
def test_the_version_of_kueue_in_clusters_accepts_the_feature_gates(topology: bool) -> None:
    """Rehearsals run an earlier patch, which checks the gates before it reads the configuration:
    it starts with gates that 0.16.9 refuses."""
    known = yaml.safe_load(Path(__file__).with_name("kueue_gates.yaml").read_text(encoding="utf-8"))
    assert images.KUEUE.tag == known["version"], "read the file again in this version"
    recording = near() if topology else claiming(["train"])
    data = of(recording, "ConfigMap", "kueue-manager-config").inputs["data"]
    gates = json.loads(data["controller_manager_config.yaml"])["featureGates"]
    assert gates.keys() <= {*known["on"], *known["off"]}
    on = {gate for gate in known["on"] if gates.get(gate, True)}
    on |= {gate for gate in known["off"] if gates.get(gate)}
    missing = {gate: set(known["requires"].get(gate, ())) - on for gate in on}
    assert not {gate: needs for gate, needs in missing.items() if needs}


@pytest.mark.parametrize(
    ("changes", "annotation"),
    [
        ({"required_topology": LEVELS[0]}, {"podset-required-topology": LEVELS[0]}),
        ({"preferred_topology": LEVELS[1]}, {"podset-preferred-topology": LEVELS[1]}),
        ({}, {"podset-unconstrained-topology": "true"}),
    ],
)
def test_workers_say_how_close_together_they_have_to_be(
    changes: dict[str, Any], annotation: dict[str, str]
) -> None:
    """A change of it replaces a running job. Other jobs of the queue can be anywhere, and have to
    say so."""
    recording = near(**changes)
    expected = {f"kueue.x-k8s.io/{key}": value for key, value in annotation.items()}

    def said(annotations: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in annotations.items() if "topology" in key}

    template, _ = job_set(recording)
    assert said(template["template"]["metadata"]["annotations"]) == expected
    assert "topology" not in "".join(recording.one(JOB_SET).ignore_changes)
    job = recording.one("kubernetes:batch/v1:Job")
    anywhere = {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
    assert said(job.inputs["spec"]["template"]["metadata"]["annotations"]) == anywhere


def test_a_queue_is_there_in_each_of_its_namespaces() -> None:
    """And takes jobs from no other."""
    recording = batch()
    queues = [each.inputs for each in recording.of(f"{KUEUE}:LocalQueue")]
    assert [(queue["metadata"]["namespace"], queue["spec"]) for queue in queues] == [
        ("default", {"clusterQueue": "q"}),
        ("team", {"clusterQueue": "q"}),
    ]
    selector = of(recording, "ClusterQueue", "q").inputs["spec"]["namespaceSelector"]
    assert selector["matchExpressions"][0]["values"] == ["default", "team"]


def test_a_controller_begins_with_a_definition_that_every_version_of_it_has() -> None:
    """Where somebody else has installed it, that one exists, the update ends there, and neither
    another definition nor a right, webhook or namespace is created."""
    recording = batch()
    for source, first in BATCH_DEFINITIONS.items():
        ours = [
            resource
            for resource in recording.resources
            if resource.type.startswith("kubernetes:")
            and (f"{source}.x-k8s.io" in resource.name or resource.name.startswith(source))
            and resource.name != first
        ]
        assert len(ours) >= 9
        home = f"{source}-system"
        for each in ours:
            before = {Urn.parse(urn).name for urn in each.depends_on}
            assert before & {first, home}, each.name


def test_definitions_outlive_the_queues_on_a_cluster_of_others() -> None:
    """With a definition goes every object of its kind, whoever created it; a cluster of the stack's
    own goes as a whole."""

    def protected(**changes: Any) -> set[bool]:
        return {each.protect for each in batch(**changes).of(DEFINITION)}

    assert protected() == {True}
    assert protected(deletion_protection=True) == {True}
    assert protected(deletion_protection=False) == {False}

    def on_its_own() -> None:
        found = cluster([TRAIN, SHARED])
        args = BatchArgs(job_set=True, queues={"q": QueueArgs(pools=["train"])})
        declare_batch(args, cluster=dataclasses.replace(found, deleted_with=found.provider))

    assert {each.protect for each in record(on_its_own).of(DEFINITION)} == {False}


def test_no_controller_may_read_a_secret_of_others() -> None:
    """Rights in the whole cluster name no secret; those in its own namespace only its own."""
    recording = batch()
    for role in recording.of("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"):
        assert not [rule for rule in role.inputs["rules"] if "secrets" in rule["resources"]]
    for role in recording.of("kubernetes:rbac.authorization.k8s.io/v1:Role"):
        (change,) = [
            rule
            for rule in role.inputs["rules"]
            if "secrets" in rule["resources"] and "update" in rule["verbs"]
        ]
        assert change["resourceNames"] == [f"{role.name.split('-')[0]}-webhook-server-cert"]


def test_only_what_is_asked_for_is_there() -> None:
    """Without queues no Kueue, without jobSet no JobSet, of which Kueue then knows nothing."""
    queueless = batch(queues={})
    assert not [resource for resource in queueless.resources if "kueue" in resource.name]
    alone = batch(job_set=False)
    assert not [resource for resource in alone.resources if "jobset" in resource.name]
    text = json.dumps([each.inputs for each in alone.resources if "webhook" in each.name])
    assert "jobset" not in text
    nothing = record(lambda: declare_batch(None, cluster=cluster([TRAIN])))
    assert [resource.type for resource in nothing.resources] == ["pulumi:providers:kubernetes"]


def test_workers_bring_the_driver_where_nobody_else_does() -> None:
    """As every GPU pod of such a pool."""
    bare = pool(gpus_per_node=8, driver_directory="/home/kubernetes/bin/nvidia", device_plugin=True)
    args = BatchArgs(job_set=True)
    jobs = {"ddp": dataclasses.replace(TRAINING, queue=None)}
    _, pod = job_set(record(lambda: declared(args, jobs, cluster([bare]))))
    (worker,) = pod["containers"]
    assert [volume["name"] for volume in pod["volumes"]] == ["shared-memory", "driver"]
    assert worker["volumeMounts"][1] == {
        "name": "driver", "mountPath": "/usr/local/nvidia", "readOnly": True,
    }  # fmt: skip
    assert {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"} in worker["env"]
    own = EnvFromArgs(config_map="a", key="b", name="LD_LIBRARY_PATH")
    jobs = {"ddp": dataclasses.replace(TRAINING, queue=None, env_from=[own])}
    _, pod = job_set(record(lambda: declared(args, jobs, cluster([bare]))))
    names = [variable["name"] for variable in pod["containers"][0]["env"]]
    assert names.count("LD_LIBRARY_PATH") == 1


def test_nothing_empty_is_in_a_custom_resource() -> None:
    """Controllers write their objects back without what is empty, which would look changed."""

    def empties(value: Any) -> list[Any]:
        inner = (
            value.values()
            if isinstance(value, Mapping)
            else value
            if isinstance(value, list)
            else []
        )
        return [each for each in inner if each in ({}, [], None)] + [
            found for each in inner for found in empties(each)
        ]

    recording = batch()
    custom = [each for each in recording.resources if each.type.startswith((KUEUE, JOB_SET))]
    assert len(custom) == 6
    assert [found for each in custom for found in empties(each.inputs)] == []


@pytest.mark.parametrize(("given", "expected"), [(None, "8"), (4, "4")])
def test_a_worker_has_the_gpus_that_it_is_given(given: int | None, expected: str) -> None:
    """Left out, all of a node."""
    args = TrainingArgs(
        pool="train",
        image="example.com/i:1",
        nodes=1,
        command=["a"],
        gpus=given,
        requests=ResourcesArgs(cpu="2"),
    )
    recording = record(lambda: declared(BatchArgs(job_set=True), {"ddp": args}, cluster([TRAIN])))
    (worker,) = job_set(recording)[1]["containers"]
    assert worker["resources"] == {
        "limits": {"nvidia.com/gpu": expected},
        "requests": {"cpu": "2"},
    }


def test_a_worker_alone_needs_no_node_of_its_own() -> None:
    """Of several, each has one: `everything-gke.txt` has their rule."""
    alone = dataclasses.replace(TRAINING, nodes=1, queue=None)
    args = BatchArgs(job_set=True)
    _, pod = job_set(record(lambda: declared(args, {"ddp": alone}, cluster([TRAIN]))))
    assert "topologySpreadConstraints" not in pod


def test_a_queues_groups_submit_jobs_in_its_namespaces_alone() -> None:
    """They get what `gpu-cluster job` needs, by a Role in each namespace, and no Secret."""
    queue = QueueArgs(pools=["train"], namespaces=["default", "team"], groups=["researchers"])
    found = batch(queues={"q": queue, "r": QueueArgs(pools=["shared"], groups=["students"])})
    roles = found.of("kubernetes:rbac.authorization.k8s.io/v1:Role")
    bindings = found.of("kubernetes:rbac.authorization.k8s.io/v1:RoleBinding")
    submit = [role for role in roles if role.inputs["metadata"]["name"] == "submit-jobs"]
    assert {each.inputs["metadata"]["namespace"] for each in submit} == {"default", "team"}
    rights = {(*rule["apiGroups"], *rule["resources"]) for rule in submit[0].inputs["rules"]}
    assert ("jobset.x-k8s.io", "jobsets") in rights
    assert ("", "secrets") not in rights
    assert {
        binding.inputs["metadata"]["namespace"]: [one["name"] for one in binding.inputs["subjects"]]
        for binding in bindings
        if binding.inputs["roleRef"]["name"] == "submit-jobs"
    } == {"default": ["researchers", "students"], "team": ["researchers"]}
    assert not [resource for resource in batch().resources if "submit-jobs" in resource.name]


def test_a_budget_keeps_all_workers_of_a_training_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of a job that asks for one."""
    kind = "kubernetes:policy/v1:PodDisruptionBudget"
    assert batch().of(kind) == []
    training_job = dataclasses.replace(TRAINING, disruption_budget=True)
    monkeypatch.setitem(globals(), "TRAINING", training_job)
    spec = batch().one(kind).inputs["spec"]
    assert (spec["minAvailable"], spec["unhealthyPodEvictionPolicy"]) == (3, "AlwaysAllow")
    assert spec["selector"]["matchLabels"] == {"jobset.sigs.k8s.io/jobset-name": "ddp"}


def test_what_a_team_may_have_is_also_a_quota_of_its_namespaces() -> None:
    """With what it can borrow; its other limits are in `onprem_choices.txt`."""
    teams = {
        "a": TeamArgs(members=["user:ada"], gpus={"train": 8}, borrow=True),
        "b": TeamArgs(
            members=["group:b"],
            namespaces=["x", "y"],
            gpus={"train": 24},
            lend=False,
            priorities=["high"],
        ),
    }
    queues = team_queues(teams, {"a": ((), ("ada",)), "b": (("b",), ())})
    recording = batch(job_set=True, queues=queues, priorities={"high": 10})
    for name, quota in (
        ("a", {"nominalQuota": "8"}),
        ("b", {"nominalQuota": "24", "borrowingLimit": "0", "lendingLimit": "0"}),
    ):
        spec = of(recording, "ClusterQueue", name).inputs["spec"]
        (flavor,) = spec["resourceGroups"][0]["flavors"]
        assert flavor["resources"] == [{"name": "nvidia.com/gpu", **quota}]
        policy = of(recording, "ValidatingAdmissionPolicy", f"team-{name}-queue").inputs["spec"]
        rules = [validation["expression"] for validation in policy["validations"]]
        priorities = [rule.partition(" in ")[2] for rule in rules if "priority-class" in rule]
        assert priorities == (["['', 'high']"] if name == "b" else [])
    assert len(recording.of(f"{KUEUE}:ResourceFlavor")) == 1
    hard = {
        each.inputs["metadata"]["namespace"]: each.inputs["spec"]["hard"]
        for each in recording.of("kubernetes:core/v1:ResourceQuota")
    }
    # Team b lends nothing.
    assert [hard[each]["requests.nvidia.com/gpu"] for each in "axy"] == ["8", "24", "24"]
