"""The language host, with a script in the place of the official executor."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime.proto import language_pb2 as messages

from gpu_cluster.rehearsal.plugins import language_host

RECORD = """
import json, os, sys
json.dump([sys.argv[1:], os.getcwd(), dict(os.environ)], open("{record}", "w"))
print("said", flush=True); print("complained", file=sys.stderr)
sys.exit({code})
"""


class Context:
    """A gRPC call that the engine does not end early."""

    def add_callback(self, callback: Callable[[], object]) -> bool:
        return True

    def abort(self, code: object, details: str) -> None:
        raise Aborted(details)


class Aborted(Exception):
    """What a gRPC server raises."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose programs are run by a script that writes down what it was given."""
    monkeypatch.setattr(language_host, "binary", lambda name: tmp_path / name)
    monkeypatch.delenv("GPU_CLUSTER_PYTHON", raising=False)
    return tmp_path


def run(project: Path, code: int = 0, **options: str) -> Any:
    executor = project / "pulumi-language-python-exec"
    executor.write_text(RECORD.format(record=project / "record", code=code))
    info = messages.ProgramInfo(root_directory=str(project), program_directory=str(project))
    info.options.update(options)
    request = messages.RunRequest(
        project="gpu-cluster",
        stack="dev",
        pwd=str(project),
        monitor_address="127.0.0.1:1",
        dryRun=True,
        parallel=16,
        organization="organization",
        config={"gpu-cluster:token": "t"},
        configSecretKeys=["gpu-cluster:token"],
        info=info,
    )
    return language_host.LanguageHost("127.0.0.1:2").Run(request, Context())


def test_a_program_gets_what_the_official_host_gives(project: Path) -> None:
    """The executor gets the official arguments, the project's folder and the config."""
    assert run(project) == messages.RunResponse()
    arguments, folder, env = json.loads((project / "record").read_text())
    assert " ".join(arguments) == (
        f"--monitor 127.0.0.1:1 --engine 127.0.0.1:2 --project gpu-cluster"
        f" --root_directory {project} --stack dev --pwd {project} --dry_run true --parallel 16"
        f" --organization organization ."
    )
    assert folder == str(project)
    assert json.loads(env["PULUMI_CONFIG"]) == {"gpu-cluster:token": "t"}
    assert json.loads(env["PULUMI_CONFIG_SECRET_KEYS"]) == ["gpu-cluster:token"]


def test_a_message_that_was_shown_is_not_repeated(project: Path) -> None:
    """Exit code 32 of the executor ends the run without another message."""
    assert run(project, code=32) == messages.RunResponse(bail=True)


def test_another_exit_code_is_reported(project: Path) -> None:
    """Any other exit code of a program fails the run and is named."""
    assert run(project, code=3).error == "Program exited with non-zero exit code: 3"


def test_a_missing_virtualenv_is_named(project: Path) -> None:
    """A `virtualenv` option that points nowhere is refused with what to do."""
    assert run(project, virtualenv="gone").error == (
        f"the 'virtualenv' option in Pulumi.yaml is 'gone', and "
        f"{project}/gone/bin/python does not exist: create it, or set GPU_CLUSTER_PYTHON "
        "to an interpreter that has the requirements"
    )


def test_the_virtualenv_option_picks_the_interpreter(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `virtualenv` runs the program, also below a rehearsal of another one, whose environment
    GPU_CLUSTER_PYTHON names; a launcher for the same environment overrides it."""
    python = project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 7\n")
    python.chmod(0o755)
    assert run(project, virtualenv=".venv").error.endswith("7")
    monkeypatch.setenv("GPU_CLUSTER_PYTHON", sys.executable)
    assert run(project, virtualenv=".venv").error.endswith("7")
    assert run(project, virtualenv="gone").error == ""
    monkeypatch.setattr(sys, "prefix", str(project / ".venv"))
    assert run(project, virtualenv=".venv").error == ""


def test_a_policy_pack_is_run_as_an_analyzer(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy pack's module gets the pack's folder last; output and exit code come back."""
    (project / "pack.py").write_text(RECORD.format(record=project / "record", code=5))
    monkeypatch.setattr(language_host, "ANALYZER", "pack")
    request = messages.RunPluginRequest(
        pwd=str(project),
        args=["127.0.0.1:2"],
        env=["PULUMI_STACK=dev"],
        kind="analyzer",
        info=messages.ProgramInfo(program_directory="/pack"),
    )
    answers = list(language_host.LanguageHost("").RunPlugin(request, Context()))
    assert {answer.WhichOneof("output") for answer in answers[:-1]} == {"stdout", "stderr"}
    assert answers[-1].exitcode == 5
    arguments, folder, env = json.loads((project / "record").read_text())
    assert (arguments, folder, env["PULUMI_STACK"]) == (
        ["127.0.0.1:2", "/pack"],
        str(project),
        "dev",
    )


def served(folder: Path) -> list[messages.RunPluginResponse]:
    """What the host answers when the engine wants the folder's provider."""
    request = messages.RunPluginRequest(
        pwd=str(folder),
        args=["127.0.0.1:2"],
        kind="resource",
        info=messages.ProgramInfo(root_directory=str(folder), program_directory=str(folder)),
    )
    return list(language_host.LanguageHost("").RunPlugin(request, Context()))


def test_a_provider_is_its_folder_or_its_distribution(project: Path) -> None:
    """Its folder is not an argument of its own, as it is for a policy pack."""
    record = RECORD.format(record=project / "record", code=0)
    (project / "own_provider.py").write_text(record)
    (project / "pyproject.toml").write_text("[project]\nname = 'own-provider'\n")
    assert served(project)[-1].exitcode == 0
    assert json.loads((project / "record").read_text())[:2] == [["127.0.0.1:2"], str(project)]
    (project / "record").unlink()
    (project / "__main__.py").write_text(record)
    assert served(project)[-1].exitcode == 0
    assert json.loads((project / "record").read_text())[:2] == [["127.0.0.1:2"], str(project)]


def test_a_folder_that_is_no_plugin_is_named(project: Path) -> None:
    """The engine shows the reason in one line."""
    with pytest.raises(Aborted, match=r"neither __main__\.py nor a pyproject"):
        served(project)


def test_the_executor_is_looked_for_beside_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host whose engine is not built fails the run with the command that builds it."""
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path))
    response = language_host.LanguageHost("").Run(messages.RunRequest(), Context())
    assert "run `python -m gpu_cluster.tools build pulumi`" in response.error
