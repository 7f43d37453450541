"""Builds container images from this machine's programs, without a registry or Docker.

All images share one layer: a shell, a few tools, their libraries, and added programs. The libraries
are the machine's, so that its driver's libraries load with them.
"""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_cluster.rehearsal.gpu_node.machine import NodeError

TOOLS = ("sh", "cat", "env", "ls", "mount", "sleep", "tail")
"""Commands that a sample, or the MPS daemon, may use in addition to the driver's."""
C_LIBRARY = (
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
)
"""Libraries that the driver's programs and libraries load; the tools may not need all of them."""
FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "usr/bin", "usr/local", "var")
MERGED = ("bin", "lib", "lib64", "sbin")
"""Links into `usr` on most machines, folders on others."""
ACCOUNTS = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": b"root:x:0:\n",
    "etc/ld.so.conf": b"",
}
PATH = "/usr/local/nvidia/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LIBRARIES = "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_OCI = "application/vnd.oci.image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image; its command is left to the container."""

    reference: str
    """Its name in the container runtime: no registry serves it."""
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def write_image(file: Path, images: Sequence[Image], programs: Mapping[str, Path]) -> None:
    """Writes an OCI layout as a tar, the format that `ctr images import` reads.

    `programs`: added to every image, by absolute path. Raises NodeError if one of TOOLS is missing.
    """
    layer = file.with_suffix(".layer")
    _write_layer(layer, programs)
    digest = f"sha256:{_sha256(layer)}"
    with tarfile.open(file, "w") as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        manifests = []
        for image in images:
            config = _json(_config(image, digest))
            manifest = _json({
                "schemaVersion": 2,
                "mediaType": f"{_OCI}.manifest.v1+json",
                "config": _blob(archive, f"{_OCI}.config.v1+json", config),
                "layers": [{
                    "mediaType": f"{_OCI}.layer.v1.tar",
                    "digest": digest,
                    "size": layer.stat().st_size,
                }],
            })  # fmt: skip
            manifests.append(
                {
                    **_blob(archive, f"{_OCI}.manifest.v1+json", manifest),
                    "annotations": {"io.containerd.image.name": image.reference},
                }
            )
        archive.add(layer, _path(digest))
        _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": manifests}))
    layer.unlink()


def _write_layer(file: Path, programs: Mapping[str, Path]) -> None:
    sources = {_home(tool): tool for tool in map(_found, TOOLS)}
    sources |= {Path(place): source for place, source in programs.items()}
    for source in list(sources.values()):
        sources |= {_home(library): library for library in needed(source)}
    sources |= {_home(library): library for library in _beside(sources)}
    with tarfile.open(file, "w") as layer:
        for name in (*FOLDERS, *sorted(_parents(sources))):
            _folder(layer, name)
        for name in MERGED:
            if Path("/", name).is_symlink():
                link = _entry(name)
                link.type, link.linkname = tarfile.SYMTYPE, os.readlink(Path("/", name))
                layer.addfile(link)
        for name, content in ACCOUNTS.items():
            _add(layer, name, content)
        for place, source in sorted(sources.items()):
            entry = _entry(str(place).lstrip("/"))
            entry.size, entry.mode = source.stat().st_size, 0o755
            with source.open("rb") as program:
                layer.addfile(entry, program)


def needed(program: Path) -> list[Path]:
    """The shared libraries that a program loads, including its loader; none if it is static.

    Raises NodeError if one is not on the machine.
    """
    done = subprocess.run(["ldd", program], capture_output=True, text=True, env={"LC_ALL": "C"})
    if missing := re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE):
        raise NodeError(f"{program} needs {', '.join(missing)}, which this machine lacks")
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout)]


def _beside(sources: Mapping[Path, Path]) -> list[Path]:
    """The whole C library, from the folder of the tools' libraries."""
    folders = {source.parent for source in sources.values() if source.name == "libc.so.6"}
    found = [folder / name for folder in folders for name in C_LIBRARY]
    return [library for library in found if library.exists()]


def _found(tool: str) -> Path:
    path = shutil.which(tool)
    if path is None:
        raise NodeError(
            f"the images for a real node need this machine's {tool}, which is not on PATH"
        )
    return Path(path)


def _home(path: Path) -> Path:
    """The path with links in its folders resolved: `/bin/sh` may be `/usr/bin/sh`."""
    return path.parent.resolve() / path.name


def _parents(paths: Mapping[Path, Path]) -> set[str]:
    known = {*FOLDERS, *(name for name in MERGED if Path("/", name).is_symlink()), ""}
    return {str(parent).lstrip("/") for path in paths for parent in path.parents} - known


def _config(image: Image, layer: str) -> dict[str, Any]:
    environment = {"PATH": PATH, "LD_LIBRARY_PATH": LIBRARIES, **image.environment}
    return {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Cmd": list(image.command),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
    }


def _blob(archive: tarfile.TarFile, kind: str, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    _add(archive, _path(digest), content)
    return {"mediaType": kind, "digest": digest, "size": len(content)}


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    for block in _blocks(file):
        digest.update(block)
    return digest.hexdigest()


def _blocks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            yield block


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _entry(name: str) -> tarfile.TarInfo:
    """An entry without a time or an owner, so that the same files give the same image."""
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    return entry


def _folder(archive: tarfile.TarFile, name: str) -> None:
    entry = _entry(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    archive.addfile(entry)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = _entry(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
