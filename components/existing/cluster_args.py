"""What a user says of a cluster that is already there."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from components.catalog import kubernetes as names

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
        key, path = "kubeconfigFile", self.kubeconfig_file
        if path is None:
            path, source = os.environ.get("KUBECONFIG"), "$KUBECONFIG"
            if not path:
                path, source = "~/.kube/config", "kubectl's own file"
            key = f"kubeconfigFile: is not set, and {source}"
        try:
            file = Path(path).expanduser()
            return key, file.read_text(), file.absolute().parent
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            way = "" if self.kubeconfig_file else "; name the cluster's kubeconfig"
            raise ValueError(f"{key}: cannot read {path!r} ({reason}){way}") from None


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
