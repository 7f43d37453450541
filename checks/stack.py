"""A stack's settings without an engine, and its outputs through one."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

import tools
from checks.report import CheckError
from components.environments import Settings
from components.settings import from_config
from stacks.files import EngineLoader, StackError, stack_file, without_secrets

ROOT = Path(__file__).resolve().parents[1]
CLUSTER = "gpu-cluster:cluster"
OUTPUT_SECONDS = 60.0


def config_of(stack: str, root: Path = ROOT) -> dict[str, Any]:
    """The `config` of `Pulumi.<stack>.yaml`. Raises CheckError where there is none."""
    try:
        file = stack_file(root, stack)
    except StackError as error:
        raise CheckError(str(error)) from None
    return config_in(file.read_bytes(), file.name)


def config_in(text: bytes, name: str) -> dict[str, Any]:
    """The `config` in a stack file's text, with a placeholder for what is encrypted.

    Raises CheckError where there is none.
    """
    try:
        document = yaml.load(text, EngineLoader)
    except yaml.YAMLError as error:
        raise CheckError(f"{name} is not YAML: {' '.join(str(error).split())}") from None
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        raise CheckError(f"{name} has no config: see Pulumi.dev.yaml for an example")
    plain: dict[str, Any] = without_secrets(config)
    return plain


def platform_of(config: Mapping[str, Any]) -> str:
    """The stack's platform as its file has it, right or wrong."""
    cluster = config.get(CLUSTER)
    return str(cluster.get("platform")) if isinstance(cluster, dict) else ""


def settings_of(
    stack: str, config: Mapping[str, Any], *, kubeconfig: str | None = None
) -> Settings:
    """The settings, read as the program reads them. Raises CheckError with the program's line.

    `kubeconfig` (content) takes the place of the one that an existing cluster's settings name.
    """
    if kubeconfig is not None and platform_of(config) == "existing":
        cluster = {
            key: value
            for key, value in config[CLUSTER].items()
            if key not in ("kubeconfig", "kubeconfigFile", "context")
        }
        config = {**config, CLUSTER: {**cluster, "kubeconfig": kubeconfig}}
    try:
        return from_config({key: _text(value) for key, value in config.items()})
    except ValueError as error:
        raise CheckError(f"Pulumi.{stack}.yaml: {error}") from None


def kubeconfig_output(stack: str) -> str:
    """The stack's output `kubeconfig`, from the backend that the engine is logged in to."""
    try:
        cli, in_front = tools.pulumi()
    except tools.ToolError as error:
        raise CheckError(f"no engine to ask for the stack's outputs: {error}") from None
    command = [str(cli), "stack", "output", "kubeconfig", "--show-secrets", "--stack", stack]
    path = os.pathsep.join([*map(str, in_front), os.environ.get("PATH", os.defpath)])
    try:
        done = subprocess.run(
            [*command, "--non-interactive", "--color", "never"],
            cwd=ROOT,
            env={**os.environ, "PATH": path, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=OUTPUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise CheckError(f"pulumi stack output: no answer in {OUTPUT_SECONDS:.0f} s") from None
    if done.returncode:
        said = " ".join(done.stderr.split()).removeprefix("error: ")
        raise CheckError(
            f"pulumi stack output: {said}; run `pulumi up` first, or give --kubeconfig FILE"
        )
    return done.stdout.strip()


def _text(value: object) -> str:
    """A value as the engine hands it to the program: JSON where it is structured."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return "" if value is None else str(value)
