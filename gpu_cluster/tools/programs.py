"""The programs built here: their modules, the keys of their builds, and the builds' folders.

Versions are only in the `go.mod` of each program's folder.
"""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD_FLAGS = ("-trimpath", "-mod=readonly", "-buildvcs=false")
SPEED_FLAGS = ("-gcflags=all=-dwarf=false",)
"""Data that the linker drops anyway (-w) is not even written, which saves a tenth of the time. The
binaries are the same, so it is not part of a build's name."""
GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class ToolError(Exception):
    """A tool is not available: the reason in one line, with what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One Go module whose `tool` lines are built into one folder of the cache."""

    name: str
    """Names the folder with `go.mod` and `go.sum`, and the binary if there is only one."""
    module: str
    """The Go module whose version is the program's version."""
    binaries: tuple[str, ...]
    """The binaries that a complete folder contains."""
    usually: int
    """Seconds that a first build took on two cores, including downloads."""
    ldflags: str = ""
    """Linker flags, in which {version}, {major} and {minor} stand for the module's version."""
    copies: tuple[tuple[str, str, str], ...] = ()
    """Files copied from the source: (module, glob in it, folder next to the binaries)."""
    scripts: tuple[str, ...] = ()
    """Executables copied from the program's own folder here."""
    default: bool = False
    """Whether `build` without names builds it."""
    tags: tuple[str, ...] = ()
    """Go's build tags."""
    c: bool = False
    """Whether it contains C code, for which the machine needs a C compiler."""
    headers: tuple[tuple[str, str], ...] = ()
    """The headers that the C code includes: (header, the Debian package that provides it)."""
    tools: Path = HERE
    """The folder `tools` with the pinned version: this tree's, or another revision's."""

    @property
    def source(self) -> Path:
        """The folder with the program's `go.mod` and `go.sum`."""
        return self.tools / self.name

    def packages(self, binaries: tuple[str, ...]) -> list[str]:
        """The Go packages of these binaries, from the `tool` lines in `go.mod`."""
        if binaries == self.binaries:
            return ["tool"]
        lines = re.findall(r"^\t(\S+)$", (self.source / "go.mod").read_text(), re.MULTILINE)
        return [line for line in lines if line.rpartition("/")[2] in binaries]

    def version(self, module: str | None = None) -> str:
        """The required version in `go.mod` of the program's own or another module."""
        line = rf"^\s*(?:require )?{re.escape(module or self.module)} (v\S+)"
        found = re.search(line, (self.source / "go.mod").read_text(), re.MULTILINE)
        if found is None:
            raise ToolError(f"{self.source}/go.mod requires no {module or self.module}")
        return found[1]

    def linker_flags(self) -> str:
        version = self.version()
        major, minor, *_ = version.lstrip("v").split(".")
        return f"-s -w {self.ldflags}".format(version=version, major=major, minor=minor).strip()

    def folder(self, without: tuple[str, ...] = ()) -> Path:
        """The folder of the build, or of one without some binaries; it exists once it is
        complete."""
        key = hashlib.sha256()
        for file in sorted(file for file in self.source.rglob("*") if file.is_file()):
            key.update(hashlib.sha256(file.read_bytes()).digest())
        how: tuple[object, ...] = (BUILD_FLAGS, self.linker_flags(), self.copies, "linux", GOARCH)
        if self.c or self.tags:
            how += (self.tags, self.c)
        if without:
            how += (without,)
        key.update(repr(how).encode())
        return cache_folder() / f"{self.name}-{key.hexdigest()[:16]}"


def numbers_in(version: str) -> tuple[int, ...]:
    """The first three numbers of a version such as `v1.35.4` or `go1.25.1 X:nodwarf5`, or fewer."""
    return tuple(map(int, re.findall(r"\d+", version.partition(" ")[0])[:3]))


