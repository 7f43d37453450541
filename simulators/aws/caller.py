"""Who calls: the cluster's first administrator, where nobody in the account has the credentials."""

from collections.abc import Callable

from simulators.aws.account import Account
from simulators.aws.roles import role_name


def answer_caller(account: Account) -> Callable[[], None]:
    """STS names that administrator, until what this returns is called.

    A rehearsal has no credentials of its own, and takes the person who rehearses for that one.
    """
    from moto.sts.models import STSBackend

    original = STSBackend.get_caller_identity

    def get_caller_identity(
        backend: STSBackend, access_key_id: str, region: str
    ) -> tuple[str, str, str]:
        found = original(backend, access_key_id, region)
        admins = _admins(account) if found[1].endswith(":user/moto") else []
        if not admins:
            return found
        arn = admins[0]
        number = arn.split(":")[4]
        if ":role/" in arn:
            arn = f"arn:aws:sts::{number}:assumed-role/{role_name(arn)}/rehearsal"
        return "AIDAREHEARSAL", arn, number

    def forget() -> None:
        STSBackend.get_caller_identity = original  # type: ignore[method-assign]

    STSBackend.get_caller_identity = get_caller_identity  # type: ignore[method-assign, assignment]
    return forget


def _admins(account: Account) -> list[str]:
    with account.lock:
        return [
            principal
            for parts in account.clusters.values()
            for principal, entry in parts.entries.items()
            if entry["type"] == "STANDARD"
        ]
