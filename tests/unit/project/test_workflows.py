"""The workflows of pull requests: what they may do, and that strangers cannot make them do more."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.cli.ci import offline
from gpu_cluster.cli.ci.kept_state import NOWHERE
from gpu_cluster.stacks.definition.changed import touched
from gpu_cluster.stacks.definition.files import PLACEHOLDER
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.settings import ROOT
from tests.conftest import in_commit, show_once

WORKFLOWS = {
    path.stem: yaml.load(path.read_text(), yaml.BaseLoader)
    for path in (ROOT / ".github" / "workflows").glob("*.yaml")
}


def steps(name: str) -> Iterator[dict[str, Any]]:
    for job in WORKFLOWS[name]["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_to_a_commit(name: str) -> None:
    """A tag is moved by whoever takes over an action's repository; a commit is not."""
    for step in steps(name):
        assert re.search(r"@[0-9a-f]{40}$", step["uses"]) if "uses" in step else step["run"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_nothing_is_pasted_into_a_script(name: str) -> None:
    """A branch's or file's name reaches a script as a variable of the environment alone."""
    assert not [step["run"] for step in steps(name) if "${{" in step.get("run", "")]


def test_a_fork_gets_neither_secret_nor_token() -> None:
    """The one job that can sign in is for branches of the repository; the others read files."""
    workflow = WORKFLOWS["pull-request"]
    trusted = workflow["jobs"]["trusted"]
    assert list(workflow["on"]) == ["pull_request"]
    assert workflow["permissions"] == {"contents": "read"}
    assert set(workflow["jobs"]) == {"check", "packages", "trusted"}
    for name in ("check", "packages"):
        assert "permissions" not in workflow["jobs"][name]
        assert "secrets." not in json.dumps(workflow["jobs"][name])
    assert trusted["permissions"] == {"actions": "read", "contents": "read", "id-token": "write"}
    assert "github.event.pull_request.head.repo.full_name == github.repository" in trusted["if"]


def test_what_signs_in_belongs_to_the_environment() -> None:
    """Only a job that names the environment, and waits for its reviewers, gets secrets; its switch
    is the one variable that is read before GitHub knows the environment."""
    trusted = WORKFLOWS["pull-request"]["jobs"]["trusted"]
    assert trusted["environment"] == "preview"
    before = json.dumps([trusted["if"], trusted["runs-on"]])
    assert set(re.findall(r"(?:vars|secrets)\.(\w+)", before)) == {
        "REAL_PREVIEWS",
        "PREVIEW_RUNNER",
    }
    page = (ROOT / "docs" / "how-to" / "preview-in-pull-requests.md").read_text()
    within = json.dumps(trusted["steps"])
    for name in set(re.findall(r"(?:vars|secrets)\.(\w+)", within)):
        assert f"`{name}`" in page
    assert "repo:ORG/REPO:environment:preview" in page
    for workflow in WORKFLOWS.values():
        for job in workflow["jobs"].values():
            if job.get("environment") != "preview":
                assert "secrets." not in json.dumps(job)
                assert "id-token" not in job.get("permissions", {})


def test_everything_is_downloaded_before_anybody_signs_in() -> None:
    """A bad release of a package, or of the engine, runs without the clouds' credentials."""
    steps = [
        step.get("uses", step.get("run", ""))
        for step in WORKFLOWS["pull-request"]["jobs"]["trusted"]["steps"]
    ]
    signs_in = min(
        number
        for number, step in enumerate(steps)
        if step.startswith(("google-github-actions/auth@", "aws-actions/"))
    )
    downloads = ("gh run download", "pulumi/actions@", "git worktree add", "setup-gcloud@")
    for download in downloads:
        assert any(download in step for step in steps[:signs_in]), download
        assert not any(download in step for step in steps[signs_in:]), download


def test_no_package_is_installed_where_a_token_can_be_asked_for() -> None:
    """A job with `id-token: write` gives the token to whatever runs in it, from its first step on.
    Another one, on the same kind of runner, installs the packages and hands them on."""
    jobs = WORKFLOWS["pull-request"]["jobs"]
    packages, trusted = jobs["packages"], jobs["trusted"]
    for job in jobs.values():
        if "id-token" not in job.get("permissions", {}):
            continue
        scripts = "\n".join(step.get("run", "") for step in job["steps"])
        assert not re.search(r"\b(make|pip|uv|setup\.py|INSTALL)\b", scripts)
    assert 'eval "$INSTALL"' in packages["steps"][-2]["run"]
    assert packages["steps"][-1]["with"]["name"] == "packages"
    assert any("--name packages" in step.get("run", "") for step in trusted["steps"])
    assert trusted["needs"] == "packages"
    assert packages["runs-on"] == trusted["runs-on"]
    assert packages["if"] == f"needs.check.outputs.stacks != '' && {trusted['if']}"
    assert "environment" not in packages


@pytest.mark.parametrize("name", ["main", "tests"])
def test_what_needs_another_user_is_tested_as_root(name: str) -> None:
    """A runner's own user cannot become another one, and would skip these without a word."""
    (step,) = (s for s in steps(name) if s.get("name") == "Tests that need another user")
    assert step["run"].startswith("sudo env ")
    marks = re.compile(r"^from tests.another_user import .*\bas_root\b", re.MULTILINE)
    tests = (ROOT / "tests").rglob("test_*.py")
    marked = {str(file.relative_to(ROOT)) for file in tests if marks.search(file.read_text())}
    assert marked
    assert {word for word in step["run"].split() if word.startswith("tests/")} == marked


def test_the_engine_of_previews_is_the_rehearsals() -> None:
    """One version, pinned; not whatever is newest when the job runs."""
    (built,) = re.findall(
        r"github.com/pulumi/pulumi/pkg/v3 v(\S+)",
        (ROOT / "gpu_cluster/tools/pulumi/go.mod").read_text(),
    )
    for name in WORKFLOWS:
        for step in steps(name):
            if step.get("uses", "").startswith("pulumi/actions@"):
                assert step["with"]["pulumi-version"] == built


def test_a_change_of_the_policies_is_judged_by_those_of_the_base() -> None:
    """Both jobs that preview do it, with the base's own files."""
    for name in ("check", "trusted"):
        script = "\n".join(
            step.get("run", "") for step in WORKFLOWS["pull-request"]["jobs"][name]["steps"]
        )
        assert 'git worktree add --detach "$RUNNER_TEMP/base" "$BASE"' in script
        assert '--policy-pack "$RUNNER_TEMP/base/policy"' in script
        assert ".policies.json" in script
        compared = re.findall(r"git diff --quiet \"\$BASE...HEAD\" -- (.*);", script)[0]
        read = r"^from gpu_cluster\.(components\.\w+)"
        rooms = {"policy", "gpu_cluster/policy"} | {
            name.replace(".", "/")
            for path in (ROOT / "gpu_cluster" / "policy").glob("*.py")
            for name in re.findall(read, path.read_text(), re.MULTILINE)
        }
        assert set(compared.split()) == {*rooms, "'requirements*'", "wheels"}


def test_main_is_tested_after_a_merge_and_proved_every_night() -> None:
    """What two pull requests break together is seen; the slow proofs run without anybody asking."""
    workflow = WORKFLOWS["main"]
    assert workflow["on"]["push"] == {"branches": ["main"]}
    assert len(workflow["on"]["schedule"]) == 1
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    runs = [step.get("run") for step in jobs["test"]["steps"]]
    assert runs[-3:-1] == [".ci/run", "make coverage"]
    assert jobs["test"]["strategy"] == WORKFLOWS["tests"]["jobs"]["test"]["strategy"]
    assert "if" not in jobs["test"]
    assert jobs["prove"]["steps"][-1]["run"] == "make inject-faults"
    assert jobs["prove"]["if"] == "github.event_name != 'push'"


def test_each_commit_begins_with_other_slow_tests() -> None:
    """The same commit begins with the same ones again; `.ci/run` runs 20 minutes."""
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-2:] == ["make test", "make slice"]
    groups = [str(number) for number in range(40)]
    orders = [
        sorted(groups, key=lambda group: in_commit(commit, group)) for commit in ("a", "b", "a")
    ]
    assert orders[0] == orders[2] != orders[1]
    assert len({min(groups, key=lambda group: in_commit(str(c), group)) for c in range(200)}) > 30


