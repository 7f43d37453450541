"""The only file outside the rehearsal's folder: where JobSet looks for its certificate.

JobSet ignores its configuration when it looks for the file, and serves the certificate from its
configured folder. All users can write in `/tmp`, so another user's folder or link is not touched.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpu_cluster.tools import ToolError

WAITS_FOR = Path("/tmp/k8s-webhook-server/serving-certs/tls.crt")
"""`certDir` in JobSet's pkg/util/cert/cert.go."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def mark() -> None:
    """Creates the file, empty. Raises ToolError if its folder belongs to another user."""
    if WAITS_FOR.exists():  # by another rehearsal, perhaps another user's: only looked for
        return
    with _folders(make=True) as folders:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        os.close(os.open(WAITS_FOR.name, flags, 0o644, dir_fd=folders[-1]))


def unmark() -> None:
    """Removes the file. Another rehearsal whose JobSet still needs it creates it again."""
    outer, inner = WAITS_FOR.parents[1].name, WAITS_FOR.parents[0].name
    with suppress(OSError, ToolError), _folders(make=False) as (top, middle, bottom):
        if os.stat(WAITS_FOR.name, dir_fd=bottom, follow_symlinks=False).st_size == 0:
            os.unlink(WAITS_FOR.name, dir_fd=bottom)
            os.rmdir(inner, dir_fd=middle)
            os.rmdir(outer, dir_fd=top)


@contextmanager
def _folders(*, make: bool) -> Iterator[list[int]]:
    """The descriptors of `/tmp` and of the two folders below it, both owned by this user."""
    opened = [os.open(WAITS_FOR.parents[2], os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for path in (WAITS_FOR.parents[1], WAITS_FOR.parents[0]):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(path.name, 0o755, dir_fd=opened[-1])
            opened.append(_own(path, opened[-1]))
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _own(path: Path, parent: int) -> int:
    """The folder's descriptor; raises ToolError if it is a link, or if others may write in it."""
    try:
        descriptor = os.open(path.name, _FOLDER, dir_fd=parent)
    except NotADirectoryError:  # a link fails like this, too
        raise ToolError(f"{path} is not a folder, and JobSet needs one there; remove it") from None
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        os.close(descriptor)
        raise ToolError(
            f"{path} belongs to another user, or is writable by others; JobSet needs it: remove "
            "it to rehearse with JobSet"
        )
    return descriptor
