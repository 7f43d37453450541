"""What a killed run leaves in the state, and what recovery makes of it."""

import json
import os
import re
import socket
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError, WaiterError
from moto import mock_aws

from gpu_cluster.cli.recover import _text
from gpu_cluster.stacks.definition.files import PLACEHOLDER
from gpu_cluster.stacks.engine.pulumi import EngineError
from gpu_cluster.stacks.engine.state import pending, resources
from gpu_cluster.stacks.recovery import google as on_google
from gpu_cluster.stacks.recovery import lock
from gpu_cluster.stacks.recovery.aws_resources import Aws, route_id
from gpu_cluster.stacks.recovery.clouds import LiveClouds
from gpu_cluster.stacks.recovery.command import recover
from gpu_cluster.stacks.recovery.engine import RecoveringPulumi, RecoveryError
from gpu_cluster.stacks.recovery.orphans import UNKNOWN, duplicates, with_orphans
from gpu_cluster.stacks.recovery.state import adopting, interrupted
from tests.unit.simulators.test_google_shared_vpc import SUBNETWORK, SharedStack

DECLARED = Path(__file__).parents[2] / "program" / "declared"
STACK = "urn:pulumi:dev::gpu-cluster::pulumi:pulumi:Stack::gpu-cluster-dev"
GCP = "urn:pulumi:dev::gpu-cluster::pulumi:providers:gcp::default"


def urn(kind: str, name: str) -> str:
    return f"urn:pulumi:dev::gpu-cluster::{kind}::{name}"


