"""What is taken of a kubeconfig that somebody else wrote, so that it works on another machine."""

import base64
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.components.cluster import Toleration
from gpu_cluster.components.eks.kubeconfig import kubeconfig as eks_kubeconfig
from gpu_cluster.components.eks.provider_args import AwsProviderArgs
from gpu_cluster.components.existing.cluster_args import ExistingClusterArgs
from gpu_cluster.components.gke.kubeconfig import kubeconfig as gke_kubeconfig
from gpu_cluster.components.schema.refusal import Refusal

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


@pytest.mark.parametrize(
    "change",
    ["a: 2020-13-45", "a: &a [*a]", "a: " + "[" * 3000, "current-context: [lab]",
     'users: [{name: me, user: {client-key: "a\\0b"}}]', "users: [{name: me, user: {exec: 5}}]"],
    ids=range(6),
)  # fmt: skip
def test_an_odd_kubeconfig_is_read_or_refused(file: Path, change: str) -> None:
    """No other exception; a date is text, as for kubectl."""
    file.write_text(f"{file.read_text()}\n{change}\n")
    args = ExistingClusterArgs(name="c", kubeconfig_file=str(file))
    with suppress(Refusal):
        args.read_kubeconfig()
    with pytest.raises(Refusal, match="cannot read"):
        replace(args, kubeconfig_file="a\0b").read_kubeconfig()


def test_other_clusters_and_users_stay_behind(file: Path) -> None:
    """A stack's state has no business with the key to another cluster."""
    args = ExistingClusterArgs(name="c", kubeconfig_file=str(file), context="production")
    read = json.loads(args.read_kubeconfig())
    assert read["current-context"] == "production"
    assert [cluster["cluster"]["server"] for cluster in read["clusters"]] == ["https://production"]
    assert "me.crt" not in json.dumps(read)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"KUBECONFIG": "/not/there"}, "kubeconfigFile: is not set, and $KUBECONFIG: cannot read "
         "'/not/there' (No such file or directory); name the cluster's kubeconfig"),
        ({"KUBECONFIG": ""}, "kubeconfigFile: is not set, and kubectl's own file: cannot read "
         "'~/.kube/config' (No such file or directory); name the cluster's kubeconfig"),
        ({"KUBECONFIG": "a:b"}, "kubeconfigFile: is not set, and $KUBECONFIG: cannot read 'a:b' "
         "(a list of files is not merged); name the cluster's kubeconfig"),
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
        (tmp_path / "own").write_text("a: [")
        with pytest.raises(ValueError, match=r"and \$KUBECONFIG: is not YAML; give a kubeconfig$"):
            ExistingClusterArgs(name="c").read_kubeconfig()
        with pytest.raises(ValueError, match=r"^kubeconfigFile: cannot read '/x' \(No such"):
            ExistingClusterArgs(name="c", kubeconfig_file="/x").read_kubeconfig()
        with pytest.raises(ValueError, match=r"^kubeconfigFile: cannot read '~~/x' \(No such"):
            ExistingClusterArgs(name="c", kubeconfig_file="~~/x").read_kubeconfig()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"current-context": None}, "context: is missing, and the kubeconfig has no current one; "
         "set it to one of lab, production"),
        ({"current-context": "lap"}, "context: 'lap' is not in the kubeconfig; "),
        ({"users": []}, "context: 'lab' names a cluster or user that the kubeconfig does not have"),
    ],
)  # fmt: skip
def test_a_context_that_is_not_in_the_kubeconfig_is_refused(
    changed: dict[str, Any], says: str, file: Path
) -> None:
    """With those that are, or with what it lacks."""
    file.write_text(yaml.safe_dump({**KUBECONFIG, **changed}))
    with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
        ExistingClusterArgs(name="c", kubeconfig_file=str(file)).read_kubeconfig()


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    """In one line, with the key."""
    (file.parent / "me.crt").unlink()
    args = ExistingClusterArgs(name="c", kubeconfig_file=str(file))
    with pytest.raises(ValueError, match=r"^kubeconfigFile: cannot read 'me.crt' \(No such file"):
        args.read_kubeconfig()


def signing_in_by(user: dict[str, Any]) -> dict[str, Any]:
    return {
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "clusters": [{"name": "lab", "cluster": {"server": "https://lab"}}],
        "users": [{"name": "me", "user": user}],
    }


def aws(*arguments: str, **environment: str) -> dict[str, Any]:
    variables = [{"name": name, "value": value} for name, value in environment.items()]
    return {"exec": {"command": "aws", "args": list(arguments), "env": variables}}


