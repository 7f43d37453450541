"""The settings of an existing cluster."""

import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml

from ..kube import credentials
from ..schema.effect import Sent, Silent
from ..schema.limits import DNS_LABEL, matching
from ..schema.outputs import MaybeOutput
from ..schema.refusal import refuse
from ..schema.rules import Checked, instead_of

_VERSION = matching(
    "a Kubernetes version such as 1.36 or 1.36.3", re.compile(r"1[.][0-9]+([.][0-9]+)?")
)
_FILE_KEYS = {
    "certificate-authority": "certificate-authority-data",
    "client-certificate": "client-certificate-data",
    "client-key": "client-key-data",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingClusterArgs(Checked):
    """An existing cluster: nothing of the cluster itself is created or changed."""

    name: Annotated[str, DNS_LABEL, Sent("Provider")]
    """The name of the cluster in this stack. A change replaces all that the stack runs there."""
    kubeconfig: Annotated[MaybeOutput | None, Sent("Provider kubeconfig")] = None
    """The content of a kubeconfig; set it with `pulumi config set --secret --path`. It may
    authenticate with `aws`, `aws-iam-authenticator`, `gke-gcloud-auth-plugin`, `kubelogin` or
    `tsh`, but with no other command, and may only name files below the program's folder."""
    kubeconfig_file: Annotated[
        str | None, instead_of("kubeconfig"), Sent("Provider kubeconfig")
    ] = None
    """The path of a kubeconfig; `~` is allowed. By default, `$KUBECONFIG`, else `~/.kube/config`.
    For a file below the program's folder, the restrictions of `kubeconfig` apply."""
    context: Annotated[str | None, Sent("Provider kubeconfig.current-context")] = None
    """The context to use; by default, the kubeconfig's current context."""
    version: Annotated[
        str | None, _VERSION, Silent("decides whether pods may request GPUs that others claim")
    ] = None
    """The Kubernetes version of the control plane and of the oldest kubelet of the pools. From 1.36
    on, pods that request `nvidia.com/gpu` also run in pools with `devicePlugin: dra`."""

    def committed(self) -> bool:
        """Whether the kubeconfig's author is that of the stack's file: its text is in that file, or
        in another one below the program's folder."""
        if self.kubeconfig is not None:
            return True
        if self.kubeconfig_file is None:
            return False
        return _expanded(self.kubeconfig_file).resolve().is_relative_to(Path.cwd())

    def read_kubeconfig(self) -> str:
        """Only the context's cluster and user, as JSON, with the contents of their files.

        Raises `Refusal`, also for commands and files that a kubeconfig from the stack's file would
        run or read on the machines of all its users.
        """
        key, text, folder = self._text()
        try:
            # As kubectl does: through JSON, which has no dates.
            document = json.loads(json.dumps(yaml.safe_load(text), default=str))
        except (yaml.YAMLError, ValueError, TypeError, RecursionError):
            raise refuse(key)("is not YAML", remedy="give a kubeconfig") from None
        if not isinstance(document, dict) or not isinstance(document.get("contexts"), list):
            raise refuse(key)("is not a kubeconfig: it has no contexts")
        contexts = _by_name(document["contexts"], "context")
        name = self.context or document.get("current-context") or ""
        if not name:
            raise refuse("context")(
                "is missing, and the kubeconfig has no current one",
                remedy=f"set it to one of {', '.join(contexts)}",
            )
        if not isinstance(name, str) or name not in contexts:
            raise refuse("context", name)("is not in the kubeconfig", allowed=[*contexts])
        context = contexts[name]
        cluster = _by_name(document.get("clusters"), "cluster").get(str(context.get("cluster")))
        user = _by_name(document.get("users"), "user").get(str(context.get("user")))
        if cluster is None or user is None:
            raise refuse("context", name)(
                "names a cluster or user that the kubeconfig does not have"
            )
        within = None
        if self.committed():
            within = folder.resolve()
            if reason := credentials.unsafe(user):
                raise refuse(key)(
                    f"its user {reason}. A kubeconfig outside the repository may do so: name it "
                    "in kubeconfigFile or $KUBECONFIG"
                )
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": name, "cluster": _inline(key, cluster, folder, within)}],
                "users": [{"name": name, "user": _inline(key, user, folder, within)}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
                "current-context": name,
            },
            sort_keys=True,
        )

    def _text(self) -> tuple[str, str, Path]:
        """The key, the content, and the folder to which paths in the content are relative."""
        if isinstance(self.kubeconfig, str):
            return "kubeconfig", self.kubeconfig, Path()
        if self.kubeconfig is not None:  # An output's value has not been checked before.
            raise refuse("kubeconfig")("is not a string; give its text, as fn::toJSON writes it")
        # The same order as kubectl's; a list of files is not merged.
        key, path = "kubeconfigFile", self.kubeconfig_file
        if path is None:
            path, source = os.environ.get("KUBECONFIG"), "$KUBECONFIG"
            if not path:
                path, source = "~/.kube/config", "kubectl's own file"
            key = f"kubeconfigFile: is not set, and {source}"
        try:
            file = _expanded(path)
            return key, file.read_text(), file.absolute().parent
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            if not self.kubeconfig_file and os.pathsep in path:
                reason = "a list of files is not merged"
            way = "" if self.kubeconfig_file else "; name the cluster's kubeconfig"
            raise refuse(key)(f"cannot read {path!r} ({reason}){way}") from None


def _expanded(path: str) -> Path:
    """The path without `~`. Unlike Path.expanduser, one with an unknown user stays as it is."""
    return Path(os.path.expanduser(path))


def _by_name(entries: object, key: str) -> dict[str, dict[str, Any]]:
    items = entries if isinstance(entries, list) else []
    return {
        str(item["name"]): item[key]
        for item in items
        if isinstance(item, dict) and "name" in item and isinstance(item.get(key), dict)
    }


def _inline(
    key: str, entry: Mapping[str, Any], folder: Path, within: Path | None
) -> dict[str, Any]:
    """The entry with its files inlined; if `within` is set, they must be below it."""
    # Another machine or project has the kubeconfig but not the files next to it.
    inlined: dict[str, Any] = {}
    for name, value in entry.items():
        if name in _FILE_KEYS:
            path = folder / _expanded(str(value).replace("\0", "\ufffd"))
            if within is not None and not path.resolve().is_relative_to(within):
                raise refuse(key)(
                    f"{name} {value!r} is outside the kubeconfig's folder",
                    remedy=f"put the file below it, or write its content as {_FILE_KEYS[name]}",
                )
            try:
                content = path.read_bytes()
            except OSError as error:
                raise refuse(key)(f"cannot read {value!r} ({error.strerror})") from None
            inlined[_FILE_KEYS[name]] = base64.b64encode(content).decode()
        elif name == "tokenFile":
            inlined[name] = f"{folder / _expanded(str(value))}"
        elif name == "exec" and isinstance(value, dict) and os.sep in str(value.get("command", "")):
            # A path is relative to the file, as in GetAuthInfoFileReferences of client-go's
            # tools/clientcmd/loader.go (2026-11-28): never to where Pulumi happens to run.
            inlined[name] = {**value, "command": f"{folder / value['command']}"}
        else:
            inlined[name] = value
    return inlined