def row(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A resource as the state has it."""
    return {
        "urn": urn(kind, name),
        "type": kind,
        "custom": True,
        "parent": STACK,
        "provider": f"{GCP}::1",
        **more,
    }


def state(*rows: dict[str, Any], pending: Mapping[str, dict[str, Any]] | None = None) -> Any:
    """A deployment with a stack, a provider, these resources, and these operations under way."""
    first = [
        {"urn": STACK, "type": "pulumi:pulumi:Stack", "custom": False},
        {
            "urn": GCP,
            "type": "pulumi:providers:gcp",
            "custom": True,
            "id": "1",
            "inputs": {"project": "p", "zone": "us-central1-a"},
        },
    ]
    operations = [{"type": kind, "resource": each} for kind, each in (pending or {}).items()]
    body = {"resources": [*first, *rows], "pending_operations": operations}
    return {"version": 3, "deployment": body}


NETWORK = row(
    "gcp:compute/network:Network", "net", inputs={"name": "net-0123abc", "__defaults": ["name"]}
)


class FakePulumi(RecoveringPulumi):
    """Keeps a deployment as the engine would, and notes the commands."""

    def __init__(self, deployment: Any, **answers: str) -> None:
        super().__init__(command=Path("pulumi"), program=Path(), stack="dev", environment={})
        self.deployment = deployment
        self.calls: list[tuple[str, ...]] = []
        self.answers = answers
        self.gone: set[str] = set()

    def execute(self, *arguments: str, **_: str) -> "subprocess.CompletedProcess[str]":
        self.calls.append(arguments[:2])
        command = " ".join(arguments[:2])
        if refusal := self.answers.get(arguments[0]) or self.answers.get(command):
            del self.answers[arguments[0] if arguments[0] in self.answers else command]
            return subprocess.CompletedProcess(arguments, 255, "", refusal)
        if command == "stack export":
            return subprocess.CompletedProcess(arguments, 0, json.dumps(self.deployment), "")
        if command == "stack import":
            self.deployment = json.loads(Path(arguments[3]).read_text())
        if arguments[0] == "refresh":
            body = self.deployment["deployment"]
            body["resources"] = [
                {name: value for name, value in r.items() if name != "initErrors"}
                for r in body["resources"]
                if r.get("id") not in self.gone
            ]
        if arguments[0] == "whoami":
            return subprocess.CompletedProcess(arguments, 0, self.answers["url"], "")
        return subprocess.CompletedProcess(arguments, 0, "", "")


class Nobody:
    """Clouds that must not be asked."""

    def aws(self, region: str) -> Aws:
        raise AssertionError("AWS was asked")

    def google(self, service: str, path: str) -> Mapping[str, Any]:
        raise AssertionError("Google was asked")


def test_what_was_orphaned_is_adopted_under_its_generated_name() -> None:
    """The state's pending operation has the name; the zone of the provider says the rest."""
    pulumi = FakePulumi(state(pending={"creating": NETWORK}))
    found = recover(pulumi, clouds=Nobody())
    identity = "projects/p/global/networks/net-0123abc"
    assert found.adopted == {NETWORK["urn"]: identity}
    body = pulumi.deployment["deployment"]
    assert "pending_operations" not in body
    last = body["resources"][-1]
    assert (last["id"], last["outputs"]) == (identity, {"name": "net-0123abc"})


def test_a_recovery_that_was_ended_before_it_read_what_it_adopted_begins_again() -> None:
    """Else the state keeps what nobody has seen, of which the official plugin of Kubernetes plans
    no change: it panics."""
    pulumi = FakePulumi(state(pending={"creating": NETWORK}), refresh="error: no answer")
    with pytest.raises(EngineError, match="no answer"):
        recover(pulumi, clouds=Nobody())
    (unread,) = (each for each in resources(pulumi.deployment) if each["urn"] == NETWORK["urn"])
    assert unread["initErrors"]
    # Meanwhile the refresh had read what depends on it.
    read = row("gcp:compute/router:Router", "r", id="r", dependencies=[NETWORK["urn"]])
    resources(pulumi.deployment).append(read)
    found = recover(pulumi, clouds=Nobody())
    assert found.adopted == {NETWORK["urn"]: "projects/p/global/networks/net-0123abc"}
    assert resources(pulumi.deployment)[-1] == read
    (adopted,) = (each for each in resources(pulumi.deployment) if each["urn"] == NETWORK["urn"])
    assert "initErrors" not in adopted
    assert [call[0] for call in pulumi.calls].count("refresh") == 2


def test_a_healthy_state_is_in_order() -> None:
    """Nothing was interrupted, so there is nothing to run again."""
    found = recover(FakePulumi(state({**NETWORK, "id": "net"})), clouds=Nobody())
    assert _text("dev", found).splitlines() == [
        "recovery of dev: no interrupted operations",
        "The state is in order.",
    ]


def test_what_was_not_made_is_forgotten() -> None:
    """The refresh does not find it, so it is not in the state, and `up` makes it."""
    pulumi = FakePulumi(state(pending={"creating": NETWORK}))
    pulumi.gone.add("projects/p/global/networks/net-0123abc")
    assert recover(pulumi, clouds=Nobody()).adopted == {}
    assert [each["urn"] for each in pulumi.deployment["deployment"]["resources"]] == [STACK, GCP]


def test_changes_and_deletions_are_read_again() -> None:
    """The state has these resources; the refresh is for them alone, and nothing can be adopted."""
    there = {**NETWORK, "id": "projects/p/global/networks/net-0123abc"}
    pulumi = FakePulumi(state(there, pending={"deleting": there}))
    assert recover(pulumi, clouds=Nobody()).adopted == {}
    assert [call[0] for call in pulumi.calls] == ["stack", "stack", "refresh", "stack"]


def test_nothing_is_adopted_without_consent() -> None:
    """Somebody else's cluster of that name is not taken over: nothing is written."""
    pulumi = FakePulumi(state(pending={"creating": NETWORK}))
    with pytest.raises(RecoveryError, match="nothing was changed"):
        recover(pulumi, clouds=Nobody(), confirm=lambda candidates: False)
    assert pulumi.deployment["deployment"]["pending_operations"]


def locked(pid: int, host: str = socket.gethostname()) -> str:
    return (
        "error: the stack is currently locked by 1 lock(s). Either wait ...\n"
        f"  file:///state/l.json: created by me@{host} (pid {pid}) at 2026-11-21T03:38:35Z"
    )


def test_a_run_that_goes_on_is_left_alone() -> None:
    """Its lock stays."""
    pulumi = FakePulumi(state(), **{"stack import": locked(os.getpid())})
    with pytest.raises(RecoveryError, match=f"in use by me's process {os.getpid()}: let it finish"):
        recover(pulumi, clouds=Nobody())
    assert ("cancel", "--yes") not in pulumi.calls


@pytest.mark.parametrize(
    "refusal",
    [
        locked(1, "build-7"),
        locked(2**22 + 1),  # beyond any process: of this machine's name, and perhaps not of it
        "error: [409] Conflict: Another update is currently in progress.",
    ],
)
def test_a_run_of_another_machine_is_ended_by_nobody_but_people(refusal: str) -> None:
    """Whether it goes on cannot be seen from here: its lock stays, unless somebody knows."""
    pulumi = FakePulumi(state(), url="{}", **{"stack import": refusal})
    with pytest.raises(RecoveryError, match="nothing was changed: let that run finish"):
        recover(pulumi, clouds=Nobody(), confirm_unlock=lambda holder: False)
    assert ("cancel", "--yes") not in pulumi.calls
    pulumi = FakePulumi(state(), url="{}", **{"stack import": refusal})
    recover(pulumi, clouds=Nobody(), confirm_unlock=lambda holder: holder in refusal)
    assert ("cancel", "--yes") in pulumi.calls


def test_a_container_is_known_by_its_own_id(tmp_path: Path) -> None:
    """The runtime mounts files from its folder, and makes its first letters the host name."""
    identity = "0123456789ab" + "c" * 52
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 2 8:1 /var/lib/docker/containers/{identity}/hostname /etc/hostname rw\n")
    assert lock._own_container(mounts) == "0123456789ab"
    mounts.write_text("1 2 8:1 / / rw\n")
    assert lock._own_container(mounts) is None
    assert lock._own_container(tmp_path / "nothing") is None


MOUNTS = """\
27 1 254:0 / / rw - ext4 /dev/vda rw
28 27 0:25 / /home rw - nfs4 server:/home rw
29 28 0:26 / /home/me/fast\\040disk rw - xfs /dev/vdb rw
"""


@pytest.mark.parametrize(
    ("folder", "local"),
    [("/srv/state", True), ("/home/me/state", False), ("/home/me/fast disk/state", True)],
)
def test_a_folder_is_on_a_disk_of_this_machine(tmp_path: Path, folder: str, local: bool) -> None:
    """The innermost mount counts; from another machine a file system of the network is written."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert lock._on_local_disk(Path(folder), mounts) is local


def test_every_process_of_the_machine_is_looked_at(tmp_path: Path) -> None:
    """Outside of containers only; and a container's own process IDs count."""
    (tmp_path / "self" / "ns").mkdir(parents=True)
    namespace = tmp_path / "self" / "ns" / "pid"
    namespace.symlink_to("pid:[4026531836]")
    assert not lock._sees_every_process(tmp_path), "it may not look at process 1"
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "status").write_text("NSpid:\t1\n")
    assert lock._sees_every_process(tmp_path)
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "status").write_text("Name:\tpulumi\nNSpid:\t77\t12\n")
    assert lock._in_a_container(12, tmp_path)
    assert not lock._in_a_container(77, tmp_path)
    namespace.unlink()
    namespace.symlink_to("pid:[4026532000]")
    assert not lock._sees_every_process(tmp_path)


