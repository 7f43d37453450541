"""Answers of a provider's data sources: an error is one line, not a traceback."""

from typing import TypeVar, cast

import pulumi

T = TypeVar("T")


def ask_data_source(answer: pulumi.Output[T], key: str, remedy: str) -> pulumi.Output[T]:
    """The answer; if there is none, RunError with the key's path, the provider's reason and the
    remedy. What the answer marks as secret no longer is: use only what may be shown."""

    async def value() -> T | pulumi.output.Unknown | None:
        try:
            return await answer.future() if await answer.is_known() else pulumi.UNKNOWN
        except Exception as error:
            reason = " ".join(str(error).rpartition("returned an error: ")[2].split())
            raise pulumi.RunError(f"gpu-cluster:{key}: {reason.rstrip('.')}; {remedy}") from None

    return cast(pulumi.Output[T], pulumi.Output.from_input(value()))
