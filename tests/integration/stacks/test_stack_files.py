"""A stack's file that cannot be used: each command says so in one line, and never goes on."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from gpu_cluster import tools
from gpu_cluster.cli.main import main
from gpu_cluster.rehearsal.existing import inventory_file
from gpu_cluster.stacks.definition import files
from gpu_cluster.stacks.definition import settings as stack
from gpu_cluster.stacks.definition.files import read_stack
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.program import copy_program
from gpu_cluster.stacks.definition.settings import own_kubeconfig
from gpu_cluster.stacks.engine.pulumi import EngineError, Pulumi, reason
from gpu_cluster.stacks.live import cluster, controllers
from gpu_cluster.stacks.outcome import CheckError, ExitCode
from quality.__main__ import main as quality_main
from quality.docs import gpus as measured_gpus

ROOT = Path(__file__).parents[3]
SHARING = "gpu-cluster:gpuPools:\n  small: {maxNodes: 3}\n"
"""A snippet of the README at column 0."""
WRONG = {
    f"config: {{'gcp:project': p-project}}\n{SHARING}": (
        "gpu-cluster:gpuPools: is next to config, where the engine ignores it; indent it"
    ),
    "confg: {}\n": "confg: there is no such key, and the engine ignores it; did you mean config?",
    "config: {}\nnotes: mine\n": "notes: there is no such key, and the engine ignores it; allowed:",
    "config: {}\n3: mine\n": "3: there is no such key",
    "config:\n  a: [1\n": "is not YAML: line 3, column 1: expected ',' or ']'",
    "config: [a]\n": "has no config: see Pulumi.dev.yaml for an example",
    "just words\n": "has no config: see Pulumi.dev.yaml for an example",
    "": "has no config: see Pulumi.dev.yaml for an example",
    "a: " + "[" * 100_000: "values are nested more than 60 levels deep here; flatten them",
}
"""A stack file -> what is said of it."""


@pytest.mark.parametrize(("text", "says"), WRONG.items(), ids=range(len(WRONG)))
def test_what_is_wrong_with_a_stack_file_is_one_line(text: str, says: str, tmp_path: Path) -> None:
    """With the file's name; nothing of it is read past that."""
    (tmp_path / "Pulumi.x.yaml").write_text(text)
    with pytest.raises(StackError, match=r"^Pulumi\.x\.yaml") as refused:
        read_stack(tmp_path, "x")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(CheckError, match=r"^Pulumi\.x\.yaml"):
        stack.config_of("x", tmp_path)
    with pytest.raises(StackError, match=r"^Pulumi\.x\.yaml"):
        copy_program(tmp_path, "x", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_no_rehearsal_begins_with_a_broken_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for a sandbox to learn that a bracket is missing."""
    (tmp_path / "Pulumi.x.yaml").write_text("config:\n  a: [1\n")
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(tmp_path))
    assert main(["rehearse", "x", "--folder", str(tmp_path / "rehearsal")]) == 2
    said = capfd.readouterr()
    assert said.err.startswith("gpu-cluster rehearse: Pulumi.x.yaml is not YAML: line 3, column 1")
    assert "sandbox" not in said.out
    assert not (tmp_path / "rehearsal").exists()


@pytest.mark.parametrize("command", ["rehearse", "validate", "cost", "capacity", "images", "gpus"])
def test_a_program_without_stack_files_of_this_package_is_refused(
    command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line says which programs the command is for, and where the others are rehearsed."""
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(ROOT / "examples" / "own-vpc"))
    more = ["--kubeconfig", "/dev/null"] if command == "gpus" else []
    line = refused([command, "dev", *more], capfd)
    assert "Pulumi.dev.yaml has no gpu-cluster:cluster, so this is not a program of" in line
    assert line.endswith("docs/how-to/use-the-package.md\n")


def test_a_rehearsal_shows_every_mistake_of_a_file_as_validate_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before a sandbox starts, and with exit code 1, since the stack has failed."""
    text = (ROOT / "examples" / "stacks" / "Pulumi.dev.yaml").read_text()
    for key in ("maxNodes", "deletionProtection", "kind"):
        text = text.replace(f"{key}:", f"{key}s:")
    (tmp_path / "Pulumi.x.yaml").write_text(text)
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(tmp_path))
    assert main(["rehearse", "x", "--folder", str(tmp_path / "rehearsal"), "--json"]) == 1
    answer, lines = capfd.readouterr()
    assert len(lines.splitlines()) == len(json.loads(answer)["findings"]) == 3
    assert main(["validate", "x"]) == 1
    assert capfd.readouterr().out == lines
    assert not (tmp_path / "rehearsal").exists()
    assert main(["cost", "x"]) == ExitCode.UNKNOWN
    said = capfd.readouterr().err
    assert all(f".yaml: {found['message']}\n" in said for found in json.loads(answer)["findings"])


def test_what_the_engine_writes_is_known(tmp_path: Path) -> None:
    """Each key of its own, and a file that has only those after `pulumi stack init`."""
    (tmp_path / "Pulumi.x.yaml").write_text(
        "secretsprovider: awskms://k\nencryptedkey: k\nencryptionsalt: v1:s\n"
        "environment: [e]\nconfig: {'a:b': c}\n"
    )
    assert read_stack(tmp_path, "x")["config"] == {"a:b": "c"}
    (tmp_path / "Pulumi.new.yaml").write_text("encryptionsalt: v1:s\n")
    assert "config" not in read_stack(tmp_path, "new")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program's folder with a stack file that is no YAML."""
    (tmp_path / "Pulumi.yaml").touch()
    (tmp_path / "Pulumi.bad.yaml").write_text("config:\n  a: [1\n")
    return tmp_path


