"""Teams in the config: who may do what with which GPUs, or one line that names the key."""

import copy
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.components.batch import team_limits
from gpu_cluster.components.batch.published import Published, batch_of
from gpu_cluster.components.batch.team_args import TeamQueue
from gpu_cluster.components.eks.cluster_args import EksClusterArgs
from gpu_cluster.components.schema.decode import decode
from gpu_cluster.components.schema.refusal import Refusals
from gpu_cluster.components.settings.load import from_config
from gpu_cluster.components.settings.model import Settings
from gpu_cluster.components.settings.teams import read_cluster, read_teams
from gpu_cluster.components.settings.validate import check_groups, warnings
from tests.program.environments import as_engine_config, values_of
from tests.unit.components.test_settings import refusal

ROLE = "arn:aws:iam::210987654321:role/"


def gke(**changes: Any) -> dict[str, Any]:
    """Dev with two teams, who have two of its pool's three GPUs, and one that only borrows.
    `changes`: of the team research, if any."""
    values = copy.deepcopy(values_of("dev"))
    values["gpu-cluster:workloads"] = {}
    values["gpu-cluster:teams"] = {
        "research": {
            "members": ["user:ada@example.com", "group:research@example.com"],
            "gpus": {"train-gpu": 1},
            "borrow": True,
            **changes,
        },
        "vision": {
            "members": ["user:ben@example.com"],
            "namespaces": ["vision-a", "vision-b"],
            "gpus": {"train-gpu": 1},
        },
        "interns": {
            "members": ["user:cy@example.com"], "gpus": {"train-gpu": 0}, "borrow": True,
        },
    }  # fmt: skip
    return values


def eks(members: list[str]) -> dict[str, Any]:
    """Train with a team of these members."""
    values = copy.deepcopy(values_of("train"))
    values["gpu-cluster:teams"] = {"research": {"members": members, "gpus": {"train-gpu": 1}}}
    return values


def read(values: dict[str, Any]) -> Settings[Any]:
    return from_config(as_engine_config(values))


def of_team(values: dict[str, Any]) -> str:
    """Why the config is refused, from the name of the team on."""
    return (refusal(as_engine_config(values)) or "accepted").removeprefix("gpu-cluster:teams.")


def test_a_team_has_a_queue_namespaces_and_people() -> None:
    """What it may borrow is what the others lend; and its own name is that of its namespace."""
    settings = read(gke())
    assert settings.batch is not None
    assert settings.batch.job_set
    queues, pool = settings.batch.queues, settings.pools["train-gpu"].pool
    assert {name: (queue.guaranteed(pool), queue.quota(pool))
            for name, queue in queues.items()} == {
        "research": (1, 2), "vision": (1, 1), "interns": (0, 2),
    }  # fmt: skip
    assert list(settings.namespaces) == ["interns", "research", "vision-a", "vision-b"]
    assert queues["research"].submitters == [
        ("Group", "research@example.com"), ("User", "ada@example.com"),
    ]  # fmt: skip
    assert check_groups(settings) == []


@pytest.mark.parametrize("stack", ["dev", "autopilot"])
def test_a_group_without_members_is_warned_of(stack: str) -> None:
    """GKE asks Google who is in a group only if the cluster names the one that contains it."""
    values = values_of(stack)
    pool = next(iter(values["gpu-cluster:gpuPools"]))
    team = {"members": ["group:vision@example.com"], "gpus": {pool: 1}}
    values["gpu-cluster:teams"] = {"vision": team}
    values["gpu-cluster:workloads"] = {}
    lines = []
    for group in (None, "gke-security-groups@example.com"):
        if group:
            values["gpu-cluster:cluster"]["securityGroup"] = group
        found = warnings(from_config(as_engine_config(values)))
        lines.append([line for line in found if "securityGroup" in line])
    assert [len(line) for line in lines] == [1, 0]
    assert lines[0][0].startswith("gpu-cluster:teams.vision.members: vision@example.com")
    values["gpu-cluster:cluster"]["securityGroup"] = "admins@example.com"
    with pytest.raises(ValueError, match=r"securityGroup: 'admins@example[.]com' is not a group"):
        from_config(as_engine_config(values))


