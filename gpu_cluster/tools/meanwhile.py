"""Runs commands in sequence, and another one in parallel.

`python -m` with PARALLEL COMMAND... installs the Python packages while programs are
built.
"""

import shlex
import subprocess
import sys

from gpu_cluster.tools.linux import supervised


def main(parallel: str, *commands: str) -> int:
    """Returns the exit code of the first command that fails, which also ends the parallel one;
    commands are split as by a shell. A failure of the parallel command is reported by whatever
    needs its result."""
    if not parallel or sys.platform != "linux":
        return _in_order(commands)
    meanwhile = subprocess.Popen(supervised(shlex.split(parallel)))
    try:
        code = _in_order(commands)
        if code:
            meanwhile.terminate()
    finally:  # Ctrl-C has reached both
        meanwhile.wait()
    return code


def _in_order(commands: tuple[str, ...]) -> int:
    codes = (subprocess.call(shlex.split(command)) for command in commands)
    return next(filter(None, codes), 0)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
