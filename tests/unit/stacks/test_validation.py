"""Everything wrong in a stack's file is said at once, with the line of each."""

import ast
import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import yaml

from gpu_cluster.cli.ceiling import kept_running
from gpu_cluster.cli.main import main
from gpu_cluster.components.schema.refusal import Refusal

# First imported while a test patches config_of, it would keep the patch.
from gpu_cluster.stacks.cost import stack_cost as _stack_cost  # noqa: F401
from gpu_cluster.stacks.definition.files import EXAMPLES, ROOT, SAMPLES, EngineLoader, read_stack
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.positions import position
from gpu_cluster.stacks.definition.settings import config_of, settings_of
from gpu_cluster.stacks.definition.validation import Finding, file_findings, refusals
from gpu_cluster.stacks.outcome import ExitCode
from tests.program.environments import values_of, with_changes, without_keys
from tests.program.everything import EVERYTHING
from tests.program.everything import config_of as everything_of
from tests.tree import sources
from tests.unit.cli.test_stack_schema import refused
from tests.unit.components import test_settings
from tests.unit.project.test_refusals import wordless

TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""Test -> its cases."""
BILLION = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 8)
)
"""What an anchor seven levels deep unfolds to: twenty million values."""
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
    one: { kind: job, pool: c, gpus: 3, image: "x:1" }
    of-a: { kind: job, pool: a, gpus: 3, image: "x:1" }
    three: { kind: job, pool: d, gpus: 1, image: "x:1" }
  gpu-cluster:monitoring: { enabled: true, intervalSeconds: 5 }
"""


def written(folder: Path, text: str, stack: str = "x") -> list[Finding]:
    """What is wrong with a file of this text."""
    (folder / f"Pulumi.{stack}.yaml").write_text(text)
    return file_findings(stack, folder)


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


def test_teams_of_a_refused_pool_have_no_findings() -> None:
    """Nor has what only their jobs need, while their share of another pool is still looked at."""
    example = yaml.safe_load((EXAMPLES.parent / "teams/Pulumi.teams.yaml").read_text())["config"]
    pools, teams = example["gpu-cluster:gpuPools"], example["gpu-cluster:teams"]
    pools["other"] = dict(pools["train-gpu"])
    pools["train-gpu"]["maxNodes"] = 0
    refused = "gpu-cluster:gpuPools.train-gpu.maxNodes: 0 is too small; allowed: 1 or more"
    assert [*map(str, refusals(example))] == [refused]
    teams["vision"]["gpus"]["other"] = 3
    assert [refusal.at for refusal in refusals(example)] == [
        "gpu-cluster:gpuPools.train-gpu.maxNodes", "gpu-cluster:teams.vision.gpus.other",
    ]  # fmt: skip


def test_an_image_is_read_whatever_else_is_wrong_with_its_pods() -> None:
    """Also if no node has as many GPUs."""
    config = values_of("dev")
    pod = next(iter(config["gpu-cluster:workloads"].values()))
    pod |= {"gpus": 3, "image": "docker.io/pytorch/pytorch"}
    assert [refusal.path[-1] for refusal in refusals(config)] == ["gpus", "image"]


def test_each_team_with_more_than_its_pool_is_a_finding() -> None:
    """The refused share is not counted for the next team."""
    config = yaml.safe_load((EXAMPLES.parent / "teams/Pulumi.teams.yaml").read_text())["config"]
    for team in config["gpu-cluster:teams"].values():
        team["gpus"] = {"train-gpu": 9}
    assert [str(refusal).partition(";")[0] for refusal in refusals(config)] == [
        f"gpu-cluster:teams.{team}.gpus.train-gpu: 9 is more than the pool's maxNodes allows, at "
        "most 2"
        for team in config["gpu-cluster:teams"]
    ]