@pytest.mark.parametrize("given", ["bad", "nosuch", "../dev", "/tmp"])
def test_recovery_stops_at_the_stack_file(
    given: str, program: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before the engine or a cloud is asked."""
    monkeypatch.chdir(program)
    assert given in refused(["recover", given], capfd)


def refused(line: list[str], printed: pytest.CaptureFixture[str]) -> str:
    """The one line that a command prints."""
    code, said = main(line), printed.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    return str(said.err)


@pytest.mark.parametrize("check", ["gpus", "test-gpus", "capacity", "cost", "leftovers"])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("nosuch", "there is no Pulumi.nosuch.yaml: the stacks here"),
        ("./Pulumi.dev.yaml", "dev.yaml' is the file of a stack: give its name, dev (see"),
        ("../Pulumi.m60.yaml", "give its name, m60, once it is in the folder of Pulumi.yaml"),
        ("../dev", "'../dev' is not a valid stack name: give letters"),
    ],
)
def test_a_check_of_an_unknown_stack_is_one_line(
    check: str, given: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before the engine is asked for a stack that nobody has."""
    assert says in refused([check, given], capfd)


def test_a_ceiling_that_is_no_amount(capfd: pytest.CaptureFixture[str]) -> None:
    """The line says what to give."""
    said = refused(["cost", "dev", "--ceiling", "abc"], capfd)
    assert "abc is not a valid amount; give dollars a month, such as 500" in said


@pytest.mark.parametrize("installed", [True, False])
def test_nobody_is_signed_in(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine speaks of a token; what helps is to log in, with a Pulumi that is on PATH: the one
    of rehearsals is not."""
    words = "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions\n"
    failed = subprocess.CompletedProcess([], 255, "", words)
    monkeypatch.setattr(tools, "pulumi", lambda: (Path("pulumi"), []))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr("shutil.which", lambda name: "/bin/pulumi" if installed else None)
    install = "" if installed else r"install Pulumi \(https://www.pulumi.com/docs/install\), then "
    login = rf"^you are not signed in to a backend: {install}run `pulumi login`"
    expected = f"{login}, or give --kubeconfig FILE"
    with pytest.raises(CheckError, match=expected):
        stack.kubeconfig_output("dev")
    engine = Pulumi(command=Path("pulumi"), program=ROOT, stack="dev", environment={})
    with pytest.raises(EngineError, match=login.removeprefix("^")):
        engine.must("stack", "export")


def test_a_failed_preview_is_said_by_its_errors_alone() -> None:
    """`preview --json` prints the whole plan; the cause stands among the diagnostics."""
    plan = {
        "steps": [{"urn": "u" * 20_000}],
        "diagnostics": [
            {"severity": "info", "message": "reading"},
            {"severity": "error", "message": "could not load plugin gcp\n  try again\n"},
        ],
    }
    assert reason("", json.dumps(plan)) == "could not load plugin gcp try again"
    assert len(reason("x" * 20_000)) < 600


def test_an_existing_cluster_is_asked_by_its_own_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there before the stack's first `up`, when there is no output and perhaps no backend."""

    def not_up(_: str) -> str:
        raise CheckError("no stack named 'onprem' found")

    monkeypatch.setenv("KUBECONFIG", str(ROOT / "tests" / "program" / "kubeconfig.yaml"))
    monkeypatch.setattr(cluster, "kubeconfig_output", not_up)
    found = json.loads(cluster.kubeconfig_of("onprem", None, rehearsal=False))
    assert len(found["clusters"]) == 1
    with pytest.raises(CheckError, match="no stack named"):
        cluster.kubeconfig_of("dev", None, rehearsal=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    with pytest.raises(CheckError, match=r"cannot read .*; no stack named 'onprem' found"):
        cluster.kubeconfig_of("onprem", None, rehearsal=False)
    # Once it is up, its own output counts, whatever cluster this machine's kubeconfig is of.
    monkeypatch.setattr(cluster, "kubeconfig_output", lambda _: "the stack's")
    assert cluster.kubeconfig_of("onprem", None, rehearsal=False) == "the stack's"
    encrypted = stack.config_of("onprem")
    encrypted["gpu-cluster:cluster"] = {"platform": "existing", "kubeconfig": stack.PLACEHOLDER}
    assert own_kubeconfig("onprem", encrypted) is None
    assert own_kubeconfig("dev", stack.config_of("dev")) is None


def test_a_kept_rehearsal_without_a_cluster_is_told_from_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After `pulumi destroy` in it, the rehearsal still runs, and there is no cluster to ask."""
    monkeypatch.setattr(cluster, "ROOT", tmp_path)
    with pytest.raises(CheckError, match="no rehearsal of dev is kept"):
        cluster.kubeconfig_of("dev", None, rehearsal=True)
    (tmp_path / ".rehearsal" / "dev").mkdir(parents=True)
    (tmp_path / ".rehearsal" / "dev" / "run").touch()
    with pytest.raises(CheckError, match="has no cluster, because its stack was destroyed"):
        cluster.kubeconfig_of("dev", None, rehearsal=True)


def test_a_command_in_a_stack_file_runs_only_when_it_is_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before the first `up`, commands that read the cluster have nothing but the stack's file, of a
    branch that somebody else wrote, to say whose server gets the credential."""
    user = {"exec": {"command": "aws", "args": ["eks", "get-token"]}}
    text = json.dumps(
        {
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
            "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": "https://theirs"}}],
            "users": [{"name": "me", "user": user}],
        }
    )
    file = tmp_path / "Pulumi.lab.yaml"
    values = {"platform": "existing", "name": "lab", "kubeconfig": text}
    file.write_text(yaml.safe_dump({"config": {"gpu-cluster:cluster": values}}))
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(tmp_path))

    def not_up(name: str) -> str:
        raise CheckError(f"no stack named {name!r}")

    monkeypatch.setattr(cluster, "kubeconfig_output", not_up)
    with pytest.raises(
        CheckError, match="signs in by running aws and sends its output to https://"
    ):
        cluster.kubeconfig_of("lab", None, rehearsal=False)
    with pytest.raises(CheckError, match="add --trust-kubeconfig"):
        inventory_file.write_inventory("lab", None, tmp_path)
    assert "https://theirs" in cluster.kubeconfig_of("lab", None, rehearsal=False, trusted=True)
    assert main(["validate", "lab"]) == 0
    values["kubeconfig"] = text.replace('"aws"', '"/bin/sh"')
    file.write_text(yaml.safe_dump({"config": {"gpu-cluster:cluster": values}}))
    assert main(["validate", "lab"]) == 1