@pytest.mark.parametrize(
    ("one", "dead"),
    [
        ({}, True),
        ({"_on_local_disk": lambda folder: False}, False),
        ({"_sees_every_process": lambda: False}, False),
        ({"_in_a_container": lambda pid: True}, False),
        ({"_alive": lambda pid: True}, False),
    ],
)
def test_a_dead_run_of_this_machine_is_known_by_all_of_it(
    monkeypatch: pytest.MonkeyPatch, one: dict[str, Any], dead: bool
) -> None:
    """One doubt, and a person is asked."""
    known = {
        "_own_container": lambda: None,
        "_alive": lambda pid: False,
        "_on_local_disk": lambda folder: True,
        "_sees_every_process": lambda: True,
        "_in_a_container": lambda pid: False,
    }
    for name, answer in {**known, **one}.items():
        monkeypatch.setattr(lock, name, answer)
    assert lock.are_dead(locked(12), Path("/state")) is dead
    assert not lock.are_dead(locked(12), None), "it may be a backend of many machines"
    assert not lock.are_dead(locked(12) + locked(13, "build-7"), Path("/state"))
    assert not lock.are_dead("Another update is currently in progress.", Path("/state"))


class FailingPreview(FakePulumi):
    """Its preview fails, and says so as JSON."""

    def execute(self, *arguments: str, **_: str) -> "subprocess.CompletedProcess[str]":
        if arguments[0] != "preview":
            return super().execute(*arguments)
        said = [
            {"severity": "info", "message": "reading"},
            {"severity": "error", "message": "preview failed\n"},
            {"urn": "a", "severity": "error", "message": "error: no credentials:\n run aws sso"},
        ]
        text = json.dumps({"config": {"x": "y" * 9000}, "diagnostics": said})
        return subprocess.CompletedProcess(arguments, 255, text, "")


def test_a_preview_that_fails_is_said_cause_first() -> None:
    """One line for each error; the JSON, which nobody reads, is in a file of this user's."""
    with pytest.raises(RecoveryError) as refused:
        recover(FailingPreview(state()), clouds=Nobody(), adopt_orphans=True)
    cause, consequence, where = str(refused.value).splitlines()
    assert cause == "pulumi preview: no credentials: run aws sso"
    assert consequence == "preview failed"
    file = Path(where.removeprefix("its complete output is in "))
    assert json.loads(file.read_text())["config"] == {"x": "y" * 9000}
    assert file.stat().st_mode & 0o077 == 0
    file.unlink()


def test_a_half_written_attribute_file_is_removed(tmp_path: Path) -> None:
    """SIGKILL may leave one empty beside the state, which then cannot be read: EOF."""
    folder = tmp_path / ".pulumi" / "stacks"
    folder.mkdir(parents=True)
    for name, text in (("dev.json.attrs", ""), ("dev.json", "{}"), ("other.json.attrs", "{}")):
        (folder / name).write_text(text)
    url = json.dumps({"url": f"file://{tmp_path}?no_tmp_dir=true"})
    pulumi = FakePulumi(state(), stack="error: failed to load checkpoint: EOF", url=url)
    recover(pulumi, clouds=Nobody())
    assert sorted(file.name for file in folder.iterdir()) == ["dev.json", "other.json.attrs"]


def test_an_unknown_kind_is_named_for_people() -> None:
    """Whether it is there cannot be known, so nothing is pretended."""
    odd = row("random:index/pet:Pet", "odd", inputs={})
    found = recover(FakePulumi(state(pending={"creating": odd})), clouds=Nobody())
    assert found.notes == [
        "random:index/pet:Pet odd: look for it manually, because its ID is not in its inputs"
    ]


def test_of_a_replacement_the_old_one_goes_next() -> None:
    """Both are there: the new one is adopted, the old one marked as replaced."""
    old = {**NETWORK, "id": "projects/p/global/networks/net-aaaaaaa"}
    user = row("gcp:compute/subnetwork:Subnetwork", "s", id="s", dependencies=[NETWORK["urn"]])
    deployment = state(old, user, pending={"creating": NETWORK})
    rows = adopting(deployment, {NETWORK["urn"]: "new"})["deployment"]["resources"]
    assert [(each.get("id"), each.get("delete")) for each in rows[2:]] == [
        ("new", None),
        ("projects/p/global/networks/net-aaaaaaa", True),
        ("s", None),
    ]
    assert not deployment["deployment"]["resources"][2].get("delete")