@pytest.mark.parametrize("stack", [*SAMPLES, *EVERYTHING])
def test_one_wrong_value_in_a_pool_is_one_finding(stack: str) -> None:
    """Nothing that only depends on the pool has one, such as a claim in its team's namespace."""
    config = everything_of(stack) if stack in EVERYTHING else values_of(stack)
    pools = config["gpu-cluster:gpuPools"]
    accounts = config.setdefault("gpu-cluster:serviceAccounts", {})
    accounts |= {f"of-{team}": {"namespace": team} for team in config.get("gpu-cluster:teams", ())}
    for name, pool in pools.items():
        key = next(iter(pool))
        wrong = {**pools, name: {**pool, key: [[]]}}
        found = [refusal.at for refusal in refusals({**config, "gpu-cluster:gpuPools": wrong})]
        assert len(found) == 1, found
        assert found[0].startswith(f"gpu-cluster:gpuPools.{name}.{key}")


@pytest.mark.parametrize("stack", SAMPLES)
def test_nothing_is_wrong_with_a_sample(stack: str) -> None:
    """Nor does an existing cluster's need a kubeconfig on this machine."""
    assert file_findings(stack, EXAMPLES) == []


def test_a_minimum_that_the_policies_refuse_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rehearsal refuses it; a stack of production may keep nodes."""
    config = config_of("dev")
    config["gpu-cluster:gpuPools"]["train-gpu"]["minNodes"] = 1
    monkeypatch.setattr("gpu_cluster.stacks.definition.settings.config_of", lambda stack: config)
    assert main(["validate", "dev"]) == ExitCode.FINDING
    said = "policy gpu-pool-minimum: GPU pool train-gpu keeps 1 node running in stack dev; set"
    assert said in capsys.readouterr().out
    assert kept_running("prod", settings_of("prod", config)) == []


def test_the_warnings_of_a_preview_are_printed_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They change no exit code."""
    config = config_of("dev")
    config["gpu-cluster:workloads"]["sample-gpu-pod"]["replicas"] = 0
    monkeypatch.setattr("gpu_cluster.stacks.definition.settings.config_of", lambda stack: config)
    assert main(["validate", "dev"]) == ExitCode.OK
    said = "warning: gpu-cluster:workloads.sample-gpu-pod.replicas: is 0, so that none of its pods"
    assert said in capsys.readouterr().out


ELSEWHERE = {
    "eks/existing_args.py: reason": "tests/components/test_eks_existing.py",
    "existing/cluster_args.py: 'is not YAML'": "tests/unit/components/test_existing_args.py",
    "existing/cluster_args.py: f'cannot read {path!r} ({reason}){way}'":
        "tests/unit/components/test_existing_args.py",
    "existing/cluster_args.py: f'cannot read {value!r} ({error.strerror})'":
        "tests/unit/components/test_existing_args.py",
    "gke_autopilot/pool_args.py: reason": "tests/unit/components/test_settings_autopilot.py",
    "settings/config_keys.py: reason": "below",
    "siblings.py: f'creates {kind} {what}{part}, as GpuStack {other} does in the same cluster'":
        "tests/components/test_stack.py",
}  # fmt: skip
"""A refusal whose reason is a value -> the test that raises it, because no row can."""