def test_capacity_asks_an_existing_cluster_what_others_have_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only if the stack would install it, too; a cluster that does not answer is not known."""
    document = read_stack(ROOT, "onprem")
    document["config"]["gpu-cluster:batch"] = {"jobSet": True}
    (tmp_path / "Pulumi.lab.yaml").write_text(yaml.safe_dump(document))
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(tmp_path))
    monkeypatch.setattr(
        cluster,
        "kubeconfig_output",
        lambda _: (ROOT / "tests" / "program" / "kubeconfig.yaml").read_text(),
    )
    assert main(["capacity", "lab"]) == 2
    assert "batch: the cluster does not respond" in capsys.readouterr().out
    found = {"batch.jobSet": "the cluster has JobSet already"}
    monkeypatch.setattr(controllers, "foreign_controllers", lambda *_: found)
    assert main(["capacity", "lab"]) == 1
    assert "batch.jobSet: the cluster has JobSet already" in capsys.readouterr().out
    del document["config"]["gpu-cluster:batch"]
    (tmp_path / "Pulumi.lab.yaml").write_text(yaml.safe_dump(document))
    assert main(["capacity", "lab"]) == 0


@pytest.mark.parametrize("content", [None, "# gpu-cluster", "{}", '{"gpus": []}', "[]", "3"])
def test_what_is_no_measurement_is_not_kept(
    content: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line, and neither the benchmark page nor docs/measured is written."""
    file = tmp_path / "result.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(measured_gpus, "BENCHMARKS", tmp_path / "benchmarks.md")
    monkeypatch.setattr(measured_gpus, "MEASURED", tmp_path / "measured")
    assert quality_main(["docs", "--measured", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"python -m quality docs: {file}: ")
    assert error.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == ([file] if content is not None else [])


def test_a_kept_rehearsal_s_own_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`capacity --rehearsal` and `gpus --rehearsal` judge the stack that runs there, whose file may
    have been edited; without a rehearsal, the checkout's."""
    monkeypatch.setattr(files, "ROOT", tmp_path)
    monkeypatch.delenv(files.INSTEAD, raising=False)
    program = tmp_path / ".rehearsal" / "dev" / "program"
    program.mkdir(parents=True)
    with files.as_rehearsed("dev"):
        assert files.folder_of(tmp_path) == tmp_path
    (program / "Pulumi.dev.yaml").write_text("config: {}\n")
    with files.as_rehearsed("dev"):
        assert files.folder_of(tmp_path) == program
    with files.as_rehearsed("dev", rehearsal=False):
        assert files.folder_of(tmp_path) == tmp_path
    assert files.folder_of(tmp_path) == tmp_path
