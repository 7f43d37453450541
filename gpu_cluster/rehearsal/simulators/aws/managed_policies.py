"""Reads what is in every AWS account once for all simulated accounts of a process."""

import copy
from functools import cache
from typing import Any


@cache
def keep() -> None:
    """From now on, in this process: two seconds of the processor for each further account.

    To reset, moto makes every backend again, and then throws them all away; and each IAM backend
    reads 1,500 managed policies of AWS.
    """
    # Imported here: it costs most of a second.
    from moto.core.base_backend import AccountSpecificBackend
    from moto.iam.models import IAMBackend

    AccountSpecificBackend.reset = lambda self: None  # type: ignore[method-assign]
    read, kept = IAMBackend._init_aws_policies, dict[str, list[Any]]()

    def init_aws_policies(backend: IAMBackend) -> list[Any]:
        if backend.region_name != "aws":
            return []  # to find whose a key is, moto makes the backends of China, too
        if backend.account_id not in kept:
            kept[backend.account_id] = read(backend)
        return [_as_new(policy) for policy in kept[backend.account_id]]

    IAMBackend._init_aws_policies = init_aws_policies  # type: ignore[method-assign, assignment]


def _as_new(policy: Any) -> Any:
    """A copy that roles can be attached to, and that can be given tags and versions."""
    made = copy.copy(policy)
    made.tags, made.versions = {**policy.tags}, [*map(copy.copy, policy.versions)]
    return made
