"""Becomes another program that the kernel kills as soon as the process that started it is gone."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """`leash.py PARENT_PID PROGRAM ARGUMENT...`"""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the starting process is already gone")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
