"""A project that uses the package, as `gpu-cluster init` writes it.

Its files are the repository's own, since the repository's root is such a project: the folder
`gpu_cluster/project` has links to them, and the wheel has the files. A leading period is left out.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import gpu_cluster
from gpu_cluster.stacks.definition.names import NAME
from gpu_cluster.stacks.environments import new_stack
from gpu_cluster.stacks.outcome import CheckError

TEMPLATE = Path(gpu_cluster.__file__).with_name("project")
FILES = (
    "Pulumi.yaml",
    "__main__.py",
    ".gitignore",
    "policy/PulumiPolicy.yaml",
    "policy/__main__.py",
    "policy/config.json",
    ".github/workflows/pull-request.yaml",
    ".github/workflows/comment.yaml",
    Path(new_stack.SCHEMA).name,
)
"""Files of the project that the repository has as well."""
REQUIREMENTS = "requirements.txt"
WHEELS = "wheels"
_WHEEL = re.compile(r"gpu_cluster-[^/]+\.whl")
_REPLACED = {
    "Pulumi.yaml": ("name: gpu-cluster\n", "name: {name}\n"),
    ".github/workflows/pull-request.yaml": (
        "INSTALL: make .venv/.ready\n",
        f"INSTALL: python -m venv .venv && .venv/bin/pip install --quiet -r {REQUIREMENTS}\n",
    ),
}
"""File -> the line in which a project's differs from the repository's."""


def init(
    folder: Path, *, name: str = "", stack: str = "dev", platform: str = "gke", wheel: str = ""
) -> Sequence[str]:
    """Writes the project; returns its files, relative to `folder`.

    `name`: the project's; if empty, the folder's. `wheel`: path or URL of the package's wheel; if
    empty, of the installed one. Raises CheckError, and writes nothing, if one of the files exists.
    """
    name = name or folder.resolve().name
    if not NAME.fullmatch(name):
        raise CheckError(f"--name: {name!r} is not a valid project name; give one such as gpus")
    source, hashed = (wheel, "") if wheel else _installed()
    path = _path(source)
    requirement = f"gpu-cluster[project] @ {source}{hashed}"
    copied = [f"{WHEELS}/{path.name}"] if path else []
    if path:
        requirement = f"./{copied[0]}[project]"
    files = [*FILES, REQUIREMENTS, *copied, f"Pulumi.{stack}.yaml"]
    if existing := [file for file in files if os.path.lexists(folder / file)]:
        raise CheckError(f"{folder / existing[0]} already exists; name a folder without it")
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        before, after = _REPLACED.get(file, ("", ""))
        text = (TEMPLATE / file.removeprefix(".")).read_text()
        (folder / file).write_text(
            text.replace(before, after.format(name=name)) if before else text
        )
    if path:
        shutil.copyfile(path, folder / copied[0])
    (folder / REQUIREMENTS).write_text(f"{requirement}\n")
    new_stack.write_stack(stack, new_stack.Choices(platform=platform), folder)
    return files


def _installed() -> tuple[str, str]:
    """The URL from which the package was installed, and its hash as a fragment."""
    origin = json.loads(metadata.distribution("gpu-cluster").read_text("direct_url.json") or "{}")
    archive = origin.get("archive_info")
    if archive is None:
        raise CheckError(
            "--wheel: is missing, because the package was not installed from a wheel; build one: "
            "pip wheel --no-deps PATH, with the path of the repository"
        )
    digest = (archive.get("hashes") or {}).get("sha256")
    return origin["url"], f"#sha256={digest}" if digest else ""


def _path(source: str) -> Path | None:
    """The file of a wheel, None if it is at a URL; raises CheckError for anything else."""
    url = urlsplit(source)
    path = Path(url2pathname(url.path) if url.scheme == "file" else source).expanduser()
    remote = url.scheme == "https"
    if not _WHEEL.fullmatch(path.name) or not (remote or path.is_file()):
        missing = " does not exist" if _WHEEL.fullmatch(path.name) else " is not the wheel"
        raise CheckError(
            f"--wheel: {source}{missing}; give a path or an https URL that ends with "
            "gpu_cluster-VERSION-py3-none-any.whl"
        )
    return None if remote else path
