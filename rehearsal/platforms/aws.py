"""EKS: AWS, simulated."""

from contextlib import ExitStack

from rehearsal.simulators import Rehearsed, RunningSimulator
from simulators import aws, inventory
from simulators.aws.moto_answers import answer_caller, answer_quotas


def serve(of: Rehearsed) -> RunningSimulator:
    """As `rehearsal.simulators.Simulator` has it."""
    ending = ExitStack()
    token = of.folder / "eks-token"

    def admit(granted: bool) -> None:
        known, written = of.control_plane.pki.token_file.read_text(), token.with_suffix(".new")
        written.touch(mode=0o600)
        written.write_text(known if granted else "of-nobody-that-is-known")
        written.replace(token)  # at once: somebody may just read it

    network, notes = inventory.network(of.stack, of.settings, of.inventories)
    cloud = aws.AwsCloud(
        control_plane=of.control_plane, faults=of.faults, existing=network, on_access=admit
    )
    ending.callback(cloud.close)
    server = aws.serve(cloud)
    ending.callback(server.stop)
    ending.callback(answer_quotas(of.faults))
    ending.callback(answer_caller(cloud.account))
    return RunningSimulator(
        cloud=cloud,
        ports={"aws": server.port},
        api=cloud.endpoint,
        stop=ending.close,
        environment={"REHEARSAL_TOKEN_FILE": str(token)},
        notes=tuple(notes),
    )