def test_a_team_is_told_of_its_own_queue_only() -> None:
    """In the words that a command of an earlier version reads."""
    batch = read(gke()).batch
    assert batch is not None
    assert set(batch_of(batch, "vision-b").queues) == {"vision"}
    assert type(batch_of(batch, "vision-b").queues["vision"]) is not type(batch.queues["vision"])


def test_a_team_is_told_of_its_own_priorities_only() -> None:
    """All of `batch.priorities` unless it has some of them; without any, nothing is published that
    an older command would refuse."""
    values = gke(priorities=["later"])
    values["gpu-cluster:batch"] = {"priorities": {"urgent": 10, "later": -10}}
    batch = read(values).batch
    assert batch is not None
    assert dict(batch_of(batch, "research").priorities) == {"later": -10}
    assert dict(batch_of(batch, "vision-a").priorities) == {"urgent": 10, "later": -10}
    without = read(gke()).batch
    assert without is not None
    assert "priorities" not in Published(pools={}, batch=batch_of(without, "vision-a")).text()


@pytest.mark.parametrize(
    ("queued", "borrow", "priorities", "key"),
    [
        (True, True, {}, "teams.research.borrow: a job of queue research"),
        (True, False, {"urgent": 1}, "batch.priorities: a job of queue research"),
        (True, False, {}, None),
        (False, True, {"urgent": 1}, None),
    ],
)
def test_jobs_that_are_stopped_while_gke_gathers_their_nodes_are_a_warning(
    queued: bool, borrow: bool, priorities: dict[str, int], key: str | None
) -> None:
    """Kueue leaves the request, for which GKE starts nodes that no job uses."""
    values = gke(borrow=borrow)
    values["gpu-cluster:teams"] = {"research": values["gpu-cluster:teams"]["research"]}
    values["gpu-cluster:batch"] = {"priorities": priorities}
    values["gpu-cluster:gpuPools"]["train-gpu"] = {
        "machineType": "g2-standard-4", "capacityType": "flex-start", "queued": queued,
        "maxNodes": 3,
    }  # fmt: skip
    found = [line for line in warnings(read(values)) if "leaves its ProvisioningRequest" in line]
    assert [line.removeprefix("gpu-cluster:").startswith(key or "?") for line in found] == (
        [True] if key else []
    )


def test_members_on_eks_are_users_of_the_cluster_in_a_group_of_the_teams_name() -> None:
    """As those of `cluster.users`, beside whom they are."""
    values = eks([f"{ROLE}research"])
    values["gpu-cluster:cluster"]["users"] = {"others": {"principals": [f"{ROLE}research"]}}
    settings = read(values)
    assert list(settings.cluster.users) == ["others", "research"]
    assert settings.batch is not None
    assert settings.batch.queues["research"].submitters == [("Group", "research")]


def test_the_cluster_of_a_program_has_its_teams_too() -> None:
    """Whose args are of a class, not a map."""
    values = eks([f"{ROLE}research"])
    given = {key: one for key, one in values["gpu-cluster:cluster"].items() if key != "platform"}
    args = decode("cluster", EksClusterArgs, given)
    teams = read_teams(values["gpu-cluster:teams"], Refusals())
    assert list(read_cluster(EksClusterArgs, args, teams).users) == ["research"]