def test_what_the_program_refuses_is_the_first_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the tables of refusals, in the program's own words; and it comes to an end. Where
    the whole reason is a value, no text says whether a test expects it: some row raises it."""
    raised, init = set[tuple[str, int]](), Refusal.__init__

    def noted(self: Refusal, *args: Any, **fields: Any) -> None:
        frame = sys._getframe(1)
        raised.add((os.path.realpath(frame.f_code.co_filename), frame.f_lineno))
        init(self, *args, **fields)

    monkeypatch.setattr(Refusal, "__init__", noted)
    for says, values in refused():
        found = refusals(values)
        assert without_keys(str(found[0])) == says
        assert len(found) < 20
    unseen = {
        f"{path.relative_to(ROOT / 'components')}: {text}"
        for path, lines, text in wordless()
        if not any((str(path), line) in raised for line in lines)
    }
    assert unseen == {*ELSEWHERE}


DEPENDED_ON = ("gcp:", "aws:", *(f"gpu-cluster:{key}" for key in ("cluster", "gpuPools", "teams")))
"""Where a mistake leaves unknown what the nodes, queues and namespaces are that others use."""


HIDDEN = {
    f"{file}:{function}"
    for file, functions in TABLE["test_a_mistake_in_another_block_hides_no_sentence"].items()
    for function in functions
}


def origin(values: dict[str, Any], patch: pytest.MonkeyPatch) -> str:
    """Where the first refusal of a config is raised, as `file:function` of components; `read` if
    its block is only being read."""
    raised, init = dict[str, str](), Refusal.__init__

    def noted(self: Refusal, *args: Any, **fields: Any) -> None:
        init(self, *args, **fields)
        stack = [
            f"{frame.filename.partition('/components/')[2]}:{frame.name}"
            for frame in traceback.StackSummary.extract(
                traceback.walk_stack(sys._getframe(1)), lookup_lines=False
            )
            if "/components/" in frame.filename
        ]
        callers = (name for name in stack if not name.startswith("schema/"))
        where = "read" if "schema/decode.py:_record" in stack else next(callers, "schema")
        raised.setdefault(self.reason, where)

    with patch.context() as patched:
        patched.setattr(Refusal, "__init__", noted)
        return raised[refusals(values)[0].reason]


def test_a_mistake_in_another_block_hides_no_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the tables with a mistake in another block of its stack: both are shown. If a
    pool, or what it depends on, is refused, only sentences about what it resolves to are not."""
    rows = [row for row in test_settings.REFUSED if row[2] != "accepted"]
    hidden, independent = list[tuple[str, str, str]](), 0
    for stack, changes, says in rows:
        blocks = {says.partition(": ")[0].partition(".")[0], *(block for block, *_ in changes)}
        others = [
            (other, text)
            for name, other, text in rows
            if name == stack
            and len(own := {key for key, *_ in other}) == 1
            and not own & blocks
            # With another scaler, other sentences are true.
            and not re.search('"(scaler|platform)"', json.dumps(other))
        ]
        # Two each, which another row of the tables seldom changes.
        others.sort(key=lambda row: crc32(f"{says} {row[1]}".encode()))
        for other, text in others[:2]:
            values = with_changes(with_changes(values_of(stack), other), changes)
            keys = (text, *(block for block, *_ in other))
            depends = any(key.startswith(DEPENDED_ON) for key in keys)
            independent += not depends
            if text.startswith("gpu-cluster:cluster.platform"):
                continue  # What the other blocks are is not known.
            if says not in {without_keys(str(refusal)) for refusal in refusals(values)}:
                where = origin(with_changes(values_of(stack), changes), monkeypatch)
                if not depends or where not in HIDDEN:
                    hidden.append((text, says, where))
    assert hidden == []
    assert independent > 300


def test_the_functions_whose_sentences_may_be_hidden_exist() -> None:
    """By their names; one that is gone would let another of its name hide."""
    for name in HIDDEN:
        file, _, function = name.partition(":")
        assert f"def {function}(" in (ROOT / "components" / file).read_text(), name


def test_a_finding_stands_where_its_key_does() -> None:
    """Every line of every refused config is the one of the last key that is there."""
    for says, values in refused():
        text = yaml.dump(
            {"config": values}, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True
        )
        path = says.partition(": ")[0]
        line, column = position(yaml.compose(text, EngineLoader), f"config.{path}")
        at = text.splitlines()[line - 1][column - 1 :]
        word = at.partition(":")[0] if not at.startswith(("gpu-cluster:", "gcp:", "aws:")) else at
        assert word.strip("- '\"")[:4] in f"config.{path}" or "[" in path, (says, at)


