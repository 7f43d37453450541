"""Errors that a cloud returns: what the user sees, how the stack is restored, what is lost."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpu_cluster.components.catalog.clouds import CLOUDS
from gpu_cluster.rehearsal.engine.engine import Outcome
from gpu_cluster.stacks.engine.urn import Urn
from quality.faults.fault_injector import Moment
from quality.faults.fault_run import TRIES, FaultResult, FaultRunner, NotRecovered

ERRORS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    file.stem: yaml.safe_load(file.read_text())
    for file in sorted(Path(__file__).with_name("errors").glob("*.yaml"))
}
"""Package (`gcp`, `aws`, `kubernetes`) -> fault -> `says`, the error, and `type`, the one that it
hits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault during an operation; packages that have no error for it are spared."""

    name: str
    error: str
    """Key in the files of `errors/`, which have the messages."""
    types: tuple[str, ...] = ()
    """Resource types with the fault, besides those that the files name; all, if empty."""
    first: int = 1
    """The first operation with the fault, of those on these types."""
    last: int = 1
    moment: Moment = "asked"
    command: str = "up"

    @property
    def says(self) -> Mapping[str, str]:
        """Package -> the error."""
        return {
            package: errors[self.error]["says"]
            for package, errors in ERRORS.items()
            if self.error in errors
        }

    @property
    def on(self) -> tuple[str, ...]:
        """Resource types that are hit; all, if there are none."""
        rows = (errors.get(self.error, {}) for errors in ERRORS.values())
        return (*self.types, *(row["type"] for row in rows if "type" in row))


_CLUSTERS = tuple(cloud.cluster for cloud in CLOUDS.values())
_POOLS = tuple(cloud.node_pool for cloud in CLOUDS.values())
_EVER = 10_000

FAULTS = (
    Fault(
        name="throttled, also after the provider's own retries", error="throttled", first=2, last=3
    ),
    Fault(
        name="the cloud is unavailable (5xx)",
        error="unavailable",
        types=(*_CLUSTERS, "kubernetes:apps/v1:DaemonSet"),
    ),
    Fault(
        name="the cluster is created, the response lost",
        error="cluster-lost",
        types=_CLUSTERS,
        moment="done",
    ),
    Fault(
        name="a node pool is created, the response lost",
        error="pool-lost",
        types=_POOLS,
        moment="done",
    ),
    Fault(name="the network is created, the response lost", error="network-lost", moment="done"),
    Fault(name="an object is created, the response lost", error="object-lost", moment="done"),
    Fault(name="no capacity for a node pool", error="no-capacity", types=_POOLS),
    Fault(name="a quota is used up midway", error="quota", last=_EVER),
    Fault(name="credentials expire midway", error="expired", first=5, last=_EVER),
    Fault(
        name="credentials expire midway", error="expired", first=4, last=_EVER, command="destroy"
    ),
    Fault(name="the cloud is unavailable (5xx)", error="unavailable", command="destroy"),
    Fault(
        name="the response to a deletion is lost",
        error="deletion-lost",
        first=2,
        last=2,
        moment="done",
        command="destroy",
    ),
)


def hits_any(fault: Fault, urns: Iterable[str]) -> bool:
    """Whether a stack with these resources has enough operations for the fault to occur."""
    hits = _hits(fault)
    return any(hits(number, "create", urn) for number, urn in enumerate(urns))


def inject(runner: FaultRunner, fault: Fault) -> FaultResult | None:
    """Runs the command with the fault and restores the stack: deployed, or empty after a `destroy`,
    which starts with a deployed stack. None if the fault did not occur."""
    engine = runner.sandbox.engine
    run = engine.up if fault.command == "up" else engine.destroy

    def says(urn: str) -> str:
        return fault.says[Urn.parse(urn).package]

    runner.injector.arm(_hits(fault), fault.moment, lambda: None, error=says)
    outcome = run()
    runner.injector.settle()
    runner.injector.disarm()
    injected = runner.injector.hit
    tries = 0
    lost: tuple[str, ...] = ()
    try:
        if injected:
            if outcome.ok:
                raise NotRecovered("the command took no notice")
            tries = _again(
                runner, run, adopt_orphans=fault.command == "up" and fault.moment == "done"
            )
        if fault.command == "destroy":
            runner.assert_empty()
        elif injected:
            runner.assert_converged()
    except NotRecovered as failure:
        lost = failure.lines
    if not injected and not lost:
        return None
    return FaultResult(
        environment=runner.stack,
        fault=f"{fault.name}, during {fault.command}",
        at=", ".join(Urn.parse(urn).label for urn in injected[:1]),
        tries=tries,
        recovered=not lost,
        lost=lost,
        seen=outcome.errors[0] if outcome.errors else "",
    )


def _again(runner: FaultRunner, command: Callable[[], Outcome], *, adopt_orphans: bool) -> int:
    """Runs the command again, after a recovery if a response was lost; returns the attempts."""
    for tries in range(1, TRIES + 1):
        if adopt_orphans or tries > 1:
            runner.recover(adopt_orphans=True)
        outcome = command()
        if outcome.ok:
            return tries
    raise NotRecovered(*outcome.errors)


def _hits(fault: Fault) -> Callable[[int, str, str], bool]:
    count = 0

    def hits(number: int, kind: str, urn: str) -> bool:
        nonlocal count
        asked = Urn.parse(urn)
        if asked.package not in fault.says or (fault.on and asked.type not in fault.on):
            return False
        count += 1
        return fault.first <= count <= fault.last

    return hits
