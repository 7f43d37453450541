"""Everything wrong in a stack's file is said at once, with the line of each."""

import os
import subprocess
import sys

from gpu_cluster.stacks.definition.files import ROOT


def test_it_answers_within_a_second_and_without_an_sdk() -> None:
    """Of the processor's time, in a process of its own; the machine may have other work."""
    program = (
        "import sys, time; from gpu_cluster.cli.main import main; "
        "code = main(['validate', 'train']); "
        "print(time.process_time(), *[m for m in sys.modules if m.startswith('pulumi')]); "
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds, *sdks = done.stdout.splitlines()[-1].split()
    assert sdks == []
    assert float(seconds) < 1
