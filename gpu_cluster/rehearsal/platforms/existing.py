"""An existing cluster: the rehearsal's own control plane, with machines in it."""

from gpu_cluster.rehearsal.existing.cluster import ExistingCluster, with_real_node
from gpu_cluster.rehearsal.platforms.simulator import Rehearsed, RunningSimulator
from gpu_cluster.rehearsal.simulators import inventory


def serve(of: Rehearsed) -> RunningSimulator:
    """Implements `rehearsal.platforms.simulator.Simulator`."""
    machines, notes = inventory.machines(of.stack, of.settings, of.inventories)
    if of.here is not None:
        machines = with_real_node(of.stack, machines, of.here)
    cloud = ExistingCluster(
        machines, lambda: of.control_plane.api, real=of.here["name"] if of.here else None
    )
    return RunningSimulator(
        cloud=cloud,
        environment={"KUBECONFIG": str(of.control_plane.kubeconfig)},
        notes=tuple(notes),
    )
