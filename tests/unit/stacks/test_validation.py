"""Everything wrong in a stack's file is said at once, with the line of each."""

import json
from pathlib import Path

import pytest
import yaml

from cli.main import main
from stacks.files import EXAMPLES, SAMPLES
from stacks.names import StackError
from stacks.outcome import ExitCode
from stacks.positions import composed, position
from stacks.validation import Finding, findings, refusals
from tests.unit.cli.test_stack_schema import refused

BROKEN = """\
config:
  gcp:project: my-project
  gpu-cluster:cluster:
    platform: gke
    name: gpu-broken
    location: us-central1-a
    authorizedNetwork:
      office: 203.0.113.0/24
    relaseChannel: rapid
  gpu-cluster:gpuPools:
    a:
      machineType: n1-standard-4
      accelerator: nvidia-tesla-k80
    b:
      machineType: n1-standard-4
      accelerator: nvidia-tesla-t4
      labels: { example.com/team!: a }
    c:
      machineType: g2-standard-4
      taints: [{ key: a, value: b }, { key: c, valeu: d }]
  gpu-cluster:workloads:
    one: { kind: job, pool: c, gpus: 3, image: x }
    of-a: { kind: job, pool: a, gpus: 3, image: x }
    three: { kind: job, pool: d, gpus: 1, image: x }
  gpu-cluster:monitoring: { enabled: true, intervalSeconds: 5 }
"""


def written(folder: Path, text: str, stack: str = "x") -> list[Finding]:
    """What is wrong with a file of this text."""
    (folder / f"Pulumi.{stack}.yaml").write_text(text)
    return findings(stack, folder)


def test_all_findings_come_at_once_and_in_order(tmp_path: Path) -> None:
    """Misspelt keys are read as they were meant. What names pool a, which is refused, has no
    finding of its own: what that pool would have is not known."""
    said = [str(finding) for finding in written(tmp_path, BROKEN)]
    found = [line.split(": ", 2) for line in said]
    assert [(where, path) for where, path, _ in found] == [
        ("Pulumi.x.yaml:7:5", "gpu-cluster:cluster.authorizedNetwork"),
        ("Pulumi.x.yaml:9:5", "gpu-cluster:cluster.relaseChannel"),
        ("Pulumi.x.yaml:13:7", "gpu-cluster:gpuPools.a.accelerator"),
        ("Pulumi.x.yaml:17:17", "gpu-cluster:gpuPools.b.labels.example.com/team!"),
        ("Pulumi.x.yaml:20:48", "gpu-cluster:gpuPools.c.taints[1].valeu"),
        ("Pulumi.x.yaml:22:32", "gpu-cluster:workloads.one.gpus"),
        ("Pulumi.x.yaml:24:25", "gpu-cluster:workloads.three.pool"),
        ("Pulumi.x.yaml:25:44", "gpu-cluster:monitoring.intervalSeconds"),
    ]
    assert found[1][2].startswith("there is no such key; did you mean 'releaseChannel'? allowed: ")


@pytest.mark.parametrize("stack", SAMPLES)
def test_nothing_is_wrong_with_a_sample(stack: str) -> None:
    """Nor does an existing cluster's need a kubeconfig on this machine."""
    assert findings(stack, EXAMPLES) == []


def test_what_the_program_refuses_is_the_first_finding() -> None:
    """Each row of the tables of refusals, in the program's own words; and it comes to an end."""
    for says, values in refused():
        assert next(iter(refusals(values))) == says
        assert len(list(refusals(values))) < 10


def test_a_finding_stands_where_its_key_does() -> None:
    """Every line of every refused config is the one of the last key that is there."""
    for says, values in refused():
        text = yaml.safe_dump({"config": values}, sort_keys=False)
        path = says.partition(": ")[0]
        line, column = position(composed(text), f"config.{path}")
        at = text.splitlines()[line - 1][column - 1 :]
        word = at.partition(":")[0] if not at.startswith(("gpu-cluster:", "gcp:", "aws:")) else at
        assert word.strip("- '\"")[:4] in f"config.{path}" or "[" in path, (says, at)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("config:\n  a: [1\n", "Pulumi.x.yaml:3:1: is not YAML: expected ',' or ']', but got '<st"),
        ("config:\n  a:b: 1\n  a:b: 2\n", "Pulumi.x.yaml:3:3: a:b: is there already, in line 2; "),
        ("confg: {}\n", "Pulumi.x.yaml:1:1: confg: there is no such key, and the engine ignores "),
        ("config: {}\n", "Pulumi.x.yaml:1:1: gpu-cluster:cluster.platform: is missing; allowed: "),
        ("- a\n", "Pulumi.x.yaml:1:1: has no config: see "),
        ("", "Pulumi.x.yaml:1:1: has no config: see "),
    ],
)
def test_what_is_no_stack_file_has_a_line_too(tmp_path: Path, text: str, says: str) -> None:
    """Where the YAML ends early, has a key twice, or says something else."""
    assert [one for one in map(str, written(tmp_path, text)) if one.startswith(says)]


def test_another_stacks_cluster_is_a_finding(tmp_path: Path) -> None:
    """A copy that keeps the name, at the name."""
    text = (EXAMPLES / "Pulumi.dev.yaml").read_text()
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    (said,) = written(tmp_path, text, "copy")
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "name: gpu-dev" in one)
    assert (said.line, said.column) == (line, 5)
    assert "Pulumi.copy.yaml and Pulumi.dev.yaml make the same cluster" in said.message


def test_no_such_stack_cannot_be_asked(tmp_path: Path) -> None:
    """The message names the stacks that there are."""
    with pytest.raises(StackError, match=r"^there is no Pulumi\.y\.yaml: the stacks here"):
        findings("y", tmp_path)


def test_the_command_has_three_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 where nothing is wrong, 1 for a finding, 2 where there is nothing to look at."""
    assert main(["validate", "dev"]) == ExitCode.OK
    (tmp_path / "Pulumi.x.yaml").write_text(BROKEN)
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(tmp_path))
    capsys.readouterr()
    assert main(["validate", "x", "--json"]) == ExitCode.FINDING
    document = json.loads(capsys.readouterr().out)
    assert document["file"] == "Pulumi.x.yaml"
    first = document["findings"][0]
    assert (first["line"], first["column"]) == (7, 5)
    assert main(["validate", "nosuch"]) == ExitCode.UNKNOWN


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("instanceType", "g4dn.xlarge", "there is no such key; did you mean 'instanceTypes'?"),
        ("zone", "us-east-1a", "there is no such key; did you mean 'zones'?"),
    ],
)
def test_a_misspelt_key_is_one_finding(key: str, value: str, says: str) -> None:
    """What was meant is a guess: that the value does not fit it, is no mistake of the user."""
    config = yaml.safe_load((EXAMPLES / "Pulumi.train.yaml").read_text())["config"]
    pool = config["gpu-cluster:gpuPools"]["train-gpu"]
    pool.pop(f"{key}s", None)
    pool[key] = value
    (said,) = refusals(config)
    assert said.startswith(f"gpu-cluster:gpuPools.train-gpu.{key}: {says}")
