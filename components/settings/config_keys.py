"""Keys of the engine's config outside of the program's own namespace."""

import difflib
import functools
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ..catalog.clouds import CLOUDS
from ..catalog.spelling import nearest
from ..schema.decode import NAMESPACE
from ..schema.refusal import Refusal, refuse

PROVIDERS = (*(cloud.package for cloud in CLOUDS.values()), "kubernetes", "pulumi")
"""Namespaces of the engine and of the providers that this program uses."""


def unread_key(key: str) -> Refusal | None:
    """The refusal of a key that nothing reads and that the engine would silently accept."""
    namespace, _, name = key.partition(":")
    if name.startswith("config:"):
        return _renamed(key, "has an old form", f"{namespace}:{name.removeprefix('config:')}")
    known = (NAMESPACE, *PROVIDERS)
    sdk = namespace == NAMESPACE or _sdk(namespace)
    if namespace in PROVIDERS and isinstance(sdk, Path):
        return _unknown_setting(key, sdk / "config" / "vars.py")
    if namespace in known or sdk:
        return None
    reason = f"nothing reads the namespace {namespace!r}"
    if near := difflib.get_close_matches(namespace[:100], known, n=1):
        return _renamed(key, reason, f"{near[0]}:{name}")
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
