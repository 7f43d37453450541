"""The published files of a version: wheel, component package, notes and checksums."""

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from gpu_cluster.stacks.outcome import CheckError
from gpu_cluster.tools.sections import ROOT

SUMS = "SHA256SUMS"


def release(folder: Path, root: Path = ROOT) -> list[Path]:
    """Writes all files into `folder`, which must be empty; returns them.

    Raises CheckError if the changelog has no section for the version, or the wheel cannot be built.
    """
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    notes = section((root / "CHANGELOG.md").read_text(), version)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise CheckError(f"{folder} is not empty; name another folder")
    component_package(folder, wheel(folder, root), version, root)
    (folder / "CHANGELOG.md").write_text(notes)
    files = sorted(folder.iterdir())
    sums = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (folder / SUMS).write_text("".join(sums))
    return [*files, folder / SUMS]


def wheel(folder: Path, root: Path = ROOT) -> Path:
    """Builds the wheel into `folder`, from a copy of the files in git, without the network."""
    tracked = [
        "git",
        "ls-files",
        "components",
        "gpu_cluster",
        ":(glob)*",
    ]
    listed = subprocess.run(tracked, cwd=root, capture_output=True, text=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel"]
    flags = ["--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    with tempfile.TemporaryDirectory() as name:
        for file in filter(lambda file: (root / file).is_file(), listed.stdout.splitlines()):
            copy = Path(name, file)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / file, copy)
        done = subprocess.run([*pip, *flags, name], capture_output=True, text=True)
    if done.returncode:
        raise CheckError(f"the wheel was not built: {done.stderr.strip()}")
    (built,) = folder.glob("*.whl")
    return built


def component_package(folder: Path, built: Path, version: str, root: Path = ROOT) -> Path:
    """Packs the folder that `pulumi package add` and `pulumi plugin install --file` accept: that of
    the checkout, with the wheel to install and the schema."""
    source = root / "component-package"
    archive = folder / f"pulumi-resource-gpu-cluster-v{version}.tar.gz"
    requirement = tarfile.TarInfo("requirements.txt")
    text = f"./{built.name}[stack]\n".encode()
    requirement.size = len(text)
    with tarfile.open(archive, "w:gz") as tar:
        for file in (source / "PulumiPlugin.yaml", source / "__main__.py", built):
            tar.add(file, file.name)
        tar.add(root / "components" / "schema.json", "schema.json")
        tar.addfile(requirement, io.BytesIO(text))
    return archive


def section(changelog: str, version: str) -> str:
    """The changelog's section for a version, with its heading."""
    for part in changelog.split("\n## ")[1:]:
        if part.partition("\n")[0].lstrip("[").startswith(version):
            return f"## {part.strip()}\n"
    raise CheckError(f"CHANGELOG.md: has no section {version}; rename Unreleased to it")
