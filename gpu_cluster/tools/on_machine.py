"""Programs installed on the machine in a suitable version, which need not be built."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from gpu_cluster.tools.programs import Program, cache_folder, numbers_in

MODULES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes",
    "kube-controller-manager": "k8s.io/kubernetes",
    "kube-scheduler": "k8s.io/kubernetes",
    "kwok": "sigs.k8s.io/kwok",
}
"""Binaries whose releases can replace those built here, and the Go module with their version. Not
Karpenter: the one with KWOK's nodes is not released."""


def search_path() -> str:
    """`KUBEBUILDER_ASSETS`, where Kubernetes' own test tools keep a control plane, then PATH;
    without the binaries built here."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        folders.insert(0, assets)
    return os.pathsep.join(path_ for path_ in folders if cache_folder() not in Path(path_).parents)


def found(program: Program) -> dict[str, Path]:
    """Binary -> its path, for those with the minor version in the program's `go.mod`."""
    path = search_path()
    wanted = {name: MODULES[name] for name in program.binaries if name in MODULES}
    paths = {name: Path(at) for name in wanted if (at := shutil.which(name, path=path))}
    return {
        name: at
        for name, at in paths.items()
        if numbers_in(version(at))[:2] == numbers_in(program.version(wanted[name]))[:2]
    }


def engine() -> Path | None:
    """The `pulumi` on PATH, of any version, if its Python language host is there as well."""
    path = search_path()
    path_ = shutil.which("pulumi", path=path)
    return Path(path_) if path_ and shutil.which("pulumi-language-python", path=path) else None


def fits(engine: Path, program: Program) -> bool:
    """Whether an engine has the major version that is built here, and is not older."""
    present, wanted = numbers_in(version(engine)), numbers_in(program.version())
    return present[:1] == wanted[:1] and present >= wanted


@cache
def version(binary: Path) -> str:
    """The version that a binary reports, such as `v1.35.4`; empty if it reports none."""
    try:
        output = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=20, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    numbers = re.search(r"\bv?(\d+\.\d+\.\d+)\b", output.stdout + output.stderr)
    return f"v{numbers[1]}" if numbers else ""
