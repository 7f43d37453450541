"""Makes a measured Pulumi program report its time and memory at its end; Python loads this.

Other processes with this folder on their path, such as the language host, are not affected.
"""

import atexit
import json
import os
import sys
import time
from pathlib import Path

_EXECUTOR = "pulumi-language-python-exec"


def _write(file: Path, began: float) -> None:
    # Not getrusage: its peak may be that of the parent process.
    status = Path("/proc/self/status").read_text()
    (peak,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    took = {
        "memory": int(peak.split()[1]) / 1024,
        "program": time.perf_counter() - began,
        "cpu": time.process_time(),
    }
    file.write_text(json.dumps(took))


if "BENCH_PROBE" in os.environ and any(_EXECUTOR in part for part in sys.orig_argv):
    atexit.register(_write, Path(os.environ["BENCH_PROBE"]), time.perf_counter())
