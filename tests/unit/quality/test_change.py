"""`make change` tests what the diff concerns; `new-block` copies the example."""

import re
import shutil
from pathlib import Path

import pytest

from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.outcome import CheckError
from quality import change
from quality.new_block import add_block

SETTINGS = ("batch", "eks", "monitoring", "services", "teams")


@pytest.mark.parametrize(
    ("paths", "concerned"),
    [
        (  # eks: refuse a bucket's key in another partition
            ["components/access/service_accounts.py", "tests/unit/components/refused_eks.yaml"],
            {"tests/unit/components/test_settings_eks.py"},
        ),
        (  # cost: prices of C2, C3, C4, N4 and T2D nodes on GKE
            ["components/catalog/gke_shapes.py", "tests/unit/stacks/test_cost.py"],
            {"tests/facts/test_facts.py", "tests/unit/components/test_catalog_gke.py",
             "tests/unit/stacks/test_cost.py"},
        ),
        (  # aws: queues, event rules and instance profiles in a rehearsal
            ["gpu_cluster/clouds/rows/aws.yaml",
             "gpu_cluster/rehearsal/simulators/aws/list_resources.py"],
            {"tests/simulators/test_aws_lives.py", "tests/unit/plugins/test_aws_rows.py",
             "tests/facts/test_overrides.py", "tests/simulators/test_aws_api.py"},
        ),
        (  # gke: Google Groups for RBAC, and a warning for teams with groups without it
            ["components/gke/cluster_args.py", "components/gke/control_plane.py",
             "docs/how-to/teams.md"],
            {"tests/program/test_removals.py", "tests/unit/components/test_scaler.py",
             "tests/components/test_gke.py", "tests/unit/project/test_docs.py",
             "tests/facts/test_replacement.py", "tests/unit/quality/test_changes.py",
             *(f"tests/unit/components/test_settings_{part}.py" for part in SETTINGS)},
        ),
    ],
)  # fmt: skip
def test_the_files_of_a_commit_name_their_tests(paths: list[str], concerned: set[str]) -> None:
    """Of commits of this repository, whose mistakes these tests find."""
    assert concerned - {*change.tests(paths)} == set()


def test_every_row_of_the_table_has_files() -> None:
    """On both sides; and a page of the documents concerns no test of a cloud."""
    files = change._git("ls-files", "-co", "--exclude-standard").splitlines()
    assert [p for p in change.TESTS if not any(change.fnmatch(file, p) for file in files)] == []
    patterns = {test for tests in change.TESTS.values() for test in tests}
    assert [test for test in sorted(patterns) if not any(ROOT.glob(test))] == []
    assert change.tests(["README.md"]) == [
        "tests/unit/project/test_commands_in_docs.py", "tests/unit/project/test_docs.py",
    ]  # fmt: skip


def test_a_changed_line_of_a_field_names_its_settings() -> None:
    """On each platform that has the field, also of a class within another."""
    file = "components/gke/pool_args.py"
    lines = (ROOT / file).read_text().splitlines()
    numbers = {lines.index(line) + 1 for line in lines if line.startswith("    disk_size_gb: ")}
    assert change.keys({file: numbers, "README.md": {1}}) == {
        "gke": ["gpuPools.diskSizeGb"], "gke-existing": ["gpuPools.diskSizeGb"],
    }  # fmt: skip
    both = {"gke": ["gpuPools.diskSizeGb"], "gke-existing": ["gpuPools.diskSizeGb"]}
    assert [*change._rehearsed({**both, "eks": ["workloads.image"]})] == ["gke"]


def test_a_sample_gets_the_changed_settings(tmp_path: Path) -> None:
    """With values that the settings accept together."""
    keys = ["gpuPools.diskSizeGb", "gpuPools.maxNodes", "cluster.nothing"]
    stack, have = change.stack_with("gke", keys, tmp_path)
    assert sorted(have) == ["gpuPools.diskSizeGb", "gpuPools.maxNodes"]
    assert "diskSizeGb: 101" in (tmp_path / f"Pulumi.{stack}.yaml").read_text()


def test_the_tests_of_what_was_written_just_now_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those of a page of settings; linters run before, and why nothing is rehearsed is said."""
    file, steps = {"components/scalers.py": {1}}, dict[str, list[str]]()
    diffs = iter([file, {**file, "docs/reference/configuration/gke.md": {1}}])
    monkeypatch.setattr(change, "changed_lines", lambda since: next(diffs))
    monkeypatch.setattr(
        change, "_step", lambda title, command, **_: not steps.update({title: command})
    )
    assert change.check_change("HEAD", rehearse=True)
    assert [*steps][:5] == ["ruff", "ruff format", "import contracts", "mypy", "generated pages"]
    assert any("tests/unit/project/test_docs.py" in command for command in steps.values())
    assert "rehearsal: none, since no setting of cluster or gpuPools" in capsys.readouterr().out


def test_only_failures_are_shown_of_tests() -> None:
    """Neither progress, nor the table of folders, nor the groups of tests."""
    failure, summary = (
        "=== FAILURES ===\n__ test_a{} __\nE no\n",
        "=== short test summary ===\nF a\n",
    )
    printed = f"bringing up nodes...\n..F\n{failure}=== by folder ===\nunit 1\n{summary}"
    assert change._NOISE.sub("", printed.format("[b]@tests/unit/test_a.py")) == (
        failure.format("[b]") + summary
    )
    assert change._NOISE.sub("", "no tests\n") == "no tests\n"


def test_a_block_is_copied_from_the_example(tmp_path: Path) -> None:
    """With its row, under its own name throughout, and never over another one."""
    table = Path("components/settings/blocks.py")
    (tmp_path / table).parent.mkdir(parents=True)
    shutil.copy(ROOT / table, tmp_path / table)
    add_block("modelServers", tmp_path)
    written = {
        path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.py")
    }
    assert sorted(written) == [
        "components/batch/model_server.py", "components/batch/model_server_args.py",
        "components/settings/blocks.py", "tests/components/test_model_servers.py",
    ]  # fmt: skip
    for name, text in written.items():
        compile(text, name, "exec")
        assert not re.search(r"(?<![a-z])sites?(?![a-z])", text, re.IGNORECASE)
    args, component = (written[f"components/batch/model_server{part}.py"] for part in ("_args", ""))
    assert args.startswith('"""What a user says of a model server: ')
    assert "def read_model_servers(\n" in args
    assert "from ..gpu.prerequisites import Prerequisites\n" in component
    assert '    "modelServers": RunningBlock(\n        args=ModelServerArgs,' in written[str(table)]
    assert (
        "from ..batch.model_server_args import ModelServerArgs, read_model_servers"
        in (written[str(table)])
    )
    with pytest.raises(CheckError, match=r"model_server\.py, .*: the file exists"):
        add_block("modelServers", tmp_path)
    with pytest.raises(CheckError, match="expected a plural in camelCase"):
        add_block("Notebook", tmp_path)
