"""The arguments of a Kubernetes provider resource as the offline plugin reads them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.plugins.kubernetes import provider_args
from rehearsal.plugins.kubernetes.cluster import Cluster, Unreachable
from rehearsal.plugins.kubernetes.provider_args import Settings
from rehearsal.plugins.kubernetes.wire import UNKNOWN, Secret


def kubeconfig(server: str = "https://one.example", *, user: str = "a", **cluster: Any) -> str:
    return yaml.safe_dump({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": user}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "apps"}},
            {"name": "there", "context": {"cluster": "other", "user": "u"}},
        ],
        "current-context": "here",
    })  # fmt: skip


def changed(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], list[str]]:
    return provider_args.changed(old, new, {})


def test_nothing_changed() -> None:
    """The same arguments are no difference, whatever the engine adds."""
    old = {"kubeconfig": kubeconfig(), "version": "4.34.1"}
    assert changed(old, {**old, "version": "4.34.2"}) == ([], [])


def test_another_server_replaces_everything() -> None:
    """Without an identifier another active cluster means another provider, and all its objects."""
    old, new = ({"kubeconfig": kubeconfig(server)} for server in ("https://a", "https://b"))
    assert changed(old, new) == (["kubeconfig"], ["kubeconfig"])


def test_another_user_updates() -> None:
    """Other credentials for the same cluster replace nothing."""
    old, new = ({"kubeconfig": kubeconfig(user=user)} for user in "ab")
    assert changed(old, new) == (["kubeconfig"], [])


def test_another_context_of_another_cluster_replaces() -> None:
    """The context decides which cluster is the active one."""
    document = yaml.safe_load(kubeconfig())
    document["clusters"].append({"name": "other", "cluster": {"server": "https://two.example"}})
    text = yaml.safe_dump(document)
    old, new = {"kubeconfig": text}, {"kubeconfig": text, "context": "there"}
    assert changed(old, new) == (["context"], ["context"])


def test_an_unknown_kubeconfig_replaces_everything() -> None:
    """A preview that cannot know the kubeconfig plans a replacement of all objects."""
    old = {"kubeconfig": kubeconfig()}
    assert changed(old, {"kubeconfig": UNKNOWN}) == (["kubeconfig"], ["kubeconfig"])


@pytest.mark.parametrize("kube", [UNKNOWN, kubeconfig("https://two.example"), Secret("x")])
def test_the_same_identifier_protects(kube: Any) -> None:
    """With the same clusterIdentifier no other argument replaces anything."""
    old = {"kubeconfig": kubeconfig(), "clusterIdentifier": "c1"}
    assert changed(old, {"kubeconfig": kube, "clusterIdentifier": "c1"}) == (["kubeconfig"], [])


def test_another_identifier_replaces() -> None:
    """Another clusterIdentifier replaces, even with the same kubeconfig."""
    old, new = ({"kubeconfig": kubeconfig(), "clusterIdentifier": name} for name in ("c1", "c2"))
    assert changed(old, new) == (["clusterIdentifier"], ["clusterIdentifier"])


def test_adding_an_identifier_replaces_nothing() -> None:
    """An existing stack can take up clusterIdentifier without a replacement."""
    old = {"kubeconfig": kubeconfig()}
    assert changed(old, {**old, "clusterIdentifier": "c1"}) == (["clusterIdentifier"], [])


@pytest.mark.parametrize(
    ("arguments", "name", "reason"),
    [
        ({"kubeConfig": "x"}, "kubeConfig", "unknown provider argument: use one of"),
        ({"enableServerSideApply": "false"}, "enableServerSideApply", "only applies server-side"),
        ({"renderYamlToDirectory": "out"}, "renderYamlToDirectory", "does not render YAML"),
        ({"kubeClientSettings": '{"qsp": 5}'}, "kubeClientSettings.qsp", "use burst, qps, timeout"),
        ({"kubeClientSettings": "{"}, "kubeClientSettings", "not JSON"),
        ({"strictMode": "true", "kubeconfig": "x"}, "context", "strict mode requires Provider"),
        ({"strictMode": True, "context": "x"}, "kubeconfig", "strict mode requires Provider"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], name: str, reason: str) -> None:
    """Each wrong argument is one fault with its name."""
    faults = list(provider_args.faults(arguments, default_provider=False))
    assert [fault[0] for fault in faults] == [name]
    assert reason in faults[0][1]


def test_strict_mode_refuses_the_default_provider() -> None:
    """In strict mode nothing is deployed to whatever the machine's own kubeconfig says."""
    given = {"strictMode": "true", "kubeconfig": "x", "context": "y"}
    assert list(provider_args.faults(given, default_provider=False)) == []
    assert list(provider_args.faults(given, default_provider=True)) == [
        ("", "strict mode prohibits default provider")
    ]


