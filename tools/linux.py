"""What only Linux does: a child that the kernel kills with its parent, and one out of reach.

`linux.py [--no-listen] PARENT_PID PROGRAM ARGUMENT...` becomes that program, which the kernel kills
as soon as the process that started it is gone. Where util-linux is at hand, `setpriv --pdeathsig`
does the first half; it is not part of every container.

With `--no-listen` the program's servers are out of reach. Karpenter needs that: it is upstream's
own main program over its KWOK provider, pinned and without a patch, and serves metrics and health
on every address of the machine, by flags that know a port and no address. A main program of our
own would be a copy of its set-up, to be kept in step with every release; the filter is thirty lines
that no release changes.
"""

import ctypes
import os
import platform
import signal
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
SECCOMP_MODE_FILTER = 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EAGAIN = 11
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
"""Instructions of the kernel's packet filter, which also judges system calls."""

CALLS = {"x86_64": (50, 288), "aarch64": (201, 242)}
"""Machine -> the numbers of `listen` and `accept4`."""


def main() -> None:
    """`linux.py [--no-listen] PARENT_PID PROGRAM ARGUMENT...`"""
    arguments = sys.argv[1:]
    no_listen = arguments[0] == "--no-listen"
    parent, *command = arguments[no_listen:]
    die_with_parent()
    if os.getppid() != int(parent):
        sys.exit("the starting process is already gone")
    if no_listen:
        block_listening()
    os.execvp(command[0], command)


def die_with_parent() -> None:
    """The kernel kills this process when the *thread* that started it ends; also after an exec."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def block_listening() -> None:
    """`listen` does nothing and says it did; `accept4` says that no client has connected yet."""
    libc = ctypes.CDLL(None, use_errno=True)
    listen, accept = CALLS[platform.machine()]
    instructions = [
        (LOAD, 0, 0, 0),  # the number of the call
        (JUMP_IF_EQUAL, 0, 1, listen),
        (RETURN, 0, 0, ERRNO | 0),
        (JUMP_IF_EQUAL, 0, 1, accept),
        (RETURN, 0, 0, ERRNO | EAGAIN),
        (RETURN, 0, 0, ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HP", len(instructions), ctypes.addressof(buffer))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        print(f"cannot block listening: {os.strerror(ctypes.get_errno())}", file=sys.stderr)


if __name__ == "__main__":
    main()
