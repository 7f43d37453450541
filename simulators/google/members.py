"""Whether an IAM member exists."""

import re

_POOL_MEMBER = re.compile(r"serviceAccount:(?P<pool>[^\[]+\.svc\.id\.goog)\[[^/\]]+/[^/\]]+\]")


def missing_identity(member: str, accounts: set[str], pools: set[str], project: str) -> str | None:
    """Why the API refuses this member, if it does. Accounts of other projects are not known here
    and pass."""
    if pool := _POOL_MEMBER.fullmatch(member):
        if pool["pool"] not in pools:
            return (
                f"googleapi: Error 400: Identity Pool does not exist ({pool['pool']}), badRequest"
            )
        return None
    kind, _, email = member.partition(":")
    ours = email.endswith(f"@{project}.iam.gserviceaccount.com")
    if kind == "serviceAccount" and ours and email not in accounts:
        return f"googleapi: Error 400: Service account {email} does not exist., badRequest"
    return None
