"""Service accounts and claims as a stack's config has them.

Each function raises ValueError with one line that begins with the key's path.
"""

import re
from collections.abc import Mapping

from components.access import Access, ServiceAccountArgs
from components.catalog import kubernetes as names
from components.decode import at, decode_map
from components.gpu.volume_args import VolumeClaimArgs

ACCOUNT_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,30}[a-z0-9])?")
"""Of an IAM role's name, which has the cluster's in front, it can have so much."""


def read_accounts(
    path: str, value: object, platform: str, access: Access
) -> Mapping[str, ServiceAccountArgs]:
    """The config's `serviceAccounts`, whose key is `path`."""
    accounts = decode_map(path, ServiceAccountArgs, value)
    for name, account in accounts.items():
        if not ACCOUNT_NAME.fullmatch(name) or name == "default":
            raise ValueError(
                f"{path}.{name}: is not an account's name; allowed: at most 32 lowercase letters, "
                "digits and '-', a letter first, no '-' at the end; not default"
            )
        at(f"{path}.{name}", access.check, account, platform)
    return accounts


def read_claims(path: str, value: object) -> Mapping[str, VolumeClaimArgs]:
    """The config's `volumeClaims`, whose key is `path`."""
    claims = decode_map(path, VolumeClaimArgs, value)
    for name in claims:
        if reason := names.invalid_dns_label(name):
            raise ValueError(f"{path}.{name}: {reason}")
    return claims
