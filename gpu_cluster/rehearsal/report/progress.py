"""Shows the progress of a rehearsal: as plain lines, or with a terminal's colours and status line.

Except on a terminal, lines are the same on every machine, so that they can be searched. If
`NO_COLOR` is set, the terminal shows no colours.
"""

import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

RUNNING = " ..."
"""The end of a line that announces a step; its result follows."""


class Progress:
    """Lines with the seconds since the start; on a terminal, the current step is below them."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._step, self._since = "", self._began
        self._console: Console | None = None
        self._live: Live | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> "Progress":
        if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            from rich.console import Console
            from rich.live import Live

            self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
            self._live = Live(
                get_renderable=self._status,
                console=self._console,
                refresh_per_second=2,  # more often would slow the rehearsal
                transient=True,
            )
            self._live.start()
            self._console.show_cursor(True)  # a killed rehearsal leaves it hidden
        else:
            threading.Thread(target=self._end_without_reader, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def width(self) -> int | None:
        """The terminal's columns; None without a terminal."""
        return None if self._console is None else self._console.width

    def stop(self) -> None:
        """Removes the status line."""
        self._stopped.set()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def begin(self, step: str) -> None:
        """Sets the step that a terminal shows."""
        self._step, self._since = step, time.monotonic()

    def say(self, line: str) -> None:
        """Prints one line, with the time. A line that ends in ` ...` is the status until the next
        such line or its result."""
        now = time.monotonic()
        if line.endswith(RUNNING):
            self.begin(line.removesuffix(RUNNING))
            if self._live is not None:
                return
        style = "red" if "FAILED" in line else "dim" if line.startswith("  ") else ""
        self.print(f"{now - self._began:6.1f} s  {line}", style)

    def print(self, text: str, style: str = "") -> None:
        """Prints the text unchanged. If its reader is gone, the rehearsal ends as if asked to."""
        try:
            if self._console is None:
                print(text, flush=True)
            else:
                from rich.text import Text

                self._console.print(Text(text, style))
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            os.kill(os.getpid(), signal.SIGTERM)

    def _end_without_reader(self) -> None:
        """Ends the rehearsal, as if asked to, once the reader of its output is gone: until the next
        line, which shows it too, a step may take minutes."""
        output = select.poll()
        output.register(1, 0)
        while not self._stopped.wait(0.5):
            if any(event & select.POLLERR for _, event in output.poll(0)):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def _status(self) -> "Text":
        from rich.text import Text

        now = time.monotonic()
        status = Text(f"{_clock(now - self._began)}  ", "bold cyan", no_wrap=True, end="")
        return status.append(f"{self._step}, {_clock(now - self._since)}", "cyan")


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02}"