def test_a_workload_that_bypasses_the_queues_of_teams_is_a_warning() -> None:
    """Unless the teams leave it enough."""
    values = gke()
    sample = {"kind": "deployment", "pool": "train-gpu", "image": "example.com/a:1"}
    values["gpu-cluster:workloads"] = {"web": sample}
    assert not [line for line in warnings(read(values)) if "workloads.web" in line]
    values["gpu-cluster:teams"]["vision"]["gpus"] = {"train-gpu": 2}
    (line,) = [line for line in warnings(read(values)) if "workloads.web" in line]
    assert line.endswith(
        "set teams.research.gpus.train-gpu + teams.vision.gpus.train-gpu + "
        "teams.interns.gpus.train-gpu to at most 2"
    )


def test_on_an_existing_cluster_members_are_roles_and_groups_of_its_owner() -> None:
    """Roles are put into a group of the team's name; a group is what its owner calls it."""
    values = copy.deepcopy(values_of("on-eks"))
    values["gpu-cluster:workloads"] = {}
    members = [f"{ROLE}research", f"{ROLE}ops", "group:ml", "group:research"]
    team = {"members": members, "gpus": {"train-gpu": 1}}
    values["gpu-cluster:teams"] = {"research": team}
    found = from_config(as_engine_config(values))
    assert found.batch is not None
    assert found.batch.queues["research"].groups == ["research", "ml"]
    assert [*found.own.cluster.users["research"].principals] == [f"{ROLE}research", f"{ROLE}ops"]
    for wrong in ("arn:aws-cn:iam::210987654321:role/research", "arn:aws:iam::1:role/ada"):
        team["members"] = ["group:ml", wrong]
        assert of_team(values).startswith("research.members[1]: ")
    team["members"] = ["ada"]
    assert of_team(values) == (
        "research.members[0]: 'ada' is not accepted as a member here; give "
        "arn:aws:iam::ACCOUNT:role/NAME, the ARN of an IAM role or user, or user: or group: and "
        "the name that the cluster knows, such as group:researchers"
    )
    team["members"] = ["user:arn:aws:iam::210987654321:user/ada"]
    assert of_team(values) == "accepted"
    team["members"] = ["user:arn:aws:iam::210987654321:role/r"]
    assert of_team(values) == (
        "research.members[0]: 'user:arn:aws:iam::210987654321:role/r' would match nobody, because "
        "EKS knows a role only by the names of its sessions, arn:aws:sts::ACCOUNT:assumed-role/"
        "...; give the ARN itself, without user:"
    )


def test_a_service_in_a_teams_namespace_counts_against_its_quota() -> None:
    """A warning says how much; elsewhere it does not."""
    values = gke()
    service = {"pool": "train-gpu", "image": "a.example/b:1", "port": 80, "gpus": 1}
    values["gpu-cluster:services"] = {
        "chat": {**service, "namespace": "vision-a"}, "rank": service,
    }  # fmt: skip
    (line,) = (warning for warning in warnings(read(values)) if "quota counts" in warning)
    assert line.startswith("gpu-cluster:services.chat.namespace: vision-a is of team vision, whose")
    assert "its pods take 1 of the 1 GPUs" in line
    assert line.endswith("or raise teams.vision.gpus")


@pytest.mark.parametrize(("shared", "taken"), [(False, 6), (True, 2)])
def test_gpus_that_pods_share_count_once(shared: bool, taken: int) -> None:
    """However many of them there are."""
    values = values_of("onprem")
    pools = {"gpus": {**values["gpu-cluster:gpuPools"]["gpus"], "devicePlugin": "dra"}}
    service = {"pool": "gpus", "image": "a.example/b:1", "port": 80, "gpus": 2, "replicas": 3}
    values |= {
        "gpu-cluster:gpuPools": pools,
        "gpu-cluster:workloads": {},
        "gpu-cluster:teams": {"vision": {"members": ["user:ada"], "gpus": {"gpus": 8}}},
        "gpu-cluster:services": {"chat": {**service, "namespace": "vision", "sharedGpus": shared}},
    }
    (line,) = (warning for warning in warnings(read(values)) if "quota counts" in warning)
    assert f"its pods take {taken} of the 8 GPUs" in line


