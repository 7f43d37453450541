"""`gpu-cluster simulate`."""

import json
import shlex
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from gpu_cluster.cli.options import json_option
from gpu_cluster.cli.rehearse import linux_only
from gpu_cluster.components.platforms import PLATFORMS
from gpu_cluster.stacks.outcome import ExitCode


@click.command(epilog="Example: gpu-cluster simulate google")
@click.argument(
    "cloud", type=click.Choice(sorted({row.cloud for row in PLATFORMS.values() if row.cloud}))
)
@json_option
@linux_only
def simulate(cloud: str, as_json: bool) -> ExitCode:
    """Simulate a cloud, and print the environment that points clients at it.

    It is empty at first, and runs until it is interrupted; then everything in it is deleted. A
    cluster in it gets a real control plane on this machine, and no nodes.
    """
    from gpu_cluster.rehearsal.holder import built
    from gpu_cluster.rehearsal.platforms.simulator import simulated

    if not built():
        return ExitCode.UNKNOWN
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    with (
        tempfile.TemporaryDirectory(prefix="gpu-cluster-") as folder,
        simulated(cloud, Path(folder)) as environment,
        suppress(KeyboardInterrupt),  # This is how it is ended.
    ):
        lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
        print(json.dumps(dict(environment), indent=1) if as_json else "\n".join(lines), flush=True)
        print(f"simulated {cloud}: running until Ctrl-C", file=sys.stderr, flush=True)
        signal.pause()
    return ExitCode.OK