def test_what_was_deleted_before_its_replacement_is_gone() -> None:
    """The engine keeps a row with `delete` and `pendingReplacement` for ever, and the last destroy
    breaks on it; the second row is one that an earlier version left."""
    old = {**NETWORK, "id": "old", "pendingReplacement": True}
    left = {**NETWORK, "id": "left", "pendingReplacement": True, "delete": True}
    user = row("gcp:compute/subnetwork:Subnetwork", "s", id="s", dependencies=[NETWORK["urn"]])
    deployment = state(old, left, user, pending={"creating": NETWORK})
    rows = resources(adopting(deployment, {NETWORK["urn"]: "new"}))[2:]
    assert [each["id"] for each in rows] == ["new", "s"]
    assert not any("delete" in each or "pendingReplacement" in each for each in rows)


def test_a_replacement_may_have_the_name_of_what_it_replaces() -> None:
    """A fixed name is why the old one is deleted first: the state then has that name already."""
    fixed = row("gcp:compute/network:Network", "net", inputs={"name": "fixed"})
    identity = "projects/p/global/networks/fixed"
    old = {**fixed, "id": identity, "pendingReplacement": True}
    pulumi = FakePulumi(state(old, pending={"creating": fixed}))
    assert recover(pulumi, clouds=Nobody()).adopted == {fixed["urn"]: identity}
    (adopted,) = resources(pulumi.deployment)[2:]
    assert (adopted["id"], "pendingReplacement" in adopted) == (identity, False)


def test_what_was_being_deleted_for_a_replacement_is_deleted_again() -> None:
    """With the mark, the engine takes it to be deleted and makes the next one beside it."""
    old = {**NETWORK, "id": "old", "pendingReplacement": True}
    pulumi = FakePulumi(state(old, pending={"deleting": old}))
    recover(pulumi, clouds=Nobody())
    (kept,) = resources(pulumi.deployment)[2:]
    assert kept["id"] == "old"
    assert "pendingReplacement" not in kept


def test_components_and_providers_are_made_by_nobody() -> None:
    """They are forgotten; `up` registers them again."""
    component = {**row("gpu-cluster:gke:Cluster", "c"), "custom": False}
    provider = row("pulumi:providers:kubernetes", "k", inputs={})
    operations = interrupted(state(pending={"creating": component})) + interrupted(
        state(pending={"creating": provider})
    )
    assert [operation.may_be_there for operation in operations] == [False, False]


def test_a_lost_answer_is_found_in_what_the_program_still_wants() -> None:
    """A preview names it, Google lists what there is under a generated name."""
    wanted = {**NETWORK, "inputs": {"name": "net-fffffff", "__defaults": ["name"]}}
    unknown = row("gcp:compute/router:Router", "r", inputs={"network": UNKNOWN})
    orphan = row("gcp:compute/router:Router", "o", inputs={}, parent="urn:of:nobody")
    provider = row("pulumi:providers:kubernetes", "k", inputs={})
    del provider["provider"]
    steps = [{"op": "create", "newState": each} for each in (wanted, unknown, orphan, provider)]
    deployment = with_orphans(state(), {"steps": steps})
    (one,) = interrupted(deployment)
    assert (one.urn, one.orphaned) == (NETWORK["urn"], True)

    asked: list[tuple[str, str]] = []

    def answer(service: str, path: str) -> Mapping[str, Any]:
        asked.append((service, path))
        return {"items": [{"name": name} for name in ("net-0123abc", "net", "network-0123abc")]}

    inputs = on_google.complete(one.inputs, one.provider)
    (identity,) = on_google.find(one.type, "net", inputs, answer) or ()
    assert asked == [("compute", "projects/p/global/networks")]
    (adopted,) = adopting(deployment, {one.urn: identity})["deployment"]["resources"][2:]
    assert adopted["inputs"]["name"] == "net-0123abc"


def test_an_adopted_alert_policy_has_the_name_by_which_it_is_read() -> None:
    """Google chooses it, and the id is no more than a copy of it to the provider."""
    name, kind = "projects/p/alertPolicies/123", "gcp:monitoring/alertPolicy:AlertPolicy"
    begun = row(kind, "idle", inputs={"displayName": "idle"})
    (adopted,) = adopting(state(pending={"creating": begun}), {begun["urn"]: name})["deployment"][
        "resources"
    ][2:]
    assert (adopted["id"], adopted["outputs"]) == (name, {"displayName": "idle", "name": name})
    assert "name" not in adopted["inputs"]