JOB = {
    "pool": "train-gpu", "nodes": 1, "image": "i:1", "command": ["a"], "namespace": "research",
    "queue": "research",
}  # fmt: skip
PATH = "gpu-cluster:trainingJobs.ddp."
GPUS_SEEN = (
    "NVIDIA_VISIBLE_DEVICES chooses which GPUs a container sees, also those of other pods, and is "
    "not possible in namespace research of team research; drop it"
)
UNWANTED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "training jobs of this namespace wait": [
        ({"pool": "more", "queue": None},
         f"{PATH}queue: is missing, and training jobs in namespace research wait in the queue of "
         "team research; set it to research, or choose another namespace"),
    ],
    "priority: is not available": [
        ({"priority": "now"},
         f"{PATH}priority: now is not available to jobs of team research; allowed: later"),
    ],
    "variables: NVIDIA_": [
        ({"env": {"NVIDIA_VISIBLE_DEVICES": "all"}},
         f"{PATH}env.NVIDIA_VISIBLE_DEVICES: {GPUS_SEEN}"),
        ({"envFrom": [{"secret": "s", "key": "k", "name": "NVIDIA_VISIBLE_DEVICES"}]},
         f"{PATH}envFrom[0].name: {GPUS_SEEN}"),
    ],
    "keys of a ConfigMap: NVIDIA_": [
        ({"volumes": {"v": {"mountPath": "/v", "files": ["NVIDIA_VISIBLE_DEVICES"]}}},
         f"{PATH}volumes.v.files[0]: {GPUS_SEEN}"),
    ],
    # No setting of a job leads to these.
    "priorityClassName: cannot be set": [],
    "a pod that selects or tolerates GPU nodes": [],
    "tolerations: one without a key": [],
    "nodeName: bypasses": [],
    "envFrom cannot have a prefix": [],
    "a claim of a team": [],
}  # fmt: skip
"""How the message of a rule of the team's policies begins -> jobs of the stack, and the refusal."""


@pytest.mark.parametrize("message", UNWANTED)
def test_the_settings_refuse_what_the_policies_of_a_team_would(
    message: str, tmp_path: Path
) -> None:
    """Otherwise, `pulumi up` fails on a policy of the same stack."""
    values = gke(priorities=["later"])
    values["gpu-cluster:batch"] = {"priorities": {"later": -1, "now": 1}}
    pools = values["gpu-cluster:gpuPools"]
    pools["more"] = pools["train-gpu"]
    (tmp_path / "NVIDIA_VISIBLE_DEVICES").write_text("all")
    harmless = {"env": {"NVIDIA_DRIVER_CAPABILITIES": "compute"}}
    for change, says in [*UNWANTED[message], (harmless, "accepted")]:
        job = {key: value for key, value in (JOB | change).items() if value is not None}
        values["gpu-cluster:trainingJobs"] = {"ddp": job}
        try:
            from_config(as_engine_config(values), tmp_path)
            refused = "accepted"
        except ValueError as error:
            refused = str(error)
        assert refused == says


def test_every_rule_of_the_policies_is_among_them() -> None:
    """A new rule needs its row above."""
    values = gke(priorities=["later"])
    values["gpu-cluster:batch"] = {"priorities": {"later": -1}}
    settings = read(values)
    assert settings.batch is not None
    queue = settings.batch.queues["research"]
    assert isinstance(queue, TeamQueue)
    pool = settings.pools["train-gpu"].pool
    nodes = team_limits.on_gpu_nodes([pool], claims=True)
    rules = [*team_limits.queued("research", queue), *nodes]
    others = [team_limits.CONFIG_MAPS, team_limits.CLAIMS]
    messages = [str(rule["message"]) for rule in [*rules, *others]]
    assert len(messages) == len(UNWANTED)
    for message in messages:
        assert [start for start in UNWANTED if message.startswith(start)], message