FILES = [
    ("config:\n  a: [1\n", "Pulumi.x.yaml:3:1: is not YAML: expected ',' or ']', but got '<st"),
    ("config:\n  a:b: 1\n  a:b: 2\n", "Pulumi.x.yaml:3:3: a:b: is already set in line 2; "),
    ("confg: {}\n", "Pulumi.x.yaml:1:1: confg: there is no such key, and the engine ignores "),
    ("config: {}\n", "Pulumi.x.yaml:1:1: gpu-cluster:cluster.platform: is missing; allowed: "),
    ("config:\n", "Pulumi.x.yaml:1:1: gpu-cluster:cluster.platform: is missing; allowed: "),
    ("- a\n", "Pulumi.x.yaml:1:1: has no config: see "),
    (
        "config:\n\ta: 1\n",
        "Pulumi.x.yaml:2:1: is not YAML: found character '\\t' that cannot "
        "start any token; indent with spaces",
    ),
    (
        "config:\n  a:\u00a01\n  b: 2\n",
        "Pulumi.x.yaml:3:4: is not YAML: mapping values are not "
        "allowed here: line 2 has a no-break space (U+00A0) in column 5; replace it ",
    ),
    (
        "config: {}\n\u2007b: 1\n",
        "Pulumi.x.yaml:2:1: \\u2007b: has a figure space (U+2007) in col",
    ),
    (
        "config:\n  a:\n  - b:\n      c: 1\n  - \n  d: 1\n e: 1\n",
        "Pulumi.x.yaml:7:2: is not YAML: expected <block end>, but found ",
    ),
    (
        "p:\n  - a:\n      b: 1\n  c:\n    d: 1\n",
        "Pulumi.x.yaml:4:3: is not YAML: expected <block "
        "end>, but found '?'; a key follows list items on one level; write each entry as NAME:",
    ),
    (
        "config:\n  a: \0\n",
        "Pulumi.x.yaml:2:6: is not YAML: the character U+0000 is not allowed",
    ),
    (
        "config:\n  a: " + "[" * 2000,
        "Pulumi.x.yaml:2:64: is not YAML: values are nested more than 60 levels deep ",
    ),
    (
        "config: {}\n---\nconfig: {}\n",
        "Pulumi.x.yaml:2:1: is not YAML: found another document; a stack file has only one "
        "document; remove the one that begins here",
    ),
    (
        "config:\n  a: { b: 010 }\n",
        "Pulumi.x.yaml:2:11: is not YAML: 010 begins with 0, which "
        'YAML may read as an octal number; write 10, or "010" in quotes if it is text',
    ),
    (
        "config:\n  a: 098765432109\n",
        "Pulumi.x.yaml:2:6: is not YAML: 098765432109 begins with 0",
    ),
    (
        "config:\n  a: &x { b: *x }\n",
        "Pulumi.x.yaml:2:6: is not YAML: this anchor contains an alias of itself; remove the alias",
    ),
    (
        "config:\n  a: !Ref x\n",
        "Pulumi.x.yaml:2:6: is not YAML: the tag !Ref is not supported",
    ),
    (
        "config:\n  a: !vault |\n    x\n",
        "Pulumi.x.yaml:2:6: is not YAML: the tag !vault is not ",
    ),
    (
        "config:\n  a: !!python/object/apply:os.system [id]\n",
        "Pulumi.x.yaml:2:6: is not YAML: the tag !!python/object/apply:os.system ",
    ),
    (
        "config:\n  a: !!set { b }\n",
        "Pulumi.x.yaml:2:6: is not YAML: the tag !!set is not supported",
    ),
    (
        BILLION,
        "Pulumi.x.yaml:6:5: is not YAML: the aliases from here on expand to more than 100,000 "
        "values",
    ),
    (
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 99)),
        "Pulumi.x.yaml:60:6: is not YAML: the aliases from here on expand to more than 60 levels",
    ),
    ("config:\n  ? [a]\n  : b\n", "Pulumi.x.yaml:2:5: is not YAML: found unhashable key"),
    (
        f"config: {{ a: {'9' * 5000} }}\n",
        "Pulumi.x.yaml:1:14: is not YAML: a number has 5000 dig",
    ),
    (
        "config:\n  cluster: {}\n  gpu-cluster:cluster: {}\n",
        "Pulumi.x.yaml:3:3: gpu-cluster:cluster: is already set in line 2; drop one of the two",
    ),
    (
        "config:\n  gpu-clusters:gpuPools: {}\n",
        "Pulumi.x.yaml:2:3: gpu-clusters:gpuPools: nothing "
        "reads the namespace 'gpu-clusters'; rename the key to gpu-cluster:gpuPools",
    ),
    (
        "config:\n  oracle:region: x\n",
        "Pulumi.x.yaml:2:3: oracle:region: nothing reads the namespace 'oracle'; allowed: aws, ",
    ),
    (
        "config:\n  aws:regoin: x\n",
        "Pulumi.x.yaml:2:3: aws:regoin: nothing reads it, because the provider has no regoin; "
        "rename the key to aws:region",
    ),
    (
        "config:\n  gcp:flavour: x\n",
        "Pulumi.x.yaml:2:3: gcp:flavour: nothing reads it, because the provider has no flavour; "
        "remove it",
    ),
    (
        "config:\n  aws:config:region: x\n",
        "Pulumi.x.yaml:2:3: aws:config:region: has an old form; rename the key to aws:region",
    ),
    ("", "Pulumi.x.yaml:1:1: has no config: see "),
]
"""A stack file -> its finding."""


