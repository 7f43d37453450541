"""The project that `gpu-cluster init` writes, which the repository's root is one of."""

import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_cluster.cli.main import main
from gpu_cluster.stacks.definition.files import ROOT
from gpu_cluster.stacks.definition.validation import file_findings
from gpu_cluster.stacks.environments import new_stack, project
from gpu_cluster.stacks.environments.project import init
from gpu_cluster.stacks.outcome import CheckError

NAME = "gpu_cluster-0.2.0-py3-none-any.whl"
URL = f"https://example.com/files/{NAME}"


def test_its_files_are_the_repositorys_own(tmp_path: Path) -> None:
    """All but one line of two: the project's name, and how a workflow installs the package."""
    init(tmp_path / "gpus", wheel=URL)
    different = {}
    for name in project.FILES:
        own = ROOT / (new_stack.SCHEMA if name == "stack.schema.json" else name)
        pairs = zip(
            own.read_text().splitlines(),
            (tmp_path / "gpus" / name).read_text().splitlines(),
            strict=True,
        )
        if pair := next((pair for pair in pairs if pair[0] != pair[1]), None):
            different[name] = pair
    install = "  INSTALL: python -m venv .venv && .venv/bin/pip install --quiet -r requirements.txt"
    assert different == {
        "Pulumi.yaml": ("name: gpu-cluster", "name: gpus"),
        ".github/workflows/pull-request.yaml": ("  INSTALL: make .venv/.ready", install),
    }


@pytest.mark.parametrize("platform", ["gke", "gke-autopilot", "eks", "existing"])
def test_its_stack_is_valid(platform: str, tmp_path: Path) -> None:
    """And its schema is the one beside it, for editors."""
    files = init(tmp_path / "a", name="gpus", stack="first", platform=platform, wheel=URL)
    assert file_findings("first", tmp_path / "a") == []
    text = (tmp_path / "a" / "Pulumi.first.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=stack.schema.json\n")
    written = {str(f.relative_to(tmp_path / "a")) for f in (tmp_path / "a").rglob("*.*")}
    assert set(files) <= written
    assert (tmp_path / "a" / "Pulumi.yaml").read_text().startswith("name: gpus\n")


def test_it_brings_a_wheel_that_is_a_file(tmp_path: Path) -> None:
    """Others who clone the project, and its workflow, install the same one."""
    (tmp_path / NAME).write_bytes(b"wheel")
    init(tmp_path / "a", wheel=str(tmp_path / NAME))
    assert (tmp_path / "a" / "requirements.txt").read_text() == f"./wheels/{NAME}[project]\n"
    assert (tmp_path / "a" / "wheels" / NAME).read_bytes() == b"wheel"
    init(tmp_path / "b", wheel=URL)
    assert (tmp_path / "b" / "requirements.txt").read_text() == f"gpu-cluster[project] @ {URL}\n"
    assert not (tmp_path / "b" / "wheels").exists()


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        ({"url": URL, "archive_info": {"hashes": {"sha256": "ab"}}}, f"{URL}#sha256=ab"),
        ({"url": URL, "archive_info": {}}, URL),
    ],
)
def test_the_wheel_is_the_one_that_is_installed(
    origin: object, requirement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip records where a package came from; with its hash, another file at the URL is refused."""
    installed = SimpleNamespace(read_text=lambda name: json.dumps(origin))
    monkeypatch.setattr(metadata, "distribution", lambda name: installed)
    init(tmp_path / "a")
    text = (tmp_path / "a" / "requirements.txt").read_text()
    assert text == f"gpu-cluster[project] @ {requirement}\n"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """Neither a file nor a link to nothing; and then nothing is written at all."""
    for name in ("Pulumi.dev.yaml", ".gitignore"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).symlink_to("nothing")
        with pytest.raises(CheckError) as refused:
            init(folder, wheel=URL, name="gpus")
        assert str(refused.value) == f"{folder / name} already exists; name a folder without it"
        assert [path.name for path in folder.iterdir()] == [name]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"wheel": "there.whl"},
            "--wheel: there.whl is not the wheel; give a path or an https URL",
        ),
        ({"wheel": "http://a.b/c"}, "--wheel: http://a.b/c is not the wheel; give a path or an"),
        ({"wheel": f"no/{NAME}"}, f"--wheel: no/{NAME} does not exist; give a path or an https"),
        ({}, "--wheel: is missing, because the package was not installed from a wheel; build one"),
        ({"wheel": URL, "name": "a b"}, "--name: 'a b' is not a valid project name; give one such"),
    ],
)
def test_what_cannot_be_installed_or_named_is_refused(
    given: dict[str, str], says: str, tmp_path: Path
) -> None:
    """In one line, and nothing is written."""
    with pytest.raises(CheckError) as refused:
        init(tmp_path / "a", **given)
    assert str(refused.value).startswith(says)
    assert not (tmp_path / "a").exists()


def test_the_next_command_is_said_for_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a change into the folder that one is in."""
    monkeypatch.chdir(tmp_path)
    for folder, change in ((".", ""), ("gpus", "cd gpus, then ")):
        assert main(["init", folder, "--wheel", URL, "--name", "gpus"]) == 0
        assert f"next: {change}gpu-cluster rehearse dev" in capsys.readouterr().out.splitlines()