@pytest.mark.parametrize(
    ("kind", "inputs", "identity"),
    [
        ("gcp:container/nodePool:NodePool",
            {"cluster": "projects/p/locations/l/clusters/c", "name": "n"},
            "projects/p/locations/l/clusters/c/nodePools/n"),
        ("gcp:compute/routerNat:RouterNat",
            {"router": "projects/p/regions/us-central1/routers/r", "name": "n"},
            "p/us-central1/r/n"),
        ("gcp:serviceaccount/account:Account", {"accountId": "a"},
            "projects/p/serviceAccounts/a@p.iam.gserviceaccount.com"),
        ("gcp:projects/iAMMember:IAMMember",
            {"project": "p", "role": "roles/viewer", "member": "user:a@b.c"},
            "p/roles/viewer/user:a@b.c"),
        ("gcp:storage/bucketIAMMember:BucketIAMMember",
            {"bucket": "data", "role": "roles/storage.objectViewer", "member": "user:a@b.c"},
            "b/data/roles/storage.objectViewer/user:a@b.c"),
        ("gcp:projects/iAMMember:IAMMember",
            {"project": "p", "role": "roles/viewer", "member": "user:a@b.c",
                "condition": {"title": "stack s", "expression": "true"}},
            "p/roles/viewer/user:a@b.c/stack s"),
        ("gcp:projects/service:Service", {"project": "p", "service": "file.googleapis.com"},
            "p/file.googleapis.com"),
    ],
)  # fmt: skip
def test_google_ids_follow_from_inputs(kind: str, inputs: Any, identity: str) -> None:
    """As the official provider has them, with the region that the provider's zone is in."""
    complete = on_google.complete(inputs, {"project": "p", "zone": "us-central1-a"})
    assert on_google.identity(kind, complete) == identity


def test_every_type_that_the_program_declares_is_known() -> None:
    """To nobody it is said to look for one by hand."""
    lines = [line for file in DECLARED.glob("*.txt") for line in file.read_text().splitlines()]
    kinds = {line.split()[0] for line in lines if re.match("(gcp|aws):", line)}
    assert len(kinds) > 30
    aws = Aws(lambda service: None)
    inputs = {
        "project": "p",
        "network": "n",
        "displayName": "d",
        "dashboardJson": '{"displayName": "d"}',
    }
    unknown = {
        kind
        for kind in kinds
        if not aws.knows(kind)
        and on_google.identity(kind, defaultdict(str, inputs)) is None
        and on_google.find(kind, "x", inputs, lambda *_: {}) is None
    }
    assert unknown == set()


def test_kubernetes_ids_are_namespace_and_name() -> None:
    """Of what has no namespace, the name alone."""
    identity = on_google.kubernetes_identity
    assert identity({"metadata": {"name": "a", "namespace": "b"}}) == "b/a"
    assert identity({"metadata": {"name": "a"}}) == "a"


def test_a_routes_id_is_the_official_one() -> None:
    """The number of the default route is in many a state file."""
    default = {"routeTableId": "rtb-1", "destinationCidrBlock": "0.0.0.0/0"}
    assert route_id(default) == "r-rtb-11080289494"


class Gateways:
    """EC2 with two NAT gateways in a subnet, and two that are going."""

    def describe_nat_gateways(self, Filters: Any) -> Any:
        assert Filters == [{"Name": "subnet-id", "Values": ["subnet-1"]}]
        rows = [("nat-1", "available"), ("nat-2", "available"), ("nat-0", "deleted"),
                ("nat-3", "failed")]  # fmt: skip
        return {"NatGateways": [{"NatGatewayId": each, "State": now} for each, now in rows]}

    def get_waiter(self, name: str) -> "Gateways":
        return self

    def wait(self, **_: Any) -> None:
        """They are there."""