@pytest.mark.parametrize(("text", "says"), FILES, ids=range(len(FILES)))
def test_what_is_no_stack_file_has_a_line_too(tmp_path: Path, text: str, says: str) -> None:
    """Where the YAML ends early, has a key twice, says something else, or what no file may say.
    Commands that read the file for another purpose have the same line, or none."""
    assert [one for one in map(str, written(tmp_path, text)) if one.startswith(says)]
    _, found, words = says.partition(": is not YAML: ")
    if found:
        with pytest.raises(StackError) as refused:
            read_stack(tmp_path, "x")
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_refused_pool_is_still_one_to_choose() -> None:
    """What misspells its name is told so, though what names it is not checked further."""
    config = config_of("dev")
    config["gpu-cluster:gpuPools"]["other"] = {"machineType": "g2-standrad-8"}
    (workload,) = config["gpu-cluster:workloads"].values()
    workload["pool"] = "ohter"
    machine, pool = map(str, refusals(config))
    assert "did you mean 'g2-standard-8'? " in machine
    assert pool.endswith(": 'ohter' is not a pool; did you mean 'other'? allowed: other, train-gpu")


def test_a_key_without_a_namespace_is_the_projects(tmp_path: Path) -> None:
    """The engine takes it so: its pools are made, and so they are priced and asked for as well. A
    misspelt key in one stands where it is in the file."""
    text = (EXAMPLES / "Pulumi.dev.yaml").read_text()
    bare = text.replace("gpu-cluster:", "")
    assert bare != text
    for each, stack in ((text, "x"), (bare, "y")):
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(each)
    assert read_stack(tmp_path, "x") == read_stack(tmp_path, "y")
    wrong = bare.replace("maxNodes", "maxNode")
    line = next(n for n, one in enumerate(wrong.splitlines(), 1) if "maxNode" in one)
    (said,) = written(tmp_path, wrong, "z")[1:]
    assert (said.line, "maxNode: there is no such key" in said.message) == (line, True)


@pytest.mark.parametrize("key", ["aws:region", "gcp:zone", "kubernetes:context", "pulumi:tags"])
def test_keys_of_providers_are_theirs_to_judge(key: str) -> None:
    """Of the program's providers, of the engine, and of any whose package is installed."""
    assert key not in {refusal.at for refusal in refusals({key: "x"})}