def cache_folder() -> Path:
    """The per-user folder of all builds, shared by all clones."""
    if own := os.environ.get("GPU_CLUSTER_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-cluster"


_KUBERNETES_VERSION = (
    "-X k8s.io/component-base/version.gitVersion={version}"
    " -X k8s.io/component-base/version.gitMajor={major}"
    " -X k8s.io/component-base/version.gitMinor={minor}"
)

PROGRAMS = (
    # One module, so that packages that the six share are compiled once.
    Program(
        name="control-plane",
        default=True,
        module="k8s.io/kubernetes",
        binaries=(
            "etcd",
            "karpenter",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kwok",
        ),
        usually=240,
        ldflags=_KUBERNETES_VERSION,
        copies=(
            ("sigs.k8s.io/kwok", "kustomize/stage/node/fast/node-*.yaml", "stages"),
            ("sigs.k8s.io/kwok", "kustomize/stage/node/heartbeat-with-lease/node-*.yaml", "stages"),
            ("sigs.k8s.io/kwok", "kustomize/stage/pod/fast/pod-*.yaml", "stages"),
            ("sigs.k8s.io/karpenter", "pkg/apis/crds/*.yaml", "crds"),
            ("sigs.k8s.io/karpenter", "kwok/apis/crds/*.yaml", "crds"),
        ),
    ),
    Program(
        name="pulumi",
        default=True,
        module="github.com/pulumi/pulumi/pkg/v3",
        binaries=("pulumi", "pulumi-language-python", "pulumi-language-python-exec"),
        scripts=("pulumi-language-python",),
        usually=180,
        # Google's storage without the transport that exists only on machines in its data centres.
        tags=("disable_grpc_modules",),
        ldflags="-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={version}",
        copies=(
            ("github.com/pulumi/pulumi/sdk/v3", "python/cmd/pulumi-language-python-exec", "."),
        ),
    ),
    Program(
        name="jobset",
        module="sigs.k8s.io/jobset",
        binaries=("jobset",),
        usually=95,
        copies=(("sigs.k8s.io/jobset", "config/components/crd/bases/*.yaml", "crds"),),
    ),
    Program(
        name="kueue",
        module="sigs.k8s.io/kueue",
        binaries=("kueue",),
        usually=175,
        copies=(("sigs.k8s.io/kueue", "config/components/crd/bases/*.yaml", "crds"),),
    ),
    Program(
        name="karpenter-aws",
        module="github.com/aws/karpenter-provider-aws",
        binaries=("karpenter-aws",),
        usually=300,
        ldflags="-X sigs.k8s.io/karpenter/pkg/operator.Version={version}",
        copies=(("github.com/aws/karpenter-provider-aws", "pkg/apis/crds/*.yaml", "crds"),),
    ),
    # Pulumi's own plugin, of January 2026: the module proxy has no newer one, and none by its tag.
    Program(
        name="kubernetes-provider",
        module="github.com/pulumi/pulumi-kubernetes/provider/v4",
        binaries=("pulumi-resource-kubernetes",),
        usually=300,
        ldflags="-X github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version={version}",
        copies=(
            (
                "github.com/pulumi/pulumi-kubernetes/provider/v4",
                "cmd/pulumi-resource-kubernetes/schema.json",
                ".",
            ),
        ),
    ),
    # The programs of a real node: gpu_cluster/rehearsal/gpu_node.
    Program(
        name="kubelet",
        module="k8s.io/kubernetes",
        binaries=("kubelet",),
        usually=165,
        ldflags=_KUBERNETES_VERSION,
    ),
    Program(
        name="containerd",
        module="github.com/containerd/containerd/v2",
        binaries=("containerd", "containerd-shim-runc-v2", "ctr"),
        usually=70,
        ldflags="-X github.com/containerd/containerd/v2/version.Version={version}",
        tags=("no_btrfs", "no_devmapper", "no_zfs"),
    ),
    Program(
        name="runc",
        module="github.com/opencontainers/runc",
        binaries=("runc",),
        usually=15,
        # Static: it starts in one file system and ends in another. Without seccomp, pods that use
        # the runtime's default profile fail.
        ldflags="-linkmode external -extldflags -static",
        tags=("seccomp", "netgo", "osusergo"),
        c=True,
        headers=(("seccomp.h", "libseccomp-dev"),),
    ),
    Program(
        name="cni-plugins",
        module="github.com/containernetworking/plugins",
        binaries=("bridge", "host-local", "loopback"),
        usually=15,
    ),
    Program(
        name="device-plugin",
        module="github.com/NVIDIA/k8s-device-plugin",
        binaries=("nvidia-device-plugin", "mps-control-daemon"),
        usually=60,
        # Symbols of the driver's libraries, which are not present yet.
        ldflags="-extldflags=-Wl,-z,lazy",
        c=True,
    ),
    Program(
        name="container-toolkit",
        module="github.com/NVIDIA/nvidia-container-toolkit",
        binaries=("nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook"),
        usually=40,
        ldflags="-extldflags=-Wl,-z,lazy",
        c=True,
    ),
    Program(
        name="dra-driver",
        module="sigs.k8s.io/dra-driver-nvidia-gpu",
        binaries=("gpu-kubelet-plugin",),
        usually=180,
        ldflags="-X sigs.k8s.io/dra-driver-nvidia-gpu/internal/info.version={version}"
        " -extldflags=-Wl,-z,lazy",
        c=True,
    ),
    Program(
        name="actionlint",
        module="github.com/rhysd/actionlint",
        binaries=("actionlint",),
        usually=30,
    ),
)


@cache
def program(name: str) -> Program:
    """The program of that name, or the one that contains a binary of that name."""
    for program_ in PROGRAMS:
        if name == program_.name or name in program_.binaries:
            return program_
    known = sorted({p.name for p in PROGRAMS} | {b for p in PROGRAMS for b in p.binaries})
    raise ToolError(f"no tool is called {name!r}: choose one of {', '.join(known)}")
