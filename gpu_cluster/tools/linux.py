"""What only Linux has: a child that the kernel kills with its parent, or that cannot listen; this
boot, this process namespace, mount points.

`linux.py [--no-listen] PARENT_PID PROGRAM ARGUMENT...` becomes that program, which the kernel kills
as soon as the process that started it has ended. With util-linux, `setpriv --pdeathsig` does the
same; not every container has it.

With `--no-listen` the program's servers cannot be reached. Karpenter needs that: it is upstream's
main program with its KWOK provider, pinned and unpatched, and serves metrics and health on every
address of the machine, with flags for ports but not for addresses. A main program of our own would
be a copy of its set-up that every release may change; the filter is thirty lines that no release
changes.
"""

import ctypes
import os
import platform
import re
import signal
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
SECCOMP_MODE_FILTER = 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EAGAIN = 11
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
"""Instructions of the kernel's packet filter, which also filters system calls."""

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


def supervised(command: Sequence[str | Path], *, no_listen: bool = False) -> list[str]:
    """The command line of a child that the kernel kills with the thread that starts it.

    A function for the child to run first (`preexec_fn`) would run in a copy of this process, whose
    libraries' threads may hold locks or, as gRPC's, end the copy.
    """
    options = ["--no-listen"] if no_listen else []
    return [sys.executable, "-I", "-S", __file__, *options, str(os.getpid()), *map(str, command)]


def die_with_parent() -> None:
    """Makes the kernel kill this process when the *thread* that started it ends, even after
    exec."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def block_listening() -> None:
    """Makes `listen` succeed without an effect, and `accept4` report that no client is there."""
    libc = ctypes.CDLL(None, use_errno=True)
    listen, accept = CALLS[platform.machine()]
    instructions = [
        (LOAD, 0, 0, 0),  # the system call's number
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


def boot() -> str:
    """The ID of the machine's current boot, which its containers share."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def process_namespace() -> str:
    """Where this process's IDs are valid: this boot of this machine, and its namespace."""
    return f"{boot()} {os.readlink('/proc/self/ns/pid')}"


def mount_points() -> set[Path]:
    """The mount points that this process sees. Unlike `os.path.ismount`, also those of a folder of
    the same file system."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    # A blank, tab, line feed or backslash is an octal number there.
    return {Path(os.fsdecode(re.sub(rb"\\(\d{3})", _byte, line.split(b" ")[4]))) for line in lines}


def _byte(octal: re.Match[bytes]) -> bytes:
    return bytes([int(octal[1], 8)])


if __name__ == "__main__":
    main()
