"""Keys of the engine's config outside of the program's own namespace."""

import functools
import re
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..catalog.clouds import CLOUDS
from ..catalog.spelling import nearest
from ..schema.decode import NAMESPACE
from ..schema.refusal import Refusal, refuse

PROVIDERS = (*(cloud.package for cloud in CLOUDS.values()), "kubernetes", "pulumi")
"""Namespaces of the engine and of the providers that this program uses."""


def project_name(folder: Path) -> str:
    """The name in a project's `Pulumi.yaml`, which is also the namespace of the program's own keys;
    without that file, the namespace of this package."""
    try:
        text = (folder / "Pulumi.yaml").read_text()
    except OSError:
        return NAMESPACE
    found = re.search(r"^name:\s*[\"']?([\w.-]+)", text, re.MULTILINE)
    return found[1] if found else NAMESPACE


def unread_key(key: str, project: str, blocks: Collection[str]) -> Refusal | None:
    """The refusal of a key that nothing reads and that the engine would silently accept.

    `project`: the project's name; the program may read keys of that namespace. `blocks`: the keys
    of this package.
    """
    namespace, _, name = key.partition(":")
    if name.startswith("config:"):
        return _renamed(key, "has an old form", f"{namespace}:{name.removeprefix('config:')}")
    known = (NAMESPACE, *PROVIDERS)
    sdk = namespace == NAMESPACE or _sdk(namespace)
    if namespace in PROVIDERS and isinstance(sdk, Path):
        return _unknown_setting(key, sdk / "config" / "vars.py")
    if namespace == project != NAMESPACE and name.partition(".")[0] in blocks:
        return _renamed(key, f"is a key of {NAMESPACE}, not of the project", f"{NAMESPACE}:{name}")
    if namespace in (*known, project) or sdk:
        return None
    reason = f"nothing reads the namespace {namespace!r}"
    if near := nearest(namespace[:100], known, 0.6):
        return _renamed(key, reason, f"{near}:{name}")
    return refuse(key)(reason, allowed=sorted(known))


@functools.cache  # It is looked for in every folder of `sys.path`.
def _sdk(provider: str) -> Path | bool:
    """The folder of a provider's SDK, or whether there is one."""
    package = f"pulumi_{provider.replace('-', '_')}"
    sdk = find_spec(package) if package.isidentifier() else None
    return Path(sdk.origin).parent if sdk and sdk.origin else sdk is not None


def _renamed(key: str, reason: str, meant: str) -> Refusal:
    return refuse(key)(reason, remedy=f"rename the key to {meant}", meant=meant)


def _unknown_setting(key: str, sdk: Path) -> Refusal | None:
    """The refusal of a provider's setting that its SDK does not have, as the provider's in a
    preview. `sdk`: the module that reads the settings; a file, because importing an SDK takes a
    second."""
    namespace, _, name = key.partition(":")
    names = _settings_of(sdk)
    if not names or name in (*names, "version", "pluginDownloadURL"):
        return None
    reason = f"nothing reads it, because the provider has no {name}"
    if meant := nearest(name, names, 0.6):
        return _renamed(key, reason, f"{namespace}:{meant}")
    return refuse(key)(reason, remedy="remove it")


@functools.cache
def _settings_of(sdk: Path) -> Sequence[str]:
    text = sdk.read_text() if sdk.exists() else ""
    return re.findall(r"\.get(?:_\w+)?\('(\w+)'\)", text)