def test_a_rule_of_a_security_group_is_found_by_what_it_lets_in() -> None:
    """The group has other rules, EKS's own among them; AWS chose all their ids."""
    with mock_aws():
        ec2 = boto3.client("ec2", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        group = ec2.create_security_group(GroupName="eks", Description="EKS's own")["GroupId"]
        tcp = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
        rules = {
            block: ec2.authorize_security_group_ingress(
                GroupId=group, IpPermissions=[{**tcp, "IpRanges": [{"CidrIp": block}]}]
            )["SecurityGroupRules"][0]["SecurityGroupRuleId"]
            for block in ("10.20.0.0/16", "10.21.0.0/16")
        }
        kind = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
        asked = {"securityGroupId": group, "ipProtocol": "tcp", "fromPort": 443, "toPort": 443}
        aws = Aws(lambda service: ec2)
        assert aws.find(kind, {**asked, "cidrIpv4": "10.21.0.0/16"}) == [rules["10.21.0.0/16"]]
        assert aws.find(kind, {**asked, "cidrIpv4": "10.22.0.0/16"}) == []


def test_a_second_one_on_aws_is_named() -> None:
    """What looks like the stack's and is not in the state costs money unseen."""
    kind = "aws:ec2/natGateway:NatGateway"
    known = row(kind, "nat", id="nat-1", inputs={"subnetId": "subnet-1"}, outputs={"region": "r"})
    aws = Aws(lambda service: Gateways())
    assert list(duplicates(state(known), {"r": aws})) == [
        f"{kind} nat-2 looks like nat, but is not in the state"
    ]


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Ask")


class Account:
    """AWS with another team's key beside the stack's, and a node group that failed."""

    meta = SimpleNamespace(region_name="us-east-1")

    def get_paginator(self, call: str) -> Any:
        page: dict[str, Any] = {
            "list_keys": {"Keys": [{"KeyId": "theirs"}, {"KeyId": "ours"}]},
            "list_nodegroups": {"nodegroups": ["gpu-1"]},
        }[call]
        return SimpleNamespace(paginate=lambda **_: [page])

    def describe_key(self, KeyId: str) -> Any:
        if KeyId == "theirs":
            raise refused("AccessDeniedException")
        return {"KeyMetadata": {"KeyId": KeyId, "Description": "secrets", "KeyState": "Enabled"}}

    def describe_nodegroup(self, **_: str) -> Any:
        return {"nodegroup": {"launchTemplate": {"id": "lt-1"}}}

    def get_waiter(self, name: str) -> "Account":
        return self

    def wait(self, **_: Any) -> None:
        raise WaiterError("NodegroupActive", "matched expected path: CREATE_FAILED", {})


def test_another_team_s_key_hides_none_of_ours() -> None:
    """Its policy lets nobody else look at it, and the stack made it not."""
    aws = Aws(lambda service: Account())
    assert aws.find("aws:kms/key:Key", {"description": "secrets"}) == ["ours"]


def test_what_failed_on_aws_is_named_with_what_to_do() -> None:
    """As part of the stack it would look whole, and an `up` would not repair it."""
    aws = Aws(lambda service: Account())
    inputs = {"clusterName": "c", "launchTemplate": {"id": "lt-1"}}
    command = "delete-nodegroup --region us-east-1 --cluster-name c --nodegroup-name gpu-1, then"
    with pytest.raises(LookupError, match=f"nodegroup c/gpu-1 did not .* aws eks {command}"):
        aws.find("aws:eks/nodeGroup:NodeGroup", inputs)


def test_what_aws_does_not_tell_is_left_to_people() -> None:
    """The state is in order by then, and recovery does not fail for a second one unseen."""
    kind = "aws:eks/nodeGroup:NodeGroup"
    group = {"clusterName": "c", "launchTemplate": {"id": "lt-1"}}
    rows = [row(kind, name, id=name, inputs=group, outputs={"region": "r"}) for name in "ab"]
    (line,) = duplicates(state(*rows), {"r": Aws(lambda service: Account())})
    assert line.startswith(f"{kind}: AWS: nodegroup c/gpu-1 did not become active")
    nameless = row("aws:iam/role:Role", "role", id="role", inputs={}, outputs={"region": "r"})
    assert list(duplicates(state(nameless), {"r": Aws(lambda service: Account())})) == []


def test_a_profile_that_this_machine_lacks_is_said() -> None:
    """In AWS's own words, as every other error of theirs."""
    with pytest.raises(LookupError, match=r"AWS: The config profile .*nobody.* could not be found"):
        LiveClouds(config={"aws:profile": "nobody"}).aws("us-east-1")


@pytest.mark.parametrize(
    ("kind", "parent"),
    [("firewall:Firewall", "global/firewalls"), ("router:Router", "regions/r/routers"),
     ("subnetwork:Subnetwork", "regions/r/subnetworks")],
)  # fmt: skip
def test_what_has_no_mark_is_found_by_its_network(kind: str, parent: str) -> None:
    """Its name is Pulumi's, and of several such ones the network decides."""
    rows = [{"name": f"nic-012345{n}", "network": f"https://g/{n}"} for n in "ab"]
    inputs = {"project": "p", "region": "r", "network": "projects/p/global/networks/b"}
    asked = dict[str, Any]()
    answers = {f"projects/p/{parent}": {"items": rows}}
    found = on_google.find(
        f"gcp:compute/{kind}", "nic", inputs, lambda _, path: asked.setdefault(path, answers[path])
    )
    assert found == [f"projects/p/{parent}/nic-012345b"]


def test_every_page_of_google_s_is_read() -> None:
    """A project may have more alert policies than one answer."""
    pages = {
        "": {"alertPolicies": [{"name": "1", "displayName": "other"}], "nextPageToken": "a/b"},
        "?pageToken=a%2Fb": {"alertPolicies": [{"name": "2", "displayName": "XID"}]},
    }
    found = on_google.find(
        "gcp:monitoring/alertPolicy:AlertPolicy",
        "xid",
        {"project": "p", "displayName": "XID"},
        lambda _, path: pages[path.removeprefix("v3/projects/p/alertPolicies")],
    )
    assert found == ["2"]


@pytest.mark.parametrize(
    ("code", "body", "came"),
    [
        (200, b'{"items": []}', {"items": []}),
        (404, b'{"error": {"message": "Not found: the cluster"}}', {}),
        (403, b'{"error": {"message": "compute.networks.list denied"}}', "networks.list denied"),
        (502, b"<html>", "Google Cloud: "),
    ],
)
def test_google_is_asked_with_a_scope_that_every_api_takes(
    monkeypatch: pytest.MonkeyPatch, code: int, body: bytes, came: Any
) -> None:
    """GKE has no narrower one for a service account; what is not there is no error."""
    default, session = Mock(return_value=(None, None)), Mock()
    session.request.return_value = SimpleNamespace(status=code, data=body)
    library = "gpu_cluster.stacks.capacity.google_api.google.auth"
    monkeypatch.setattr(f"{library}.default", default)
    monkeypatch.setattr(f"{library}.transport.urllib3.AuthorizedHttp", lambda credentials: session)
    if isinstance(came, str):
        with pytest.raises(LookupError, match=came):
            LiveClouds().google("container", "projects/p")
    else:
        assert LiveClouds().google("container", "projects/p") == came
    assert session.request.call_args.args == (
        "GET", "https://container.googleapis.com/v1/projects/p",
    )  # fmt: skip
    default.assert_called_once_with(scopes=["https://www.googleapis.com/auth/cloud-platform"])


def test_a_kept_rehearsal_is_asked_instead_of_google() -> None:
    """Every API that recovery asks, without anybody's credentials."""
    stack = SharedStack()
    clouds = LiveClouds(endpoint=stack.api.endpoint)
    assert clouds.google("compute", SUBNETWORK)["name"] == "gke"
    assert clouds.google("container", "projects/p/locations/l/clusters/c") == {}
    assert clouds.google("iam", "projects/p/serviceAccounts/a@p.iam.gserviceaccount.com") == {}
    assert clouds.google("monitoring", "v1/projects/p/dashboards") == {"dashboards": []}
    assert clouds.google("monitoring", "v3/projects/p/alertPolicies") == {"alertPolicies": []}
    stack.api.stop()


def test_an_imported_node_pool_names_its_cluster_as_the_program_does() -> None:
    """`pulumi import` writes the short name, for which the provider would replace the pool."""
    whole = "projects/p/locations/us-central1-a/clusters/gpu-dev"

    def state(**pool: Any) -> dict[str, Any]:
        rows = [
            {"urn": "urn:c", "type": "gcp:container/cluster:Cluster", "id": whole},
            {"urn": "urn:p", "type": "gcp:container/nodePool:NodePool", **pool},
        ]
        return {"deployment": {"resources": rows}}

    imported = state(
        id=f"{whole}/nodePools/train-gpu-1",
        inputs={"cluster": "gpu-dev", "location": "us-central1-a"},
        outputs={"cluster": "gpu-dev"},
    )
    (_, pool) = adopting(imported, {})["deployment"]["resources"]
    assert pool["inputs"] == {"cluster": whole, "location": "us-central1-a"}
    assert pool["outputs"] == {"cluster": whole}
    for other in (
        state(id=f"{whole}/nodePools/train-gpu-1", inputs={"cluster": whole}, outputs={}),
        state(id=f"{whole}/nodePools/train-gpu-1", inputs={"cluster": "other"}, outputs={}),
        state(inputs={}, outputs={}),
    ):
        assert adopting(other, {}) == other


class Eks:
    """A cluster and a node group, of which one failed."""

    def describe_cluster(self, name: str) -> Any:
        return {"cluster": {"status": "ACTIVE"}}

    def get_caller_identity(self) -> Any:
        return {"Account": "111111111111", "Arn": "arn:aws:iam::111111111111:role/deployer"}

    def describe_nodegroup(self, clusterName: str, nodegroupName: str) -> Any:
        if nodegroupName == "gone":
            raise refused("ResourceNotFoundException")
        issues = [{"code": "NodeCreationFailure", "message": "no node joined"}]
        return {"nodegroup": {"status": "CREATE_FAILED", "health": {"issues": issues}}}


class Clouds:
    """Google Cloud with these statuses, and the EKS above."""

    def __init__(self, statuses: Mapping[str, str], *pools: str) -> None:
        self.statuses = statuses
        self.pools = [{"name": name} for name in pools]

    def aws(self, region: str) -> Aws:
        return Aws(lambda service: Eks())

    def google(self, service: str, path: str) -> Mapping[str, Any]:
        assert service == "container"
        status = self.statuses.get(path, "")
        if status == "denied":
            raise LookupError("Google Cloud: permission denied")
        said = {"status": status, "statusMessage": "no machine", "nodePools": self.pools}
        return said if status else {}


GKE, GKE_POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
EKS, EKS_GROUP = "aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup"


def test_what_a_cloud_made_half_way_is_replaced_by_the_next_update() -> None:
    """The cloud says what failed, whatever the state says; what is up with a fault is left to
    repair itself, and what is gone to a refresh."""
    there = {"outputs": {"region": "us-east-1"}}
    rows = [
        row(GKE, "dev", id="c"),
        row(GKE_POOL, "gpu", id="c/nodePools/gpu"),
        row(GKE_POOL, "system", id="c/nodePools/system"),
        row(EKS, "ml", id="ml", **there),
        row(EKS_GROUP, "gpu", id="ml:gpu", **there),
        row(EKS_GROUP, "gone", id="ml:gone", **there),
        NETWORK | {"id": "projects/p/global/networks/net-0123abc"},
    ]
    pulumi = FakePulumi(state(*rows))
    now = {"c": "ERROR", "c/nodePools/gpu": "RUNNING_WITH_ERROR", "c/nodePools/system": "RUNNING"}
    found = recover(pulumi, clouds=Clouds(now))
    wanted = {urn(GKE, "dev"): "no machine", urn(EKS_GROUP, "gpu"): "no node joined"}
    assert found.failed == wanted
    assert pulumi.calls.count(("state", "taint")) == 2
    line = f"  {GKE} dev: its creation failed, and the next up replaces it: no machine"
    assert line in _text("dev", found).splitlines()


def test_a_cloud_that_does_not_say_what_failed_is_said_apart() -> None:
    """The state is in order by then, and the command does not end with 0."""
    found = recover(FakePulumi(state(row(GKE, "dev", id="c"))), clouds=Clouds({"c": "denied"}))
    assert found.failed == {}
    assert found.notes == []
    assert found.unknown == [
        "it is not known whether clusters and node pools failed: Google Cloud: permission denied"
    ]


def test_an_operation_is_not_dropped_because_another_account_lacks_its_resource() -> None:
    """The state's own ARNs say which account it is about; recovery names the one that it asks."""
    arn = "arn:aws:kms:us-east-1:222222222222:key/1"
    key = row("aws:kms/key:Key", "key", id="1", outputs={"region": "us-east-1", "arn": arn})
    begun = row("aws:kms/alias:Alias", "a", inputs={"region": "us-east-1", "name": "alias/a",
                                                    "targetKeyId": "1"})  # fmt: skip
    pulumi = FakePulumi(state(key, pending={"creating": begun}))
    with pytest.raises(RecoveryError) as refusal:
        recover(pulumi, clouds=Clouds({}))
    assert str(refusal.value) == (
        "AWS: arn:aws:iam::111111111111:role/deployer is in account 111111111111, and the stack's "
        "resources are in 222222222222; sign in to that account, or correct aws:profile or "
        "aws:assumeRoles"
    )
    assert pending(pulumi.deployment)
    assert ("stack", "import") not in pulumi.calls

    said: list[str] = []
    rows = [row(EKS, name, id=name, outputs={"region": "us-east-1"}) for name in ("ml", "b")]
    recover(FakePulumi(state(*rows)), clouds=Clouds({}), log=said.append)
    assert said == ["querying AWS as arn:aws:iam::111111111111:role/deployer"]


@pytest.mark.parametrize("key", ["aws:profile", "aws:assumeRoles"])
def test_an_account_that_is_encrypted_is_not_guessed(key: str) -> None:
    """The credentials of the environment may be of another account."""
    with pytest.raises(LookupError, match=f"{key} is encrypted"):
        LiveClouds(config={key: f'[{{"roleArn": "{PLACEHOLDER}"}}]'}).aws("us-east-1")


@pytest.mark.parametrize("removes", [True, False])
def test_a_default_pool_that_is_still_there_is_removed_by_the_next_update(removes: bool) -> None:
    """Google's provider was killed between the creation of the cluster and that: the adopted
    cluster's state must not say that it was done. A pool that the program keeps stays."""
    whole = "projects/p/locations/us-central1-a/clusters/dev"
    inputs = {"project": "p", "location": "us-central1-a", "name": "dev"}
    begun = row(GKE, "dev", inputs=inputs | {"removeDefaultNodePool": removes})
    pulumi = FakePulumi(state(pending={"creating": begun}))
    found = recover(pulumi, clouds=Clouds({whole: "RUNNING"}, "default-pool", "gpu"))
    assert found.adopted == {urn(GKE, "dev"): whole}
    assert found.default_pools == ([urn(GKE, "dev")] if removes else [])
    (adopted,) = (resource for resource in resources(pulumi.deployment) if resource["type"] == GKE)
    assert adopted["inputs"]["removeDefaultNodePool"] is False
    assert adopted["outputs"]["removeDefaultNodePool"] is False
    line = f"  {GKE} dev: still has GKE's default node pool, and the next up removes it"
    assert (line in _text("dev", found).splitlines()) is removes


def test_a_cluster_without_its_default_pool_is_left_as_it_is() -> None:
    """Its state is not written again."""
    pulumi = FakePulumi(state(row(GKE, "dev", id="c", inputs={"removeDefaultNodePool": True})))
    assert recover(pulumi, clouds=Clouds({"c": "RUNNING"}, "gpu")).default_pools == []
    assert pulumi.calls.count(("stack", "import")) == 1


def test_on_an_existing_gke_cluster_nothing_of_its_owner_is_taken() -> None:
    """Of the same names: node pools of the owner and of another stack, and a service account."""
    cluster, ours = "projects/p/locations/l/clusters/platform", "gpu-cluster_on-gke"
    stacks = {"gpu-0000aaa": ours, "gpu-1111aaa": "gpu-cluster_b", "gpu-2222aaa": None}
    config = {name: {"resourceLabels": {"gpu-cluster-stack": it}} for name, it in stacks.items()}
    pools = [{"name": name, "config": config[name]} for name in stacks]
    pool = {"cluster": cluster, "name": "gpu-fffffff", "__defaults": ["name"]}
    account = {"project": "p", "accountId": "platform-0a1b2c-nodes", "description": "stack a"}
    begun = [
        row(GKE_POOL, "gpu", inputs={**pool, "nodeConfig": config["gpu-0000aaa"]}),
        row("gcp:serviceaccount/account:Account", "nodes", inputs=account),
    ]
    deployment = state()
    deployment["deployment"]["pending_operations"] = [
        {"type": "creating", "resource": each, "orphaned": True} for each in begun
    ]
    answers = {
        "container": {"nodePools": pools, "status": "RUNNING"},
        "iam": {**account, "description": "the platform team's"},
    }
    clouds = Mock(google=lambda service, path: answers[service])
    found = recover(FakePulumi(deployment), clouds=clouds)
    assert found.adopted == {begun[0]["urn"]: f"{cluster}/nodePools/gpu-0000aaa"}
    (note,) = found.notes
    assert "is labelled the platform team's, not stack a: it is not adopted" in note
