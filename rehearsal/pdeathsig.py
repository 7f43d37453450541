"""Becomes another program that the kernel kills as soon as the process that started it is gone.

With `--no-listen` that program cannot be reached either: what it listens on never hears anything.
Karpenter serves metrics and health on every address of the machine and has no setting for another.
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
    """`pdeathsig.py [--no-listen] PARENT_PID PROGRAM ARGUMENT...`"""
    arguments = sys.argv[1:]
    no_listen = arguments[0] == "--no-listen"
    parent, *command = arguments[no_listen:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the starting process is already gone")
    if no_listen:
        _block_listening(libc)
    os.execvp(command[0], command)


def _block_listening(libc: ctypes.CDLL) -> None:
    """`listen` does nothing and says it did; `accept4` says that nobody has called yet."""
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