def test_times_are_text_as_the_engine_has_them(tmp_path: Path) -> None:
    """YAML 1.1 has 12:30 as 750, and no date has a thirteenth month."""
    (tmp_path / "Pulumi.x.yaml").write_text("config: { 'a:b': 12:30, 'a:c': 2026-13-45 }\n")
    assert read_stack(tmp_path, "x")["config"] == {"a:b": "12:30", "a:c": "2026-13-45"}


def test_a_block_inside_another_is_read_where_it_belongs() -> None:
    """Its pools exist for the rest of the file, and its own mistakes are found as well."""
    config = {
        "gcp:project": "my-project",
        "gpu-cluster:cluster": {
            "platform": "gke",
            "name": "x",
            "location": "us-central1-a",
            "authorizedNetworks": {"a": "198.51.99.0/24"},
            "gpuPools": {"a": {"machineType": "g2-standard-4", "maxNode": 1}},
        },
        "gpu-cluster:workloads": {"w": {"kind": "job", "pool": "a", "gpus": 1, "image": "a:1"}},
    }
    first, second = map(str, refusals(config))
    assert first == (
        "gpu-cluster:cluster.gpuPools: does not belong in cluster; rename the key to "
        "gpu-cluster:gpuPools and move it directly below config"
    )
    assert second.startswith("gpu-cluster:gpuPools.a.maxNode: there is no such key")


def test_another_stacks_cluster_is_a_finding(tmp_path: Path) -> None:
    """A copy that keeps the name, at the name."""
    text = (EXAMPLES / "Pulumi.dev.yaml").read_text()
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    (said,) = written(tmp_path, text, "copy")
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "name: gpu-dev" in one)
    assert (said.line, said.column) == (line, 5)
    assert "Pulumi.copy.yaml and Pulumi.dev.yaml declare the same cluster" in said.message


def test_no_such_stack_cannot_be_asked(tmp_path: Path) -> None:
    """The message names the stacks that there are."""
    said = r"^there is no Pulumi\.y\.yaml: the stacks in .*, which has no Pulumi\.yaml, are none"
    with pytest.raises(StackError, match=said):
        file_findings("y", tmp_path)


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
    assert first["path"] == "gpu-cluster:cluster.authorizedNetwork"
    assert (first["code"], "given" in first) == ("unknown-key", False)
    (seconds,) = [found for found in document["findings"] if "intervalSeconds" in found["path"]]
    assert (seconds["given"], seconds["allowed"]) == (5, {"least": 10, "most": 300})
    assert main(["validate", "nosuch"]) == ExitCode.UNKNOWN


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("instanceType", "g4dn.xlarge", "there is no such key; did you mean 'instanceTypes'?"),
        ("zone", "us-east-1a", "there is no such key; did you mean 'zones'?"),
        ("machineType", "g2-standard-4", "is only available on gke; use instanceTypes on eks"),
    ],
)
def test_a_misspelt_key_is_one_finding(key: str, value: str, says: str) -> None:
    """What was meant is a guess: that the value does not fit it, is no mistake of the user."""
    config = values_of("train")
    pool = config["gpu-cluster:gpuPools"]["train-gpu"]
    pool.pop(f"{key}s", None)
    pool[key] = value
    (said,) = map(str, refusals(config))
    assert said.startswith(f"gpu-cluster:gpuPools.train-gpu.{key}: {says}")


@pytest.mark.parametrize("given", [None, {"podSecurity": "restricted"}, {"podSecurty": "x"}])
def test_a_broken_namespace_is_declared_all_the_same(given: object) -> None:
    """Whatever names it has no finding of its own."""
    config = values_of("train")
    config["gpu-cluster:namespaces"] = {"team-vision": given, "team_b": {}}
    config["gpu-cluster:serviceAccounts"] = {"trainer": {"namespace": "team-vision"}}
    first, second = map(str, refusals(config))
    assert first.startswith("gpu-cluster:namespaces.team_b: 'team_b' must be lowercase")
    assert second.startswith("gpu-cluster:namespaces.team-vision")


