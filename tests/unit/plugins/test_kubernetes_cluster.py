"""Which cluster the offline plugin of Kubernetes connects to, by a provider's arguments."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from gpu_cluster.rehearsal.plugins.cloud.wire import UNKNOWN, encode
from gpu_cluster.rehearsal.plugins.faults import Faults
from gpu_cluster.rehearsal.plugins.kubernetes.cluster import Cluster, Settings, Unreachable
from gpu_cluster.rehearsal.plugins.kubernetes.server import Servicer


def kubeconfig(server: str = "https://one.example") -> str:
    return yaml.safe_dump({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "a"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "here",
    })  # fmt: skip


@pytest.mark.parametrize(
    ("identifier", "diffs", "replaces"),
    [
        ("c1", [], []),
        ("c2", ["clusterIdentifier"], ["clusterIdentifier"]),
        (UNKNOWN, ["clusterIdentifier"], ["clusterIdentifier"]),
    ],
)
def test_another_cluster_replaces_everything(
    identifier: str, diffs: list[str], replaces: list[str]
) -> None:
    """The identifier says which cluster it is; what the engine adds is no difference."""
    olds, news = (
        encode({"clusterIdentifier": given, "version": version})
        for given, version in (("c1", "4.34.1"), (identifier, "4.34.2"))
    )
    asked = SimpleNamespace(old_inputs=olds, news=news)
    answer = Servicer({}, Faults()).DiffConfig(asked, None)
    assert (list(answer.diffs), list(answer.replaces)) == (diffs, replaces)


def test_a_preview_names_the_keys_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not their paths, of which the engine would print none in a resource's line."""
    changes = {'metadata.labels["a.b/c"]': ("add", False), "spec.replicas": ("update", False),
               "spec.ports[0].port": ("update", True), "data": ("delete", False)}  # fmt: skip
    found = SimpleNamespace(changes=changes, replaces=["spec.ports"], delete_before_replace=False)
    provider = SimpleNamespace(diff=lambda *_: found)
    monkeypatch.setattr(Servicer, "_provider", lambda *_: provider)
    asked = SimpleNamespace(urn="u", ignoreChanges=[], olds=encode({}), news=encode({}))
    answer = Servicer({}, Faults()).Diff(asked, None)
    assert list(answer.diffs) == ["data", "metadata", "spec"]
    assert set(answer.detailedDiff) == changes.keys()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Settings(kubeconfig="- a\n- b\n"), "failed to parse kubeconfig data"),
        (Settings(kubeconfig=kubeconfig(), context="gone"),
            'context "gone" does not exist: it has here'),
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


def test_the_name_of_a_control_plane_stands_for_the_rehearsals_own() -> None:
    """A GKE cluster that has only a DNS endpoint is reached by a name of this machine."""
    given = Settings(kubeconfig=kubeconfig("https://localhost:1"))
    with pytest.raises(Unreachable, match="unable to load schema information"):
        Cluster(given, {}, "127.0.0.1:1")