COMMANDS = "aws, aws-iam-authenticator, gke-gcloud-auth-plugin, kubelogin, tsh"
FLAGS = "--region, --cluster-name, --cluster-id, --output, --role-arn, --profile"
UNSAFE: dict[str, tuple[dict[str, Any], str]] = {
    "another command": (
        {"exec": {"command": "sh", "args": ["-c", "id"]}},
        f"runs 'sh' to sign in; allowed, by name and without a path: {COMMANDS}",
    ),
    "a path": (
        {"exec": {"command": "./aws", "args": ["eks", "get-token"]}},
        f"runs './aws' to sign in; allowed, by name and without a path: {COMMANDS}",
    ),
    "another command of aws": (
        aws("s3", "cp", "/home/me/key", "s3://theirs"),
        "runs aws s3 cp /home/me/key s3://theirs; allowed: aws eks get-token",
    ),
    "another flag of aws": (
        aws("eks", "get-token", "--endpoint-url=http://theirs"),
        f"runs aws with --endpoint-url; allowed flags: {FLAGS}",
    ),
    "a flag as another one's value": (
        aws("eks", "get-token", "--output", "--endpoint-url", "http://theirs"),
        f"runs aws with --endpoint-url; allowed flags: {FLAGS}",
    ),
    "a variable": (
        aws("eks", "get-token", AWS_CONFIG_FILE="theirs"),
        "sets 'AWS_CONFIG_FILE' for aws; allowed environment variables: AWS_PROFILE, AWS_REGION, "
        "AWS_DEFAULT_REGION, AWS_STS_REGIONAL_ENDPOINTS",
    ),
    "a plugin of the client's": (
        {"auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/sh"}}},
        "has auth-provider, which may run a command on every machine that uses it; remove it",
    ),
    "a file of tokens": (
        {"tokenFile": "~/.config/token"},
        "has tokenFile, which sends it a file on every machine that uses it; remove it",
    ),
}


@pytest.mark.parametrize("case", UNSAFE)
@pytest.mark.parametrize("committed", ["text", "file"])
def test_what_comes_with_the_stack_s_file_runs_nothing(
    case: str, committed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who changes a YAML file must not run programs on the machine of whoever looks at it. A
    kubeconfig outside of the repository is the user's own, and may."""
    user, says = UNSAFE[case]
    text = yaml.safe_dump(signing_in_by(user))
    inside, outside = tmp_path / "program", tmp_path / "own"
    inside.mkdir()
    for file in (inside / "kubeconfig", outside):
        file.write_text(text)
    monkeypatch.chdir(inside)
    args = ExistingClusterArgs(name="c", kubeconfig_file="kubeconfig")
    if committed == "text":
        args = ExistingClusterArgs(name="c", kubeconfig=text)
    with pytest.raises(ValueError, match=r"^kubeconfig(File)?: its user ") as refused:
        args.read_kubeconfig()
    assert str(refused.value).partition("its user ")[2] == (
        f"{says}. A kubeconfig outside the repository may do so: name it in kubeconfigFile or "
        "$KUBECONFIG"
    )
    assert ExistingClusterArgs(name="c", kubeconfig_file=str(outside)).read_kubeconfig()
    monkeypatch.setenv("KUBECONFIG", str(inside / "kubeconfig"))
    assert ExistingClusterArgs(name="c").read_kubeconfig()


@pytest.mark.parametrize(
    "kubeconfig",
    [
        gke_kubeconfig(name="c", endpoint="192.0.2.1", ca_certificate="Cg=="),
        eks_kubeconfig(
            "c", AwsProviderArgs(region="us-east-1", profile="m", role="arn:aws:iam::1:role/r"),
            endpoint="https://c", ca_certificate="Cg==",
        ),
        json.dumps(signing_in_by({"token": "t"})),
    ],
)  # fmt: skip
def test_what_the_clouds_own_tools_write_is_accepted(kubeconfig: str) -> None:
    """As this program's own outputs are written too."""
    assert ExistingClusterArgs(name="c", kubeconfig=kubeconfig).read_kubeconfig()


@pytest.mark.parametrize("path", ["{outside}", "link"])
def test_files_outside_of_its_folder_do_not_travel_with_it(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by their path nor through a link."""
    inside, outside = tmp_path / "program", tmp_path / "id_rsa"
    inside.mkdir()
    outside.write_text("key")
    (inside / "link").symlink_to(outside)
    (inside / "ca").write_text("ca")
    monkeypatch.chdir(inside)
    given = path.format(outside=outside)
    document = signing_in_by({"token": "t"})
    document["clusters"][0]["cluster"]["certificate-authority"] = given
    with pytest.raises(ValueError, match="is outside the kubeconfig's folder; put the file"):
        ExistingClusterArgs(name="c", kubeconfig=yaml.safe_dump(document)).read_kubeconfig()
    document["clusters"][0]["cluster"]["certificate-authority"] = "ca"
    assert ExistingClusterArgs(name="c", kubeconfig=yaml.safe_dump(document)).read_kubeconfig()


def test_a_toleration_of_every_value_has_none() -> None:
    """The API server refuses it, and Exists is the default."""
    with pytest.raises(ValueError, match=r"^value: is not used with operator Exists"):
        Toleration(key="team", value="ml")
    assert Toleration(key="team", operator="Equal", value="ml").manifest()["value"] == "ml"


@pytest.mark.parametrize("command", ["./get-token.sh", "bin/get-token"])
def test_paths_of_a_user_are_relative_to_the_kubeconfig(tmp_path: Path, command: str) -> None:
    """Never to where Pulumi runs, where a repository could have a file of that name. A command
    without a folder is looked for on the PATH."""
    path = tmp_path / "config"
    user = {"exec": {"command": command, "args": ["x"]}, "tokenFile": "token"}
    path.write_text(yaml.safe_dump(signing_in_by(user)))
    read = json.loads(ExistingClusterArgs(name="c", kubeconfig_file=str(path)).read_kubeconfig())
    assert read["users"][0]["user"] == {
        "exec": {"command": str(tmp_path / command), "args": ["x"]},
        "tokenFile": str(tmp_path / "token"),
    }
    path.write_text(yaml.safe_dump(signing_in_by({"exec": {"command": "get-token"}})))
    read = json.loads(ExistingClusterArgs(name="c", kubeconfig_file=str(path)).read_kubeconfig())
    assert read["users"][0]["user"]["exec"]["command"] == "get-token"
