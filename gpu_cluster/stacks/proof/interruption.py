"""Signals during a run on a real cloud: the first one ends the steps, and never the destroy."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


class Stopped(BaseException):
    """No further step may begin; why. Not an Exception: the Kubernetes client only logs those that
    interrupt a kubeconfig's command."""


class Interruption:
    """Ends the steps at a signal or when the time is over: raises `Stopped`, or, while the engine
    runs, lets it finish what it has begun.

    Afterwards a signal only shows `advice`; another one passes Ctrl-C on to the engine, which
    aborts.
    """

    def __init__(
        self, seconds: float, reason: str, longest: float, say: Callable[[str], None]
    ) -> None:
        """`reason` is that of the end after `seconds`; `longest`: minutes that the engine may take
        to finish what it has begun."""
        self._longest = longest
        self._seconds, self._reason, self._say = seconds, reason, say
        self.ending = False
        """Whether steps are over, so that signals raise nothing any more."""
        self.advice = "the engine finishes what it has begun; Ctrl-C twice more aborts it"
        self.given_up = False
        """Whether the user has ended the engine's last command although steps were over."""
        self._stopped = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._starting, self._waiting, self._signals = False, False, 0

    def __enter__(self) -> "Interruption":
        # nohup ignores SIGHUP, so that the end of the terminal ends nothing.
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        numbers = [n for n in _SIGNALS if n != signal.SIGHUP or not ignored]
        self._before = {number: signal.signal(number, self._handle) for number in numbers}
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises `Stopped` if the steps were ended while the engine ran, or if what a signal
        interrupted has swallowed it. Called when no command of the engine runs."""
        self._process = None
        if self._stopped and not self.ending:
            raise Stopped(self._stopped)

    def start(self, command: list[str | Path], **options: Any) -> subprocess.Popen[bytes]:
        """Starts a command of the engine, out of reach of the terminal's Ctrl-C."""
        self._starting = True
        try:
            self._process = subprocess.Popen(command, start_new_session=True, **options)
        finally:
            self._starting = False
        if self._waiting:
            self._interrupt()
        return self._process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Asks the engine to finish only what it has begun, and waits for that."""
        self._interrupt()
        process.wait()

    def begin_end(self, advice: str) -> None:
        """From here on nothing is interrupted, except by several signals; `advice` says so."""
        self.ending, self.advice = True, advice
        self._signals, self.given_up, self._waiting = 0, False, False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _handle(self, number: int, _: FrameType | None) -> None:
        late, runs = number == signal.SIGALRM, self._starting or self._process is not None
        if not self.ending and not (runs and self._stopped):
            reason = self._reason if late else f"interrupted by {signal.Signals(number).name}"
            self._stopped = self._stopped or reason
            if not runs:
                raise Stopped(self._stopped)
            self._waiting = True
            if not self._starting:
                self._interrupt()
        elif not late:
            self._signals += 1
            self._say(self.advice)
            if self._signals > 1 and self._process is not None:
                self.given_up = True
                self._process.send_signal(signal.SIGINT)

    def _interrupt(self) -> None:
        self._waiting = False
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
        self._say(f"waiting for the engine to finish what it has begun, at most {self._longest:g} "
                  "minutes; do not kill it: its resources would be left in the cloud")  # fmt: skip