def test_a_failure_on_each_platform_is_shown_once() -> None:
    """With the names of the other cases; another sentence is another failure."""
    sentences = {"t[a-gke]": "gke has none", "t[a-eks]": "eks has none", "t[a-x]": "x has two"}
    failures = [
        pytest.TestReport(f"{name}@program", ("", 0, ""), {}, "failed", text, "call")
        for name, text in sentences.items()
    ]
    show_once(failures)
    assert [failure.longreprtext for failure in failures] == [
        "gke has none", "as t[a-gke]@program", "x has two",
    ]  # fmt: skip
    assert failures[0].sections == [("the same failure", "a-eks")]


def test_a_change_of_a_stack_file_alone_does_not_run_the_developers_tests() -> None:
    """It is priced, rehearsed and previewed; a change of code is tested on every Python."""
    test, check = WORKFLOWS["tests"]["jobs"]["test"], WORKFLOWS["pull-request"]["jobs"]["check"]
    assert ".ci/run" not in json.dumps(WORKFLOWS["pull-request"])
    assert test["if"] == "needs.scope.outputs.code == 'true'"
    assert "permissions" not in test
    assert "secrets." not in json.dumps(WORKFLOWS["tests"])
    versions = [row["python"] for row in test["strategy"]["matrix"]["include"]]
    assert versions == ["3.11.2", "3.12", "3.13"]
    touched = "${{ steps.changed.outputs.stacks }}"
    for command in ("gpu-cluster cost", "gpu-cluster rehearse", "pulumi preview"):
        (step,) = (step for step in check["steps"] if command in step.get("run", ""))
        assert step["env"]["STACKS"] == touched