def test_every_argument_of_the_sdk_is_known() -> None:
    """What the SDK's Provider sends is accepted."""
    given = {
        "kubeconfig": Secret(UNKNOWN),
        "context": "c",
        "namespace": "n",
        "clusterIdentifier": "i",
        "deleteUnreachable": "true",
        "enableServerSideApply": "true",
        "kubeClientSettings": json.dumps({"qps": 5, "timeout": 3}),
        "version": "4.34.2",
    }
    assert list(provider_args.faults(given, default_provider=False)) == []


def test_flags_come_from_the_environment_too() -> None:
    """An argument beats the environment's flag, which beats the default."""
    environment = {"PULUMI_K8S_DELETE_UNREACHABLE": "true"}
    assert provider_args.read({}, environment).delete_unreachable
    assert not provider_args.read({"deleteUnreachable": "false"}, environment).delete_unreachable
    assert not provider_args.read({}, {}).delete_unreachable
    assert provider_args.read({"kubeClientSettings": '{"timeout": 7}'}, {}).timeout == 7


def test_kubeconfig_by_content_and_by_path(tmp_path: Path) -> None:
    """A kubeconfig argument is a document or the path of one."""
    file = tmp_path / "config"
    file.write_text(kubeconfig())
    by_content = provider_args.load_kubeconfig(kubeconfig(), {})
    assert by_content == (yaml.safe_load(kubeconfig()), Path())
    assert provider_args.load_kubeconfig(str(file), {}) == (by_content[0], tmp_path)
    assert provider_args.load_kubeconfig("", {"KUBECONFIG": str(file)}) == (by_content[0], tmp_path)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Settings(kubeconfig="/nowhere/config"), "cannot read kubeconfig /nowhere/config: No such"),
        (Settings(kubeconfig="- a\n- b\n"), "kubeconfig is not an object with clusters"),
        (Settings(kubeconfig=kubeconfig(), context="gone"),
            'context "gone" does not exist: it has'),
        (Settings(kubeconfig=kubeconfig("https://127.0.0.1:1")),
            "unable to load schema information"),
    ],
)  # fmt: skip
def test_unusable_clusters(given: Settings, reason: str) -> None:
    """A cluster that cannot be used says why."""
    with pytest.raises(Unreachable, match=reason):
        Cluster(given, {})


def test_a_rehearsal_connects_to_its_own_cluster_only(tmp_path: Path) -> None:
    """Neither is a token sent to another one, nor does the program run that would fetch one."""
    document = yaml.safe_load(kubeconfig("https://203.0.113.7"))
    ran = tmp_path / "ran"
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}
    document["users"][0]["user"] = {
        "exec": {**command, "args": [str(ran)], "interactiveMode": "Never"}
    }
    given = Settings(kubeconfig=yaml.safe_dump(document))
    with pytest.raises(Unreachable, match=r"server https://203\.0\.113\.7 is not the rehearsal's"):
        Cluster(given, {"PATH": os.defpath}, "127.0.0.1:6443")
    assert not ran.exists()
