"""The program that the engine starts in place of an official provider plugin, to inject faults.

`proxied_plugin.py SUPERVISOR PORT PROGRAM ARGUMENT...` starts the program, which prints its port,
and prints the port of the proxy that it gets for it from `ProxiedPlugins`. The connection stays
open as long as the program runs. Needs only Python's standard library.
"""

import os
import signal
import socket
import subprocess
import sys


def main(supervisor: str, port: str, *command: str) -> int:
    """Returns the program's exit status."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The program is killed with this process.
    line = [sys.executable, "-I", "-S", supervisor, str(os.getpid()), *command]
    with (
        subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as plugin,
        socket.create_connection(("127.0.0.1", int(port))) as proxy,
    ):
        assert plugin.stdout is not None
        if not (own := plugin.stdout.readline()):
            return plugin.wait()  # it exited at once, and needs no proxy
        proxy.sendall(own.encode())
        print(proxy.makefile().readline(), end="", flush=True)
        for line_ in plugin.stdout:
            print(line_, end="", flush=True)
        return plugin.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
