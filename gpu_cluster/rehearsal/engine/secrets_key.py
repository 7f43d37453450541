"""Keeps the key of a rehearsal's secrets: a server that answers the engine like HashiCorp Vault.

With a passphrase, every command of the engine derives the key from it a million hashes long, which
takes longer than its start.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from gpu_cluster.rehearsal.simulators.serving import Served

PROVIDER = "hashivault://rehearsal"


@cache
def environment() -> Mapping[str, str]:
    """The environment in which the engine can use PROVIDER, as long as this process runs."""
    return {"VAULT_SERVER_URL": Served(_transit).endpoint, "VAULT_SERVER_TOKEN": "rehearsal"}


def _transit(request: Mapping[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Answers `transit/encrypt` and `transit/decrypt`. What they pass is in the sandbox's folder,
    next to its other credentials, so it is not encrypted."""
    asked = json.load(request["wsgi.input"])
    data = {"ciphertext": asked.get("plaintext"), "plaintext": asked.get("ciphertext")}
    start("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"data": data}).encode()]
