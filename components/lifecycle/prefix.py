"""Names that are unique among the `GpuStack`s of one program: those of hooks, and fixed ones."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pulumi

_PREFIX: ContextVar[str] = ContextVar("prefix", default="")


@contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Within it, `unique` puts the prefix and a dash in front of names; nothing if it is empty."""
    token = _PREFIX.set(f"{prefix}-" if prefix else "")
    try:
        yield
    finally:
        _PREFIX.reset(token)


def unique(name: str) -> str:
    """The name with the prefix of the stack that is being declared, if it has one."""
    return f"{_PREFIX.get()}{name}"


def hook(
    name: str,
    check: Callable[[pulumi.ResourceHookArgs], Awaitable[None] | None],
    *,
    in_previews: bool = True,
) -> pulumi.ResourceHook:
    """A hook whose errors stop an update, and, unless told otherwise, fail a preview."""
    options = pulumi.ResourceHookOptions(on_dry_run=True) if in_previews else None
    return pulumi.ResourceHook(unique(name), check, opts=options)
