"""What a user says of a cluster that is already there, and of its GPU nodes."""

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from components.catalog import kubernetes as names
from components.cluster import GPU_TAINT, GpuPool, Sharing, Taint, Toleration

_MAX_MPS_CLIENTS = 48
"""Of one GPU; NVIDIA's device plugin does not start with more replicas."""
_FILE_KEYS = {
    "certificate-authority": "certificate-authority-data",
    "client-certificate": "client-certificate-data",
    "client-key": "client-key-data",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingClusterArgs:
    """A cluster that somebody else made: nothing of the cluster itself is created or changed."""

    name: str
    """What this stack calls it. Changing it replaces everything that the stack runs there."""
    kubeconfig: str | None = None
    """The content of a kubeconfig; set it with `pulumi config set --secret --path`."""
    kubeconfig_file: str | None = None
    """The path of a kubeconfig, `~` allowed. Without either key it is `$KUBECONFIG`, else
    `~/.kube/config`."""
    context: str | None = None
    """The context to use; left out, the kubeconfig's current context."""

    def __post_init__(self) -> None:
        if reason := names.invalid_dns_label(self.name):
            raise ValueError(f"name: {self.name!r} {reason}")
        if self.kubeconfig is not None and self.kubeconfig_file is not None:
            raise ValueError("kubeconfigFile: and kubeconfig exclude each other; drop one")

    def read_kubeconfig(self) -> str:
        """The context's cluster and user alone, as JSON, with the files they name read in.

        Raises ValueError with one line that begins with the key.
        """
        key, text, folder = self._text()
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ValueError(f"{key}: is not YAML; give a kubeconfig") from None
        if not isinstance(document, dict) or not isinstance(document.get("contexts"), list):
            raise ValueError(f"{key}: is not a kubeconfig: it has no contexts")
        contexts = _by_name(document["contexts"], "context")
        name = self.context or document.get("current-context") or ""
        if name not in contexts:
            raise ValueError(
                f"context: {name!r} is not in the kubeconfig; allowed: {', '.join(contexts)}"
            )
        context = contexts[name]
        cluster = _by_name(document.get("clusters"), "cluster").get(str(context.get("cluster")))
        user = _by_name(document.get("users"), "user").get(str(context.get("user")))
        if cluster is None or user is None:
            raise ValueError(f"context: {name!r} names a cluster or user that is not there")
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": name, "cluster": _inline(key, cluster, folder)}],
                "users": [{"name": name, "user": _inline(key, user, folder)}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
                "current-context": name,
            },
            sort_keys=True,
        )

    def _text(self) -> tuple[str, str, Path]:
        """The key, the content, and the folder that the content's paths begin in."""
        if self.kubeconfig is not None:
            return "kubeconfig", self.kubeconfig, Path()
        # The same order as kubectl's; a list of files is not merged.
        path = self.kubeconfig_file or os.environ.get("KUBECONFIG") or "~/.kube/config"
        try:
            file = Path(path).expanduser()
            return "kubeconfigFile", file.read_text(), file.absolute().parent
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise ValueError(f"kubeconfigFile: cannot read {path!r} ({reason})") from None


def _by_name(entries: object, key: str) -> dict[str, dict[str, Any]]:
    items = entries if isinstance(entries, list) else []
    return {
        str(item["name"]): item[key]
        for item in items
        if isinstance(item, dict) and "name" in item and isinstance(item.get(key), dict)
    }


def _inline(key: str, entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    # Another machine, or another project, has the kubeconfig but not the files beside it.
    inlined: dict[str, Any] = {}
    for name, value in entry.items():
        if name in _FILE_KEYS:
            try:
                content = (folder / Path(str(value)).expanduser()).read_bytes()
            except OSError as error:
                raise ValueError(f"{key}: cannot read {value!r} ({error.strerror})") from None
            inlined[_FILE_KEYS[name]] = base64.b64encode(content).decode()
        else:
            inlined[name] = value
    return inlined


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingSharingArgs:
    """How several pods share a GPU, through NVIDIA's device plugin."""

    strategy: Literal["time-slicing", "mps"]
    """How a GPU is shared: in turns, or by NVIDIA's MPS."""
    replicas: int
    """How many pods share a GPU, 2 or more; with MPS at most 48."""

    def __post_init__(self) -> None:
        if self.replicas < 2:
            raise ValueError(f"replicas: {self.replicas} is too small; allowed: 2 or more")
        if self.strategy == "mps" and self.replicas > _MAX_MPS_CLIENTS:
            raise ValueError(
                f"replicas: {self.replicas} is too many for MPS; allowed: 2 to {_MAX_MPS_CLIENTS}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingGpuPoolArgs:
    """GPU nodes of a cluster that is already there, with their driver on the host."""

    node_selector: Mapping[str, str]
    """The labels that these nodes have and no others."""
    gpus_per_node: int
    """GPUs of a node."""
    accelerator: str = "nvidia"
    """Your own word for the GPU."""
    taints: Sequence[Taint] = (GPU_TAINT,)
    """Taints that the nodes have; tolerating one that they lack does no harm."""
    tolerations: Sequence[Toleration] = ()
    """Further tolerations of pods on these nodes."""
    device_plugin: Literal["nvidia", "none"] = "nvidia"
    """Whose device plugin runs: NVIDIA's in a DaemonSet of this stack (`nvidia`), or somebody
    else's (`none`)."""
    runtime_class: str | None = None
    """The RuntimeClass of GPU pods, where the NVIDIA runtime is not the nodes' default."""
    sharing: ExistingSharingArgs | None = None
    """How pods share a GPU; left out, each GPU is one pod's."""

    def __post_init__(self) -> None:
        if not self.node_selector:
            raise ValueError(
                "nodeSelector: is empty, so every node would count as a GPU node; name a label "
                "that only these nodes have"
            )
        for key, value in self.node_selector.items():
            if reason := names.invalid_label_key(key) or names.invalid_label_value(value):
                raise ValueError(f"nodeSelector.{key}: {reason}")
        if not 1 <= self.gpus_per_node <= 16:
            raise ValueError(f"gpusPerNode: {self.gpus_per_node} is out of range; allowed: 1 to 16")
        if self.sharing is not None and self.device_plugin == "none":
            raise ValueError(
                "sharing: is done by the device plugin; set devicePlugin: nvidia, or drop the key"
            )

    def gpu_pool(self, name: str) -> GpuPool:
        """The nodes as pods and the GPU layer see them."""
        sharing = self.sharing
        return GpuPool(
            name=name,
            accelerator=self.accelerator,
            gpus_per_node=self.gpus_per_node,
            min_nodes=None,
            max_nodes=None,
            labels=dict(self.node_selector),
            taints=list(self.taints),
            node_selector=dict(self.node_selector),
            extra_tolerations=list(self.tolerations),
            sharing=Sharing(strategy=sharing.strategy, replicas=sharing.replicas)
            if sharing
            else None,
            device_plugin=self.device_plugin == "nvidia",
            runtime_class=self.runtime_class,
        )