def test_a_reserved_namespace_is_one_finding() -> None:
    """It may exist, and then what names it is right."""
    config = values_of("train")
    config["gpu-cluster:namespaces"] = {"ml-system": {}}
    config["gpu-cluster:serviceAccounts"] = {"trainer": {"namespace": "ml-system"}}
    (said,) = map(str, refusals(config))
    assert said.startswith("gpu-cluster:namespaces.ml-system: 'ml-system' belongs to ")


@pytest.mark.parametrize(
    ("nested", "outer"), [(None, {}), ({"a": {}}, {"gpu-cluster:gpuPools": None})]
)
def test_an_empty_block_hides_no_misplaced_one(nested: object, outer: dict[str, object]) -> None:
    """Nor is it a finding when the misplaced one is empty itself."""
    config = values_of("train")
    for key in ("gpuPools", "workloads"):
        del config[f"gpu-cluster:{key}"]
    config["gpu-cluster:cluster"]["gpuPools"] = nested
    first, *others = refusals(config | outer)
    assert str(first).startswith("gpu-cluster:cluster.gpuPools: does not belong in cluster")
    assert [other.at for other in others] == (
        ["gpu-cluster:gpuPools.a.instanceTypes"] if nested else []
    )


def test_values_in_an_esc_environment_are_not_taken_for_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that has everything itself has no finding, whatever else it imports; the command says
    that it does not read the rest, and others say so of a file without a cluster."""
    (first, *_) = written(tmp_path, "environment: [team/gpus]\n")
    assert first.message.startswith("environment: its values are in Pulumi ESC, which this command")
    text = (EXAMPLES / "Pulumi.dev.yaml").read_text()
    assert written(tmp_path, f"environment: [team/gpus]\n{text}") == []
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("GPU_CLUSTER_STACKS", str(tmp_path / "own"))
    file = tmp_path / "own" / "Pulumi.dev.yaml"
    file.write_text(f"environment: [team/gpus]\n{text}")
    assert main(["validate", "dev"]) == ExitCode.OK
    assert "adds from Pulumi ESC, which is not read" in capsys.readouterr().out
    file.write_text("environment: [team/gpus]\nconfig: {aws:region: us-east-1}\n")
    assert main(["cost", "dev"]) == ExitCode.UNKNOWN
    assert "Pulumi.dev.yaml: environment: its values are in" in capsys.readouterr().err


_POOL, _POD = ("gpu-cluster:gpuPools", "train-gpu"), ("gpu-cluster:workloads", "sample-gpu-pod")
MISTAKES = [
    [*_POOL, "driver", "manged"],
    [*_POOL, "maxNodes", -1],
    [*_POOL, "accelerator", "nvidia-t4"],
    [*_POOL, "diskSizeGb", 1],
    [*_POD, "kind", "jobb"],
    [*_POD, "gpus", -1],
    [*_POD, "image", ""],
    ["gpu-cluster:monitoring", {"enabled": True, "intervalSeconds": 5}],
    ["gpu-cluster:cluster", "releaseChannel", "rapidd"],
    ["gpu-cluster:volumeClaims", {"a": {"size": "1Xi"}}],
]


@pytest.mark.parametrize("count", [2, 5, 10])
def test_every_mistake_of_a_file_is_shown_with_its_line(tmp_path: Path, count: int) -> None:
    """None more than once, and nothing that follows from one."""
    values = with_changes(values_of("dev"), MISTAKES[:count])
    found = written(tmp_path, yaml.safe_dump({"config": values}, sort_keys=False))
    paths = {finding.message.split(": ")[0] for finding in found}
    expected = {".".join(mistake[:-1]) for mistake in MISTAKES[: min(count, 7)]}
    if count == 10:
        expected |= {
            "gpu-cluster:monitoring.intervalSeconds",
            "gpu-cluster:cluster.releaseChannel",
            "gpu-cluster:volumeClaims.a.size",
        }
    assert (len(found), paths) == (count, expected)
    assert len({finding.line for finding in found}) == count


def _is_text(node: ast.expr, refusals: set[str], texts: set[str]) -> bool:
    """Whether it is the text of a refusal, one of the variables `refusals`."""
    parts = [node]
    if isinstance(node, ast.JoinedStr):
        parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        texts = texts | refusals
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("str", "repr", "format"):
        parts, texts = node.args, texts | refusals
    elif isinstance(node, ast.List):
        return any(_is_text(item, refusals, texts) for item in node.elts)
    elif isinstance(node, ast.Attribute) and node.attr in ("args", "reason", "remedy"):
        parts, texts = [node.value], refusals
    return any(isinstance(part, ast.Name) and part.id in texts for part in parts)


def readers(source: str) -> list[int]:
    """The lines that read the text of a refusal: split, search, compare or cut it."""
    found = []
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        nodes = [*ast.walk(function)]
        names = {"refusal", "refused"}
        for node in nodes:
            if isinstance(node, ast.ExceptHandler) and CATCHES.search(ast.dump(node.type or node)):
                names.add(node.name or "")
            every = isinstance(node, ast.For | ast.comprehension) and ast.dump(node.iter)
            if every and "attr='every'" in every and isinstance(node.target, ast.Name):
                names.add(node.target.id)
        texts: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Assign) and _is_text(node.value, names, texts):
                texts |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        loops = [node for node in nodes if isinstance(node, ast.For | ast.comprehension)]
        texts |= {ast.unparse(loop.target) for loop in loops if ast.unparse(loop.iter) in texts}
        for node in nodes:
            parts: list[ast.expr] = []
            if isinstance(node, ast.Attribute | ast.Subscript):
                parts = [node.value]
            elif isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
                parts = node.args
            if any(_is_text(part, names, texts) for part in parts):
                found.append(node.lineno)
    return sorted({*found})


CATCHES = re.compile("'(Refusal|ValueError|CheckError|StackError)'")
CAUGHT = "def f():\n    try:\n        g()\n    except Refusal as fault:\n        "


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("return str(fault).partition(': ')[0]", True),
        ("return re.sub('a', 'b', str(fault))", True),
        ("text = f'{fault}'; return text.replace('a', 'b')", True),
        ("lines = [str(fault)]; return [line for line in lines if line.startswith('a')]", True),
        ("return fault.reason.split()", True),
        ("return fault.args[0]", True),
        ("return 'missing' in str(fault)", True),
        ("return [str(one)[2:] for one in fault.every]", True),
        ("return [str(one) for one in fault.every]", False),
        ("return fault.code == UNKNOWN_KEY and fault.path[0]", False),
    ],
)
def test_reading_the_text_of_a_refusal_is_seen(line: str, reads: bool) -> None:
    """In each of the ways in which it was read before it was a value; showing it is none."""
    assert readers(CAUGHT + line) == [5] * reads


def test_nothing_reads_the_text_of_a_refusal() -> None:
    """Whoever catches one reads its fields, or shows it; it is not split, searched or rewritten."""
    files = [file for file in sources() if file != ROOT / "components/schema/refusal.py"]
    found = [f"{file}:{line}" for file in files for line in readers(file.read_text())]
    # A refusal of settings is no ValueError of a sentence that begins with its key.
    raised = re.compile(r"ValueError\(\s*f?\"(?:[a-z]+[A-Z]\w*|\{(?:path|key)\})[^\" ]*: ")
    found += [str(file) for file in files if raised.search(file.read_text())]
    assert len(files) > 300
    assert found == []
