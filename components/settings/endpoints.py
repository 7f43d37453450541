"""Provider settings of a stack's file that send signed requests to hosts other than the cloud's.

Keys: hashicorp/terraform-provider-google-beta (`*_custom_endpoint`, `universe_domain`) and
hashicorp/terraform-provider-aws (`endpoints`, `insecure`), read on 2026-11-23.
"""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

_URL = re.compile(r"\w+://[^\"'\s]+")
_OURS = ("localhost", "127.0.0.1", "::1")
_CLOUDS = (".googleapis.com", ".amazonaws.com", ".amazonaws.com.cn", ".api.aws")


def foreign_endpoints(config: Mapping[str, str]) -> Iterator[str]:
    """A line for each key whose host is neither the cloud's nor this machine.

    `config` is the engine's: `aws:endpoints` -> text, JSON if the value is structured.
    """
    for key, value in config.items():
        namespace, _, name = key.partition(":")
        if (namespace == "gcp" and name.endswith("CustomEndpoint")) or key == "aws:endpoints":
            hosts = [urlsplit(url).hostname or "" for url in _URL.findall(value)] or [value]
            foreign = [host for host in hosts if host not in _OURS and not host.endswith(_CLOUDS)]
            if foreign:
                yield _line(key, f"sends requests to {foreign[0]!r}")
        elif key == "gcp:universeDomain" and value != "googleapis.com":
            yield _line(key, f"sends requests to {value!r}")
        elif key == "aws:insecure" and value == "true":
            yield _line(key, "accepts any server's certificate")


def _line(key: str, what: str) -> str:
    return (
        f"{key}: {what}, with the credentials of the user who runs this; remove it, or set it in "
        "the provider's environment variable, which is the user's own"
    )
