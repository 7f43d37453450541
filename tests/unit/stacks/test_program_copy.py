"""A stack's file as the engine reads it, and the copy of the program for it."""

import sys
from pathlib import Path

import pytest
import yaml

from gpu_cluster.components.gpu.volume_args import VolumeArgs
from gpu_cluster.stacks.definition.files import PLACEHOLDER, EngineLoader, without_secrets
from gpu_cluster.stacks.definition.names import StackError
from gpu_cluster.stacks.definition.program import copy_program


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "components").mkdir(parents=True)
    for name in ("Pulumi.yaml", "__main__.py", "requirements.txt"):
        (source / name).write_text(name)
    (source / "Pulumi.dev.yaml").write_text(
        "# a comment\nencryptionsalt: v1:abc\nconfig:\n  a:key: {secure: v1:xyz}\n  a:b: 1\n"
    )
    (source / "Pulumi.plain.yaml").write_text("# a comment\nconfig:\n  a:b: 1\n")
    return source


def test_encrypted_values_become_placeholders(source: Path, tmp_path: Path) -> None:
    """The copy has neither a ciphertext nor a salt, and the committed file is untouched."""
    before = (source / "Pulumi.dev.yaml").read_text()
    copy_program(source, "dev", tmp_path / "copy")
    copied = (tmp_path / "copy" / "Pulumi.dev.yaml").read_text()
    assert "rehearsal-placeholder" in copied
    assert "v1:" not in copied
    assert (source / "Pulumi.dev.yaml").read_text() == before


def test_what_is_text_to_the_engine_stays_text(source: Path, tmp_path: Path) -> None:
    """A file that is written again, for a secret in it, says of everything else what it said."""
    (source / "Pulumi.dev.yaml").write_text(
        "config: {a:x: {y: {secure: v1:abc}, on: yes, since: 2026-11-21, ok: true}}\n"
    )
    copy_program(source, "dev", tmp_path / "copy")
    written = yaml.load((tmp_path / "copy" / "Pulumi.dev.yaml").read_text(), EngineLoader)
    assert written["config"]["a:x"] == {
        "y": PLACEHOLDER,
        "on": "yes",
        "since": "2026-11-21 00:00:00 +0000 UTC",
        "ok": True,
    }


def test_a_file_without_secrets_is_copied_as_it_is(source: Path, tmp_path: Path) -> None:
    """Not even its comments are lost."""
    copy_program(source, "plain", tmp_path / "copy")
    assert (tmp_path / "copy" / "Pulumi.plain.yaml").read_bytes() == (
        source / "Pulumi.plain.yaml"
    ).read_bytes()


def test_a_link_out_of_the_repository_is_not_copied_as_a_file(source: Path, tmp_path: Path) -> None:
    """The copy of the program then refuses it, as the program itself does."""
    (tmp_path / "key").write_text("secret")
    (source / "real").write_text("text")
    (source / "inside").symlink_to("real")
    (source / "outside").symlink_to(tmp_path / "key")
    volumes = {"code": {"mountPath": "/code", "files": ["inside", "outside"]}}
    config = {"gpu-cluster:workloads": {"w": {"volumes": volumes}}}
    (source / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": config}))
    copy = tmp_path / "copy"
    copy_program(source, "dev", copy)
    assert (copy / "inside").read_text() == "text"
    assert not (copy / "inside").is_symlink()
    with pytest.raises(ValueError, match=r"^files\[0\]: 'outside' is a link to a file outside "):
        VolumeArgs(mount_path="/code", files=["outside"]).contents(copy)


def test_secrets_are_found_at_every_depth() -> None:
    """Structured config may hold a secret anywhere."""
    document = {"config": {"a:x": {"y": [{"secure": "v1:1"}, "z"]}}}
    assert without_secrets(document) == {"config": {"a:x": {"y": ["rehearsal-placeholder", "z"]}}}


def test_a_mutation_changes_the_copy_alone(source: Path, tmp_path: Path) -> None:
    """What a test breaks on purpose never reaches the program itself."""
    copy_program(
        source, "dev", tmp_path / "copy", lambda program: (program / "__main__.py").write_text("x")
    )
    assert (tmp_path / "copy" / "__main__.py").read_text() == "x"
    assert (source / "__main__.py").read_text() == "__main__.py"


def test_of_a_project_everything_is_copied_that_its_program_may_read(
    source: Path, tmp_path: Path
) -> None:
    """But no credentials, other stacks, wheels, or folders such as .git; it may be copied into
    itself. Without an environment of its own, the project runs in this process's."""
    (source / "components").rmdir()
    for name in ("network/vpc.py", ".git/config", "wheels/a.whl", "kubeconfig", "a.kubeconfig"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).touch()
    copy_program(source, "dev", source / ".rehearsal" / "program")
    copied = source / ".rehearsal" / "program"
    files = {str(path.relative_to(copied)) for path in copied.rglob("*") if path.is_file()}
    own = {"Pulumi.yaml", "Pulumi.dev.yaml", "__main__.py", "requirements.txt"}
    assert files == {*own, "network/vpc.py"}
    assert (copied / ".venv").readlink() == Path(sys.prefix)
    (source / ".venv" / "bin").mkdir(parents=True)
    (source / ".venv" / "bin" / "python").touch()
    copy_program(source, "dev", tmp_path / "copy")
    assert (tmp_path / "copy" / ".venv").readlink() == source / ".venv"


def test_an_unknown_stack_is_refused_with_those_that_exist(source: Path, tmp_path: Path) -> None:
    """The message says what could have been meant."""
    with pytest.raises(StackError) as refused:
        copy_program(source, "prod", tmp_path / "copy")
    assert str(refused.value) == "there is no Pulumi.prod.yaml: the stacks here are dev, plain"
