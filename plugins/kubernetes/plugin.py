"""The official Kubernetes provider, where it is installed; it is used instead of the offline
plugin."""

import importlib.metadata
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

NAME = "pulumi-resource-kubernetes"


def sdk_version() -> str:
    """The version of the installed SDK, which the engine asks a plugin of."""
    return importlib.metadata.version("pulumi-kubernetes")


def official_plugin(environment: Mapping[str, str] | None = None) -> Path | None:
    """The plugin that the engine would run: the one on PATH, else the newest cached that will do.

    A cached one will do if it has the SDK's major version and is not older than the SDK.
    """
    env = os.environ if environment is None else environment
    if found := shutil.which(NAME, path=env.get("PATH", os.defpath)):
        return Path(found)
    home = Path(env.get("PULUMI_HOME") or Path(env.get("HOME") or Path.home()) / ".pulumi")
    wanted = _numbers(sdk_version())
    cached = {
        _numbers(folder.name.removeprefix("resource-kubernetes-v")): folder / NAME
        for folder in (home / "plugins").glob("resource-kubernetes-v*")
        if (folder / NAME).is_file()
    }
    fitting = [version for version in cached if version[0] == wanted[0] and version >= wanted]
    return cached[max(fitting)] if fitting else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3])) or (0,)