@pytest.mark.parametrize(
    ("files", "code", "stacks"),
    [
        (["Pulumi.staging.yaml"], False, ["staging"]),
        (["Pulumi.staging.yaml", "Pulumi.gone.yaml"], False, ["staging"]),
        ([".github/states/dev.json", "inventories/lab.yaml"], False, ["dev", "lab"]),
        (["components/cluster.py"], True, ["dev", "lab", "staging"]),
        (["Pulumi.yaml"], True, ["dev", "lab", "staging"]),
        (["requirements-dev.txt"], True, ["dev", "lab", "staging"]),
        (["wheels/gpu_cluster-0.3.0-py3-none-any.whl"], True, ["dev", "lab", "staging"]),
        (["network.py"], True, ["dev", "lab", "staging"]),
        (
            ["gpu_cluster/rehearsal/simulators/aws/iam.py", "Pulumi.dev.yaml"],
            True,
            ["dev", "lab", "staging"],
        ),
        (["tests/unit/stacks/test_cost.py", "Pulumi.dev.yaml"], True, ["dev"]),
        (["policy/config.json"], False, ["dev", "lab", "staging"]),
        (["README.md"], True, []),
        ([], False, []),
    ],
)
def test_a_pull_request_is_judged_by_what_it_touches(
    files: list[str], code: bool, stacks: list[str]
) -> None:
    """Code is tested and every environment rehearsed with it; a stack's own files concern it."""
    here = ["Pulumi.dev.yaml", "Pulumi.lab.yaml", "Pulumi.staging.yaml"]
    assert touched(files, here) == (code, stacks)


def test_a_stack_file_whose_name_is_a_path_or_a_flag_is_refused() -> None:
    """The name reaches scripts and paths of the other jobs."""
    for name in ("Pulumi....yaml", "Pulumi.a b.yaml", "Pulumi.-x.yaml", "Pulumi.$(id).yaml"):
        with pytest.raises(StackError, match="is not a valid stack name"):
            touched(["Pulumi.dev.yaml"], [name])


def test_who_writes_comments_runs_nothing_of_a_pull_request() -> None:
    """It has a right that a fork's own run has not, and so checks nothing out."""
    assert WORKFLOWS["comment"]["permissions"] == {"actions": "read", "pull-requests": "write"}
    assert [step for step in steps("comment") if "uses" in step] == []


def secret(**value: str) -> dict[str, str]:
    """A secret as the engine writes it into a state."""
    return {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", **value}


def test_an_offline_preview_needs_nobodys_key(tmp_path: Path) -> None:
    """Encrypted values are the same placeholder in the stack's file and in its state."""
    root, folder = tmp_path / "root", tmp_path / "copy"
    (root / "components").mkdir(parents=True)
    (root / ".venv").mkdir()
    (root / ".github" / "states").mkdir(parents=True)
    for name in ("Pulumi.yaml", "__main__.py", "requirements.txt"):
        (root / name).touch()
    (root / "Pulumi.x.yaml").write_text(
        "encryptionsalt: v1:a\nconfig: {'gpu-cluster:workloads': {w: {env: {T: {secure: v1:b}}}}}\n"
    )
    state = {
        "version": 3,
        "deployment": {
            "secrets_providers": {"type": "service"},
            "resources": [
                {
                    "urn": "urn:pulumi:x::gpu-cluster::pulumi:providers:kubernetes::x",
                    "type": "pulumi:providers:kubernetes",
                    "inputs": {"kubeconfig": secret(ciphertext="v1:c"), "plain": [1]},
                    "outputs": {"env": [secret(ciphertext="v1:d")], "n": secret(plaintext="7")},
                }
            ],
        },
    }
    (root / ".github" / "states" / "x.json").write_text(json.dumps(state))
    offline.copy("x", folder, root)
    assert yaml.safe_load((folder / "Pulumi.x.yaml").read_text()) == {
        "config": {"gpu-cluster:workloads": {"w": {"env": {"T": PLACEHOLDER}}}}
    }
    assert json.loads((folder / "state.json").read_text()) == {
        "version": 3,
        "deployment": {
            "resources": [
                {
                    "urn": "urn:pulumi:x::gpu-cluster::pulumi:providers:kubernetes::x",
                    "type": "pulumi:providers:kubernetes",
                    "inputs": {"kubeconfig": NOWHERE, "plain": [1]},
                    "outputs": {"env": [PLACEHOLDER], "n": PLACEHOLDER},
                }
            ]
        },
    }
    assert "secure" in (root / "Pulumi.x.yaml").read_text()


def test_who_previews_against_gke_can_sign_in_to_its_clusters() -> None:
    """The kubeconfig calls a plugin that GitHub's runners lack; it stands before the preview."""
    found = WORKFLOWS["pull-request"]["jobs"]["trusted"]["steps"]
    (plugin,) = [
        at
        for at, step in enumerate(found)
        if "gke-gcloud-auth-plugin" in step.get("with", {}).get("install_components", "")
    ]
    (preview,) = [at for at, step in enumerate(found) if "pulumi preview" in step.get("run", "")]
    assert plugin < preview
