"""What is taken of a kubeconfig that somebody else wrote, so that it works on another machine."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.existing.cluster_args import ExistingClusterArgs

KUBECONFIG: dict[str, Any] = {
    "current-context": "lab",
    "contexts": [
        {"name": "lab", "context": {"cluster": "lab", "user": "me"}},
        {"name": "production", "context": {"cluster": "production", "user": "admin"}},
    ],
    "clusters": [
        {"name": "lab", "cluster": {"server": "https://lab", "certificate-authority": "pki/ca"}},
        {"name": "production", "cluster": {"server": "https://production"}},
    ],
    "users": [
        {"name": "me", "user": {"client-certificate": "me.crt", "client-key": "{home}/me.key"}},
        {"name": "admin", "user": {"token": "secret"}},
    ],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A kubeconfig with files beside it, one of them by its full path."""
    (tmp_path / "pki").mkdir()
    for name in ("pki/ca", "me.crt", "me.key"):
        (tmp_path / name).write_text(name)
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(KUBECONFIG).replace("{home}", str(tmp_path)))
    return path


def test_files_are_looked_for_beside_the_kubeconfig(file: Path) -> None:
    """As kubectl does, wherever the program runs; the content travels, not the path."""
    read = json.loads(ExistingClusterArgs(name="c", kubeconfig_file=str(file)).read_kubeconfig())
    (cluster,), (user,) = read["clusters"], read["users"]
    found = {**cluster["cluster"], **user["user"]}
    assert found.pop("server") == "https://lab"
    assert {key: base64.b64decode(content).decode() for key, content in found.items()} == {
        "certificate-authority-data": "pki/ca",
        "client-certificate-data": "me.crt",
        "client-key-data": "me.key",
    }


def test_other_clusters_and_users_stay_behind(file: Path) -> None:
    """A stack's state has no business with the key to another cluster."""
    args = ExistingClusterArgs(name="c", kubeconfig_file=str(file), context="production")
    read = json.loads(args.read_kubeconfig())
    assert read["current-context"] == "production"
    assert [each["cluster"]["server"] for each in read["clusters"]] == ["https://production"]
    assert "me.crt" not in json.dumps(read)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"KUBECONFIG": "/not/there"}, "kubeconfigFile: is not set, and $KUBECONFIG: cannot read "
         "'/not/there' (No such file or directory); name the cluster's kubeconfig"),
        ({"KUBECONFIG": ""}, "kubeconfigFile: is not set, and kubectl's own file: cannot read "
         "'~/.kube/config' (No such file or directory); name the cluster's kubeconfig"),
    ],
)  # fmt: skip
def test_a_file_that_nobody_named_is_not_blamed_on_the_key(
    environment: dict[str, str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says where the path comes from, and which key is the way out."""
    for key, value in {"HOME": str(tmp_path), **environment}.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(ValueError, match=r"^kubeconfigFile: ") as refused:
        ExistingClusterArgs(name="c").read_kubeconfig()
    assert str(refused.value) == says
    if environment["KUBECONFIG"]:
        (tmp_path / "own").write_text("- no kubeconfig")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "own"))
        with pytest.raises(ValueError, match=r"and \$KUBECONFIG: is not a kubeconfig"):
            ExistingClusterArgs(name="c").read_kubeconfig()
        with pytest.raises(ValueError, match=r"^kubeconfigFile: cannot read '/x' \(No such"):
            ExistingClusterArgs(name="c", kubeconfig_file="/x").read_kubeconfig()


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    """In one line, with the key."""
    (file.parent / "me.crt").unlink()
    args = ExistingClusterArgs(name="c", kubeconfig_file=str(file))
    with pytest.raises(ValueError, match=r"^kubeconfigFile: cannot read 'me.crt' \(No such file"):
        args.read_kubeconfig()
