"""Provider settings of a stack's file that send signed requests to hosts other than the cloud's."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from ..catalog.clouds import CLOUDS
from ..schema.refusal import Refusal, refuse

_URL = re.compile(r"\w+://[^\"'\s]+")
_OURS = ("localhost", "127.0.0.1", "::1")


def on_this_machine(url: str | None) -> bool:
    """Whether a URL points to this machine, which neither gets nor needs real credentials."""
    return url is not None and urlsplit(url).hostname in _OURS


def foreign_endpoints(config: Mapping[str, str]) -> Iterator[Refusal]:
    """The refusal of each key with a host that is neither the cloud's nor this machine.

    `config` is the engine's: `aws:endpoints` -> text, JSON if the value is structured.
    """
    hosts_of_clouds = tuple(host for cloud in CLOUDS.values() for host in cloud.hosts)
    for key, value in config.items():
        for cloud in CLOUDS.values():
            if re.fullmatch(cloud.endpoint_settings, key):
                hosts = [urlsplit(url).hostname or "" for url in _URL.findall(value)] or [value]
                for host in hosts:
                    if host not in _OURS and not host.endswith(hosts_of_clouds):
                        yield _refusal(key, f"sends requests to {host!r}")
                        break
            elif key in cloud.usual and value != cloud.usual[key][0]:
                yield _refusal(key, cloud.usual[key][1].format(value=value))


def _refusal(key: str, what: str) -> Refusal:
    return refuse(key)(
        f"{what}, with the credentials of the user who runs this",
        remedy="remove it, or set it in the provider's environment variable, which is the user's "
        "own",
    )
